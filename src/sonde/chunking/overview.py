"""The overview of a source: what it belongs to, what it needs, what it defines and where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

_MOST_ENTRIES = 200
"""Of each kind; a generated file can define thousands."""
_PACKAGE = {
    "go": r"^package\s+(\w+)",
    "java": r"^\s*package\s+([\w.]+)",
    "kotlin": r"^\s*package\s+([\w.`]+)",
    "scala": r"^\s*package\s+(?!object\b)([\w.]+)",
    "csharp": r"^\s*namespace\s+([\w.]+)",
    "php": r"^\s*namespace\s+([\w\\]+)",
    "haskell": r"^module\s+([\w.]+)",
    "elixir": r"^\s*defmodule\s+([\w.]+)",
    "ruby": r"^\s*module\s+([\w:]+)",
    "cpp": r"^\s*namespace\s+([\w:]+)",
}
_READ = re.compile(
    r"\A(?:Package|Module): (?P<package>.*)\n\nImports: (?P<imports>\d+) packages?"
    r"(?:\n\nTypes:(?: \((?P<types>\d+)\))?\n(?P<type_rows>(?:  - .*\n?)+))?"
    r"(?:\s*Functions:(?: \((?P<functions>\d+)\))?\n(?P<function_rows>(?:  - .*\n?)+))?"
)


class Entry(NamedTuple):
    """Something that a file defines, and its lines."""

    name: str
    kind: str
    start_line: int
    end_line: int


def find_package(path: str, text: str, language: str) -> str:
    """The package that a source says it belongs to; else its module, after its path."""
    pattern = _PACKAGE.get(language)
    found = re.search(pattern, text, re.MULTILINE) if pattern else None
    if found:
        return found[1]
    place = PurePosixPath(path)
    parts = [part for part in place.with_suffix("").parts if part not in ("src", "lib")]
    if language == "python":
        return ".".join(part for part in parts if part != "__init__") or place.stem
    return place.stem


def write_overview(
    package: str, imports: int, types: Sequence[Entry], functions: Sequence[Entry]
) -> str:
    """The text of the overview."""
    parts = [f"Package: {package}", f"Imports: {imports} package{'' if imports == 1 else 's'}"]
    for title, entries in (("Types", types), ("Functions", functions)):
        if entries:
            count = f" ({len(entries)})" if len(entries) > _MOST_ENTRIES else ""
            rows = "\n".join(map(_write_entry, entries[:_MOST_ENTRIES]))
            parts.append(f"{title}:{count}\n{rows}")
    return "\n\n".join(parts)


def _write_entry(entry: Entry) -> str:
    kind = f" ({entry.kind})" if entry.kind else ""
    return f"  - {entry.name}{kind} (lines {entry.start_line}-{entry.end_line})"


def read_overview(text: str) -> dict[str, Any]:
    """The facts of an overview as metadata has them."""
    found = _READ.match(text)
    if found is None:
        return {}
    counts = {
        "types_count": int(found["types"] or 0) or (found["type_rows"] or "").count("  - "),
        "functions_count": int(found["functions"] or 0)
        or (found["function_rows"] or "").count("  - "),
    }
    return {"package": found["package"], "imports_count": int(found["imports"])} | counts
