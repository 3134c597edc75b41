"""Speaker and time in a question, such as `what did Anna say last week`; pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_MONTHS = (
    "january february march april may june july august september october november december".split()
)
_DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_LENGTHS = {"day": 1, "week": 7, "month": 30, "year": 365}
_SPEAKER = re.compile(
    r"\b(?i:what|when|where|why|how|which|who)?\s*\b(?i:did|has|does|had)\s+(?P<name>[A-Z][\w.'-]+)\s+"
    r"(?:ever\s+)?(?:say|said|says|write|written|wrote|tell|mention|mentioned|think|ask|asked|"
    r"suggest|recommend|reply|answer)(?:\s+(?:me|us))?(?:\s+(?:about|on|of|to))?\b"
)
_WHEN = re.compile(
    r"\b(?:(?P<how>in|since|during)\s+)?(?:(?P<near>today|yesterday)"
    r"|(?P<which>last|this)\s+(?P<span>week|month|year|weekend|" + "|".join(_DAYS) + r")"
    r"|(?P<count>\d{1,3}|a|two|three)\s+(?P<unit>day|week|month|year)s?\s+ago"
    # `march` alone is no month
    r"|(?(how)(?:(?P<month>" + "|".join(_MONTHS) + r")(?:,?\s+(?P<of>\d{4}))?"
    r"|(?P<year>(?:19|20)\d\d))|(?!)))\b",
    re.IGNORECASE,
)
_COUNTS = {"a": 1, "two": 2, "three": 3}


@dataclass(frozen=True, slots=True)
class WhoAndWhen:
    """A question split into a speaker, a time, and the rest."""

    rest: str
    """The question without the words for speaker and time."""
    sender: str = ""
    since: int | None = None
    until: int | None = None
    """Epoch milliseconds, both included."""

    @property
    def is_narrow(self) -> bool:
        """Whether it names a speaker or a time."""
        return bool(self.sender) or self.since is not None


def read_who_and_when(text: str, now_ms: int) -> WhoAndWhen:
    """Split a question; relative times refer to `now_ms`."""
    sender, since, until = "", None, None
    if when := _WHEN.search(text):
        first, behind = _read_span(when, datetime.fromtimestamp(now_ms / 1000, UTC))
        since, until = int(first.timestamp() * 1000), int(behind.timestamp() * 1000) - 1
        until = now_ms if (when["how"] or "").casefold() == "since" else until
        text = text[: when.start()] + text[when.end() :]
    if speaker := _SPEAKER.search(text):
        sender = speaker["name"].removesuffix("'s")
        text = text[: speaker.start()] + text[speaker.end() :]
    return WhoAndWhen(" ".join(text.split()).strip(" ?!.,"), sender, since, until)


def _read_span(when: re.Match[str], now: datetime) -> tuple[datetime, datetime]:
    """The start of the time span, and the first moment after it."""
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    day = timedelta(days=1)
    if near := when["near"]:
        return (today, today + day) if near.casefold() == "today" else (today - day, today)
    if when["count"]:
        count = _COUNTS.get(when["count"].casefold()) or int(when["count"])
        length = _LENGTHS[when["unit"].casefold()]
        about = today - timedelta(days=count * length)
        slack = timedelta(days=length // 4)  # `a month ago` is no exact day
        return about - slack, about + slack + day
    if when["month"] or when["year"]:
        month = _MONTHS.index(when["month"].casefold()) + 1 if when["month"] else 1
        year = int(when["of"] or when["year"] or now.year - (month > now.month))
        first = today.replace(year=year, month=month, day=1)
        return first, _add_months(first, 1 if when["month"] else 12)
    back, span = when["which"].casefold() == "last", when["span"].casefold()
    monday = today - today.weekday() * day
    if span in _DAYS:
        ago = (today.weekday() - _DAYS.index(span)) % 7 or (7 if back else 0)
        return today - ago * day, today - (ago - 1) * day
    if span in ("week", "weekend"):
        first = monday - 7 * day if back else monday
        return (first + 5 * day if span == "weekend" else first), first + 7 * day
    first = today.replace(day=1) if span == "month" else today.replace(month=1, day=1)
    length = 1 if span == "month" else 12
    first = _add_months(first, -length) if back else first
    return first, _add_months(first, length)


def _add_months(first: datetime, count: int) -> datetime:
    months = first.year * 12 + first.month - 1 + count
    return first.replace(year=months // 12, month=months % 12 + 1)
