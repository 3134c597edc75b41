"""Where the words of a query stand in a line, and which lines of a snippet say most."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from sonde.tokens import find_words, split_identifier

Span = tuple[int, int]
Finder = Callable[[str], list[Span]]

_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLAIN_WORDS = re.compile(
    "an?|and|are|as|at|be|by|can|do|does|for|from|how|i|in|into|is|it|of|on|or|that|the|this|to"
    "|was|what|when|where|which|who|why|with",
    re.IGNORECASE,
)
_GOES_ON = (")", "]", "{")
"""How a line begins that ends the head of a definition, not the definition."""
_LEAD = 2
"""Lines shown above the first one that was found."""
_ENDING = 3
"""Two words that differ by at most this many last letters are shown as one (`index`, `indexes`)."""


def find_query_words(query: str) -> Finder:
    """A finder for the words of a query, as parts of identifiers too."""
    words = [word for word in find_words(query) if not _PLAIN_WORDS.fullmatch(word)]
    terms = {part for word in words for part in split_identifier(word) if len(part) > 1}
    foreign = [word for word in words if not word.isascii()]
    terms.update(map(_fold, foreign))
    literal = re.compile("|".join(map(re.escape, foreign)) or r"(?!)", re.IGNORECASE)

    def find(line: str) -> list[Span]:
        spans: list[Span] = []
        for word in _WORD.finditer(line):
            if word[0].isascii():
                parts = _PART.finditer(line, word.start(), word.end())
                spans += [part.span() for part in parts if _resembles(part[0].lower(), terms)]
            elif _resembles(_fold(word[0]), terms):
                spans.append(word.span())
            else:
                spans += [m.span() for m in literal.finditer(line, word.start(), word.end())]
        return spans

    return find


def join_parts(line: str, spans: Sequence[Span]) -> list[Span]:
    """The spans, with what was found of one identifier (`load_settings`) as one."""
    joined: list[Span] = []
    for start, end in spans:
        if joined and line[joined[-1][1] : start].strip("_") == "":
            start = joined.pop()[0]
        joined.append((start, end))
    return joined


def choose_window(
    lines: Sequence[str], find: Finder, size: int, opening: int | None = None
) -> tuple[int, int]:
    """The first run of at most `size` lines that holds most different words of the query, set so
    that what was found stands near its top; the line at `opening` counts as a word more."""
    last = len(lines) - size
    if last <= 0:
        return 0, len(lines)
    found = [{line[a:b].lower() for a, b in find(line)} for line in lines]
    if opening is not None:
        found[opening].add("")
    runs = [set().union(*found[start : start + size]) for start in range(last + 1)]
    start = max(range(last + 1), key=lambda index: (len(runs[index]), -index))
    first = next((index for index in range(start, start + size) if found[index]), start)
    if opening is not None and start <= opening < start + size:
        whole = max(0, min(opening - _LEAD, last))
        first = opening if len(runs[whole]) == len(runs[start]) else first
    start = max(start, min(first - _LEAD, last))
    while start < last and not lines[start].strip():
        start += 1
    return start, start + size


def find_opening(lines: Sequence[str], symbol: str) -> int | None:
    """The line that the definition of a symbol begins in, if it is among these."""
    name = symbol.rpartition(".")[2]
    return next((at for at, line in enumerate(lines) if name and name in line), None)


def reaches(lines: Sequence[str], opening: int, at: int) -> bool:
    """Whether the block that begins at `opening` goes on to line `at`, by its indentation."""
    depth = _measure_indent(lines[opening])
    return opening <= at and all(
        _measure_indent(line) > depth or line.lstrip()[:1] in _GOES_ON
        for line in lines[opening + 1 : at + 1]
        if line.strip()
    )


def _measure_indent(line: str) -> int:
    return len(line.expandtabs()) - len(line.expandtabs().lstrip())


def _fold(word: str) -> str:
    plain = unicodedata.normalize("NFKD", word.casefold())
    return "".join(char for char in plain if not unicodedata.combining(char))


def _resembles(part: str, terms: set[str]) -> bool:
    if part in terms:
        return True
    return any(
        min(len(part), len(term)) >= 4
        and abs(len(part) - len(term)) <= _ENDING
        and (part.startswith(term) or term.startswith(part))
        for term in terms
    )
