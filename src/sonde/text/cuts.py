"""Cutting text at paragraphs, sentences and words, never inside a visible character.

The rules are those of Unicode (UAX 29) as `apsw` implements them. It is imported only for texts
that need them; plain Latin text does not.
"""

from __future__ import annotations

import re

_FIRST_MARK = "\u0300"
"""Below this character, a cut between any two is allowed, except within CR LF."""
_LOOKBACK = 256
"""Characters searched backwards for the start of a cluster; longer ones are not real text."""


def is_boundary(text: str, at: int) -> bool:
    """Whether a cut at this offset leaves all visible characters whole."""
    return floor_boundary(text, at) == at


def floor_boundary(text: str, at: int) -> int:
    """The nearest cut at or before an offset."""
    return _find_cuts(text, at)[0]


def ceil_boundary(text: str, at: int) -> int:
    """The nearest cut at or after an offset."""
    return _find_cuts(text, at)[1]


def _find_cuts(text: str, at: int) -> tuple[int, int]:
    """The nearest cuts at or before, and at or after, an offset."""
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
    """Whether the characters on both sides allow a cut without further analysis."""
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    return before < _FIRST_MARK > after and (before, after) != ("\r", "\n")


_BREAKS = (
    re.compile(r"\n[ \t]*\n+"),
    re.compile(r"(?<=[.!?…][\s\"')\]])|(?<=[。！？；])|(?<=\n)"),
    re.compile(r"(?<=\s)"),
)


def cut_ranges(text: str, size: int, overlap: int = 0) -> list[tuple[int, int]]:
    """Ranges that cover the text in order, none longer than `size`, ending at paragraphs,
    sentences or words; each begins up to `overlap` characters before the previous one ends."""
    size = max(size, 1)
    ranges: list[tuple[int, int]] = []
    start = 0
    while len(text) - start > size:
        end = _find_end(text, start, start + size)
        ranges.append((start, end))
        start = _find_start(text, start, end, min(overlap, size - 1)) if overlap else end
    if start < len(text) or not ranges:
        ranges.append((start, len(text)))
    return ranges


def _find_end(text: str, start: int, reach: int) -> int:
    least = start + max((reach - start) // 2, 1)
    for pattern in _BREAKS:
        found = [match.end() for match in pattern.finditer(text, least, reach)]
        ends = [end for end in found if least <= end <= reach and is_boundary(text, end)]
        if ends:
            return ends[-1]
    end = floor_boundary(text, reach)
    return end if end > start else reach


def _find_start(text: str, start: int, end: int, overlap: int) -> int:
    low = max(start + 1, end - overlap)
    for pattern in _BREAKS[1:]:
        match = pattern.search(text, low, end)
        if match and low <= match.end() < end:
            return match.end()
    return low
