"""How long work talks to whoever started it: progress out, cancellation and consent in."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from sonde.errors import Cancelled
from sonde.types import Caller, Progress

if sys.platform == "win32":
    import msvcrt

    def try_lock(descriptor: int) -> bool:
        """Lock a file for as long as it is open here; false when somebody else has it."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def try_lock(descriptor: int) -> bool:
        """Lock a file for as long as it is open here; false when somebody else has it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # anything else is no sign of a holder: there may be no locks here
            return False
        return True


_ARENA_MAX = -8


class Work:
    """One running piece of work, seen from inside: report, ask, stop when told to."""

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
        """Say how far the work is; raises `Cancelled` when it was called off meanwhile."""
        self.check()
        if self._report:
            self._report(progress)

    def ask(self, question: str) -> bool | None:
        """Yes, no, or None when there is nobody to ask."""
        return self._ask(question) if self._ask else None

    def cancel(self) -> None:
        """Call the work off; it stops at its next step."""
        self._cancelled.set()

    def check(self) -> None:
        """Raise `Cancelled` if the work was called off."""
        if self._cancelled.is_set():
            raise Cancelled("cancelled by the caller")


def name_process() -> str:
    """This process, told apart from a later one of the same number."""
    return f"{os.getpid()}:{read_birth(os.getpid())}"


def read_birth(number: int) -> str:
    """When a process was started, as Linux counts it; empty elsewhere, and when it is gone."""
    try:
        text = Path(f"/proc/{number}/stat").read_text(errors="replace")
        return text.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def require_memory(size: int) -> None:
    """`MemoryError` if a limit of the address space leaves less room than this: native code that
    runs out of memory ends the process."""
    if sys.platform == "win32":
        return
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return
    if limit - used < size:
        room = max(limit - used, 0) >> 20
        raise MemoryError(
            f"a limit of {limit >> 20} MB of address space (ulimit -v) leaves {room} MB,"
            f" of which {size >> 20} MB may be needed at once"
        )


def trim_heap() -> None:
    """Give freed memory back: the C library keeps it, after heavy work tens of megabytes."""
    _call_library("malloc_trim", 0)


def share_heap() -> None:
    """Have all threads share one heap: one each costs 64 MB of address space, and keeps more of
    what was freed."""
    _call_library("mallopt", _ARENA_MAX, 1)


def _call_library(name: str, *values: int) -> None:
    if sys.platform == "linux":
        import ctypes

        function = getattr(ctypes.CDLL(None), name, None)
        if function is not None:
            function(*values)
