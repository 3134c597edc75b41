"""Places where a text may be cut: never inside what a reader sees as one character.

The rules are those of Unicode (UAX 29), which `apsw` brings along. It is imported only for texts
that need them: plain Latin text does not.
"""

from __future__ import annotations

_FIRST_MARK = "\u0300"
"""Two characters below this one always stand apart, except a carriage return and its line feed."""
_LOOKBACK = 256
"""Characters to go back for the start of a cluster; longer clusters occur only in hostile text."""


def is_boundary(text: str, at: int) -> bool:
    """Whether a cut before the character at this place leaves every visible character whole."""
    return floor_boundary(text, at) == at


def floor_boundary(text: str, at: int) -> int:
    """The nearest cut at or before this place."""
    return _find_cuts(text, at)[0]


def ceil_boundary(text: str, at: int) -> int:
    """The nearest cut at or after this place."""
    return _find_cuts(text, at)[1]


def _find_cuts(text: str, at: int) -> tuple[int, int]:
    """The nearest cuts at or before, and at or after, a place."""
    at = min(max(at, 0), len(text))
    if _is_plain_cut(text, at):
        return at, at
    from apsw.unicode import grapheme_next_break

    start = at - 1
    while at - start < _LOOKBACK and not _is_plain_cut(text, start):
        start -= 1
    end = start
    while end < at:
        start, end = end, grapheme_next_break(text, end)
    return (at, at) if end == at else (start, end)


def _is_plain_cut(text: str, at: int) -> bool:
    """Whether the characters on both sides show that a cut is right here."""
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    return before < _FIRST_MARK > after and (before, after) != ("\r", "\n")
