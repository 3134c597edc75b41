"""One writer, and one watcher, per index, across threads and processes, by locks that die with
their holder."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sonde.errors import IndexBusy
from sonde.runtime.work import Work, try_lock
from sonde.stores.database import translate_errors

_POLL_S = 0.05


class WriterLock:
    """The right to write one index folder, or to do whatever else its name says."""

    def __init__(self, folder: Path, name: str = "writer.lock") -> None:
        self._path = folder / name
        self._thread = threading.RLock()
        self._depth = 0
        self._descriptor = -1

    @contextmanager
    def held(self, work: Work | None = None, wait_s: float | None = None) -> Iterator[None]:
        """Hold the lock for a block; wait for it (`wait_s` None: as long as it takes)."""
        deadline = None if wait_s is None else time.monotonic() + wait_s
        while not self._try():
            if work:
                work.check()
            if deadline is not None and time.monotonic() >= deadline:
                raise IndexBusy(f"{self._path} is held by another process")
            time.sleep(_POLL_S)
        try:
            yield
        finally:
            self._release()

    def is_in_place(self) -> bool:
        """Whether what is held still keeps others out: a deleted lock file does not."""
        return self._descriptor >= 0 and self._is_in_place(self._descriptor)

    def _try(self) -> bool:
        if not self._thread.acquire(blocking=False):
            return False
        try:
            if self._depth == 0 and not self._lock_file():
                self._thread.release()
                return False
        except BaseException:
            self._thread.release()
            raise
        self._depth += 1
        return True

    def _lock_file(self) -> bool:
        with translate_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
            descriptor = os.open(self._path, flags, 0o600)
            try:
                if try_lock(descriptor) and self._is_in_place(descriptor):
                    self._descriptor = descriptor
            finally:
                if self._descriptor != descriptor:
                    os.close(descriptor)
        return self._descriptor == descriptor

    def _is_in_place(self, descriptor: int) -> bool:
        """Whether the file is still there: the lock of a deleted one keeps nobody out."""
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False

    def _release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._thread.release()
