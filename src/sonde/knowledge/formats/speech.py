"""Media that are heard or sent: subtitles, transcripts, mail."""

from __future__ import annotations

import contextlib
import email
import email.policy
import re
from collections.abc import Iterator
from datetime import datetime
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import Any

from sonde.knowledge.formats.reading import File, RefusedFormat, load_json, make_entry, read_html
from sonde.stores.knowledge.base import Entry, Piece
from sonde.text.times import read_time

_CUE = re.compile(
    r"(?:(\d{1,6}):)?(\d{1,2}):(\d{2})[.,](\d{1,3})[ \t]*+-->[ \t]*+"
    r"(?:(\d{1,6}):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
)
_VOICE = re.compile(r"<v(?:\.[^ <>]*+)? ([^<>]++)>")
_MARKUP = re.compile(r"<[^<>\n]*+>|\{\\[^{}]*+\}")
_MAIL_HEAD = re.compile(rb"(?:[\x21-\x39\x3b-\x7e]+:[ \t\r\n].*\n(?:[ \t]+\S.*\n)*)+")
_MAIL_NAMES = re.compile(
    rb"(?m)^(received|from|to|subject|date|message-id|return-path|delivered-to|mime-version):"
)
_MBOX_LINE = re.compile(rb"(?m)^From .*\r?\n")


def parse_subtitles(file: File) -> list[Entry]:
    """SubRip and WebVTT: one piece a cue."""
    pieces: list[Piece] = []
    lines: list[str] = []
    times: tuple[int, int] | None = None
    speaker = ""

    def keep() -> None:
        if times and lines:
            text = "\n".join(lines) + "\n"
            start = pieces[-1].start + len(pieces[-1].text) if pieces else 0
            begins, ends = times
            pieces.append(Piece(text, len(pieces), start, sender=speaker, begins=begins, ends=ends))

    for line in [*file.text().split("\n"), ""]:
        found = _CUE.search(line)
        if found:
            keep()
            lines, speaker = [], ""
            times = (_stamp(*found.groups()[:4]), _stamp(*found.groups()[4:]))
        elif not line.strip():
            keep()
            lines, times = [], None
        elif times:
            voice = _VOICE.search(line)
            speaker = voice[1].strip() if voice else speaker
            said = _MARKUP.sub("", line).strip()
            if said:
                lines.append(said)
    if not pieces:
        raise RefusedFormat("unknown", "no cues")
    return [_make_heard(file, pieces)]


def is_transcript(value: Any) -> bool:
    """JSON as speech recognisers and video sites write it."""
    rows = value.get("segments") if isinstance(value, dict) else value
    return (
        isinstance(rows, list)
        and bool(rows)
        and isinstance(rows[0], dict)
        and "text" in rows[0]
        and ("start" in rows[0] or "offset" in rows[0])
    )


def parse_transcript(file: File) -> list[Entry]:
    """A transcript in JSON: one piece a segment."""
    value = load_json(file)
    if not is_transcript(value):
        raise RefusedFormat("unknown", "not a transcript")
    pieces: list[Piece] = []
    start = 0
    for row in value["segments"] if isinstance(value, dict) else value:
        text = str(row.get("text", "")).strip() + "\n"
        begins = _milliseconds(row.get("start", row.get("offset")))
        ends = _milliseconds(row.get("end"))
        if ends is None and begins is not None and "duration" in row:
            ends = begins + (_milliseconds(row["duration"]) or 0)
        sender = str(row.get("speaker") or "")
        pieces.append(Piece(text, len(pieces), start, sender=sender, begins=begins, ends=ends))
        start += len(text)
    title = str(value.get("title") or "") if isinstance(value, dict) else ""
    return [_make_heard(file, pieces, title)]


def _make_heard(file: File, pieces: list[Piece], title: str = "") -> Entry:
    words = file.path.lower()
    kind = "podcast" if "podcast" in words else "audio" if "audio" in words else "video"
    return Entry(
        "media",
        title or re.sub(r"\.[a-z]{2,3}(-[A-Za-z]+)?$", "", file.stem),
        tuple(pieces),
        media_type=kind,
        created_at=file.modified,
        last_modified=file.modified,
    )


def _stamp(hours: str | None, minutes: str, seconds: str, rest: str) -> int:
    whole = (int(hours or 0) * 60 + int(minutes)) * 60 + int(seconds)
    return whole * 1000 + int(rest.ljust(3, "0"))


def _milliseconds(value: Any) -> int | None:
    try:
        return int(float(value) * 1000)
    except (TypeError, ValueError, OverflowError):
        return None


def is_mail(data: bytes) -> bool:
    """Whether a file without a telling name begins like a message, as in a Maildir."""
    head = _MAIL_HEAD.match(data[:16_384])
    return head is not None and len(set(_MAIL_NAMES.findall(head[0].lower()))) >= 3


def parse_eml(file: File) -> list[Entry]:
    """One message."""
    return [_make_mail(file, file.data, "")]


def parse_mbox(file: File) -> list[Entry]:
    """A mailbox: every message by itself."""
    starts = [found.span() for found in _MBOX_LINE.finditer(file.data)]
    if not starts or starts[0][0] != 0:
        raise RefusedFormat("unknown", "not a mailbox")
    ends = [start for start, _ in starts[1:]] + [len(file.data)]
    return [
        _make_mail(file, file.data[begin:end], str(at))
        for at, ((_, begin), end) in enumerate(zip(starts, ends, strict=True))
    ]


def _make_mail(file: File, data: bytes, key: str) -> Entry:
    message = email.message_from_bytes(data, policy=email.policy.default)
    if not message.keys():
        raise RefusedFormat("broken", "no message")
    subject = _header(message, "subject")
    people = {name: _header(message, name) for name in ("from", "to", "cc", "message-id")}
    body = "\n".join(filter(None, _list_bodies(message)))
    head = "\n".join(
        f"{name.title()}: {value}"
        for name, value in people.items()
        if value and name != "message-id"
    )
    facts = people | {"attachments": _list_attachments(message)}
    sent = _read_date(_header(message, "date")) or file.modified
    return make_entry(
        "media",
        subject or file.stem,
        f"{head}\n\n{body}".strip() or subject,
        file,
        path=key,
        media_type="email",
        created_at=sent,
        last_modified=sent,
        facts={name: value for name, value in facts.items() if value},
    )


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message[name] or "").split())
    except (ValueError, AttributeError, IndexError, LookupError):
        return ""


def _list_bodies(message: EmailMessage) -> Iterator[str]:
    """What a reader would show; of a message that is put together wrongly, all text in it."""
    part = message.get_body(("plain", "html"))
    text = _read_part(part) if part is not None else ""
    if text:
        yield text
        return
    for each in message.walk():
        if each.get_content_maintype() == "text" and not each.get_filename():
            yield _read_part(each)


def _read_part(part: Any) -> str:
    try:
        text = part.get_content()
    except (LookupError, ValueError, AttributeError):
        raw = part.get_payload(decode=True)
        text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else ""
    if part.get_content_type() == "text/html":
        text = read_html(text)[1]
    return str(text).replace("\r\n", "\n").strip()


def _list_attachments(message: EmailMessage) -> list[str]:
    names: list[str] = []
    for part in message.walk():
        with contextlib.suppress(ValueError, AttributeError, IndexError, LookupError, TypeError):
            names += filter(None, [part.get_filename()])
    return names


def _read_date(text: str) -> int | None:
    try:
        when: datetime = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    return read_time(when)
