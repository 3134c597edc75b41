"""Sets of characters as ranges of code points, read from RE2 and written in its notation."""

from __future__ import annotations

import sys
from array import array
from functools import lru_cache
from typing import Any

Ranges = list[tuple[int, int]]
"""First and last code points, ascending and apart."""

LAST = 0x10FFFF
_BLOCKS = (
    (0, 0x7F, 1),
    (0x80, 0x7FF, 2),
    (0x800, 0xD7FF, 3),
    (0xE000, 0xFFFF, 3),
    (0x10000, LAST, 4),
)
"""First and last characters of the same width in UTF-8; between them, halves of characters."""


@lru_cache(maxsize=256)
def compile_class(text: str, *, fold: bool) -> Any:
    """A set in RE2's notation as an expression of its own."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not fold
    return re2.compile(text, options)


def knows_script(name: str) -> bool:
    """Whether RE2 has a script of this name."""
    import re2

    try:
        return compile_class(rf"\p{{{name}}}", fold=False) is not None
    except re2.error:
        return False


def count_characters(inner: str, *, fold: bool) -> Ranges:
    """The characters of what stands between brackets."""
    return list(_measure(inner, fold)) if inner else []


@lru_cache(maxsize=64)
def _measure(inner: str, fold: bool) -> tuple[tuple[int, int], ...]:
    found: Ranges = []
    for run in compile_class(f"[{inner}]+", fold=fold).finditer(_every_character()):
        start, end = run.span()
        low, high = _character_at(start), _character_at(end - 1)
        for first, last, _ in _BLOCKS:
            if low <= last and first <= high:
                found.append((max(low, first), min(high, last)))
    return tuple(found)


@lru_cache(maxsize=1)
def _every_character() -> bytes:
    codes = array("I")
    for first, last, _ in _BLOCKS:
        codes.extend(range(first, last + 1))
    return codes.tobytes().decode(f"utf-32-{'le' if sys.byteorder == 'little' else 'be'}").encode()


def _character_at(offset: int) -> int:
    """The character that a byte of `_every_character` belongs to."""
    for first, last, width in _BLOCKS:
        size = (last - first + 1) * width
        if offset < size:
            return first + offset // width
        offset -= size
    raise IndexError(offset)


def complement(ranges: Ranges) -> Ranges:
    """Every other character."""
    found: Ranges = []
    start = 0
    for low, high in ranges:
        if start < low:
            found.append((start, low - 1))
        start = high + 1
    return [*found, (start, LAST)] if start <= LAST else found


def intersect(left: Ranges, right: Ranges) -> Ranges:
    """What is in both."""
    found: Ranges = []
    at = other = 0
    while at < len(left) and other < len(right):
        low = max(left[at][0], right[other][0])
        high = min(left[at][1], right[other][1])
        if low <= high:
            found.append((low, high))
        if left[at][1] < right[other][1]:
            at += 1
        else:
            other += 1
    return found


def unite(left: Ranges, right: Ranges) -> Ranges:
    """What is in either."""
    return complement(intersect(complement(left), complement(right)))


def spell(ranges: Ranges) -> str:
    """What stands between RE2's brackets."""
    return "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in ranges)


def write_class(ranges: Ranges) -> str:
    """The whole set in RE2's notation."""
    # an empty set has no notation, but what is not in the whole set is none
    return f"[{spell(ranges)}]" if ranges else r"[^\x00-\x{10ffff}]"
