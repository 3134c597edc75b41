"""Disk -> stores: read, cut, embed, write, in bounded batches, resumable at any point.

A batch is one atomic write that holds a file's chunks and its fingerprint together, so a crash
means "index again", never "indexed" without chunks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sonde.chunking.parse import parse_text
from sonde.embedding.base import Embedder
from sonde.indexing.diff import (
    CUT_SHORT,
    Diff,
    Refused,
    compare_paths,
    compare_tree,
    expand_folders,
)
from sonde.indexing.halving import do_in_halves
from sonde.indexing.sources import Tree
from sonde.languages import language_of
from sonde.policy.read import FileContent
from sonde.policy.walk import Entry
from sonde.stores.base import ChunkStore
from sonde.types import FileState, IndexReport, Kind, ParsedFile, Progress, Skipped
from sonde.work import Work

_BATCH_FILES = 128
_BATCH_CHARS = 1_000_000
_RACY_NS, _COARSE_NS = 20_000_000, 2_000_000_000
"""A file changed this shortly before it was read may change again within the same time stamp."""
_REFUSALS = frozenset({"binary", "secret_content"})
"""What the content decides; other reasons can pass while size and time stay the same."""

Stores = Mapping[Kind, ChunkStore]


@dataclass(slots=True)
class _Tally:
    began: float
    total: int
    read: int = 0
    indexed: int = 0
    chunks: int = 0
    cut_short: list[FileState] = field(default_factory=list)

    def progress(self) -> Progress:
        seconds = max(time.monotonic() - self.began, 1e-6)
        rate = self.read / seconds
        left = (self.total - self.read) / rate if rate else None
        return Progress("indexing", self.read, self.total, rate=rate, eta_s=left)


def update_index(
    tree: Tree,
    stores: Stores,
    embedder: Embedder | None,
    work: Work,
    *,
    refused: Refused | None = None,
    paths: set[str] | None = None,
    force: bool = False,
) -> IndexReport:
    """Bring the stores in step with the disk (or with the named files and, where a name ends in
    a slash, folders); `force` reads all again.

    `refused` remembers files whose content was refused, so that they are not read each time; it
    is brought up to date in place.
    """
    began = time.monotonic()
    if paths is not None:
        paths = expand_folders(tree, paths, lambda: [p for s in stores.values() for p in s.files()])
    known: dict[Kind, Mapping[str, FileState]] = {
        kind: store.files() if paths is None else store.states(paths)
        for kind, store in stores.items()
    }
    refused = {} if refused is None else refused
    if force and paths is None:
        refused.clear()
    if paths is not None:
        diff = compare_paths(tree, known, refused, paths)
        if force:
            diff.changed = [
                (kind, entry)
                for path in sorted(paths)
                if isinstance(entry := tree.check(path), Entry) and (kind := tree.kind_of(path))
            ]
    elif force:
        diff = compare_tree(tree, {kind: {} for kind in known}, refused, work)
        current = {(kind, entry.path) for kind, entry in diff.changed}
        diff.removed = [
            (k, p) for k, files in known.items() for p in files if (k, p) not in current
        ]
    else:
        diff = compare_tree(tree, known, refused, work)
    tally = _Tally(began, len(diff.changed))
    for kind, store in stores.items():
        gone = [path for other, path in diff.removed if other == kind]
        if gone:
            store.remove(gone)
    for kind, batch in _batches(tree, diff, refused, tally, work):
        write = partial(
            _write_batch, tree, stores[kind], embedder, kind, known[kind], tally, force=force
        )
        do_in_halves(batch, write)
        for state in tally.cut_short:
            diff.omitted.add(Skipped(state.path, CUT_SHORT))
            refused[state.path] = (state.size, state.mtime_ns, CUT_SHORT)
        tally.cut_short.clear()
        work.report(tally.progress())
    for store in stores.values() if not diff.is_empty() else ():
        store.tidy()
    return IndexReport(
        files_indexed=tally.indexed,
        files_removed=len(diff.removed),
        files_unchanged=diff.unchanged + (tally.read - tally.indexed),
        chunks_created=tally.chunks,
        seconds=time.monotonic() - began,
        skipped=dict(diff.omitted.counts),
        examples=tuple(diff.omitted.examples),
    )


def _batches(
    tree: Tree, diff: Diff, refused: Refused, tally: _Tally, work: Work
) -> Iterator[tuple[Kind, list[FileContent | Skipped]]]:
    """Read the changed files and group them, one index at a time, within bounded memory."""
    for kind in ("code", "docs"):
        batch: list[FileContent | Skipped] = []
        size = 0
        for other, entry in diff.changed:
            if other != kind:
                continue
            work.check()
            began = time.time_ns()
            content = tree.read(entry.path)
            tally.read += 1
            refused.pop(entry.path, None)
            if isinstance(content, Skipped):
                diff.omitted.add(content)
                if content.reason in _REFUSALS and not _is_racy(entry.mtime_ns, began):
                    refused[entry.path] = (entry.size, entry.mtime_ns, content.reason)
            else:
                size += len(content.text)
                if _is_racy(content.mtime_ns, began):
                    content = replace(content, mtime_ns=0)
            batch.append(content)
            if len(batch) >= _BATCH_FILES or size >= _BATCH_CHARS:
                yield kind, batch
                batch, size = [], 0
        if batch:
            yield kind, batch


def _write_batch(
    tree: Tree,
    store: ChunkStore,
    embedder: Embedder | None,
    kind: Kind,
    known: Mapping[str, FileState],
    tally: _Tally,
    batch: Sequence[FileContent | Skipped],
    *,
    force: bool,
) -> None:
    parsed: list[ParsedFile] = []
    same: list[FileState] = []
    gone: list[str] = []
    cut_short: list[FileState] = []
    for content in batch:
        if isinstance(content, Skipped):
            if content.path in known:
                gone.append(content.path)
            continue
        state = _state_of(content, kind)
        before = known.get(content.path)
        same_text = before and (before.hash, before.language) == (state.hash, state.language)
        if same_text and not force:
            same.append(state)
            continue
        cut = parse_text(content.path, content.text, kind=kind, method=tree.chunking)
        parsed.append(ParsedFile(state, cut.chunks, cut.symbols, cut.imports, cut.tags))
        if cut.truncated:
            cut_short.append(state)
    if gone:
        store.remove(gone)
    if same:
        store.touch(same)
    if parsed:
        if embedder:
            embed_batch(store, embedder, parsed)
        store.replace(parsed)
        tally.cut_short += cut_short
        tally.indexed += len(parsed)
        tally.chunks += sum(len(file.chunks) for file in parsed)


def embed_batch(store: ChunkStore, embedder: Embedder, parsed: Sequence[ParsedFile]) -> None:
    """Give the chunks of these files their vectors, as far as they have none."""
    texts = {chunk.digest: chunk.embedded_text for file in parsed for chunk in file.chunks}
    known = store.known_digests(embedder.name, texts)
    digests = [digest for digest in texts if digest not in known]
    if digests:
        vectors = embedder.embed([texts[digest] for digest in digests], "passage")
        store.put_vectors(embedder.name, digests, vectors)


def _is_racy(mtime_ns: int, read_ns: int) -> bool:
    # whole seconds come from file systems that count no finer
    window = _RACY_NS if mtime_ns % 1_000_000_000 else _COARSE_NS
    return abs(read_ns - mtime_ns) < window


def _state_of(content: FileContent, kind: Kind) -> FileState:
    return FileState(
        path=content.path,
        hash=content.hash,
        size=content.size,
        mtime_ns=content.mtime_ns,
        language=language_of(content.path).name,
        kind=kind,
    )
