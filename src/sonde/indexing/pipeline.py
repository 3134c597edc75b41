"""Disk -> stores: read, cut, embed, write, in bounded batches, resumable at any point.

A batch is one atomic write that holds a file's chunks and its fingerprint together, so a crash
means "index again", never "indexed" without chunks.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from sonde.embedding.base import Embedder, Vectors
from sonde.indexing.diff import (
    CUT_SHORT,
    Diff,
    compare_paths,
    compare_tree,
    expand_folders,
)
from sonde.indexing.preparing import (
    Prepared,
    PrepareOrder,
    Workers,
    count_workers,
    list_texts,
    prepare_files,
    state_of,
)
from sonde.indexing.sources import Tree, TreeReader
from sonde.policy.read import FileContent
from sonde.policy.walk import ListedFile
from sonde.runtime.memory import retry_in_halves
from sonde.runtime.work import Work
from sonde.stores.chunks.base import ChunkStore
from sonde.stores.records import Refusals
from sonde.types import FileState, IndexReport, Kind, ParsedFile, Progress, Skipped

if TYPE_CHECKING:
    from concurrent.futures import Future

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


@dataclass(frozen=True, slots=True)
class _Batch:
    """Files of one index that were read together, and what they are compared with."""

    tree: Tree
    kind: Kind
    known: Mapping[str, FileState]
    force: bool
    contents: Sequence[FileContent | Skipped]

    def order(self) -> PrepareOrder:
        """What has to be prepared; only files that are new have no vectors at all."""
        changed = tuple(
            content
            for content in self.contents
            if isinstance(content, FileContent) and not self.is_same(content)
        )
        new = frozenset(content.path for content in changed if content.path not in self.known)
        return PrepareOrder(self.kind, self.tree.chunking, changed, new)

    def is_same(self, content: FileContent) -> bool:
        """Whether what is indexed was cut from this very text."""
        before, state = self.known.get(content.path), state_of(content, self.kind)
        same = before and (before.hash, before.language) == (state.hash, state.language)
        return bool(same) and not self.force


def update_index(
    tree: Tree,
    stores: Stores,
    embedder: Embedder | None,
    work: Work,
    *,
    refused: Refusals | None = None,
    paths: set[str] | None = None,
    force: bool = False,
    workers: int | None = None,
) -> IndexReport:
    """Bring the stores in step with the disk (or with the named files and, where a name ends in
    a slash, folders); `force` reads all again.

    `refused` remembers files whose content was refused, so that they are not read each time; it
    is brought up to date in place. `workers` is how many processes help; by itself it is as
    many as pay.
    """
    began = time.monotonic()
    if paths is not None:
        paths = expand_folders(tree, paths, lambda: [p for s in stores.values() for p in s.files()])
    known: dict[Kind, Mapping[str, FileState]] = {
        kind: store.files(paths) for kind, store in stores.items()
    }
    refused = {} if refused is None else refused
    compared = {kind: {} for kind in known} if force else known
    if force:
        for path in list(refused) if paths is None else paths:
            refused.pop(path, None)
    if paths is None:
        diff = compare_tree(tree, compared, refused, work)
    else:
        diff = compare_paths(tree, compared, refused, paths)
    if force:
        current = {(kind, entry.path) for kind, entry in diff.changed}
        diff.removed = [
            (k, p) for k, files in known.items() for p in files if (k, p) not in current
        ]
    tally = _Tally(began, len(diff.changed))
    for kind, store in stores.items():
        gone = [path for other, path in diff.removed if other == kind]
        if gone:
            store.remove(gone)
    if workers is None:
        workers = count_workers(entry.size for _, entry in diff.changed)
    with Workers(workers, embedder.name if embedder else "") as helping:
        batches = (
            _Batch(tree, kind, known[kind], force, contents)
            for kind, contents in _batches(tree, diff, refused, tally, work)
        )
        for batch, ready in _prepare_ahead(batches, helping):
            write = partial(_write_batch, stores[batch.kind], embedder, batch, ready, tally)
            retry_in_halves(batch.contents, write)
            for state in tally.cut_short:
                diff.omitted.add(Skipped(state.path, CUT_SHORT))
                refused[state.path] = (state.size, state.mtime_ns, CUT_SHORT)
            tally.cut_short.clear()
            work.report(tally.progress())
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
    tree: Tree, diff: Diff, refused: Refusals, tally: _Tally, work: Work
) -> Iterator[tuple[Kind, list[FileContent | Skipped]]]:
    """Read the changed files and group them, one index at a time, within bounded memory."""
    with TreeReader(tree) as reader:
        for kind in ("code", "docs"):
            batch: list[FileContent | Skipped] = []
            size = 0
            for other, entry in diff.changed:
                if other != kind:
                    continue
                work.check()
                content = _read(reader, entry, diff, refused)
                tally.read += 1
                size += len(content.text) if isinstance(content, FileContent) else 0
                batch.append(content)
                if len(batch) >= _BATCH_FILES or size >= _BATCH_CHARS:
                    reader.close()
                    yield kind, batch
                    batch, size = [], 0
            if batch:
                reader.close()
                yield kind, batch


def _read(
    reader: TreeReader, entry: ListedFile, diff: Diff, refused: Refusals
) -> FileContent | Skipped:
    """A file that has changed; what was refused is remembered, unless it may just be written."""
    began = time.time_ns()
    content = reader.read(entry.path)
    refused.pop(entry.path, None)
    if isinstance(content, Skipped):
        diff.omitted.add(content)
        if content.reason in _REFUSALS and not _is_racy(entry.mtime_ns, began):
            refused[entry.path] = (entry.size, entry.mtime_ns, content.reason)
    elif _is_racy(content.mtime_ns, began):
        return replace(content, mtime_ns=0)
    return content


def _prepare_ahead(
    batches: Iterable[_Batch], workers: Workers
) -> Iterator[tuple[_Batch, list[Prepared]]]:
    """The batches in their order, each with what workers have prepared of it, if they have."""
    waiting: deque[tuple[_Batch, Future[Prepared | None]]] = deque()

    def take_first() -> tuple[_Batch, list[Prepared]]:
        batch, done = waiting.popleft()
        prepared = done.result()
        return batch, [prepared] if prepared else []

    for batch in batches:
        waiting.append((batch, workers.submit(batch.order())))
        if len(waiting) > workers.ahead:
            yield take_first()
    while waiting:
        yield take_first()


def _write_batch(
    store: ChunkStore,
    embedder: Embedder | None,
    batch: _Batch,
    ready: list[Prepared],
    tally: _Tally,
    contents: Sequence[FileContent | Skipped],
) -> None:
    """Write some files of a batch; what is `ready` stands for all of them and is used once."""
    part = replace(batch, contents=contents)
    skipped = [content.path for content in contents if isinstance(content, Skipped)]
    gone = [path for path in skipped if path in batch.known]
    if gone:
        store.remove(gone)
    same = [
        state_of(content, batch.kind)
        for content in contents
        if isinstance(content, FileContent) and part.is_same(content)
    ]
    if same:
        store.touch(same)
    prepared = ready.pop() if ready else prepare_files(part.order())
    if prepared.files:
        if embedder:
            made = dict(zip(prepared.digests, prepared.vectors, strict=True))
            embed_batch(store, embedder, prepared.files, made)
        store.replace(prepared.files)
        tally.cut_short += prepared.cut_short
        tally.indexed += len(prepared.files)
        tally.chunks += sum(len(file.chunks) for file in prepared.files)


def embed_batch(
    store: ChunkStore,
    embedder: Embedder,
    parsed: Sequence[ParsedFile],
    made: Mapping[bytes, Vectors] | None = None,
) -> None:
    """Give the chunks of these files their vectors, as far as they have none; `made` has some."""
    vectors = dict(made or {})
    texts = list_texts(parsed)
    known = store.known_digests(embedder.name, texts)
    digests = [digest for digest in texts if digest not in known]
    lacking = [digest for digest in digests if digest not in vectors]
    if lacking:
        rows = embedder.embed([texts[digest] for digest in lacking], "passage")
        vectors.update(zip(lacking, rows, strict=True))
    if digests:
        import numpy as np

        store.put_vectors(embedder.name, digests, np.stack([vectors[digest] for digest in digests]))


def _is_racy(mtime_ns: int, read_ns: int) -> bool:
    # whole seconds come from file systems that count no finer
    window = _RACY_NS if mtime_ns % 1_000_000_000 else _COARSE_NS
    return abs(read_ns - mtime_ns) < window
