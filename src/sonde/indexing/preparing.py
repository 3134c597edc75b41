"""Texts -> everything that a store keeps of them: chunks, words, vectors.

Preparing is pure, so that it gives the same in this process and in a worker process.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
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
    """A few child processes, each with a thread that talks to it. Use it in a `with`."""

    def __init__(
        self,
        most: int,
        model: str,
        *,
        worn_bytes: int = _WORN_BYTES,
        start: Callable[[str], Child] = lambda model: Child(__name__, model),
    ) -> None:
        self._most, self._model = most, model
        self._worn_bytes, self._start_child = worn_bytes, start
        self._orders: queue.SimpleQueue[tuple[PrepareOrder, Future[Prepared | None]] | None]
        self._orders = queue.SimpleQueue()
        self._served: dict[threading.Thread, Child] = {}
        self._guard = threading.Lock()
        self._left = 0
        self._closing = False

    @property
    def ahead(self) -> int:
        """How many orders keep all of them busy while another is written."""
        return self._left + 1 if self._left else 0

    def submit(self, order: PrepareOrder) -> Future[Prepared | None]:
        """Have an order prepared; the result is None if the caller has to do it itself."""
        done: Future[Prepared | None] = Future()
        if order.contents and len(self._served) < self._most:
            self._start()
        with self._guard:
            if order.contents and self._left:
                self._orders.put((order, done))
            else:
                done.set_result(None)
        return done

    def close(self) -> None:
        """End the children, whatever they are doing."""
        with self._guard:
            self._closing = True
            for child in self._served.values():
                child.kill()
                self._orders.put(None)
        for thread in self._served:
            thread.join()

    def _start(self) -> None:
        """Start one more, unless that fails: then there will be no more."""
        child = self._open_child()
        if child is None:
            return
        thread = threading.Thread(target=self._serve, args=(child,), daemon=True)
        with self._guard:
            self._served[thread] = child
            self._left += 1
        try:
            thread.start()
        except RuntimeError as error:  # no room for another thread
            log.warning("no worker can be used: %s", error)
            with self._guard:
                self._left, self._most = self._left - 1, 0
                del self._served[thread]
            child.end()

    def _serve(self, child: Child) -> None:
        """Pass orders to a child until it fails one; the last thread gives the rest back."""
        healthy = True
        while healthy and (taken := self._orders.get()):
            order, done = taken
            prepared = None
            try:
                prepared = Prepared(*child.ask(order))
            except Exception as error:  # noqa: BLE001 - the files are prepared all the same
                healthy = False
                if not self._closing:
                    log.warning("going on without a worker, which failed: %r", error)
            done.set_result(prepared)
            prepared = None
            if healthy and read_memory(child.pid)[1] > self._worn_bytes:
                child.end()
                child, healthy = self._replace(child)
        with self._guard:
            self._left -= 1
            while not self._left and not self._orders.empty():
                if taken := self._orders.get():
                    taken[1].set_result(None)
        child.end()

    def _replace(self, child: Child) -> tuple[Child, bool]:
        """Another child for this thread, and true; the old one where there can be none."""
        with self._guard:
            another = None if self._closing else self._open_child()
            if another:
                self._served[threading.current_thread()] = another
        return another or child, another is not None

    def _open_child(self) -> Child | None:
        try:
            return self._start_child(self._model)
        except OSError as error:
            log.warning("no worker can be started: %s", error)
            self._most = 0
            return None


def _work_for_parent(model: str) -> None:
    static: Embedder | None = load_provider("static")
    if static and static.name != model:
        static = None

    def answer(order: PrepareOrder) -> tuple[object, ...]:
        made = prepare_files(order, static)
        # no `Prepared`: here it is a class of `__main__`, which the parent cannot unpickle
        return made.files, made.cut_short, made.digests, made.vectors

    serve_parent(answer)


if __name__ == "__main__":
    _work_for_parent(sys.argv[1])
