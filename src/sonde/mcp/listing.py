"""The tools and resources that clients see, as plain JSON, and how often each may be called."""

from __future__ import annotations

import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Literal

from sonde.errors import InvalidRequest, TooManyRequests
from sonde.mcp.manifest import Lists
from sonde.tools.route import SCHEME, Route
from sonde.tools.tool import TOOLSETS, Tool, Toolset, fold_tool_name
from sonde.types import Json

Spelling = Literal["portable", "documented", "both"]
"""Which names are listed; any spelling can be called."""

DEFAULT_TOOLSETS: tuple[Toolset, ...] = ("code", "index", "research")

OUTPUT_SCHEMA = {"type": "object"}
"""Of every tool. Several clients check errors against it too and show their model a mismatch
instead of the error, so it requires no key; docs/tools.md has the full shapes."""
MAX_CALLERS = 10_000
"""How many buckets are kept; the least recently used is dropped, and starts full next time."""
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
        if wait := self.wait_for(caller):
            return wait
        self._levels[caller] = (self._level(caller) - 1, self._clock())
        self._levels.move_to_end(caller)
        if len(self._levels) > MAX_CALLERS:
            self._levels.popitem(last=False)
        return 0

    def _level(self, caller: str) -> float:
        level, since = self._levels.get(caller, (self._burst, 0.0))
        # rounded, so that who waits exactly as long as asked is not a hair too early
        return min(self._burst, round(level + (self._clock() - since) * self._rate, 9))


class ToolLimits:
    """How often a user may call each tool: `name=COUNT/UNIT`, `*` for each one not named. A whole
    unit's count may come in a burst; after that, calls pass at the steady rate."""

    def __init__(
        self,
        rules: Sequence[str] = (),
        names: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._rates: dict[str, tuple[int, int]] = {}
        self._buckets: dict[str, Buckets] = {}
        known = {_EVERY, *map(fold_tool_name, names)} if rules else {_EVERY}
        for rule in rules:
            name, _, rate = rule.partition("=")
            count, _, unit = rate.partition("/")
            if fold_tool_name(name) not in known:
                raise InvalidRequest(
                    f"toolLimits: {name!r}",
                    user_message=f"toolLimits names '{name}', and there is no such tool.",
                    next_action="Name tools as `sonde mcp` lists them, or operations of the API.",
                )
            self._rates[fold_tool_name(name)] = int(count), _SECONDS[unit]

    def take(self, name: str, user: str) -> None:
        """Count a call; raises `TooManyRequests` if this user has none left."""
        key = fold_tool_name(name)
        rate = self._rates.get(key) or self._rates.get(_EVERY)
        if rate is None:
            return
        count, seconds = rate
        with self._lock:
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


@dataclass(frozen=True)
class Listing:
    """Which tools are shown, and how."""

    tools: Iterable[Tool]
    """All tools; those not listed can be called too."""
    toolsets: tuple[str, ...] = DEFAULT_TOOLSETS
    """Toolsets to list; `all` means every one."""
    spelling: Spelling = "portable"
    enhanced: bool = False
    routes: Iterable[Route] = ()
    """Routes that can be read are listed as resources."""
    tool_limits: tuple[str, ...] = ()
    """Rate limits of tools, as in the settings."""
    offered: tuple[str, ...] = ()
    """Tools listed regardless of the toolsets, because a setting enables them."""

    @cached_property
    def limits(self) -> ToolLimits:
        """The rate limits of all tools and routes."""
        tools = (name for tool in self.tools for name in (tool.name, *tool.aliases))
        return ToolLimits(self.tool_limits, chain(tools, (route.name for route in self.routes)))

    @cached_property
    def entries(self) -> list[Json]:
        """The answer to `tools/list`."""
        wanted = TOOLSETS if "all" in self.toolsets else self.toolsets
        return [
            _describe_tool(tool, name, enhanced=self.enhanced)
            for tool in self.tools
            if (tool.toolset in wanted and tool.listed) or tool.name in self.offered
            for name in _list_names(tool, self.spelling)
        ]

    @cached_property
    def lists(self) -> Lists:
        """The answer to each listing request; an address with fields is a template."""
        plain, templates = [], []
        for route in self.routes:
            if route.method == "GET" and route.fields:
                templates.append(_describe_route(route, "uriTemplate", route.template))
            elif route.method == "GET":
                plain.append(_describe_route(route, "uri", SCHEME + route.address))
        return {
            "tools/list": {"tools": self.entries},
            "resources/list": {"resources": plain},
            "resources/templates/list": {"resourceTemplates": templates},
        }


def _describe_route(route: Route, key: str, address: str) -> Json:
    name = re.sub(r"/?\{.*?\}", "", route.address)
    return {key: address, "name": name, "description": route.summary, "mimeType": route.mime}


def _list_names(tool: Tool, spelling: Spelling) -> Iterator[str]:
    if spelling != "documented":
        yield tool.name
    if spelling == "documented" or (spelling == "both" and tool.aliases):
        yield from tool.aliases[:1] or (tool.name,)


def _describe_tool(tool: Tool, name: str, *, enhanced: bool) -> Json:
    # Without `additionalProperties`: a client that validates calls itself must let `topK` pass for
    # `top_k`, and let a mistyped name reach us, who can suggest the right one.
    schema = {key: fact for key, fact in tool.input_schema.items() if key != "additionalProperties"}
    entry: Json = {
        "name": name,
        **({} if tool.title.lower().split() == tool.name.split("_") else {"title": tool.title}),
        "description": f"{tool.description} {tool.hint if enhanced else ''}".rstrip(),
        "inputSchema": schema,
        "outputSchema": OUTPUT_SCHEMA,
        "annotations": tool.annotations,
    }
    return entry | {"_meta": {"anthropic/alwaysLoad": True}} if tool.always_load else entry
