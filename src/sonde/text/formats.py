"""Formatting of sizes, counts, durations and times; parsing of times.

Times are epoch milliseconds internally, ISO 8601 in answers, and in many formats in input.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Literal, NamedTuple

SizeStyle = Literal["words", "compact", "iec", "si"]


class _Style(NamedTuple):
    step: int
    units: tuple[str, ...]
    gap: str = " "
    whole_from: int = 100
    """Values from here on are shown without a decimal."""


_STYLES: dict[SizeStyle, _Style] = {
    "words": _Style(1024, ("bytes", "KB", "MB", "GB", "TB")),
    "compact": _Style(1024, ("B", "KB", "MB", "GB"), gap="", whole_from=10),
    "iec": _Style(1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")),
    "si": _Style(1000, ("B", "kB", "MB", "GB", "TB", "PB", "EB")),
}


def format_bytes(size: float, style: SizeStyle = "words") -> str:
    """A size in the largest unit that it reaches: `512 bytes`, `3.4 MB`, `45MB`, `3.4 MiB`."""
    look = _STYLES[style]
    value, unit = float(size), look.units[0]
    for unit in look.units:
        if value < look.step or unit == look.units[-1]:
            break
        value /= look.step
    digits = 0 if unit == look.units[0] or value >= look.whole_from else 1
    return f"{value:.{digits}f}{look.gap}{unit}"


def count_of(number: int, noun: str) -> str:
    """A number with its noun: `1 file`, `2,000 files`, `3 matches`."""
    noun, gap, rest = re.sub(r" (?=without|over)", "\0", noun, count=1).partition("\0")
    if number != 1 and noun.endswith("y") and noun[-2] not in "aeiou":
        noun = f"{noun[:-1]}ie"
    ending = "es" if noun.endswith(("ch", "sh", "s", "x")) else "s"
    return f"{number:,} {noun}{'' if number == 1 else ending}{gap and ' '}{rest}"


_PICTURE = re.compile(r"!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])")
_LINK = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])")


def format_heading(title: str) -> str:
    """A heading without pictures, targets of links and marks of code."""
    text = _LINK.sub(r"\1", _PICTURE.sub("", title)).replace("`\\", "").replace("`", "")
    return " ".join(text.split())


_DAY_MS = 86_400_000  # 24 hours
_COMPACT = re.compile(r"((?:19|20)\d\d)(\d\d)(\d\d)(?:T?(\d\d)(\d\d)(\d\d)?)?Z?")


def show_time(stamp: int | None) -> str | None:
    """A time in ISO 8601; None if it is unknown or out of range."""
    if not stamp:
        return None
    try:
        when = datetime.fromtimestamp(stamp / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return None
    text = when.isoformat(timespec="milliseconds" if stamp % 1000 else "seconds")
    return text.replace("+00:00", "Z")


def read_time(value: object) -> int | None:
    """Epoch milliseconds from a number, a date or a text; None if it is not a time."""
    if isinstance(value, datetime):
        return _stamp(value)
    if isinstance(value, date):
        return _stamp(datetime(value.year, value.month, value.day, tzinfo=UTC))
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return _read_number(float(value))
    text = str(value).strip()
    if found := _COMPACT.fullmatch(text):  # 14 digits as milliseconds would be in the year 2600
        year, month, day, hour, minute, second = (int(part or 0) for part in found.groups())
        with suppress(ValueError):
            return _stamp(datetime(year, month, day, hour, minute, second, tzinfo=UTC))
    if re.fullmatch(r"-?\d{9,17}(\.\d+)?", text):
        return _read_number(float(text))
    with suppress(ValueError):
        return _stamp(datetime.fromisoformat(text))
    return None


def read_mail_date(text: str) -> int | None:
    """As `read_time`, also for dates of mail headers."""
    from email.utils import parsedate_to_datetime

    with suppress(ValueError, TypeError, IndexError):
        return read_time(parsedate_to_datetime(text))
    return read_time(text)


def read_day_end(value: str) -> int | None:
    """As `read_time`, for the end of a range: a bare date is its last millisecond."""
    stamp = read_time(value)
    bare = re.fullmatch(r"\d{4}-?\d{2}-?\d{2}", value.strip())
    return stamp + _DAY_MS - 1 if stamp is not None and bare else stamp


def _read_number(number: float) -> int | None:
    if number != number or abs(number) > 1e17:
        return None
    # seconds until the year 5138, milliseconds from 1973 on; microseconds beyond
    if abs(number) < 1e11:
        return int(number * 1000)
    return int(number) if abs(number) < 1e14 else int(number / 1000)


def _stamp(when: datetime) -> int | None:
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    try:
        return int(when.timestamp() * 1000)
    except (OverflowError, ValueError):
        return None


def format_seconds(seconds: float, *, minutes: bool = True) -> str:
    """A duration: `0.4s`, `12s`, `3m05s`, `2h10m`; in seconds alone without `minutes`."""
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    if whole < 60 or not minutes:
        return f"{whole}s"
    full, rest = divmod(whole, 60)
    return f"{full}m{rest:02}s" if full < 60 else f"{full // 60}h{full % 60:02}m"


_AGE_STEPS = ((60, "s"), (60, "min"), (24, "h"), (30, "d"), (12, "mo"))
"""Units, and how many of each make one of the next."""
_JUST_NOW_S = 10  # shorter times are `just now`


def format_moment(text: str | None, now_s: float) -> str:
    """A time in ISO 8601 relative to now: `2 minutes ago`, `in 3 hours`, `never`."""
    stamp = read_time(text) if text else None
    if stamp is None:
        return text or "never"
    seconds = now_s - stamp / 1000
    if abs(seconds) < _JUST_NOW_S:
        return "just now"
    value, unit = abs(seconds), "second"
    for size, name in _MOMENT_STEPS:
        if value < size:
            break
        value, unit = value / size, name
    shown = count_of(int(value), unit)
    return f"{shown} ago" if seconds > 0 else f"in {shown}"


_MOMENT_STEPS = (
    (60, "minute"), (60, "hour"), (24, "day"), (7, "week"), (52.18 / 12, "month"), (12, "year"),
)  # fmt: skip
"""Units, and how many of the previous one make each."""


def format_age(seconds: float) -> str:
    """An age in its largest unit: `just now`, `5 min ago`."""
    if seconds < _JUST_NOW_S:
        return "just now"
    for size, unit in _AGE_STEPS:
        if seconds < size:
            return f"{seconds:.0f} {unit} ago"
        seconds /= size
    return f"{seconds:.0f} y ago"
