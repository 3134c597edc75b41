"""Ranking of context chunks for `cortex_search`, over views or chunk files."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from sonde.chunking.tags import tag_file
from sonde.chunking.views import has_syntax, read_overview
from sonde.embedding.base import Embedder, Vectors
from sonde.errors import EmbeddingFailed, MissingExtra, ModelDownloadFailed
from sonde.searching.filters import split_view
from sonde.searching.request import Request
from sonde.stores.chunks.base import ChunkStore
from sonde.text.words import index_terms
from sonde.types import Chunk, FileState, Filter

DEFAULT_LIMIT, MOST = 15, 100  # results of `cortex_search`, by default and at most
_POOL = 200  # nearest chunks whose words are compared with those of the query
_SHORT_WORD = 3  # letters up to which a word must stand alone; inside names it matches by chance
_KEPT_FILTERS = 16  # filters whose paths are remembered until the store changes
_PLAIN = re.compile(r"[A-Za-z0-9_/]+\.[A-Za-z0-9_]+")
_WORD_SHARE = 0.3  # how much the query's words count beside its meaning
SCORE_TYPE = "cosine_and_words"
"""What `combined_score` is; docs/chunk-types.md has the formula."""


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

    def as_dict(self, length: int | None = None) -> dict[str, Any]:
        """The chunk as documented, its text cut to `length`; empty fields are left out."""
        return {
            "id": self.id,
            **({"chunk_type": self.chunk_type} if self.chunk_type else {}),
            "title": self.title,
            "text": self.text[:length],
            **({"tags": list(self.tags)} if self.tags else {}),
            **({"metadata": dict(self.metadata)} if self.metadata else {}),
            "created_at": self.created_at,
            "updated_at": self.updated_at,
        }


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

    def as_dict(self, length: int | None = None) -> dict[str, Any]:
        """The result as `cortex_search` answers it."""
        return {"chunk": self.chunk.as_dict(length), "combined_score": self.combined_score}


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
            error.developer_message, user_message=error.user_message, next_action=error.next_action
        ) from error
    return vector


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
        score = (1 - _WORD_SHARE) * cosine + _WORD_SHARE * share
        if score >= options.min_score:
            results.append(SearchResult(chunk, round(score, 4)))
    results.sort(key=lambda one: (-one.combined_score, one.chunk.id))
    return results[: options.limit]


def _find_words(wanted: Sequence[str], chunks: Sequence[ContextChunk]) -> list[set[str]]:
    """Which of the words each chunk holds: short ones on their own, others inside names too."""
    short = [word for word in wanted if len(word) <= _SHORT_WORD]
    alone = {word: re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])").search for word in short}
    texts = (f"{chunk.title}\n{chunk.text}".lower() for chunk in chunks)
    return [
        {word for word in wanted if word in text and (word not in alone or alone[word](text))}
        for text in texts
    ]


@dataclass(frozen=True, slots=True)
class _Known:
    """What holds until the store changes: tags of files, and what filters let through."""

    generation: int
    tags: Mapping[str, tuple[str, ...]]
    wheres: dict[tuple[tuple[str, ...], tuple[str, ...]], Filter]


class ViewSearcher:
    """A `ContextSearcher` over the views of one project's index."""

    def __init__(self, store: ChunkStore, embedder: Embedder | None) -> None:
        self._store, self._embedder = store, embedder
        self._known = _Known(-1, {}, {})

    def query(self, query: str, options: SearchOptions) -> list[SearchResult]:
        """The best views."""
        vector = embed_query(self._embedder, query)
        known = self._known
        if known.generation != (generation := self._store.generation()):
            known = self._known = _Known(generation, self._store.tags(), {})
        where = self._narrow(known, options)
        model = self._embedder.name if self._embedder else ""
        scored = self._store.dense(model, vector, count_pool(options), where)
        ids = [one.id for one in scored]
        # retrieval may round; the score is that of the vectors as they are kept and exported
        vectors = self._store.vectors(model, ids)
        chunks = {chunk.id: chunk for chunk in self._store.chunks(ids)}
        states = self._store.files({chunk.path for chunk in chunks.values()})
        near = []
        for id_ in ids:
            chunk, kept = chunks.get(id_), vectors.get(id_)
            if chunk and kept is not None and chunk.path in states:
                shown = show_view(chunk, states[chunk.path], known.tags.get(chunk.path, ()))
                near.append((shown, float(kept @ vector) / (math.sqrt(float(kept @ kept)) or 1.0)))
        return combine_scores(query, near, options)

    def _narrow(self, known: _Known, options: SearchOptions) -> Filter:
        tags, types = key = (options.tags, options.chunk_types)
        where = known.wheres.get(key)
        if where is None:
            if len(known.wheres) >= _KEPT_FILTERS:
                known.wheres.clear()
            wanted = Request("cortex_search", tags=tags, chunk_types=types)
            where = wanted.narrow(self._store, None)
            known.wheres[key] = where
        return where


def show_view(chunk: Chunk, state: FileState, content: Iterable[str]) -> ContextChunk:
    """A kept view in the document's shape."""
    type_, file = split_view(chunk.path)
    kind, language, *rest = tag_file(file, state.kind, content)
    moment = datetime.fromtimestamp(state.mtime_ns // 1_000_000_000, UTC)
    source = "markdown" if language == "markdown" else kind
    metadata: dict[str, Any] = {"source": source, "file_path": file, "language": language}
    if type_ == "symbols":
        metadata |= read_overview(chunk.text)
    else:
        metadata |= {"start_line": chunk.span.start_line, "end_line": chunk.span.end_line}
    if chunk.symbol:
        metadata["name"] = chunk.symbol
    if type_ == "definitions" and not has_syntax(file):
        metadata["parsed"] = False
    path, _, trail = chunk.header.partition("\n")
    time = moment.isoformat().replace("+00:00", "Z")
    return ContextChunk(
        id=_name_chunk(type_, file, kind, chunk),
        title=f"{path} {trail}".strip() if type_ == "documentation" else chunk.header,
        text=chunk.text,
        chunk_type=type_,
        tags=tuple(dict.fromkeys((kind, language, type_, *rest))),
        metadata=metadata,
        created_at=time,
        updated_at=time,
    )


def _name_chunk(type_: str, file: str, kind: str, chunk: Chunk) -> str:
    """An id that says what it is and stays as long as the chunk begins at the same line."""
    slug = re.sub(r"[^A-Za-z0-9_]+", "-", file).strip("-")
    if not _PLAIN.fullmatch(file):
        # two paths may read alike once only letters and digits are left
        slug += f"-{zlib.crc32(file.encode('utf-8', 'surrogatepass')):08x}"
    prose = type_ == "documentation" and kind == "documentation"
    name = f"{'doc' if prose else f'code-{type_}'}-{slug}"
    return name if type_ == "symbols" else f"{name}-{chunk.span.start_byte}"
