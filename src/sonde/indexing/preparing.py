"""Preparing files for a store: chunks, words and vectors from their texts.

Preparing is pure, so that it gives the same in this process and in a worker process.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

from sonde.chunking.parse import parse_source
from sonde.embedding.base import Embedder, Mode, Vectors, load_provider
from sonde.runtime.processes import Child, serve_parent
from sonde.runtime.system import count_cores, read_memory
from sonde.runtime.work import Closing
from sonde.stores.chunks.base import ChunkStore
from sonde.text.languages import language_of
from sonde.types import FileContent, FileState, Kind, ParsedFile

BATCH_FILES, BATCH_CHARS = 128, 1_000_000  # of one write: fast, and fits in memory twice


@dataclass(frozen=True, slots=True)
class PrepareOrder:
    """Files of one index to prepare, and which of them to embed."""

    kind: Kind
    method: Literal["syntax", "recursive"]
    contents: tuple[FileContent, ...]
    embedded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Prepared:
    """Files ready to be stored, and the ordered vectors, by the digests of their chunks."""

    files: list[ParsedFile]
    cut_short: list[FileState]
    digests: Sequence[bytes] = ()
    vectors: Sequence[Vectors] | Vectors = ()


def prepare_files(order: PrepareOrder, embedder: Embedder | None = None) -> Prepared:
    """Chunk, index and, with an embedder, embed the files of an order."""
    from sonde.stores.chunks.lexicon import list_file_terms  # numpy is slow to import

    files: list[ParsedFile] = []
    cut_short: list[FileState] = []
    for content in order.contents:
        state = state_of(content, order.kind)
        cut = parse_source(content.path, content.text, kind=order.kind, method=order.method)
        files.append(ParsedFile(state, cut.chunks, cut.symbols, cut.imports, cut.tags))
        if cut.truncated:
            cut_short.append(state)
    # after all are parsed: what each step looks up stays in the processor's cache
    files = [replace(file, words=list_file_terms(file)) for file in files]
    if embedder is None:
        return Prepared(files, cut_short)
    texts = _list_texts([file for file in files if file.state.path in order.embedded])
    return Prepared(files, cut_short, list(texts), embedder.embed(list(texts.values()), "passage"))


def _list_texts(files: Sequence[ParsedFile]) -> dict[bytes, str]:
    """The different texts of these files by their digests."""
    return {chunk.digest: chunk.embedded_text for file in files for chunk in file.chunks}


def embed_batch(
    store: ChunkStore,
    embedder: Embedder,
    parsed: Sequence[ParsedFile],
    made: Mapping[bytes, Vectors] | None = None,
    mode: Mode = "passage",
) -> None:
    """Embed the chunks of these files that have no vector yet; `made` holds some already."""
    vectors = dict(made or {})
    texts = _list_texts(parsed)
    known = store.known_digests(embedder.name, texts)
    digests = [digest for digest in texts if digest not in known]
    if missing := [digest for digest in digests if digest not in vectors]:
        rows = embedder.embed([texts[digest] for digest in missing], mode)
        vectors.update(zip(missing, rows, strict=True))
    if digests:
        import numpy as np

        store.put_vectors(embedder.name, digests, np.stack([vectors[digest] for digest in digests]))


def state_of(content: FileContent, kind: Kind) -> FileState:
    """What an index remembers of a file."""
    return FileState(
        path=content.path,
        hash=content.hash,
        size=content.size,
        mtime_ns=content.mtime_ns,
        language=language_of(content.path).name,
        kind=kind,
        stamp=content.stamp,
    )


_MAX_WORKERS = 2  # more would wait for the process that writes, and take memory
_WORTH_BYTES = 6_000_000  # of text, from which a process pays; starting it costs as much as a fifth
_FILE_BYTES = 2_000  # what each file costs in itself, in bytes of text
_WORN_BYTES = 150 << 20  # a worker that holds more is replaced: grammars and heap holes add up

log = logging.getLogger(__name__)


def count_workers(sizes: Iterable[int], cores: int | None = None) -> int:
    """How many processes pay for files of these sizes, on this machine unless `cores` are given."""
    small = sum(size + _FILE_BYTES for size in sizes) < _WORTH_BYTES
    return 0 if small or (cores or count_cores()) < 2 else _MAX_WORKERS


class Workers(Closing):
    """A few child processes that prepare files, until one of them fails. Use it in a `with`."""

    def __init__(
        self,
        most: int,
        models: Sequence[str],
        *,
        worn_bytes: int = _WORN_BYTES,
        start: Callable[[Sequence[str]], Child] = lambda models: Child(__name__, *models),
    ) -> None:
        self._most, self._models = most, models
        self._worn_bytes, self._start_child = worn_bytes, start
        self._threads = ThreadPoolExecutor(max(most, 1), "sonde-worker")
        self._children: set[Child] = set()
        self._idle: list[Child] = []
        self._guard = threading.Lock()

    @property
    def ahead(self) -> int:
        """How many orders keep all of them busy while another is written."""
        return self._most + 1 if self._most else 0

    def submit(self, order: PrepareOrder) -> Future[Prepared | None]:
        """Have an order prepared; the result is None if the caller has to do it itself."""
        if order.contents and self._most:
            try:
                return self._threads.submit(self._prepare, order)
            except RuntimeError as error:  # no room for another thread
                self._give_up(error)
        done: Future[Prepared | None] = Future()
        done.set_result(None)
        return done

    def close(self) -> None:
        """End the children, whatever they are doing."""
        with self._guard:
            self._most = 0
            for child in self._children:
                child.kill()
        self._threads.shutdown()
        for child in self._children:
            child.end()

    def _prepare(self, order: PrepareOrder) -> Prepared | None:
        try:
            child = self._take_child()
            prepared = Prepared(*child.ask(order)) if child else None
        except Exception as error:  # noqa: BLE001 - the files are prepared all the same
            self._give_up(error)
            return None
        if child:
            with self._guard:
                if read_memory(child.pid)[1] > self._worn_bytes:
                    self._children.remove(child)
                    child.end()
                else:
                    self._idle.append(child)
        return prepared

    def _take_child(self) -> Child | None:
        """An idle child, or a new one; None after a failure and while they are closed."""
        with self._guard:
            if self._most and not self._idle:
                child = self._start_child(self._models)
                self._children.add(child)
                return child
            return self._idle.pop() if self._most else None

    def _give_up(self, error: Exception) -> None:
        """Use no children from now on."""
        with self._guard:
            if self._most:
                log.warning("going on without a worker, which failed: %r", error)
            self._most = 0


def _work_for_parent(names: Sequence[str]) -> None:
    known = {"code": load_provider("static"), "docs": load_provider("everyday")}
    static = {kind: model for kind, model in known.items() if model.name in names}

    def answer(order: PrepareOrder) -> tuple[object, ...]:
        made = prepare_files(order, static.get(order.kind))
        # no `Prepared`: here it is a class of `__main__`, which the parent cannot unpickle
        return made.files, made.cut_short, made.digests, made.vectors

    serve_parent(answer)


if __name__ == "__main__":
    _work_for_parent(sys.argv[1:])
