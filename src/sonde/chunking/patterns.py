"""Names by patterns, for languages without a grammar and where a tree has gaps.

`patterns.txt` says per language which lines define something. The lines of a definition end where
the indentation falls back to its own (with the closing line), or, in flat languages, at the next
one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Literal

from sonde.chunking.symbols import find_lead as find_lead_by
from sonde.chunking.symbols import index_lines
from sonde.types import Symbol

SymbolKind = Literal["type", "function", "value", "key"]
_KINDS: dict[str, SymbolKind] = {"t": "type", "f": "function", "v": "value", "k": "key"}
_PARTS = {
    " ": r"[ \t]+",
    "~": r"[ \t]*",
    "<n>": r"([A-Za-z_$\x80-\xff][\w$\x80-\xff]*)",
    "<d>": r"([A-Za-z_$\x80-\xff][\w$.\x80-\xff-]*)",
    "<lisp>": r"(?:\^\S+\s+)*([^\s()\[\]{}\"';]+)",
    "<words>": r"(?:[a-z@]+[ \t]+){0,5}",
    "<type>": r"(?:[\w$.<>?,\[\]*&:]+[ \t]+)",
    "<body>": r"[ \t]*\([^;{}\n]*(?:\{|=>|\)[ \t]*\r?$|,[ \t]*\r?$|\([ \t]*\r?$)",
    "<call>": r"(?!(?:return|else|new|throw|await|case|delete|if|for|while|switch|typedef)\b)",
    "<create>": r"(?i:CREATE\s+(?:(?:OR|REPLACE|GLOBAL|LOCAL|TEMP|TEMPORARY|UNLOGGED|UNIQUE)\s+)*)",
    "<table>": r"\s+(?i:IF\s+NOT\s+EXISTS\s+)?[`\"\[]?(?:\w+[`\"\]]?\.[`\"\[]?)?(\w+)",
    "<column>": r"(?i:(?:big|small|tiny)?int(?:eger)?|(?:big)?serial|text|n?(?:var)?char"
    r"|bool(?:ean)?|date(?:time)?|time(?:stamp)?(?:tz)?|numeric|decimal|float|double|real|jsonb?|uuid|blob)\b",
    "<end>": r"[ \t]*\r?$",
}
"""What stands for what in the table: blanks, names, the parts of a signature."""
_TOKEN = re.compile(r"\[[^\]]*\]|\\.|<[a-z]+>|[ ~]")
_CLOSING = re.compile(rb"[ \t]*(?:[}\])]|(?i:end\w*)\b|</|#\}|esac\b|done\b|fi\b)")
_OPENING = re.compile(
    rb"[ \t]*\{|.*(?:[{(\[=:,]|\b(?:do|then|begin|is|as))[ \t\r]*$", re.IGNORECASE
)
_LEADS = re.compile(
    rb"[ \t]*(?://|/\*|\*[ \t/]|#(?![ \t]*(?:if|el|end|include|define))[ \t#!\r\n]|--[ \t-]|;"
    rb"|%[ \t%]|\(\*|<!--|\"[ \t]|@(?!end\b)\w+(?:\([^\n]*\))?[ \t\r]*$)"
)
"""Lines above a definition that belong to it: comments and annotations."""
find_lead = partial(find_lead_by, leading=_LEADS)
_MAX_NAME = 300  # characters; it stands in the names of all that it encloses
MAX_SYMBOLS = 5000  # of a file; generated ones can define hundreds of thousands


@dataclass(slots=True)
class Found:
    """A name at an offset, before it has its lines."""

    at: int  # the start of its line
    indent: int
    name: str
    kind: SymbolKind
    named: int
    flat: bool
    end: int = 0


@cache
def _read_table() -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    names: list[str] = []
    for line in Path(__file__).with_name("patterns.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            heading, _, line = line.partition(":")
            names = heading.split()
        for name in names:
            table.setdefault(name, []).extend(row.strip() for row in line.split(";;"))
    return table


@cache
def _patterns_for(language: str) -> tuple[tuple[SymbolKind, str, re.Pattern[bytes]], ...]:
    rows = []
    for row in _read_table()[language]:
        mark, _, pattern = row.partition(" ")
        source = _TOKEN.sub(lambda token: _PARTS.get(token[0], token[0]), pattern)
        compiled = re.compile(b"^(?P<indent>[ \\t]*+)" + source.encode(), re.MULTILINE)
        rows.append((_KINDS[mark[0]], mark[1:], compiled))
    return tuple(rows)


def has_patterns(language: str) -> bool:
    """Whether names of that language are found by patterns."""
    return language in _read_table()


@cache
def _dedent(indent: int) -> re.Pattern[bytes]:
    return re.compile(rb"\n(?=[ \t]{0,%d}[^\s])" % indent)


def _find_end(data: bytes, one: Found) -> int:
    """The offset where the lines of a definition end."""
    pattern, at = _dedent(one.indent), one.named
    while match := pattern.search(data, at):
        line = data[match.end() : data.find(b"\n", match.end()) % (len(data) + 1)]
        if _CLOSING.match(line) and len(line) - len(line.lstrip()) == one.indent:
            if not _OPENING.match(line):
                return match.end() + len(line)
        elif not line.lstrip().startswith(b"{"):
            return match.start()
        at = match.end() + len(line)
    return len(data)


def find_named(data: bytes, language: str) -> tuple[Symbol, ...]:
    """The definitions that a language's patterns find, in order, with lines and qualified names."""
    found: dict[int, Found] = {}
    for kind, mark, pattern in _patterns_for(language):
        for match in pattern.finditer(data):
            named = match.start(match.lastindex or 1)
            parts = filter(None, match.groups()[1:])
            name = b".".join(parts).replace(b"::", b".").decode("utf-8", "replace")[:_MAX_NAME]
            at = data.rfind(b"\n", 0, named) + 1
            indent = -1 if mark == "+" else len(match["indent"])
            found.setdefault(at, Found(at, indent, name, kind, named, flat=mark != ""))
    return place_names(data, sorted(found.values(), key=lambda one: one.at)[:MAX_SYMBOLS])


