"""Calendars and address books: iCalendar and vCard, one entry for each event, task and contact."""

from __future__ import annotations

import quopri
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sonde.knowledge.formats import File, RefusedFormat, decode_bytes, make_entry
from sonde.knowledge.identity import DERIVED
from sonde.stores.knowledge.base import Entry
from sonde.text.formats import read_time

_LINE = re.compile(r"(?:[\w-]+\.)?([\w-]+)((?:;[^:;\"]+(?:\"[^\"]*\"[^:;\"]*)*)*):(.*)", re.DOTALL)
_KINDS = {"VEVENT": "event", "VTODO": "task", "VJOURNAL": "journal", "VCARD": "contact"}
_EVENT = {
    "SUMMARY": "",
    "DESCRIPTION": "",
    "LOCATION": "Location",
    "DTSTART": "Start",
    "DTEND": "End",
    "DUE": "Due",
    "RRULE": "Repeats",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendee",
    "STATUS": "Status",
    "COMMENT": "Comment",
    "URL": "Address",
    "CONTACT": "Contact",
}
_CARD = {
    "FN": "",
    "NICKNAME": "Nickname",
    "ORG": "Organization",
    "TITLE": "Title",
    "ROLE": "Role",
    "EMAIL": "Mail",
    "TEL": "Telephone",
    "ADR": "Address",
    "URL": "Web",
    "BDAY": "Birthday",
    "NOTE": "",
    "IMPP": "Messenger",
    "X-ANNIVERSARY": "Anniversary",
    "RELATED": "Related",
}


class _Line(NamedTuple):
    name: str
    given: str
    value: str


def parse_calendar(file: File) -> list[Entry]:
    """The events, tasks and journals of a calendar."""
    return _parse(file, _EVENT)


def parse_contacts(file: File) -> list[Entry]:
    """The cards of an address book."""
    return _parse(file, _CARD)


def _parse(file: File, names: Mapping[str, str]) -> list[Entry]:
    made = [_make(file, kind, lines, names) for kind, lines in _list_blocks(file.text())]
    if not made:
        raise RefusedFormat("no_text", "nothing in it")
    return made


def _list_blocks(text: str) -> Iterator[tuple[str, list[_Line]]]:
    """The lines of each event or card; alarms and time zones inside are left out."""
    text = re.sub(r"\r?\n[ \t]", "", text)  # long lines are folded
    text = re.sub(r"=\r?\n(?=[^\n]*=[0-9A-F]{2})", "", text)
    kind, lines, inside = "", list[_Line](), 0
    for line in text.split("\n"):
        found = _LINE.match(line.strip("\r"))
        if found is None:
            continue
        name, given, value = found[1].upper(), found[2], found[3]
        if name == "BEGIN":
            if not kind and value.strip().upper() in _KINDS:
                kind, lines = value.strip().upper(), []
            elif kind:
                inside += 1
        elif name == "END":
            if inside:
                inside -= 1
            elif kind:
                yield _KINDS[kind], lines
                kind = ""
        elif kind and not inside:
            lines.append(_Line(name, given, _read_value(given, value)))


def _read_value(given: str, value: str) -> str:
    if "QUOTED-PRINTABLE" in given.upper():
        charset = re.search(r"(?i)charset=([\w-]+)", given)
        raw = quopri.decodestring(value.encode())
        value = decode_bytes(raw, charset[1] if charset else "") or value
    value = re.sub(r"\\[nN]", "\n", value)
    return re.sub(r"\\(.)", r"\1", value).strip()


def _make(file: File, kind: str, lines: list[_Line], names: Mapping[str, str]) -> Entry:
    first: dict[str, str] = {}
    for line in lines:
        first.setdefault(line.name, line.value)
    shown: list[str] = []
    for name, label in names.items():
        for line in lines:
            if line.name == name and line.value.strip(";"):
                value = line.value.removeprefix("mailto:").removeprefix("MAILTO:")
                named = re.search(r'CN="?([^";:]+)', line.given)
                value = (
                    " ".join(filter(None, value.split(";"))) if name in ("ADR", "ORG") else value
                )
                value = f"{named[1]} ({value})" if named else value
                shown.append(f"{label}: {value}" if label else value)
    title = (
        first.get("SUMMARY")
        or first.get("FN")
        or " ".join(reversed(first.get("N", "").split(";")[:2]))
    )
    when = read_time(first.get("DTSTART") or first.get("DUE") or first.get("CREATED") or "")
    changed = read_time(
        first.get("LAST-MODIFIED") or first.get("REV") or first.get("DTSTAMP") or ""
    )
    tags = [
        tag.strip() for line in lines if line.name == "CATEGORIES" for tag in line.value.split(",")
    ]
    key = first.get("UID", "") + (
        f"/{first['RECURRENCE-ID']}" if first.get("RECURRENCE-ID") else ""
    )
    url = first.get("URL", "")
    return make_entry(
        "media", title.strip() or file.stem, "\n".join(shown) or title, file,
        path=key or DERIVED + (title.strip() + first.get("DTSTART", "")), media_type=kind,
        tags=tuple(filter(None, tags)), url=url if url.startswith("http") else "",
        created_at=when or file.modified, last_modified=changed or file.modified,
    )  # fmt: skip
