"""Conversations that WhatsApp exports as text, with dates in the order of the phone's country."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby, pairwise

from sonde.knowledge.formats import File
from sonde.knowledge.formats.messengers import make_talk
from sonde.stores.knowledge.base import Entry, Piece
from sonde.text.formats import read_time

_MEDIA = re.compile(
    r"(?i)^\u200e?<(?:media omitted|medien ausgeschlossen|medien weggelassen|médias omis|"
    r"multimedia omitido|media omessi|arquivo de mídia oculto)>$|"
    r"^\u200e?(?:image|video|audio|sticker|GIF|document|Contact card) omitted$"
)
_LINE = re.compile(r"[^\n]+")
_WHATSAPP = re.compile(
    r"\u200e?\[?(\d{1,4})[./-](\d{1,2})[./-](\d{2,4}),? +(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?"
    r"[ \u00a0\u202f]?([AaPp]\.?[ \u00a0\u202f]?[Mm]\.?)?\]?(?: -)? (?:([^:\n]{1,80}): )?(.*)"
)
_CHAT_NAME = re.compile(
    r"^(?:WhatsApp[ -]Chat (?:with|-|mit)|Chat de WhatsApp con|Discussion WhatsApp avec|"
    r"Conversa do WhatsApp com|Chat WhatsApp con) +"
)


def is_whatsapp(text: str) -> bool:
    """Whether a text begins like an export of WhatsApp."""
    lines = [line for line in text[:4_000].split("\n") if line.strip()][:5]
    return bool(lines) and sum(bool(_WHATSAPP.match(line)) for line in lines) * 2 > len(lines)


def parse_whatsapp(file: File) -> list[Entry]:
    """A conversation exported as text; lines without a date continue the message before."""
    messages: list[Piece] = []
    text = file.text()
    dated = filter(None, (_WHATSAPP.match(line[0]) for line in _LINE.finditer(text)))
    days = [next(rows) for _, rows in groupby(dated, key=lambda found: found.group(1, 2, 3))]
    month_first = _is_month_first(days)
    for line in _LINE.finditer(text):
        if not (found := _WHATSAPP.match(line[0])):
            if messages and line[0].strip():
                messages[-1] = replace(messages[-1], text=f"{messages[-1].text}\n{line[0]}")
        elif found[8] is not None:
            when = _read_whatsapp(found, month_first=month_first)
            said = "" if _MEDIA.match(found[9].strip()) else found[9].strip()
            messages.append(Piece(said, sender=found[8].strip(), created_at=when))
    title = _CHAT_NAME.sub("", file.stem)
    if title == "_chat":  # of iOS, in an archive or folder with the name
        people = dict.fromkeys(message.sender for message in messages)
        title = _CHAT_NAME.sub("", file.folder) or ", ".join(people)
    return [make_talk(file, "WhatsApp", title, iter(messages))]


def _is_month_first(rows: Sequence[re.Match[str]]) -> bool:
    """Whether dates are written month first, by the evidence of all of them.

    A number above 12 is a day. Without one, the reading under which time never runs backwards is
    right; if both do, twelve-hour times and slashes are American.
    """
    if any(int(found[2]) > 12 for found in rows):
        return True
    if any(12 < int(found[1]) <= 31 for found in rows) or not rows:
        return False
    times = [
        [when for found in rows if (when := _read_whatsapp(found, month_first=month_first))]
        for month_first in (False, True)
    ]
    backwards = [sum(b < a for a, b in pairwise(each)) for each in times]
    if backwards[0] != backwards[1]:
        return backwards[1] < backwards[0]
    spans = [max(each) - min(each) if each else 0 for each in times]
    is_american = bool(rows[0][7]) and "/" in rows[0][0][:12]
    return is_american if spans[0] == spans[1] or is_american else spans[1] < spans[0] / 4


def _read_whatsapp(found: re.Match[str], *, month_first: bool) -> int | None:
    first, second, third = int(found[1]), int(found[2]), int(found[3])
    day, month, year = (second, first, third) if month_first else (first, second, third)
    if first > 31:
        year, month, day = first, second, third
    year += 2000 if year < 100 else 0
    hour = int(found[4])
    if half := re.sub(r"[^apm]", "", (found[7] or "").lower()):
        hour = hour % 12 + (12 if half == "pm" else 0)
    try:
        when = datetime(year, month, day, hour, int(found[5]), int(found[6] or 0), tzinfo=UTC)
    except ValueError:
        return None
    return read_time(when)
