"""Running work and its caller, and the locks that prevent the same work elsewhere.

A lock is a locked file: one writer and one watcher per index across threads and processes. It is
released when the process that holds it dies.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from sonde.errors import Cancelled, DiskFull, IndexBusy, PermissionDenied, StorageUnusable
from sonde.runtime.private import make_folder
from sonde.runtime.system import try_lock
from sonde.types import Caller, Progress

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors that mean that there is no room left."""
_POLL_S = 0.05  # writers hold the lock for seconds; waiting costs no CPU


def explain_os_error(error: OSError, path: Path) -> Exception:
    """The operating system's error about `path` as ours."""
    detail = f"{path}: {error}"
    if error.errno == errno.ENOMEM:
        return MemoryError(str(error))
    if error.errno in FULL:
        return DiskFull(detail)
    if error.errno in (errno.EACCES, errno.EPERM):
        return PermissionDenied(
            detail,
            user_message=f"There is no permission to use '{error.filename or path}'.",
            next_action="Give yourself access to it, or set SONDE_HOME to a folder of yours.",
        )
    return StorageUnusable(detail)


class Closing(ABC):
    """Something to close, which a `with` does at its end."""

    @abstractmethod
    def close(self) -> None:
        """Release its resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Work:
    """One running piece of work: reports progress, asks for consent, notices cancellation."""

    def __init__(
        self,
        report: Callable[[Progress], None] | None = None,
        ask: Callable[[str], bool | None] | None = None,
        cancelled: threading.Event | None = None,
        caller: Caller = Caller(),  # noqa: B008 - frozen
    ) -> None:
        self.caller = caller
        self._report = report
        self._ask = ask
        self._cancelled = cancelled or threading.Event()

    def report(self, progress: Progress) -> None:
        """Pass progress on to the caller; raises `Cancelled` if the work was cancelled."""
        self.check()
        if self._report:
            self._report(progress)

    def ask(self, question: str) -> bool | None:
        """The caller's answer, or None if it cannot be asked."""
        return self._ask(question) if self._ask else None

    def cancel(self) -> None:
        """Cancel the work; it stops at its next step."""
        self._cancelled.set()

    def check(self) -> None:
        """Raise `Cancelled` if the work was cancelled."""
        if self._cancelled.is_set():
            raise Cancelled("cancelled by the caller")


class WriterLock:
    """The right to write one index folder, or another right named by its lock file."""

    def __init__(
        self, folder: Path, name: str = "writer.lock", *, lock: Callable[[int], bool] = try_lock
    ) -> None:
        self._path = folder / name
        self._lock = lock
        self._thread = threading.RLock()
        self._depth = 0
        self._descriptor = -1

    @contextmanager
    def held(self, work: Work | None = None, wait_s: float | None = None) -> Iterator[None]:
        """Hold the lock for a block, waiting for it; `IndexBusy` after `wait_s`, None never."""
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
            self._depth -= 1
            if self._depth == 0:
                os.close(self._descriptor)
                self._descriptor = -1
            self._thread.release()

    def is_taken(self) -> bool:
        """Whether another process, or another thread, holds it."""
        try:
            with self.held(wait_s=0):
                return False
        except IndexBusy:
            return True

    def is_in_place(self) -> bool:
        """Whether the held lock still excludes others; false if its file was deleted."""
        return self._descriptor >= 0 and self._is_in_place(self._descriptor)

    def _try(self) -> bool:
        if not self._thread.acquire(blocking=False):
            return False
        locked = False
        try:
            locked = self._depth > 0 or self._lock_file()
        finally:
            if not locked:
                self._thread.release()
        self._depth += locked
        return locked

    def _lock_file(self) -> bool:
        try:
            make_folder(self._path.parent)
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
            descriptor = os.open(self._path, flags, 0o600)
            try:
                if self._lock(descriptor) and self._is_in_place(descriptor):
                    self._descriptor = descriptor
            finally:
                if self._descriptor != descriptor:
                    os.close(descriptor)
        except OSError as error:
            raise explain_os_error(error, self._path) from error
        return self._descriptor == descriptor

    def _is_in_place(self, descriptor: int) -> bool:
        """Whether the locked file is still the one at this path."""
        try:
            return os.path.samestat(os.fstat(descriptor), self._path.stat())
        except FileNotFoundError:
            return False
