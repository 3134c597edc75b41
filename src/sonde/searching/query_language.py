"""The language of queries: words and conditions, as in `lang:go -kind:test retry`; pure.

    lang:python   file:src/api/   file:*.toml   repo:django   kind:docs   sym:retry
    "exact text"   /regular expression/   -anything of these, or a word

Conditions of one field are alternatives, those of several fields must all hold. What does not spell
a condition is text, so nothing is ever refused. In a question, quotes, slashes and dashes are text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal, get_args

from sonde.ranking.features import TEST_PATH
from sonde.searching.lines.pattern import is_pattern
from sonde.text.globs import compile_glob, compose
from sonde.text.languages import find_language, language_of
from sonde.types import Kind

Field = Literal["lang", "file", "repo", "branch", "kind", "sym", "text", "regex", "word"]
"""What a condition is about; the last three have no name: `"exact"`, `/regex/`, `-word`."""
FileKind = Literal["code", "docs", "config", "test", "notes"]
FILE_KINDS: tuple[FileKind, ...] = get_args(FileKind)
FIELDS = {
    "lang": "files in a language",
    "file": "files in a folder, by a glob or a part of their path",
    "repo": "one project",
    "branch": "a branch, on a server of a shared index",
    "kind": "code, docs, config, test or notes",
    "sym": "definitions with this in their name",
}
"""The fields that have a name, and what each is for."""
_ALIASES = {
    "language": "lang",
    "path": "file",
    "symbol": "sym",
    **dict.fromkeys(("project", "repository"), "repo"),
}
_LONGEST = 1_000  # characters of a query that may hold conditions; what is longer is a report
_LEAST_WORD = 3  # letters of a word that can be left out: `-m` and `-rf` are options of commands
_MOST_CONDITIONS = 50
"""Far more than anybody writes, and few enough to check for every file."""

_QUOTED = r'"(?:[^"\\\n]|\\.)+"'
_TOKEN = re.compile(
    rf"(?P<not>-?)(?:(?P<field>[a-z]{{1,10}}):(?P<value>{_QUOTED}|[^\s\"]+)"
    rf"|(?P<text>{_QUOTED})|(?P<regex>/(?:[^/\\\n]|\\.)+/)|(?P<word>[^\W\d_]\w+))(?!\S)"
    r"|\S+"
)
_ASKING = frozenset("how what where why which who when does do can should is are the a an".split())
SPECIAL = re.compile(r"[\\\[(*+?^$|.{]")
_GLOB = frozenset("*?[{")
_LANGUAGE = re.compile(r"[\w+#./-]{1,40}")
_SYMBOL = re.compile(r"[\w.$:#~!?-]{1,200}")
_ESCAPE = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class QueryCondition:
    """One condition on the files, lines or definitions that are found."""

    field: Field
    value: str
    negated: bool = False

    def __str__(self) -> str:
        sign = "-" if self.negated else ""
        if self.field == "text":
            return sign + _quote(self.value)
        if self.field == "regex":
            return f"{sign}/{self.value}/"
        if self.field == "word":
            return sign + self.value
        plain = self.value and not re.search(r'[\s"]', self.value)
        return f"{sign}{self.field}:{self.value if plain else _quote(self.value)}"


@dataclass(frozen=True, slots=True)
class Query:
    """A query as its parts, in the order they were written: words, and conditions."""

    parts: tuple[str | QueryCondition, ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, self.parts))

    @property
    def conditions(self) -> tuple[QueryCondition, ...]:
        """What must hold."""
        return tuple(part for part in self.parts if isinstance(part, QueryCondition))

    @property
    def words(self) -> str:
        """What was written beside the conditions."""
        return " ".join(part for part in self.parts if isinstance(part, str))

    @property
    def text(self) -> str:
        """What to rank by: the words, exact texts and names of definitions."""
        asked = [part for part in self.conditions if not part.negated]
        exact = [part.value for part in asked if part.field == "text"]
        named = [part.value for part in asked if part.field == "sym"]
        if not self.words and not named and len(exact) == 1:
            return _quote(exact[0])  # which is looked up as it is
        patterns = [part.value for part in asked if part.field == "regex"]
        if not self.words and not named and not exact and patterns:
            return f"/{patterns[0]}/"
        return " ".join(filter(None, [self.words, *named, *exact]))

    def toggle(self, condition: QueryCondition) -> Query:
        """The query with the condition, or without it if it has it."""
        if condition in self.parts:
            return Query(tuple(part for part in self.parts if part != condition))
        return Query((*self.parts, condition))


def _quote(text: str) -> str:
    escaped = re.sub(r'(["\\])', r"\\\1", text)
    return f'"{escaped}"'


def parse_query(text: str, *, named_only: bool = False) -> Query:
    """The parts of a query; one part, the text itself, if it holds no condition.

    With `named_only`, the rest is a pattern: its quotes, slashes and dashes are its own.
    """
    text = text.strip()
    if not text or len(text) > _LONGEST or "\n" in text:
        return Query((text,) if text else ())
    tokens = list(_TOKEN.finditer(text))
    fields = [_read_field(token) for token in tokens]
    rest = {token[0].lower() for token, field in zip(tokens, fields, strict=True) if not field}
    plain = named_only or not rest.isdisjoint(_ASKING)
    read = [
        (token, field or (None if plain else _read_unnamed(token)))
        for token, field in zip(tokens, fields, strict=True)
    ]
    conditions = [one for _, one in read if one]
    if not conditions or len(conditions) > _MOST_CONDITIONS:
        return Query((text,))
    if len(conditions) == len(read) and (
        all(one.negated for one in conditions) or (len(read) == 1 and conditions[0].field == "text")
    ):
        return Query((text,))  # nothing is asked for, or a text that is looked up as it is
    parts: list[str | QueryCondition] = []
    for is_word, group in groupby(read, key=lambda pair: pair[1] is None):
        run = list(group)
        words = text[run[0][0].start() : run[-1][0].end()]
        parts += [words] if is_word else [one for _, one in run if one]
    return Query(tuple(parts))


def _read_field(token: re.Match[str]) -> QueryCondition | None:
    """A condition with a name; None if it is spelled like one and is none."""
    name, value = token["field"], token["value"]
    if not name:
        return None
    field = _ALIASES.get(name, name)
    value = _unquote(value)
    fits = {
        "lang": _LANGUAGE.fullmatch(value),
        "file": not value.startswith("//"),
        "repo": not value.startswith("//"),
        "branch": not value.startswith("//"),
        "kind": value.lower() in FILE_KINDS or value.lower() == "tests",
        "sym": _SYMBOL.fullmatch(value),
    }
    if not fits.get(field) or not value.strip():
        return None
    if field == "kind":
        value = "test" if value.lower() == "tests" else value.lower()
    return QueryCondition(field, value, bool(token["not"]))  # type: ignore[arg-type]


def _read_unnamed(token: re.Match[str]) -> QueryCondition | None:
    negated = bool(token["not"])
    if token["text"]:
        return QueryCondition("text", _unquote(token["text"]), negated)
    pattern = (token["regex"] or "")[1:-1]
    if SPECIAL.search(pattern) and is_pattern(pattern):
        return QueryCondition("regex", pattern, negated)
    if negated and token["word"] and len(token["word"]) >= _LEAST_WORD:
        return QueryCondition("word", token["word"], negated)
    return None


def _unquote(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] == '"'
    return _ESCAPE.sub(r"\1", value[1:-1]) if quoted else value


# --- what conditions say about a file ---


def kind_of_file(path: str, kind: Kind) -> FileKind:
    """What a file of an index is to its reader; a test is of this kind, too."""
    if kind == "docs":
        return "docs"
    return "config" if language_of(path).kind == "data" else "code"


def _compile_path(value: str) -> Callable[[str], bool]:
    """Whether a path fits: a glob, a folder that ends in `/`, or a part of the path. What begins
    with `/` is the beginning of the path."""
    if _GLOB & set(value):
        return compile_glob(compose(value)).matches
    wanted = compose(value).lower().removeprefix("./")
    if wanted.startswith("/"):
        return lambda path: f"/{path.lower()}".startswith(wanted)
    if wanted.endswith("/"):
        return lambda path: f"/{wanted}" in f"/{path.lower()}"
    return lambda path: wanted in path.lower()


def compile_conditions(conditions: Sequence[QueryCondition]) -> Callable[[str, Kind], bool]:
    """Whether a file of an index fits the conditions on its path, language and kind."""
    tests: dict[tuple[str, bool], list[Callable[[str, Kind], bool]]] = {}
    for one in conditions:
        tests.setdefault((one.field, one.negated), []).append(_compile_one(one))

    def fits(path: str, kind: Kind) -> bool:
        return all(
            any(test(path, kind) for test in group) is not negated
            for (_, negated), group in tests.items()
        )

    return fits


def _compile_one(one: QueryCondition) -> Callable[[str, Kind], bool]:
    if one.field == "lang":
        spoken = find_language(one.value)
        return lambda path, _kind: language_of(path).name == spoken
    if one.field == "file":
        matches = _compile_path(one.value)
        return lambda path, _kind: matches(path)
    if one.field == "kind" and one.value == "test":
        return lambda path, _kind: TEST_PATH.search(path) is not None
    if one.field == "kind":
        return lambda path, kind: kind_of_file(path, kind) == one.value
    return lambda _path, _kind: not one.negated  # other fields are no conditions on a path


def fits_symbol(conditions: Sequence[QueryCondition], names: Sequence[str]) -> bool:
    """Whether one of these definitions has the name that is asked for."""
    wanted = [one for one in conditions if one.field == "sym"]
    folded = [name.lower() for name in names]
    for one in wanted:
        held = any(one.value.lower() in name for name in folded)
        if held is one.negated:
            return False
    return True


def fits_project(conditions: Sequence[QueryCondition], key: str) -> bool:
    """Whether a project is one of those asked for: by its name, or by the end of its path.

    The branch of a project from a shared index stands behind its name, as in `web@main`.
    """
    path = f"/{key.strip('/').lower()}"
    plain, _, branch = path.partition("@")

    def is_named(one: QueryCondition) -> bool:
        value = one.value.strip("/").lower()
        if one.field == "branch":
            return branch == value
        return path.endswith(f"/{value}") or plain.endswith(f"/{value}")

    for field in ("repo", "branch"):
        wanted = [one for one in conditions if one.field == field]
        chosen = [one for one in wanted if not one.negated]
        if any(is_named(one) for one in wanted if one.negated):
            return False
        if chosen and not any(map(is_named, chosen)):
            return False
    return True


# --- completion ---


@dataclass(frozen=True, slots=True)
class Completions:
    """What the last word of a query may become."""

    start: int
    """Where that word begins."""
    items: tuple[tuple[str, str], ...]
    """Texts to put there, and what each is."""


_LAST = re.compile(r"(?:^|(?<=\s))(?P<not>-?)(?:(?P<field>[a-z]{1,10}):)?(?P<rest>[^\s\"]*)\Z")
_MOST_ITEMS = 8  # that a list under a field shows without scrolling


def complete_query(text: str, list_values: Callable[[Field, str], Sequence[str]]) -> Completions:
    """Completions of the last word: names of fields, or values that `list_values` knows of."""
    found = _LAST.search(text[-_LONGEST:])
    start = len(text) - len(found[0]) if found else len(text)
    if not found or (not found["field"] and not found["rest"]):
        return Completions(start, ())
    sign, rest = found["not"], found["rest"]
    if not found["field"]:
        names = [(f"{sign}{name}:", about) for name, about in FIELDS.items() if name != rest]
        fitting = [item for item in names if item[0].startswith(sign + rest.lower())]
        return Completions(start, tuple(fitting))
    field = _ALIASES.get(found["field"], found["field"])
    if field not in FIELDS:
        return Completions(start, ())
    values = FILE_KINDS if field == "kind" else list_values(field, rest)  # type: ignore[arg-type]
    fitting_values = [value for value in values if rest.lower() in value.lower() != rest.lower()]
    fitting_values.sort(key=lambda value: not value.lower().startswith(rest.lower()))
    shown = (QueryCondition(field, value, bool(sign)) for value in fitting_values)  # type: ignore[arg-type]
    return Completions(start, tuple((str(one), "") for one in shown)[:_MOST_ITEMS])
