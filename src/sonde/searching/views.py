"""The views of a project: how each is kept in a chunk store, and the searcher over them.

A view of type T of file P is kept as a chunk of the file `T/P`, so that a filter by types and tags
is a filter by paths, which every store applies inside retrieval.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sonde.chunking.overview import read_overview
from sonde.chunking.tags import fold_tag, tag_file
from sonde.chunking.views import has_syntax
from sonde.embedding.base import Embedder
from sonde.searching.contexts import (
    ContextChunk,
    SearchOptions,
    SearchResult,
    combine_scores,
    count_pool,
    embed_query,
    measure_cosine,
)
from sonde.stores.base import ChunkStore
from sonde.types import Chunk, FileState, Filter

_PLAIN = re.compile(r"[A-Za-z0-9_/]+\.[A-Za-z0-9_]+")
_REMEMBERED = 16
_BAD = re.compile(r"[^A-Za-z0-9_]+")


def split_view(path: str) -> tuple[str, str]:
    """The type of a view and the file it is of."""
    type_, _, file = path.partition("/")
    return type_, file


def narrow_views(
    files: Mapping[str, FileState],
    tags: Mapping[str, tuple[str, ...]],
    wanted: Collection[str],
    types: Collection[str],
) -> frozenset[str]:
    """The paths of the views that fit."""
    folded = {fold_tag(tag) for tag in wanted}
    kept = set()
    for path, state in files.items():
        type_, file = split_view(path)
        if types and type_ not in types:
            continue
        known = tag_file(file, state.kind, tags.get(path, ()))
        if folded <= {*known, type_}:
            kept.add(path)
    return frozenset(kept)


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
        known = self._recall()
        tags, where = known.tags, self._narrow(known, options)
        model = self._embedder.name if self._embedder else ""
        scored = self._store.dense(model, vector, count_pool(options), where)
        ids = [one.id for one in scored]
        # retrieval may round; the score is that of the vectors as they are kept and exported
        vectors = self._store.vectors(model, ids)
        chunks = {chunk.id: chunk for chunk in self._store.chunks(ids)}
        states = self._store.states({chunk.path for chunk in chunks.values()})
        near = [
            (
                show_view(chunk, states[chunk.path], tags.get(chunk.path, ())),
                measure_cosine(vectors[id_], vector),
            )
            for id_ in ids
            if id_ in vectors and (chunk := chunks.get(id_)) and chunk.path in states
        ]
        return combine_scores(query, near, options)

    def _recall(self) -> _Known:
        known, generation = self._known, self._store.generation()
        if known.generation != generation:
            known = self._known = _Known(generation, self._store.tags(), {})
        return known

    def _narrow(self, known: _Known, options: SearchOptions) -> Filter:
        if not (options.tags or options.chunk_types):
            return Filter()
        key = (options.tags, options.chunk_types)
        where = known.wheres.get(key)
        if where is None:
            if len(known.wheres) >= _REMEMBERED:
                known.wheres.clear()
            files = self._store.files()
            where = Filter(narrow_views(files, known.tags, options.tags, options.chunk_types))
            known.wheres[key] = where
        return where


def show_view(chunk: Chunk, state: FileState, content: Iterable[str]) -> ContextChunk:
    """A kept view in the document's shape."""
    type_, file = split_view(chunk.path)
    kind, language, *rest = tag_file(file, state.kind, content)
    moment = datetime.fromtimestamp(state.mtime_ns // 1_000_000_000, UTC)
    metadata: dict[str, Any] = {
        "source": "markdown" if language == "markdown" else kind,
        "file_path": file,
        "language": language,
    }
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
        id=name_chunk(type_, file, kind, chunk),
        title=f"{path} {trail}".strip() if type_ == "documentation" else chunk.header,
        text=chunk.text,
        chunk_type=type_,
        tags=tuple(dict.fromkeys((kind, language, type_, *rest))),
        metadata=metadata,
        created_at=time,
        updated_at=time,
    )


def name_chunk(type_: str, file: str, kind: str, chunk: Chunk) -> str:
    """An id that says what it is and stays as long as the chunk begins at the same line."""
    slug = _BAD.sub("-", file).strip("-")
    if not _PLAIN.fullmatch(file):
        # two paths may read alike once only letters and digits are left
        slug += f"-{zlib.crc32(file.encode('utf-8', 'surrogatepass')):08x}"
    prose = type_ == "documentation" and kind == "documentation"
    name = f"{'doc' if prose else f'code-{type_}'}-{slug}"
    return name if type_ == "symbols" else f"{name}-{chunk.span.start_byte}"
