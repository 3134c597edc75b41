"""Rate limits per caller and per tool: token buckets."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from sonde.errors import InvalidRequest, TooManyRequests
from sonde.tools.tool import fold_tool_name

MAX_CALLERS = 10_000
"""Buckets kept; the caller seen least recently is forgotten first, and starts with a full one."""
_SECONDS = {"s": 1, "m": 60, "h": 3_600}
_EVERY = "*"


class Buckets:
    """A token bucket for each caller."""

    def __init__(
        self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._clock = clock
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_for(self, caller: str) -> int:
        """Seconds until the caller may send again, rounded up; takes no token."""
        level = self._level(caller)
        return 0 if level >= 1 else math.ceil((1 - level) / self._rate)

    def take(self, caller: str) -> int:
        """Take a token. Returns 0, or the seconds until there is one, rounded up."""
        level = self._level(caller)
        if level < 1:
            return math.ceil((1 - level) / self._rate)
        self._levels[caller] = (level - 1, self._clock())
        self._levels.move_to_end(caller)
        if len(self._levels) > MAX_CALLERS:
            self._levels.popitem(last=False)
        return 0

    def _level(self, caller: str) -> float:
        level, since = self._levels.get(caller, (self._burst, 0.0))
        return min(self._burst, level + (self._clock() - since) * self._rate)


class ToolLimits:
    """How often a user may call each tool: `name=COUNT/UNIT`, `*` for each one not named.

    A whole unit's count may come in a burst; after that, calls pass at the steady rate.
    """

    def __init__(
        self,
        rules: Sequence[str] = (),
        names: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._rates: dict[str, tuple[int, int]] = {}
        self._buckets: dict[str, Buckets] = {}
        known = {fold_tool_name(name) for name in names} | {_EVERY}
        for rule in rules:
            name, _, rate = rule.partition("=")
            count, _, unit = rate.partition("/")
            if fold_tool_name(name) not in known:
                raise InvalidRequest(
                    f"toolLimits: {name!r}",
                    user_message="toolLimits names '{name}', and there is no such tool.",
                    next_action="Name tools as `sonde mcp` lists them, or operations of the API.",
                    name=name,
                )
            self._rates[fold_tool_name(name)] = int(count), _SECONDS[unit]

    def take(self, name: str, user: str) -> None:
        """Count a call; raises `TooManyRequests` if this user has none left."""
        key = fold_tool_name(name)
        rate = self._rates.get(key) or self._rates.get(_EVERY)
        if rate is None:
            return
        count, seconds = rate
        if key not in self._buckets:
            self._buckets[key] = Buckets(count / seconds, count, self._clock)
        wait = self._buckets[key].take(user)
        if wait:
            raise TooManyRequests(
                f"{name} by {user}: more than {count} in {seconds} s",
                user_message="Too many calls of {name}.",
                name=name,
                seconds=wait,
            )
