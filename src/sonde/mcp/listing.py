"""The tools and resources that clients see, in a fixed order, as plain JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sonde.mcp.limits import ToolLimits
from sonde.tools.route import SCHEME, Route
from sonde.tools.tool import TOOLSETS, Tool, Toolset
from sonde.types import Json

Spelling = Literal["portable", "documented", "both"]
"""Which names are listed; any spelling can be called."""

DEFAULT_TOOLSETS: tuple[Toolset, ...] = ("code", "index", "research")

OUTPUT_SCHEMA = {"type": "object"}
"""Of every tool. Several clients check errors against it too and show their model a mismatch
instead of the error, so it requires no key; docs/tools.md has the full shapes."""


@dataclass(frozen=True)
class Listing:
    """Which tools are shown, and how."""

    tools: tuple[Tool, ...]
    """All tools; those not listed can be called too."""
    toolsets: tuple[str, ...] = DEFAULT_TOOLSETS
    """Toolsets to list; `all` means every one."""
    spelling: Spelling = "portable"
    enhanced: bool = False
    routes: tuple[Route, ...] = ()
    """Routes that can be read are listed as resources."""
    tool_limits: tuple[str, ...] = ()
    """Rate limits of tools, as in the settings."""

    @cached_property
    def limits(self) -> ToolLimits:
        """The rate limits of all tools and routes."""
        tools = [name for tool in self.tools for name in (tool.name, *tool.aliases)]
        return ToolLimits(self.tool_limits, [*tools, *(route.name for route in self.routes)])

    @cached_property
    def entries(self) -> list[Json]:
        """The answer to `tools/list`."""
        wanted = TOOLSETS if "all" in self.toolsets else self.toolsets
        return [
            _describe_tool(tool, name, enhanced=self.enhanced)
            for tool in self.tools
            if tool.toolset in wanted and tool.listed
            for name in _list_names(tool, self.spelling)
        ]

    @cached_property
    def resources(self) -> list[Json]:
        """The answer to `resources/list`: addresses without fields."""
        return [
            _describe_route(route, "uri", SCHEME + route.address)
            for route in self.routes
            if route.method == "GET" and not route.fields
        ]

    @cached_property
    def templates(self) -> list[Json]:
        """The answer to `resources/templates/list`."""
        return [
            _describe_route(route, "uriTemplate", route.template)
            for route in self.routes
            if route.method == "GET" and route.fields
        ]


def _describe_route(route: Route, key: str, address: str) -> Json:
    name = re.sub(r"/?\{.*?\}", "", route.address)
    return {key: address, "name": name, "description": route.summary, "mimeType": route.mime}


def _list_names(tool: Tool, spelling: Spelling) -> Iterator[str]:
    documented = tool.aliases[:1] or (tool.name,)
    if spelling != "documented":
        yield tool.name
    if spelling == "documented" or (spelling == "both" and tool.aliases):
        yield from documented


def _describe_tool(tool: Tool, name: str, *, enhanced: bool) -> Json:
    entry: Json = {
        "name": name,
        **({} if _is_repeated(tool) else {"title": tool.title}),
        "description": tool.describe(enhanced=enhanced),
        "inputSchema": _open_schema(tool.input_schema),
        "outputSchema": OUTPUT_SCHEMA,
        "annotations": tool.annotations,
    }
    return entry | {"_meta": {"anthropic/alwaysLoad": True}} if tool.always_load else entry


def _is_repeated(tool: Tool) -> bool:
    """Whether the title only repeats the name."""
    return tool.title.lower().split() == tool.name.split("_")


def _open_schema(schema: Json) -> Json:
    """The schema without `additionalProperties`: a client that validates calls itself must let
    `topK` pass for `top_k`, and let a mistyped name reach us, who can suggest the right one."""
    return {key: value for key, value in schema.items() if key != "additionalProperties"}
