"""Where the words of a question are in a text, as marks."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sonde.ranking.words import STOP_WORDS, read_question
from sonde.tokens import find_words
from sonde.web.html import Markup, join, tag

_LONGEST = 2_000
_SHORT = 3


def make_pattern(query: str) -> re.Pattern[str] | None:
    """Matches what a question asks for: its words as written, and their stems."""
    query = query[:_LONGEST]
    words = {word for word in find_words(query) if word.lower() not in STOP_WORDS}
    words |= set(read_question(query).words) | set(read_question(query).spelled)
    if not words:
        return None
    ordered = sorted(words, key=lambda word: (-len(word), word))
    parts = [
        re.escape(word) if len(word) > _SHORT else rf"(?<![^\W_]){re.escape(word)}(?![^\W_])"
        for word in ordered
    ]
    return re.compile("|".join(parts), re.IGNORECASE)


def mark_words(text: str, pattern: re.Pattern[str] | None) -> Markup:
    """The text with every match marked."""
    if pattern is None:
        return join([text])
    return mark_spans(text, (match.span() for match in pattern.finditer(text)))


def mark_spans(text: str, spans: Iterable[tuple[int, int]]) -> Markup:
    """The text with these characters marked."""
    parts: list[str] = []
    at = 0
    for start, end in spans:
        if start < at or end <= start or end > len(text):
            continue
        parts += [text[at:start], tag("mark", text[start:end])]
        at = end
    return join([*parts, text[at:]])
