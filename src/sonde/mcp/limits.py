"""How many requests a caller may send, and how many calls of a tool: buckets that fill steadily."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from sonde.errors import InvalidRequest, TooManyRequests

_MOST_CALLERS = 10_000
_SECONDS = {"s": 1, "m": 60, "h": 3_600}
_EVERY = "*"


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


class ToolLimits:
    """How often a user may call each tool: `name=COUNT/UNIT`, `*` for each one not named.

    A whole unit's count may come at once; after that, calls are let in at the steady rate.
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
        """Count a call; raises `TooManyRequests` when this user has none left."""
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


def fold_tool_name(name: str) -> str:
    """A name as it is compared: every spelling of a tool is one."""
    return name.strip().lower().replace(".", "_").replace("-", "_")
