"""Work that is done in smaller pieces where memory does not suffice for the whole."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from sonde.errors import OutOfMemory
from sonde.runtime.work import trim_heap

T = TypeVar("T")

log = logging.getLogger(__name__)


def retry_in_halves(items: Sequence[T], do: Callable[[Sequence[T]], None]) -> None:
    """Do it to all at once or, while memory runs out, to half of them at a time.

    What is done to some of them must bear being done again. `OutOfMemory` when even one is
    too many.
    """
    try:
        do(items)
        return
    except (MemoryError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENOMEM:
            raise
        if len(items) <= 1:
            raise OutOfMemory(f"out of memory with a single item: {error}") from error
    trim_heap()  # outside the handler, which keeps everything that was at hand alive
    log.warning("out of memory with %d at once, going on with half as many", len(items))
    middle = len(items) // 2
    retry_in_halves(items[:middle], do)
    retry_in_halves(items[middle:], do)
