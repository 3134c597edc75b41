"""How many requests one caller may send: a bucket that fills at a steady rate."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable

_MOST_CALLERS = 10_000


class Buckets:
    """One bucket per caller; the callers seen last are remembered."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_for(self, caller: str) -> int:
        """Whole seconds until the caller may send again, without taking anything."""
        level = self._level(caller)
        return 0 if level >= 1 else math.ceil((1 - level) / self._rate)

    def take(self, caller: str) -> int:
        """Take one; 0 when there was one, else whole seconds until there is."""
        level = self._level(caller)
        if level < 1:
            return math.ceil((1 - level) / self._rate)
        self._levels[caller] = (level - 1, self._clock())
        self._levels.move_to_end(caller)
        if len(self._levels) > _MOST_CALLERS:
            self._levels.popitem(last=False)
        return 0

    def _level(self, caller: str) -> float:
        level, since = self._levels.get(caller, (self._burst, 0.0))
        return min(self._burst, level + (self._clock() - since) * self._rate)
