"""Context chunks: what `cortex_search` finds, whoever holds them, and how they are ranked."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sonde.embedding.base import Embedder, Vectors
from sonde.errors import EmbeddingFailed, MissingExtra, ModelDownloadFailed
from sonde.tokens import index_terms

DEFAULT_LIMIT, MOST = 15, 100
_POOL = 200
"""Nearest chunks whose words are compared with those of the query."""
_SHORT = 3
_WORDS = 0.3
"""How much the query's words count beside its meaning."""


@dataclass(frozen=True, slots=True)
class ContextChunk:
    """A piece of a project as the document shapes it; its embedding is kept apart."""

    id: str
    title: str
    text: str
    chunk_type: str = ""
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: str = ""
    updated_at: str = ""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What is looked for, and how much of it."""

    limit: int = DEFAULT_LIMIT
    min_score: float = 0.0
    tags: tuple[str, ...] = ()
    """All of these."""
    chunk_types: tuple[str, ...] = ()
    """One of these; none means any."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One chunk and how well it fits."""

    chunk: ContextChunk
    combined_score: float

    @property
    def text(self) -> str:
        """What a kept ranking counts."""
        return self.chunk.text


class ContextSearcher(Protocol):
    """Finds context chunks; any number of threads may ask at once.

    The same query over the same chunks gives the same results in the same order. A filter is
    never applied to a selection of the best only, and one that nothing fits finds nothing.
    """

    def query(self, query: str, options: SearchOptions) -> list[SearchResult]:
        """The best chunks, `combined_score` descending, then by id."""


def embed_query(embedder: Embedder | None, query: str) -> Vectors:
    """The query as a unit vector, or `EmbeddingFailed`."""
    if embedder is None:
        raise EmbeddingFailed("no embedding model is switched on (embedding = none)")
    try:
        vector: Vectors = embedder.embed([query], "query")[0]
    except (ModelDownloadFailed, MissingExtra) as error:
        raise EmbeddingFailed(
            error.developer_message,
            user_message=error.user_message,
            next_action=error.next_action,
        ) from error
    return vector


def measure_cosine(one: Vectors, other: Vectors) -> float:
    """The cosine between a kept vector and a unit vector."""
    return float(one @ other) / (math.sqrt(float(one @ one)) or 1.0)


def count_pool(options: SearchOptions) -> int:
    """How many of the nearest chunks are compared by their words too."""
    return max(_POOL, 4 * options.limit)


def combine_scores(
    query: str, near: Sequence[tuple[ContextChunk, float]], options: SearchOptions
) -> list[SearchResult]:
    """Meaning (a cosine) and shared words together, best first.

    A word counts for how few of the nearest chunks hold it. Scores stay within -1 and 1.
    """
    wanted = [word for word in dict.fromkeys(index_terms(query)) if len(word) > 1][:64]
    held = _find_words(wanted, [chunk for chunk, _ in near])
    weight_of = {
        word: math.log1p(len(near) / (1.0 + sum(word in have for have in held))) for word in wanted
    }
    total = sum(weight_of.values()) or 1.0
    results = []
    for (chunk, cosine), have in zip(near, held, strict=True):
        # in the order of the query, so that the sum is the same each time
        share = sum(weight_of[word] for word in wanted if word in have) / total
        score = (1 - _WORDS) * cosine + _WORDS * share
        if score >= options.min_score:
            results.append(SearchResult(chunk, round(score, 4)))
    results.sort(key=lambda one: (-one.combined_score, one.chunk.id))
    return results[: options.limit]


def _find_words(wanted: Sequence[str], chunks: Sequence[ContextChunk]) -> list[set[str]]:
    """Which of the words each chunk holds: short ones on their own, others inside names too."""
    alone = {
        word: re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])").search
        for word in wanted
        if len(word) <= _SHORT
    }
    texts = [f"{chunk.title}\n{chunk.text}".lower() for chunk in chunks]
    return [
        {word for word in wanted if word in text and (word not in alone or alone[word](text))}
        for text in texts
    ]
