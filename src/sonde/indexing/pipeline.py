"""Disk -> stores: read, chunk, embed, write, in bounded batches, resumable at any point.

A batch is one atomic write that holds a file's chunks and its fingerprint together, so a crash
means "index again", never "indexed" without chunks.
"""

from __future__ import annotations

import logging
import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sonde.chunking.parse import VERSION
from sonde.embedding.base import PASSAGE_MODES, Embedder
from sonde.errors import SondeError
from sonde.indexing import preparing
from sonde.indexing.definitions import embed_chunks
from sonde.indexing.diff import CUT_SHORT, SECRET_LINES, Diff, Stores
from sonde.indexing.sources import Tree, TreeReader
from sonde.policy.secrets import SECRETS_VERSION
from sonde.runtime.processes import retry_in_halves
from sonde.runtime.work import Work, WriterLock
from sonde.stores.chunks.base import ChunkStore
from sonde.stores.records import load_fingerprints, load_metadata
from sonde.types import (
    Chunk,
    FileContent,
    FileState,
    IndexReport,
    Kind,
    ListedFile,
    Progress,
    Skipped,
)

if TYPE_CHECKING:
    from concurrent.futures import Future

_EMBED_CHUNKS = 64  # chunks embedded at a time, between two looks at whether to stop
_MISSING_CHUNKS = 1_024  # chunks listed at a time: finding those without a vector looks at all
_RACY_NS, _COARSE_NS = 20_000_000, 2_000_000_000
"""A file changed this shortly before it was read may change again within the same time stamp."""
_REFUSALS = frozenset({"binary", "secret_content"})
"""What the content decides; other reasons can pass while size and time stay the same."""

_SAMPLE_FILES = 64  # files compared to estimate how much of another index can be reused
_FIRST_FILES = 8  # if none of the first files of the sample is the same, the rest is not read
_WORTH_COPYING = 0.5  # the share of equal files from which copying saves more than it costs
_SURELY_MOVED = 0.9  # the share of equal files from which a project is the one that is gone
_MAX_CANDIDATES = 16  # looking at one reads its fingerprints and a few files

log = logging.getLogger(__name__)


def recipe_of(tree: Tree) -> str:
    """How files are chosen and chunked; indexes of two recipes are never mixed."""
    allowed = "".join(f" {pattern}" for pattern in tree.sources[0].rules.allow)
    return f"{tree.chunking}-{VERSION} secrets-{SECRETS_VERSION}{allowed}"


@dataclass(slots=True)
class _Tally:
    began: float
    total: int
    read: int = 0
    indexed: int = 0
    chunks: int = 0
    cut_short: list[FileState] = field(default_factory=list)

    def progress(self) -> Progress:
        rate = self.read / max(time.monotonic() - self.began, 1e-6)
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

    def order(self) -> preparing.PrepareOrder:
        """What has to be prepared; only files that are new have no vectors at all."""
        read = (content for content in self.contents if isinstance(content, FileContent))
        changed = tuple(content for content in read if not self.is_same(content))
        new = frozenset(content.path for content in changed if content.path not in self.known)
        return preparing.PrepareOrder(self.kind, self.tree.chunking, changed, new)

    def is_same(self, content: FileContent) -> bool:
        """Whether what is indexed was cut from this very text."""
        before, state = self.known.get(content.path), preparing.state_of(content, self.kind)
        same = before and (before.hash, before.language) == (state.hash, state.language)
        return bool(same) and not self.force


def update_index(
    tree: Tree,
    stores: Stores,
    static: Mapping[Kind, Embedder],
    work: Work,
    diff: Diff,
    *,
    workers: preparing.Workers | None = None,
    now_ns: Callable[[], int] = time.time_ns,
) -> IndexReport:
    """Bring the stores in step with the disk, by a diff of the two (`compare_index`).

    Files whose content is refused are added to `diff.refused`, so that they are not read each
    time. `workers` help to prepare them, by default as many as pay; they are closed at the end.
    `now_ns` is the clock that file times are compared with.
    """
    tally = _Tally(time.monotonic() - diff.seconds, len(diff.changed))
    for kind, store in stores.items():
        if gone := [path for other, path in diff.removed if other == kind]:
            store.remove(gone)
    if workers is None:
        count = preparing.count_workers(entry.size for _, entry in diff.changed)
        workers = preparing.Workers(count, [model.name for model in static.values()])
    with workers as helping:
        batches, last = _read_batches(tree, diff, tally, work, now_ns), ""
        for batch, ready in _prepare_ahead(batches, helping):
            if last == "code" and batch.kind == "docs" and not batch.known:
                stores["code"].tidy()  # of a first index, while workers prepare the rest
            last = batch.kind
            model = static.get(batch.kind)
            write = partial(_write_batch, stores[batch.kind], model, batch, ready, tally)
            retry_in_halves(batch.contents, write)
            for state in tally.cut_short:
                diff.omitted.add(Skipped(state.path, CUT_SHORT))
                diff.refused[state.path] = (state.stamp, CUT_SHORT, "")
            tally.cut_short.clear()
            work.report(tally.progress())
    return IndexReport(
        files_indexed=tally.indexed,
        files_removed=len(diff.removed),
        files_unchanged=diff.unchanged + (tally.read - tally.indexed),
        chunks_created=tally.chunks,
        seconds=time.monotonic() - tally.began,
        skipped=dict(diff.omitted.counts),
        examples=tuple(diff.omitted.examples),
    )


