"""Where a text may be cut: at paragraphs, sentences and words, never inside a visible character."""

from __future__ import annotations

import re
import unicodedata

_JOINER = "\u200d"
_FLAGS = ("\U0001f1e6", "\U0001f1ff")
_TONES = ("\U0001f3fb", "\U0001f3ff")
_TAGS = ("\U000e0020", "\U000e007f")


def is_boundary(text: str, at: int) -> bool:
    """Whether a cut before the character at this place leaves every visible character whole."""
    if at <= 0 or at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if before < "\u0300" and after < "\u0300":
        return not (before == "\r" and after == "\n")
    if before == _JOINER or _extends(after):
        return False
    if _FLAGS[0] <= before <= _FLAGS[1] and _FLAGS[0] <= after <= _FLAGS[1]:
        run = at
        while run > 0 and _FLAGS[0] <= text[run - 1] <= _FLAGS[1]:
            run -= 1
        return (at - run) % 2 == 0
    return not _is_hangul_pair(before, after)


def floor_boundary(text: str, at: int) -> int:
    """The nearest cut at or before this place."""
    at = min(max(at, 0), len(text))
    while not is_boundary(text, at):
        at -= 1
    return at


def ceil_boundary(text: str, at: int) -> int:
    """The nearest cut at or behind this place."""
    at = min(max(at, 0), len(text))
    while not is_boundary(text, at):
        at += 1
    return at


def _extends(char: str) -> bool:
    return (
        char == _JOINER
        or unicodedata.category(char) in ("Mn", "Me", "Mc")
        or _TONES[0] <= char <= _TONES[1]
        or _TAGS[0] <= char <= _TAGS[1]
        or char in "\u200c\uff9e\uff9f\u0e33\u0eb3"
    )


def _is_hangul_pair(before: str, after: str) -> bool:
    """Korean letters that are written apart and read as one syllable."""
    left, right = _hangul(before), _hangul(after)
    return (
        (left == "L" and right in ("L", "V", "S"))
        or (left in ("V", "S") and right in ("V", "T"))
        or (left == "T" and right == "T")
    )


def _hangul(char: str) -> str:
    if "\u1100" <= char <= "\u115f" or "\ua960" <= char <= "\ua97c":
        return "L"
    if "\u1160" <= char <= "\u11a7" or "\ud7b0" <= char <= "\ud7c6":
        return "V"
    if "\u11a8" <= char <= "\u11ff" or "\ud7cb" <= char <= "\ud7fb":
        return "T"
    return "S" if "\uac00" <= char <= "\ud7a3" else ""


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
