"""What a client is shown: the tools of the asked-for toolsets, in a fixed order, as plain JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from sonde.mcp.limits import ToolLimits
from sonde.tools.route import SCHEME, Route
from sonde.tools.tool import TOOLSETS, Tool, Toolset

Spelling = Literal["portable", "documented", "both"]
"""Which names are listed; every spelling can be called all the same."""

DEFAULT_TOOLSETS: tuple[Toolset, ...] = ("code", "index", "research")

OUTPUT_SCHEMA = {"type": "object"}
"""Of every tool. Several clients hold errors against it as well and show their model a mismatch
instead of the error, so it names no key that an error lacks; the reference has the whole shapes."""


@dataclass(frozen=True)
class Listing:
    """Which tools are shown, and how."""

    tools: tuple[Tool, ...]
    """All there are; the ones that are not shown can be called too."""
    toolsets: tuple[str, ...] = DEFAULT_TOOLSETS
    """Names of toolsets; `all` stands for every one."""
    spelling: Spelling = "portable"
    enhanced: bool = False
    routes: tuple[Route, ...] = ()
    """Those that can be read are resources."""
    tool_limits: tuple[str, ...] = ()
    """How often a user may call a tool, as settings say it."""

    @cached_property
    def limits(self) -> ToolLimits:
        """What counts the calls."""
        tools = [name for tool in self.tools for name in (tool.name, *tool.aliases)]
        return ToolLimits(self.tool_limits, [*tools, *(route.name for route in self.routes)])

    @cached_property
    def entries(self) -> list[dict[str, Any]]:
        """The answer to `tools/list`."""
        wanted = TOOLSETS if "all" in self.toolsets else self.toolsets
        return [
            _describe_tool(tool, name, enhanced=self.enhanced)
            for tool in self.tools
            if tool.toolset in wanted and tool.listed
            for name in _list_names(tool, self.spelling)
        ]

    @cached_property
    def resources(self) -> list[dict[str, Any]]:
        """The answer to `resources/list`: addresses that need nothing filled in."""
        return [
            _describe_route(route, "uri", SCHEME + route.address)
            for route in self.routes
            if route.method == "GET" and not route.fields
        ]

    @cached_property
    def templates(self) -> list[dict[str, Any]]:
        """The answer to `resources/templates/list`."""
        return [
            _describe_route(route, "uriTemplate", route.template)
            for route in self.routes
            if route.method == "GET" and route.fields
        ]


def _describe_route(route: Route, key: str, address: str) -> dict[str, Any]:
    name = re.sub(r"/?\{.*?\}", "", route.address)
    return {key: address, "name": name, "description": route.summary, "mimeType": route.mime}


def _list_names(tool: Tool, spelling: Spelling) -> Iterator[str]:
    documented = tool.aliases[:1] or (tool.name,)
    if spelling != "documented":
        yield tool.name
    if spelling == "documented" or (spelling == "both" and tool.aliases):
        yield from documented


def _describe_tool(tool: Tool, name: str, *, enhanced: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": name,
        **({} if _is_repeated(tool) else {"title": tool.title}),
        "description": tool.describe(enhanced=enhanced),
        "inputSchema": _open_schema(tool.input_schema),
        "outputSchema": OUTPUT_SCHEMA,
        "annotations": tool.annotations,
    }
    return entry | {"_meta": {"anthropic/alwaysLoad": True}} if tool.always_load else entry


def _is_repeated(tool: Tool) -> bool:
    """A title that says what the name says."""
    return tool.title.lower().split() == tool.name.split("_")


def _open_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Without a ban on other names: `topK` serves as well as `top_k`, and a client that checks
    calls itself must let it, and a mistyped name that we can put right, through to us."""
    return {key: value for key, value in schema.items() if key != "additionalProperties"}
