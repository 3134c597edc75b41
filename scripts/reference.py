"""Writes docs/tools.md, docs/errors.md, docs/languages.md and the manifest from the source.

`--check` only says whether they are up to date.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sonde.chunking.parse import KEYED
from sonde.chunking.patterns import has_patterns
from sonde.errors import (
    CatalogError,
    InternalFailure,
    InvalidRequest,
    Refused,
    SondeError,
    TooManyRequests,
)
from sonde.mcp.listing import Listing
from sonde.mcp.manifest import MANIFEST
from sonde.text.languages import Language, list_languages
from sonde.tools import ROUTES, TOOLS
from sonde.tools.schema import Argument
from sonde.tools.tool import TOOLSETS, Tool, read_answer
from sonde.types import Json

DOCS = Path(__file__).resolve().parent.parent / "docs"
INTRODUCTION = """\
# Tools

Written by `make docs` from the declarations in `src/sonde/tools/`; do not edit.

Look up a tool's arguments and the fields of its answer. Call a tool over MCP by the name below, \
or by one of its other spellings. Arguments may be written in `snake_case` or `camelCase`. An \
answer is a JSON object; so is an error, with `code`, `userMessage`, `developerMessage` and \
`nextAction` ([errors](errors.md)).
"""


ERRORS_INTRODUCTION = """\
# Errors

Written by `make docs` from `src/sonde/errors.py`; do not edit.

Look up an error by its code. An error is a JSON object with a `code` for programs, a \
`userMessage` for people, a `developerMessage` and a `nextAction`. Codes never change; messages \
may. `{...}` is a placeholder. Over MCP an error is a tool result marked `isError`, or a JSON-RPC \
error with the number given; over HTTP it is the body of a response with the status given.
"""
BRANCHES: tuple[tuple[str, type[SondeError]], ...] = (
    ("The call is wrong", InvalidRequest),
    ("Expected situations", CatalogError),
    ("Failures", InternalFailure),
    ("Refused by the HTTP server", Refused),
)


def write_errors() -> str:
    """The page of error codes."""
    lines = [ERRORS_INTRODUCTION]
    for title, branch in BRANCHES:
        lines.append(f"## {title}\n")
        lines.append("| code | HTTP | MCP | meaning | what to do |\n|---|---|---|---|---|")
        lines.extend(describe_error(kind) for kind in walk_errors(branch) if is_raised(kind))
        lines.append("")
    lines.append(
        f"Anything else is `{SondeError.code}`, HTTP 500, MCP -32603: {SondeError.user_message}"
    )
    return "\n".join(lines) + "\n"


def walk_errors(kind: type[SondeError]) -> Iterator[type[SondeError]]:
    """A class and everything below it, in the order of definition."""
    yield kind
    for below in kind.__subclasses__():
        yield from walk_errors(below)


def is_raised(kind: type[SondeError]) -> bool:
    """Whether a class has a code of its own, and is not only a base."""
    return "code" in vars(kind) and kind is not Refused


def describe_error(kind: type[SondeError]) -> str:
    """One row of a table."""
    if issubclass(kind, CatalogError | TooManyRequests):
        protocol = "result"
    elif issubclass(kind, Refused):
        protocol = "-"
    else:
        protocol = "-32602" if issubclass(kind, InvalidRequest) else "-32603"
    meaning = (kind.__doc__ or "").split("\n")[0]
    row = (f"`{kind.code}`", str(kind.status), protocol, meaning, kind.next_action)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


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
    answer = read_answer(tool.call)
    required = answer.get("required", [])
    for field, schema in answer.get("properties", {}).items():
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


def make_example(tool: Tool) -> Json:
    """Arguments for a plausible call: those that must be given or that have an example."""
    example = {}
    for argument in tool.arguments:
        quoted = re.search(r"e\.g\.,? '([^']+)'", argument.param.description)
        if argument.param.example is not None:
            example[argument.name] = argument.param.example
        elif argument.name == "query" and argument.param.listed:
            example[argument.name] = "where are retries configured?"
        elif argument.required:
            named = quoted[1] if quoted else argument.kind
            example[argument.name] = argument.choices[0] if argument.choices else named
    return example


def write_manifest(listing: Listing) -> str:
    """The text of the file: a line for each entry, so that diffs are easy to read."""
    lists = (
        f'"{method}": {{"{key}": [\n' + ",\n".join(dump(row) for row in rows) + "\n]}"
        for method, answer in listing.lists.items()
        for key, rows in answer.items()
    )
    toolsets = dump(list(listing.toolsets))
    return f'{{"toolsets": {toolsets},\n"lists": {{\n' + ",\n".join(lists) + "\n}}\n"


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


LANGUAGES_INTRODUCTION = """\
# Languages

Written by `make docs` from `src/sonde/text/languages.py` and `src/sonde/chunking/`; do not edit.

Every text file can be searched by words, meaning and regular expression. In most languages sonde \
also knows the definitions in a file, so that a search for `name` or `Scope.name` returns exactly \
their lines. This page lists how they are found in each language.
"""
NAMINGS: dict[str, str] = {
    "syntax": """By syntax

A grammar parses the file and finds types, functions, members, constants and what is defined \
inside functions, with qualified names, decorators and documentation. Where the file has errors, \
patterns fill the gaps.""",
    "headings": """By headings

Documents are split at their headings; the name of a section is the path of headings to it.""",
    "keys": """By keys

Keys are qualified by the keys around them: `jobs.build.steps`.""",
    "patterns": """By patterns

Definitions, targets, tables, messages, selectors and ids are recognised by the form of their \
lines. Scripts in HTML, Vue, Svelte and Astro are parsed by grammar.""",
    "none": """No names

Searched by words, meaning and regular expression only.""",
}


def naming_of(language: Language) -> str:
    """What gives the names in files of a language."""
    if language.grammar:
        return "syntax"
    if language.kind == "docs":
        return "headings"
    if language.name in KEYED:
        return "keys"
    return "patterns" if has_patterns(language.name) else "none"


def write_languages() -> str:
    rows: dict[str, list[str]] = {naming: [] for naming in NAMINGS}
    for name, (language, endings) in list_languages().items():
        files = " ".join(f"`{ending}`" for ending in endings)
        rows[naming_of(language)].append(f"| {name} | {files} |")
    parts = [LANGUAGES_INTRODUCTION]
    for naming, about in NAMINGS.items():
        table = "\n".join(["| language | files |", "|---|---|", *rows[naming]])
        parts.append(f"## {about}\n\n{table}\n")
    return "\n".join(parts)


def main() -> int:
    listing = Listing(TOOLS, routes=ROUTES)
    texts = {
        DOCS / "tools.md": write_page(TOOLS),
        DOCS / "errors.md": write_errors(),
        DOCS / "languages.md": write_languages(),
        MANIFEST: write_manifest(listing),
    }
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