def place_names(data: bytes, found: Sequence[Found]) -> tuple[Symbol, ...]:
    """Symbols of the names in a text: their lines, and whatever encloses them."""
    following: list[Found] = []
    for one in reversed(found):
        while following and following[-1].indent > one.indent:
            following.pop()
        if not one.end:
            limit = find_lead(data, following[-1].at) if following else len(data)
            one.end = limit if one.flat else min(_find_end(data, one), limit)
        following.append(one)
    return tuple(_qualify(data, found))


def _qualify(data: bytes, found: Sequence[Found]) -> Iterator[Symbol]:
    line_at = index_lines(data)
    stack: list[tuple[Found, str]] = []
    for one in found:
        while stack and (stack[-1][0].end <= one.at or stack[-1][0].indent >= one.indent):
            stack.pop()
        name = f"{stack[-1][1]}.{one.name}" if stack else one.name
        stack.append((one, name))
        stop = max(one.named, one.at + len(data[one.at : one.end].rstrip()) - 1)
        lead = find_lead(data, one.at)
        first, line, last = map(line_at, (lead, one.named, stop))
        yield Symbol(name, one.kind, line, min(first, line), max(line, last))


def fill_gaps(symbols: tuple[Symbol, ...], data: bytes, language: str) -> tuple[Symbol, ...]:
    """The symbols of a tree with syntax errors, plus those that only the patterns find."""
    if not has_patterns(language):
        return symbols
    known = set(map(_last_and_line, symbols))
    more = [one for one in find_named(data, language) if _last_and_line(one) not in known]
    if not more:
        return symbols
    types = [one for one in more if one.kind == "type"]
    found = [*(_qualify_by(one, types) for one in symbols), *more]
    return tuple(sorted(found, key=lambda one: (one.start_line, -one.end_line)))


def _qualify_by(one: Symbol, types: Sequence[Symbol]) -> Symbol:
    """A symbol whose enclosing type the tree missed, qualified by the innermost one around it."""
    held = [t for t in types if t.start_line < one.start_line and one.end_line <= t.end_line]
    return one._replace(name=f"{held[-1].name}.{one.name}") if held and "." not in one.name else one


def _last_and_line(one: Symbol) -> tuple[str, int]:
    return one.name.rpartition(".")[2], one.line
