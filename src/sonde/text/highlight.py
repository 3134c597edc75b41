"""The positions of a query's words in a text, for highlighting."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence

from sonde.text.words import find_words, fold_text, split_identifier

TextSpan = tuple[int, int]
"""A range of characters, half-open."""
Finder = Callable[[str], list[TextSpan]]
"""The spans of a text to highlight, in order."""

_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_GRAMMAR = frozenset(
    "a an and are as at be by can do does for from how i in into is it of on or that the this to "
    "was what when where which who why with".split()
)
"""Never highlighted. Fewer than the ranking's stop words: `get` and `use` are names in code."""
_ENDING_CHARS = 3
"""Words match if they differ by at most this many final letters (`index`, `indexes`)."""
_STEM_CHARS = 4  # shorter words must be equal: `to` is no form of `token`


def find_query_words(query: str) -> Finder:
    """A finder for the words of a query and their inflections, in identifiers as well."""
    words = [word for word in find_words(query) if word.lower() not in _GRAMMAR]
    terms = {part for word in words for part in split_identifier(word) if len(part) > 1}
    foreign = [word for word in words if not word.isascii()]
    terms.update(map(fold_text, foreign))
    literal = re.compile("|".join(map(re.escape, foreign)) or r"(?!)", re.IGNORECASE)
    stems: defaultdict[str, list[str]] = defaultdict(list)
    for term in terms:
        if len(term) >= _STEM_CHARS:
            stems[term[:_STEM_CHARS]].append(term)

    def resembles(part: str) -> bool:
        return part in terms or any(
            abs(len(part) - len(term)) <= _ENDING_CHARS
            and (part.startswith(term) or term.startswith(part))
            for term in stems.get(part[:_STEM_CHARS], ())
        )

    def find(text: str) -> list[TextSpan]:
        spans: list[TextSpan] = []
        for word in _WORD.finditer(text):
            if word[0].isascii():
                parts = _PART.finditer(text, word.start(), word.end())
                spans += [part.span() for part in parts if resembles(part[0].lower())]
            elif resembles(fold_text(word[0])):
                spans.append(word.span())
            else:
                spans += [m.span() for m in literal.finditer(text, word.start(), word.end())]
        return spans

    return find


def number_lines(parts: Sequence[TextSpan], first: int, count: int) -> list[int]:
    """The number of each line of an excerpt; 0 for the line that marks an omission."""
    numbers: list[int] = []
    for start, end in parts or ((first, first + count - 1),):
        numbers += [0] * bool(numbers) + list(range(start, end + 1))
    return numbers


def join_parts(text: str, spans: Sequence[TextSpan]) -> list[TextSpan]:
    """Join the spans of parts of one identifier (`load_settings`)."""
    joined: list[TextSpan] = []
    for start, end in spans:
        if joined and text[joined[-1][1] : start].strip("_") == "":
            start = joined.pop()[0]
        joined.append((start, end))
    # drop function words within names (`or` of `get_or_create`)
    return [(start, end) for start, end in joined if text[start:end].lower() not in _GRAMMAR]
