"""Filters over files: a tree of conditions, its JSON, and its short text.

    size>10MB and modified<2026-01-01 not (path:build/** or ext:log)
    kind:file name~"^test_" age>30d is:duplicate content~"TODO|FIXME"

`and` may be left out, `not` binds tightest, `or` loosest. A value is a word or a JSON string.

    name: path:            a glob                name~ path~   a regular expression (RE2)
    ext: kind: under:      an ending, a kind, a folder with all that is below it
    size depth age modified   with < <= > >= =   (10MB, 3, 30d or 12h, 2026-01-31)
    is:                    duplicate, empty, hidden, unreadable
    content~               a line of the file matches
    lexical: semantic: hybrid:   the file is among the best answers of that search mode

Text and tree round-trip: `parse_filter(render_filter(tree)) == tree`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sonde.errors import InvalidPattern
from sonde.types import Json

MAX_FILTER_CHARS = 4_000  # the most that verbs and the form take
MAX_CONDITIONS = 100  # each is a term of one SQL statement, far below its limits
_MAX_DEPTH = 40  # of nesting: far below the limits of recursion and of SQLite's expressions

COMPARISONS = ("<=", ">=", "<", ">", "=")
KINDS = ("file", "directory", "symlink", "other")
TRAITS = ("duplicate", "empty", "hidden", "unreadable")
_UNITS = {"TB": 1 << 40, "GB": 1 << 30, "MB": 1 << 20, "KB": 1 << 10, "B": 1}
_SPANS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TIME_MS = 253_402_300_799_999  # the last millisecond of the year 9999
_MAX_AGE_S = 100_000_000_000  # three thousand years; more would overflow a time in milliseconds
_MAX_NUMBER = 1 << 60  # of sizes and depths: fits a column of SQLite with room for sums

FIELDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("name", "path"), (":", "~")),
    **dict.fromkeys(("ext", "kind", "under"), (":",)),
    **dict.fromkeys(("size", "depth", "age", "modified"), COMPARISONS),
    "is": (":",),
    "content": ("~",),
    **dict.fromkeys(("lexical", "semantic", "hybrid"), (":",)),
}
"""Field -> the operators it has."""
CONTENT = ("content", "lexical", "semantic", "hybrid")

_TOKEN = re.compile(
    r"""\s+ | (?P<paren>[()]) | (?P<minus>-(?=[a-z(]))
      | (?P<test>[a-z]+)(?P<op><=|>=|[<>=:~])
      | (?P<word>and|or|not)(?![\w:~<>=])""",
    re.VERBOSE,
)
_VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*\"|[^\s()\"]+", re.DOTALL)
_BARE = re.compile(r"[\w./*?+@%,{}\[\]!^:-]+")


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition: a field, an operator, a value."""

    field: str
    op: str
    value: str | int
    """Sizes in bytes, ages in seconds, times in epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class And:
    """All of these; without items, everything."""

    items: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of these."""

    items: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Not this."""

    item: Filter


Filter = Condition | And | Or | Not
EVERYTHING = And(())


def parse_filter(text: str) -> Filter:
    """Parse a text. Raises `InvalidPattern` with the position of the error."""
    if len(text) > MAX_FILTER_CHARS:
        raise _error(text[:60] + "…", MAX_FILTER_CHARS, f"over {MAX_FILTER_CHARS} characters")
    return _Parser(text).parse()


def render_filter(tree: Filter) -> str:
    """The text of a tree."""
    if isinstance(tree, Condition):
        return f"{tree.field}{tree.op}{_render_value(tree)}"
    if isinstance(tree, Not):
        return f"not {_wrap(tree.item)}"
    word = " and " if isinstance(tree, And) else " or "
    return word.join(_wrap(item) for item in tree.items)


def _wrap(tree: Filter) -> str:
    text = render_filter(tree)
    return text if isinstance(tree, Condition | Not) else f"({text})"


def filter_to_json(tree: Filter) -> Json:
    """The tree as JSON."""
    if isinstance(tree, Condition):
        return {"field": tree.field, "op": tree.op, "value": tree.value}
    if isinstance(tree, Not):
        return {"not": filter_to_json(tree.item)}
    return {"and" if isinstance(tree, And) else "or": [filter_to_json(item) for item in tree.items]}


def read_filter_json(value: Any) -> Filter:
    """The tree of a JSON value, checked like a text."""
    tree = EVERYTHING if value == {"and": []} else _read_json(value, 0)
    if len(list_conditions(tree)) > MAX_CONDITIONS:
        raise _error("…", 0, f"over {MAX_CONDITIONS} conditions")
    return tree


def _read_json(value: Any, depth: int) -> Filter:
    if depth > _MAX_DEPTH:
        raise _error("…", 0, "nested too deeply")
    match value:
        case {"field": str() as field, "op": str() as op, "value": str() | int() as found}:
            if len(value) == 3 and not isinstance(found, bool):
                return check_condition(Condition(field, op, found))
        case {"not": inner} if len(value) == 1:
            return Not(_read_json(inner, depth + 1))
        case {"and": list() as items} | {"or": list() as items} if len(value) == 1:
            if not 2 <= len(items) <= MAX_CONDITIONS:
                shown = json.dumps(items, default=str)[:80]
                raise _error(shown, 0, f"2 to {MAX_CONDITIONS} conditions are wanted")
            read = tuple(_read_json(item, depth + 1) for item in items)
            return And(read) if "and" in value else Or(read)
    raise _error(json.dumps(value, default=str)[:80], 0, "not a condition")


def read_moment(text: str, now_ms: int) -> int:
    """Epoch milliseconds of a date, or of a span before now (`7d`)."""
    try:
        if re.fullmatch(r"\d{1,12}[wdhms]?", text, re.ASCII):
            return now_ms - int(_read_value("age", text)) * 1000
        return int(_read_value("modified", text))
    except (ValueError, OverflowError) as error:
        raise _error(text, 0, "a date (2026-01-31) or a span (7d) is wanted") from error


def list_conditions(tree: Filter) -> list[Condition]:
    """Every condition of a tree, in order."""
    if isinstance(tree, Condition):
        return [tree]
    items = (tree.item,) if isinstance(tree, Not) else tree.items
    return [test for item in items for test in list_conditions(item)]


def check_condition(test: Condition) -> Condition:
    """The condition, normalized. Raises `InvalidPattern` if it is not valid."""
    shown = f"{test.field}{test.op}{test.value}"[:120]
    if test.field not in FIELDS or test.op not in FIELDS[test.field]:
        raise _error(shown, 0, "no such field or operator")
    numeric = FIELDS[test.field] is COMPARISONS
    if numeric != isinstance(test.value, int):
        raise _error(shown, 0, "a number is wanted" if numeric else "text is wanted")
    if isinstance(test.value, int):
        most = {"modified": _MAX_TIME_MS, "age": _MAX_AGE_S}.get(test.field, _MAX_NUMBER)
        if not 0 <= test.value <= most:
            raise _error(shown, 0, f"0 to {most} is wanted")
    elif not test.value or "\0" in test.value:
        raise _error(shown, 0, "text is wanted")
    if (choices := {"kind": KINDS, "is": TRAITS}.get(test.field)) and test.value not in choices:
        raise _error(shown, 0, f"one of {', '.join(choices)} is wanted")
    if test.field == "ext" and isinstance(test.value, str):
        ending = test.value.lower().removeprefix(".")
        if not ending:
            raise _error(shown, 0, "text is wanted")
        return Condition(test.field, test.op, ending)
    return test


class _Parser:
    """Reads one text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._tests = 0

    def parse(self) -> Filter:
        if not self._text.strip():
            return EVERYTHING
        tree = self._read_or()
        if self._peek() is not None:
            raise _error(self._text, self._at, "nothing is expected here")
        return tree

    def _descend(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise _error(self._text, self._at, "nested too deeply")

    def _read_or(self) -> Filter:
        self._descend()
        items = [self._read_and()]
        while self._take("or"):
            items.append(self._read_and())
        self._depth -= 1
        return items[0] if len(items) == 1 else Or(tuple(items))

    def _read_and(self) -> Filter:
        items = [self._read_not()]
        while self._take("and") or self._peek() not in (None, ")", "or"):
            items.append(self._read_not())
        return items[0] if len(items) == 1 else And(tuple(items))

    def _read_not(self) -> Filter:
        if self._take("not") or self._take("-"):
            self._descend()
            inner = self._read_not()
            self._depth -= 1
            return Not(inner)
        if self._take("("):
            tree = self._read_or()
            if not self._take(")"):
                raise _error(self._text, self._at, "a closing parenthesis is missing")
            return tree
        return self._read_test()

    def _read_test(self) -> Condition:
        found = _TOKEN.match(self._text, self._at)
        if found is None or not found["test"]:
            raise _error(self._text, self._at, "a condition such as size>10MB is expected")
        start = self._at
        field, op = found["test"], found["op"]
        if field not in FIELDS:
            problem = f"there is no field {field!r}, only {', '.join(FIELDS)}"
            raise _error(self._text, start, problem)
        if op not in FIELDS[field]:
            raise _error(self._text, start, f"{field} takes {' '.join(FIELDS[field])}")
        value = _VALUE.match(self._text, found.end())
        if value is None:
            raise _error(self._text, found.end(), "a value is missing")
        self._at = value.end()
        self._tests += 1
        if self._tests > MAX_CONDITIONS:
            raise _error(self._text, start, f"over {MAX_CONDITIONS} conditions")
        try:
            return check_condition(Condition(field, op, _read_value(field, value[0])))
        except (ValueError, OverflowError) as error:
            raise _error(
                self._text, found.end(), f"{value[0][:40]} does not fit {field}"
            ) from error

    def _peek(self) -> str | None:
        """The next word, parenthesis or minus; `test` before a condition, None at the end."""
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        if self._at >= len(self._text):
            return None
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            return "test"
        return found["paren"] or found["word"] or ("-" if found["minus"] else "test")

    def _take(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self._at += len(token)
        return True


def _read_value(field: str, text: str) -> str | int:
    if text.startswith('"'):
        text = json.loads(text, strict=False)
    if field in ("size", "depth"):
        found = re.fullmatch(r"(\d{1,18})(?:([TGMK])i?B?|B)?", text, re.IGNORECASE | re.ASCII)
        if not found or (field == "depth" and not text.isdigit()):
            raise ValueError(text)
        return int(found[1]) * _UNITS[f"{found[2] or ''}B".upper()]
    if field == "age":
        found = re.fullmatch(r"(\d{1,12})([wdhms]?)", text, re.ASCII)
        if not found:
            raise ValueError(text)
        return int(found[1]) * _SPANS[found[2] or "s"]
    if field == "modified":
        moment = datetime.fromisoformat(text)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(milliseconds=1)
    return text


def _render_value(test: Condition) -> str:
    value = test.value
    if isinstance(value, str):
        bare = _BARE.fullmatch(value) and value.isascii()
        return value if bare else json.dumps(value, ensure_ascii=False)
    if test.field == "modified":
        moment = _EPOCH + timedelta(milliseconds=value)
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    units = {"size": _UNITS, "age": _SPANS}.get(test.field)
    for unit, factor in (units or {}).items():
        if value and value % factor == 0:
            return f"{value // factor}{unit}"
    return str(value)


def _error(text: str, at: int, problem: str) -> InvalidPattern:
    return InvalidPattern(
        f"filter: {problem}, at position {at}",
        user_message="The filter '{pattern}' is not valid: {problem} (position {at}).",
        next_action='Write conditions such as: size>10MB ext:log not path:"build/**" age>30d.',
        pattern=text[:200],
        problem=problem,
        at=at,
    )
