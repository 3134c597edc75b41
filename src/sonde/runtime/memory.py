"""Memory: limits, the heap of the C library, and work in halves when memory runs out."""

from __future__ import annotations

import errno
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from sonde.errors import OutOfMemory

_M_ARENA_MAX = -8
"""The option of mallopt(3) for the number of heaps."""

T = TypeVar("T")

log = logging.getLogger(__name__)


def retry_in_halves(items: Sequence[T], do: Callable[[Sequence[T]], None]) -> None:
    """Do it to all items at once or, while memory runs out, to half of them at a time.

    Repeating it for some items must be harmless. Raises `OutOfMemory` if one item is too much.
    """
    try:
        do(items)
        return
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            raise
        if len(items) <= 1:
            raise OutOfMemory(f"out of memory with a single item: {error}") from error
    trim_heap()  # outside the handler, whose traceback keeps every local alive
    log.warning("out of memory with %d items at once, retrying with half as many", len(items))
    middle = len(items) // 2
    retry_in_halves(items[:middle], do)
    retry_in_halves(items[middle:], do)


def require_memory(size: int) -> None:
    """Raise `MemoryError` if the limit of the address space leaves less room than this.

    Native code that runs out of memory ends the process, so check before calling it.
    """
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
    """Return freed memory to the system; the C library keeps tens of megabytes after heavy work."""
    _call_library("malloc_trim", 0)


def share_heap() -> None:
    """Make all threads share one heap.

    A heap each costs 64 MB of address space, and keeps more of the memory that was freed.
    """
    _call_library("mallopt", _M_ARENA_MAX, 1)


def _call_library(name: str, *values: int) -> None:
    if sys.platform == "linux":
        import ctypes

        function = getattr(ctypes.CDLL(None), name, None)
        if function is not None:
            function(*values)
