"""Long texts -> ranges that end where a reader would pause; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from sonde.graphemes import floor_boundary, is_boundary
from sonde.stores.knowledge_base import Piece

PIECE_CHARS = 1_500
"""How much one stored piece holds at most: enough to answer, little enough to show."""
_BREAKS = (
    re.compile(r"\n[ \t]*\n+"),
    re.compile(r"(?<=[.!?…][\s\"')\]])|(?<=[。！？；])|(?<=\n)"),
    re.compile(r"(?<=\s)"),
)


def cut_ranges(text: str, size: int, overlap: int = 0) -> list[tuple[int, int]]:
    """Ranges in order that cover the text, none longer than `size`, at ends of paragraphs,
    sentences or words; each begins up to `overlap` characters before the last one ended."""
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


def cut_pieces(text: str, field: str = "", place: int = 0) -> Iterator[Piece]:
    """A text as pieces without gap or overlap; nothing for an empty one."""
    if text:
        for at, (start, end) in enumerate(cut_ranges(text, PIECE_CHARS)):
            yield Piece(text[start:end], place + at, start, field)


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