def _read_batches(
    tree: Tree, diff: Diff, tally: _Tally, work: Work, now_ns: Callable[[], int]
) -> Iterator[_Batch]:
    """Read the changed files and group them, one index at a time, within bounded memory."""
    with tree.open_reader() as reader:
        for kind in ("code", "docs"):
            contents: list[FileContent | Skipped] = []
            size = 0
            entries = [entry for other, entry in diff.changed if other == kind]
            for left, entry in zip(reversed(range(len(entries))), entries, strict=True):
                work.check()
                content = _read(reader, entry, diff, now_ns)
                tally.read += 1
                size += len(content.text) if isinstance(content, FileContent) else 0
                contents.append(content)
                full = len(contents) >= preparing.BATCH_FILES or size >= preparing.BATCH_CHARS
                if full or not left:
                    reader.close()
                    yield _Batch(tree, kind, diff.known[kind], diff.force, contents)
                    contents, size = [], 0


def _read(
    reader: TreeReader, entry: ListedFile, diff: Diff, now_ns: Callable[[], int]
) -> FileContent | Skipped:
    """A file that has changed; what was refused is remembered, unless it may just be written."""
    began = now_ns()
    content = reader.read(entry.path)
    diff.refused.pop(entry.path, None)
    if isinstance(content, Skipped):
        diff.omitted.add(content)
        if content.reason in _REFUSALS and not _is_racy(entry, began):
            diff.refused[entry.path] = (entry.stamp, content.reason, content.detail)
        return content
    if content.withheld:
        diff.omitted.add(Skipped(content.path, SECRET_LINES, content.withheld))
        diff.refused[entry.path] = (entry.stamp, SECRET_LINES, content.withheld)
    is_unsure = content.stamp != entry.stamp or _is_racy(entry, began)
    return replace(content, stamp=0) if is_unsure else content


def _prepare_ahead(
    batches: Iterable[_Batch], workers: preparing.Workers
) -> Iterator[tuple[_Batch, list[preparing.Prepared]]]:
    """The batches in their order, each with what workers have prepared of it, if they have."""
    waiting: deque[tuple[_Batch, Future[preparing.Prepared | None]]] = deque()

    def take_first() -> tuple[_Batch, list[preparing.Prepared]]:
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
    ready: list[preparing.Prepared],
    tally: _Tally,
    contents: Sequence[FileContent | Skipped],
) -> None:
    """Write some files of a batch. `ready` holds the whole batch as a worker prepared it."""
    part = replace(batch, contents=contents)
    skipped = [content.path for content in contents if isinstance(content, Skipped)]
    if gone := [path for path in skipped if path in batch.known]:
        store.remove(gone)
    texts = [content for content in contents if isinstance(content, FileContent)]
    if same := [preparing.state_of(text, batch.kind) for text in texts if part.is_same(text)]:
        store.touch(same)
    prepared = ready.pop() if ready else preparing.prepare_files(part.order())
    if prepared.files:
        if embedder:
            made = dict(zip(prepared.digests, prepared.vectors, strict=True))
            preparing.embed_batch(store, embedder, prepared.files, made, PASSAGE_MODES[batch.kind])
        store.replace(prepared.files, more=not batch.known)  # of a first index
        tally.cut_short += prepared.cut_short
        tally.indexed += len(prepared.files)
        tally.chunks += sum(len(file.chunks) for file in prepared.files)


def _is_racy(entry: ListedFile, read_ns: int) -> bool:
    # whole seconds come from file systems that count no finer, or from a program that set them
    return any(
        abs(read_ns - time_ns) < (_RACY_NS if time_ns % 1_000_000_000 else _COARSE_NS)
        for time_ns in (entry.mtime_ns, entry.ctime_ns)
    )


