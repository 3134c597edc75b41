"""Views of files, made from the index on first use and updated with it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sonde.chunking.tags import find_tags
from sonde.chunking.views import VIEW_TYPES, derive_views
from sonde.embedding.base import Embedder
from sonde.indexing.diff import Stores
from sonde.indexing.preparing import BATCH_CHARS, BATCH_FILES, embed_batch
from sonde.indexing.sources import Tree
from sonde.runtime.work import Work
from sonde.stores.chunks.base import ChunkStore
from sonde.text.languages import language_of
from sonde.types import FileContent, FileState, Kind, ParsedFile, Progress, Symbol


def update_views(
    tree: Tree, stores: Stores, views: ChunkStore, embedder: Embedder | None, work: Work
) -> int:
    """Make the missing and outdated views of indexed files; returns how many files."""
    made = views.files()
    # all views of a file have its hash and kind
    known = {path.partition("/")[2]: state for path, state in made.items()}
    wanted: dict[str, tuple[Kind, FileState]] = {
        path: (kind, state)
        for kind, store in stores.items()
        for path, state in store.files().items()
    }
    gone = [path for path in known if path not in wanted]
    if gone:
        _remove(views, gone)
    touched = [
        replace(view, mtime_ns=now.mtime_ns, stamp=now.stamp)
        for path, view in made.items()
        if (now := wanted.get(path.partition("/")[2], (None, view))[1]).stamp != view.stamp
        and now.hash == view.hash
    ]
    if touched:
        views.touch(touched)
    changed = [
        (kind, state)
        for path, (kind, state) in wanted.items()
        if path not in known or (known[path].hash, known[path].kind) != (state.hash, kind)
    ]
    for batch in _view_files(tree, changed, work):
        _write(views, embedder, batch)
    return len(changed) + len(gone)


def _view_files(
    tree: Tree, changed: Sequence[tuple[Kind, FileState]], work: Work
) -> Iterator[list[ParsedFile]]:
    """The views of these files, in batches that fit in memory."""
    began = time.monotonic()
    batch: list[ParsedFile] = []
    size = 0
    for done, (kind, state) in enumerate(changed):
        work.check()
        content = tree.read(state.path)
        parsed = _view_file(content, kind, state) if isinstance(content, FileContent) else []
        batch += parsed or [ParsedFile(replace(state, path=f"{VIEW_TYPES[0]}/{state.path}"), ())]
        size += sum(len(chunk.text) for file in parsed for chunk in file.chunks)
        if len(batch) >= BATCH_FILES or size >= BATCH_CHARS:
            yield batch
            batch, size = [], 0
            rate = done / max(time.monotonic() - began, 1e-6)
            work.report(Progress("viewing", done, len(changed), rate=rate))
    if batch:
        yield batch


def _view_file(content: FileContent, kind: Kind, indexed: FileState) -> list[ParsedFile]:
    """The views of one file, those of each type as a file of their own."""
    language = language_of(content.path)
    prose = kind == "docs" or language.kind == "docs"
    tags = find_tags(content.text, language.name) if prose else ()
    by_type: dict[str, list[int]] = {}
    made = derive_views(content.path, content.text, kind)
    for at, view in enumerate(made):
        by_type.setdefault(view.type, []).append(at)
    state = replace(
        indexed,
        hash=content.hash,
        size=content.size,
        mtime_ns=content.mtime_ns,
        stamp=content.stamp,
    )
    files = []
    for type_, places in by_type.items():
        path = f"{type_}/{content.path}"
        chunks = tuple(replace(made[at].chunk, path=path) for at in places)
        names = tuple(
            Symbol(chunk.symbol, "function", line, line, chunk.span.end_line)
            for chunk in chunks
            if chunk.symbol and type_ == "definitions" and (line := chunk.span.start_line)
        )
        files.append(ParsedFile(replace(state, path=path), chunks, names, tags=tags))
    return files


def _write(views: ChunkStore, embedder: Embedder | None, batch: Sequence[ParsedFile]) -> None:
    # first remove types that a file no longer has; a crash here means "make them again"
    _remove(views, {file.state.path.partition("/")[2] for file in batch})
    if embedder:
        embed_batch(views, embedder, batch)
    views.replace(batch)


def _remove(views: ChunkStore, paths: Iterable[str]) -> None:
    """Remove every view of these files."""
    views.remove([f"{type_}/{path}" for path in paths for type_ in VIEW_TYPES])
