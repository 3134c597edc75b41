"""Writes docs/tools.md and the manifest from the declared tools and routes.

`--check` only says whether they are up to date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sonde.mcp.listing import DEFAULT_TOOLSETS, Listing
from sonde.mcp.manifest import MANIFEST, write_manifest
from sonde.tools import ROUTES, TOOLS
from sonde.tools.tool import TOOLSETS, Argument, Tool

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tools.md"
INTRODUCTION = """\
# Tools

Written by `make docs` from the declarations in `src/sonde/tools/`; do not edit.

Every tool can be called over MCP by the name below, or by one of its other spellings. Arguments \
may be written in `snake_case` or `camelCase`. An answer is a JSON object; an error is one too, \
with `code`, `userMessage`, `developerMessage` and `nextAction`.
"""


def write_page(tools: tuple[Tool, ...]) -> str:
    """The whole page."""
    lines = [INTRODUCTION]
    for toolset in TOOLSETS:
        members = [tool for tool in tools if tool.toolset == toolset and tool.listed]
        if members:
            links = ", ".join(f"[`{tool.name}`](#{tool.name})" for tool in members)
            lines.append(f"- `{toolset}`: {links}")
    for tool in filter(lambda tool: tool.listed, tools):
        lines.extend(describe_tool(tool))
    return "\n".join(lines) + "\n"


def describe_tool(tool: Tool) -> Iterator[str]:
    """One section."""
    yield f"\n## {tool.name}\n"
    yield tool.description
    if tool.hint:
        yield f"\n{tool.hint}"
    yield f"\n{describe_effect(tool)}"
    if tool.aliases:
        yield f"\nAlso called {', '.join(f'`{alias}`' for alias in tool.aliases)}."
    if tool.arguments:
        yield "\n| argument | type | default | meaning |\n|---|---|---|---|"
        yield from (describe_argument(argument) for argument in tool.arguments)
    else:
        yield "\nNo arguments."
    yield f"\nCall:\n\n```json\n{dump({'name': tool.name, 'arguments': make_example(tool)})}\n```"
    yield "\nAnswer:\n\n| field | type | present |\n|---|---|---|"
    required = tool.output_schema.get("required", [])
    for field, schema in tool.output_schema.get("properties", {}).items():
        kind = schema.get("type", "any")
        kind = kind if isinstance(kind, str) else " or ".join(kind)
        yield f"| `{field}` | {kind} | {'always' if field in required else 'where it applies'} |"


def describe_effect(tool: Tool) -> str:
    """What a call may change, in a sentence."""
    if tool.read_only:
        return "Changes nothing."
    effect = "May remove what was there." if tool.destructive else "Only adds or updates."
    return f"{effect} Calling it twice {'is as calling it once' if tool.idempotent else 'counts'}."


def describe_argument(argument: Argument) -> str:
    """One row of the table."""
    default = argument.full_schema.get("default")
    shown = "**required**" if argument.required else "" if default is None else f"`{dump(default)}`"
    kind = f"{argument.items} array" if argument.items else argument.kind
    bounds = describe_bounds(argument)
    text = argument.param.description.replace("|", "\\|")
    return f"| `{argument.name}` | {kind}{bounds} | {shown} | {text} |"


def describe_bounds(argument: Argument) -> str:
    """The limits, short."""
    if argument.choices:
        return ": " + ", ".join(f"`{choice}`" for choice in argument.choices)
    schema = argument.full_schema
    low = next((schema[key] for key in ("minimum", "minLength", "minItems") if key in schema), None)
    high = next((schema[k] for k in ("maximum", "maxLength", "maxItems") if k in schema), None)
    if low is None and high is None:
        return ""
    if (argument.kind, low, high) == ("string", 1, None):
        return ", not empty"
    unit = {"string": " characters", "array": " items"}.get(argument.kind, "")
    between = f"{low} to {high}" if low is not None else f"up to {high}"
    return f", {between if high is not None else f'from {low}'}{unit}"


def make_example(tool: Tool) -> dict[str, Any]:
    """Arguments for a plausible call: those that must be given or that have an example."""
    example = {}
    for argument in tool.arguments:
        quoted = re.search(r"e\.g\.,? '([^']+)'", argument.param.description)
        if argument.param.example is not None:
            example[argument.name] = argument.param.example
        elif argument.name == "query" and argument.param.listed:
            example[argument.name] = "where are retries configured?"
        elif argument.required:
            example[argument.name] = quoted[1] if quoted else argument.kind
    return example


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def main() -> int:
    listing = Listing(TOOLS, routes=ROUTES)
    texts = {PAGE: write_page(TOOLS), MANIFEST: write_manifest(listing, DEFAULT_TOOLSETS)}
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    if "--check" not in sys.argv[1:]:
        for path in stale:
            path.write_text(texts[path])
        return 0
    for path in stale:
        print(f"{path.name} is out of date; run `make docs`")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