def refine_vectors(
    stores: Stores,
    models: Mapping[Kind, Embedder],
    lock: WriterLock,
    work: Work,
    *,
    wanted: Callable[[], Sequence[str]] = tuple,
    definitions: bool = False,
) -> int:
    """Embed every chunk without a vector of its kind's model, those of `wanted` files first, then
    the newest.

    Returns how many. With `definitions` each definition in code gets a vector of its own.
    """
    began = time.monotonic()
    done = 0
    covered = [stores[kind].coverage(model.name) for kind, model in models.items()]
    total = sum(count - have for have, count in covered)

    def embed(kind: Kind, embedder: Embedder, chunks: Sequence[Chunk]) -> None:
        store, of_code = stores[kind], definitions and kind == "code"
        symbols = store.symbols_of({chunk.path for chunk in chunks}) if of_code else {}
        digests, vectors = embed_chunks(embedder, PASSAGE_MODES[kind], chunks, symbols)
        with lock.held(work):
            store.put_vectors(embedder.name, digests, vectors)
            store.tidy()

    for kind, embedder in models.items():
        while chunks := _next_chunks(stores[kind], embedder.name, wanted()):
            for start in range(0, len(chunks), _EMBED_CHUNKS):
                step = chunks[start : start + _EMBED_CHUNKS]
                retry_in_halves(step, partial(embed, kind, embedder))
                done += len(step)
                rate = done / max(time.monotonic() - began, 1e-6)
                left = max(total - done, 0)
                work.report(Progress("refining", done, done + left, rate=rate, eta_s=left / rate))
    return done


def _next_chunks(store: ChunkStore, model: str, wanted: Sequence[str]) -> list[Chunk]:
    """A few chunks without a vector, those of wanted files first."""
    for path in wanted:
        chunks = store.chunks_of(path)
        known = store.vectors(model, [chunk.id for chunk in chunks])
        if missing := [chunk for chunk in chunks if chunk.id not in known]:
            return missing
    return store.missing(model, _MISSING_CHUNKS)


def seed_index(
    folder: Path,
    tree: Tree,
    work: Work,
    *,
    store: str,
    recipe: str,
    admits: Callable[[Path], bool] = lambda _root: True,
    begin: Callable[[], str] = str,
) -> str:
    """Begin a new index with a copy of one that is nearly the same, if there is one: that of a
    second worktree, a copy, a moved project.

    The files are still compared one by one, but equal ones are neither chunked nor embedded
    again. `admits` says of which projects a copy may be taken. `begin` is tried first and returns
    a note, which is returned.
    """
    if any(folder.glob("*.db")):
        return ""  # it was begun before
    note = begin()
    if any(folder.glob("*.db")):
        return note
    best, most = None, _WORTH_COPYING
    for candidate in _list_candidates(folder, tree, store, recipe, admits):
        work.check()
        share = _measure_similarity(candidate, tree)
        if share >= most:
            best, most = candidate, share
        if share > 1 - 1 / _SAMPLE_FILES:
            break
    if best is None:
        return note
    from sonde.stores.chunks.integrity import copy_stores  # numpy is slow to import

    try:
        copy_stores(best, folder, store)
    except SondeError as error:
        log.info("%s is not copied: %s", best, error)
    return note


def find_moved_index(
    folder: Path, tree: Tree, *, store: str, recipe: str, admits: Callable[[Path], bool]
) -> Path | None:
    """The index of a project that is gone and whose files lie here now, if there is one."""
    for candidate in _list_candidates(folder, tree, store, recipe, admits):
        metadata = load_metadata(candidate)
        gone = metadata and not Path(metadata.project_path).exists()
        if gone and _measure_similarity(candidate, tree) >= _SURELY_MOVED:
            return candidate
    return None


def _list_candidates(
    folder: Path, tree: Tree, store: str, recipe: str, admits: Callable[[Path], bool]
) -> list[Path]:
    """Indexes made in the same way, those of folders of the same name first, then the newest."""
    name = tree.sources[0].root.name
    found: list[tuple[bool, str, Path]] = []
    for other in {path.parent for path in folder.parent.glob("*/metadata.json")} - {folder}:
        with suppress(SondeError):
            metadata = load_metadata(other)
            same = metadata and (metadata.store, metadata.recipe) == (store, recipe)
            if metadata and same and metadata.total_files and admits(Path(metadata.project_path)):
                alike = Path(metadata.project_path).name == name
                found.append((alike, metadata.last_updated or "", other))
    return [other for _, _, other in sorted(found, reverse=True)[:_MAX_CANDIDATES]]


def _measure_similarity(candidate: Path, tree: Tree) -> float:
    """The share of files that are the same here, by a sample."""
    prints = load_fingerprints(candidate, "code") | load_fingerprints(candidate, "docs")
    paths = sorted(prints)
    sample = random.Random(0).sample(paths, min(_SAMPLE_FILES, len(paths)))  # noqa: S311 - no secret
    same = 0
    for count, path in enumerate(sample):
        if count == _FIRST_FILES and not same:
            break
        if isinstance(tree.check(path), ListedFile):
            content = tree.read(path)
            same += not isinstance(content, Skipped) and content.hash == prints[path]
    return same / len(sample) if sample else 0.0
