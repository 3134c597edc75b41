"""The input and output of every search mode: store, query vectors, ranked chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sonde.embedding.base import Embedder, Vectors
from sonde.errors import EmbeddingFailed, MissingExtra, ModelDownloadFailed
from sonde.ranking.question import Question
from sonde.stores.chunks.base import ChunkStore
from sonde.types import Chunk, Filter, Kind, Span

EMBEDDING_BUDGET_S = 0.1
"""How long passages may be embedded while the caller waits; longer would be felt."""
_POOL = 100
"""Chunks taken from each retriever; on labelled repositories 60 already hold 99 % of targets."""


@dataclass(frozen=True, slots=True)
class QueryVector:
    """The query as one model sees it."""

    model: str
    vector: Vectors
    report: Vectors | None = None
    """A report's sentences, where the query is one."""


@dataclass(frozen=True, slots=True)
class DeepVectors:
    """The query as the deeper model sees it, over the vectors that model has made so far."""

    model: str
    vector: Vectors
    is_complete: bool
    """Every chunk has its vector; otherwise some have, or none."""
    embed: Callable[[Sequence[str]], Vectors] | None = None
    """Embeds passages now; None when that would take too long."""
    pace_s: float = 0.0
    """How long embedding the query took just now."""
    budget_s: float = EMBEDDING_BUDGET_S


@dataclass(frozen=True, slots=True)
class Search:
    """One store, and how deep to look into it."""

    store: ChunkStore
    where: Filter
    limit: int
    probe: QueryVector | None = None
    deep: DeepVectors | None = None

    @property
    def pool(self) -> int:
        """How many chunks to take from each retriever."""
        return max(_POOL, 2 * self.limit)


@dataclass(frozen=True, slots=True)
class Ranked:
    """One ranked chunk; `why` lists what made it rank, strongest first."""

    chunk: Chunk
    score: float
    score_type: str
    why: tuple[tuple[str, float], ...] = ()


def order_found(found: list[Ranked]) -> list[Ranked]:
    """The total order of every ranking: score, path, line."""
    return sorted(found, key=lambda f: (-f.score, f.chunk.path, f.chunk.span.start_line))


def merge_neighbours(found: list[Ranked]) -> list[Ranked]:
    """Chunks that touch or overlap a better one of their file become part of it."""
    kept: list[Ranked] = []
    of_file: dict[str, list[int]] = {}
    for one in found:
        places = of_file.setdefault(one.chunk.path, [])
        span = one.chunk.span
        for place in places:
            near = kept[place].chunk.span
            if span.start_byte > near.end_byte or near.start_byte > span.end_byte:
                continue  # far more often than not
            joined = _join(kept[place].chunk, one.chunk)
            if joined:
                kept[place] = replace(kept[place], chunk=joined)
                break
        else:
            places.append(len(kept))
            kept.append(one)
    return kept


def _join(better: Chunk, other: Chunk) -> Chunk | None:
    """Both as one piece of the file, named after the better; None if a gap lies between."""
    first, last = sorted((better, other), key=lambda c: (c.span.start_byte, c.span.end_byte))
    shared = first.span.end_byte - last.span.start_byte
    if shared < 0:
        return None
    if last.span.end_byte <= first.span.end_byte:
        return replace(first, symbol=better.symbol, id=better.id)
    rest = last.text.encode("utf-8", "surrogatepass")[shared:].decode("utf-8", "surrogatepass")
    span = Span(
        first.span.start_line, last.span.end_line, first.span.start_byte, last.span.end_byte
    )
    return replace(better, text=first.text + rest, span=span)


class QueryVectors:
    """What the models make of one question; `notes` says what they could not."""

    def __init__(self, question: Question, static: Embedder | None, deep: Embedder | None) -> None:
        self._question = question
        self._static, self._deep = static, deep
        self._vectors: dict[str, Vectors | None] = {}
        self.notes: list[str] = []

    def probe(self, store: ChunkStore) -> QueryVector | None:
        """The query for the model that has seen the store first; the static one where there is."""
        for embedder in (self._static, self._deep):
            if embedder and store.coverage(embedder.name)[0]:
                vectors = self._embed(embedder)
                if vectors is None:
                    return None
                return QueryVector(embedder.name, *vectors)
        return None

    def deep(self, store: ChunkStore, kind: Kind, probe: QueryVector) -> DeepVectors | None:
        """The query for the deeper model, where it can say more than the probe does.

        The search does not wait for the model to load unless it knows every chunk. Reports on
        code go without: they are found by places and names, and its use there is not measured.
        """
        embedder = self._deep
        if embedder is None or probe.model == embedder.name:
            return None
        if kind == "code" and self._question.report:
            return None
        have, total = store.coverage(embedder.name)
        complete = 0 < total == have
        ready = embedder.is_loaded
        if not complete and not ready:
            return None
        began = time.perf_counter()
        vectors = self._embed(embedder)
        pace = time.perf_counter() - began
        if vectors is None:
            return None
        embed = partial(embedder.embed, mode="passage") if ready and not complete else None
        return DeepVectors(embedder.name, vectors[0], complete, embed, pace)

    def _embed(self, embedder: Embedder) -> Vectors | None:
        if embedder.name not in self._vectors:
            try:
                self._vectors[embedder.name] = embedder.embed(self._question.asked, "query")
            except (EmbeddingFailed, ModelDownloadFailed, MissingExtra) as error:
                without = embedder is self._deep and self._static
                how = "without the deeper model" if without else "by words alone"
                self.notes.append(f"answered {how}: {error.user_message}")
                self._vectors[embedder.name] = None
        return self._vectors[embedder.name]
