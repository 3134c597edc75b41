"""Sizes and counts as text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SizeStyle = Literal["words", "compact", "iec", "si"]


@dataclass(frozen=True, slots=True)
class _Style:
    step: int
    units: tuple[str, ...]
    gap: str = " "
    whole_from: int = 100
    """From here on, no decimal is written."""


_STYLES: dict[SizeStyle, _Style] = {
    "words": _Style(1024, ("bytes", "KB", "MB", "GB", "TB")),
    "compact": _Style(1024, ("B", "KB", "MB", "GB"), gap="", whole_from=10),
    "iec": _Style(1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")),
    "si": _Style(1000, ("B", "kB", "MB", "GB", "TB", "PB", "EB")),
}


def format_bytes(size: float, style: SizeStyle = "words") -> str:
    """A size in the largest unit that it fills: `512 bytes`, `3.4 MB`, `45MB`, `3.4 MiB`."""
    look = _STYLES[style]
    value, unit = float(size), look.units[0]
    for unit in look.units:
        if value < look.step or unit == look.units[-1]:
            break
        value /= look.step
    digits = 0 if unit == look.units[0] or value >= look.whole_from else 1
    return f"{value:.{digits}f}{look.gap}{unit}"


def count_of(number: int, noun: str) -> str:
    """A number and what it counts: `1 file`, `2,000 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
