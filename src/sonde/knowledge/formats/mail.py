"""Mail messages and mailboxes; calendars and address books."""

from __future__ import annotations

import contextlib
import email
import hashlib
import quopri
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from email.policy import Compat32
from typing import Any, NamedTuple

from sonde.knowledge.formats import (
    LEFT_OUT,
    LOSS_OF,
    File,
    RefusedFormat,
    decode_bytes,
    make_document,
    make_each,
    make_entry,
)
from sonde.knowledge.formats.pages import declared_charset, read_html
from sonde.knowledge.identity import DERIVED
from sonde.stores.knowledge.base import Entry
from sonde.text.formats import read_mail_date, read_time

_HEAD = re.compile(rb"(?:[\x21-\x39\x3b-\x7e]+:(?:[ \t\r\n]|(?=\S)).*\n(?:[ \t]+\S.*\n)*)+")
_NAMES = re.compile(
    rb"(?im)^(received|from|to|subject|date|message-id|return-path|delivered-to|mime-version|"
    rb"content-type|x-[\w-]+|status):"
)
_SEPARATOR = re.compile(rb"(?m)^From [^\n]*\n")
_DATED = re.compile(rb"\d{1,2}:\d{2}(?::\d{2})?\b.*\b(?:19|20)\d\d\b|\b(?:19|20)\d\d\b.*\d:\d{2}")
_QUOTED = re.compile(rb"(?m)^>(>*From )")
_NEEDLESS = re.compile(r'"([\w ]+)"(?= <)')  # redundant quotes around a name
_HEAD_BYTES = 16_384  # of a file, searched for the headers of a message
_ENCRYPTED = tuple(
    f"application/{kind}" for kind in ("pkcs7-mime", "x-pkcs7-mime", "pgp-encrypted")
)
MAX_NESTED_MAILS = 5  # messages forwarded within each other
MAX_ATTACHMENT_BYTES = 32 << 20  # of larger attachments, only the name is kept
_WORD = re.compile(r"\w+")


class _Written(Compat32):
    """Returns raw headers: the default policy parses each, which takes ten times as long."""

    def header_fetch_parse(self, name: str, value: str) -> str:  # noqa: ARG002
        return value


WRITTEN = _Written()


def is_mail(data: bytes) -> bool:
    """Whether a file begins with the headers of a message, as those of a Maildir do."""
    head = _HEAD.match(data[:_HEAD_BYTES])
    return head is not None and len(set(_NAMES.findall(head[0].lower()))) >= 3


def is_mailbox(path: str, start: bytes) -> bool:
    """Whether a file is a mailbox, by its name and first bytes."""
    name = path.rsplit("/", 1)[-1].lower()
    return start.startswith(b"From ") and (name.endswith((".mbox", ".mbx")) or "." not in name)


def _list_starts(data: bytes) -> Iterator[tuple[int, int]]:
    """Offsets of the messages: of their separating line, and of the headers after it.

    Lines of a body may begin with `From ` as well. A separating line contains a time or follows an
    empty line, and headers come after it.
    """
    for found in _SEPARATOR.finditer(data):
        begin, end = found.span()
        dated = _DATED.search(found[0]) is not None
        before = data[max(0, begin - 4) : begin].replace(b"\r", b"")
        behind_gap = not begin or before.endswith(b"\n\n")
        if not (dated or behind_gap):
            continue
        head = _HEAD.match(data[end : end + _HEAD_BYTES])
        names = len(set(_NAMES.findall(head[0].lower()))) if head else 0
        alone = dated or len(found[0].split()) == 2  # only an address, as some programs write it
        if names >= (1 if alone else 2) or (not begin and head):
            yield begin, end


def split_mailbox(parts: Iterable[bytes], most: int) -> Iterator[bytes]:
    """Split a mailbox into parts of whole messages, of about `most` bytes each."""
    left = b""
    for part in parts:
        left += part
        if len(left) < most:
            continue
        # the headers of the last message may be cut
        starts = [begin for begin, end in _list_starts(left) if end + _HEAD_BYTES < len(left)]
        if starts and starts[-1] > 0:
            yield left[: starts[-1]]
            left = left[starts[-1] :]
    if left:
        yield left


def parse_mbox(file: File) -> Iterable[Entry]:
    """One entry per message of a mailbox; skips and reports unreadable ones."""
    starts = list(_list_starts(file.data))
    if not starts or starts[0][0] != 0:
        raise RefusedFormat("unknown", "not a mailbox")
    ends = [begin for begin, _ in starts[1:]] + [len(file.data)]
    mails = (file.data[begin:end] for (_, begin), end in zip(starts, ends, strict=True))
    return make_each(
        file, "message", mails, lambda mail: _make_mails(file, _QUOTED.sub(rb"\1", mail))
    )


def parse_eml(file: File) -> list[Entry]:
    """One message."""
    return list(_make_mails(file, file.data))


def _make_mails(file: File, data: bytes) -> Iterator[Entry]:
    message: Message = email.message_from_bytes(data, policy=WRITTEN)
    if not message.keys():
        raise RefusedFormat("broken", "no message")
    yield make_mail(file, message, data)


def make_mail(file: File, message: Message, data: bytes) -> Entry:
    """The entry of a message that was parsed from `data`."""
    lost: Counter[str] = Counter()
    attached: list[str] = []
    text = "\n\n".join(filter(None, _write_mail(file, message, lost, attached, 0)))
    names = ("from", "to", "cc", "message-id", "in-reply-to", "list-id")
    facts: dict[str, Any] = {name: _header(message, name) for name in names}
    facts |= {"attachments": attached, LEFT_OUT: dict(+lost)}
    labels = _header(message, "x-gmail-labels") or _header(message, "keywords")
    sent = read_mail_date(_header(message, "date")) or file.modified
    subject = _header(message, "subject")
    return make_entry(
        "media", subject or file.stem, text or subject, file,
        path=_find_key(message, data), media_type="email", created_at=sent, last_modified=sent,
        tags=tuple(tag.strip() for tag in labels.split(",") if tag.strip()),
        facts=facts,
    )  # fmt: skip


def _find_key(message: Message, data: bytes) -> str:
    """The Message-ID, or else a digest of headers that no mail program changes."""
    if known := _header(message, "message-id"):
        return known
    said = "\0".join(_header(message, name) for name in ("date", "from", "to", "subject"))
    packed = said.encode() if said.strip("\0") else data
    return DERIVED + hashlib.sha256(packed).hexdigest()[:16]


def _header(message: Message, name: str) -> str:
    return _decode_words(message.get(name) or "")


def _decode_words(value: str) -> str:
    """Decode a header: encoded words, and raw bytes in a guessed encoding."""
    value = " ".join(value.split())
    if "=?" in value:
        with contextlib.suppress(MessageError, ValueError):
            words = decode_header(value)
            value = "".join(_decode_part(_encode(word), charset or "") for word, charset in words)
    elif not value.isascii():
        value = _decode_part(_encode(value), "")
    return _NEEDLESS.sub(r"\1", " ".join(value.split()))


def _encode(word: str | bytes) -> bytes:
    return word.encode("utf-8", "surrogateescape") if isinstance(word, str) else word


def _decode_part(data: bytes, charset: str) -> str:
    return decode_bytes(data, charset) or data.decode("utf-8", "replace")


def _write_mail(
    file: File, message: Message, lost: Counter[str], attached: list[str], depth: int
) -> Iterator[str]:
    """Headers, body, and the texts of attachments and forwarded messages."""
    shown = {"From": "from", "To": "to", "Cc": "cc"}
    if depth:
        shown |= {"Subject": "subject", "Date": "date"}
    lines = [f"{name}: {_header(message, key)}" for name, key in shown.items()]
    yield "\n".join(line for line in lines if not line.endswith(": "))
    bodies, others = _sort_parts(message)
    yield "\n\n".join(filter(None, (_read_body(part) for part in bodies)))
    for part in others:
        name, kind = _file_name(part), part.get_content_type()
        if name:
            attached.append(name)
        if kind == "message/rfc822":
            inner = part.get_payload()
            inner = inner[0] if isinstance(inner, list) and inner else None
            if isinstance(inner, Message) and depth < MAX_NESTED_MAILS:
                said = _write_mail(file, inner, lost, attached, depth + 1)
                yield "Forwarded message:\n" + "\n\n".join(filter(None, said))
        elif kind in _ENCRYPTED:
            lost["encrypted part"] += 1
        elif text := _read_attachment(file, part, name, lost):
            yield f"Attachment {name}:\n{text}"


def _sort_parts(message: Message) -> tuple[list[Message], list[Message]]:
    """The parts of the body, and the attachments."""
    if message.is_multipart() and message.get_content_type() != "message/rfc822":
        inside = [part for part in message.get_payload() if isinstance(part, Message)]
        pairs = [_sort_parts(part) for part in inside]
        bodies, others = ([part for pair in pairs for part in pair[at]] for at in (0, 1))
        if message.get_content_type() == "multipart/alternative":
            bodies = _choose_body(bodies)
        return bodies, others
    disposed = message.get_content_disposition() == "attachment" or (
        bool(_file_name(message)) and message.get_content_type() not in ("text/plain", "text/html")
    )
    if message.get_content_maintype() == "text" and not disposed:
        return [message], []
    return [], [message]


def _choose_body(bodies: list[Message]) -> list[Message]:
    """Choose between plain text and HTML: HTML if most of its words are missing in the text."""
    plain = [part for part in bodies if part.get_content_type() == "text/plain"]
    pages = [part for part in bodies if part.get_content_type() == "text/html"]
    said, shown = (
        {word for part in parts for word in _WORD.findall(_read_body(part))}
        for parts in (plain, pages)
    )
    is_stub = not said or 2 * len(shown - said) > len(shown)
    return pages if is_stub and pages else plain or bodies


def _file_name(part: Message) -> str:
    with contextlib.suppress(ValueError, AttributeError, IndexError, LookupError, TypeError):
        return _decode_words(part.get_filename() or "")
    return ""


def _read_body(part: Message) -> str:
    raw = part.get_payload(decode=True)
    data = raw if isinstance(raw, bytes) else b""
    declared = ""
    with contextlib.suppress(ValueError, LookupError, AttributeError):
        declared = part.get_content_charset() or ""
    if part.get_content_subtype() in ("html", "xhtml+xml"):
        declared = declared or declared_charset(data)
    text = _decode_part(data, declared)
    if part.get_content_type() == "text/html":
        text = read_html(text)[1]
    return text.replace("\r\n", "\n").strip()


def _read_attachment(file: File, part: Message, name: str, lost: Counter[str]) -> str:
    """The text of an attachment; an unreadable one is counted in `lost`."""
    raw = part.get_payload(decode=True)
    data = raw if isinstance(raw, bytes) else b""
    kind = part.get_content_maintype()
    if part.get_content_type() in ("text/plain", "text/html", "text/markdown") and (
        len(data) <= MAX_ATTACHMENT_BYTES
    ):
        return _read_body(part)
    if kind in LOSS_OF or part.get_content_type().endswith("-signature"):
        lost[LOSS_OF.get(kind, "picture")] += kind in LOSS_OF
        return ""
    try:
        if len(data) > MAX_ATTACHMENT_BYTES:
            raise RefusedFormat("too_large")
        return file.read_nested(name or f"part.{part.get_content_subtype()}", data)
    except RefusedFormat:
        lost["attached file"] += 1
        return ""


_RECORD_LINE = re.compile(
    r"(?:[\w-]+\.)?([\w-]+)((?:;[^:;\"]+(?:\"[^\"]*\"[^:;\"]*)*)*):(.*)", re.DOTALL
)
_KINDS = {"VEVENT": "event", "VTODO": "task", "VJOURNAL": "journal", "VCARD": "contact"}
_EVENT = {
    "SUMMARY": "", "DESCRIPTION": "", "LOCATION": "Location", "DTSTART": "Start", "DTEND": "End",
    "DUE": "Due", "RRULE": "Repeats", "ORGANIZER": "Organizer", "ATTENDEE": "Attendee",
    "STATUS": "Status", "COMMENT": "Comment", "URL": "Address", "CONTACT": "Contact",
}  # fmt: skip
_CARD = {
    "FN": "", "NICKNAME": "Nickname", "ORG": "Organization", "TITLE": "Title", "ROLE": "Role",
    "EMAIL": "Mail", "TEL": "Telephone", "ADR": "Address", "URL": "Web", "BDAY": "Birthday",
    "NOTE": "", "IMPP": "Messenger", "X-ANNIVERSARY": "Anniversary", "RELATED": "Related",
}  # fmt: skip


_DATES = ("DTSTART", "DTEND", "DUE", "BDAY", "X-ANNIVERSARY")
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)\d\d)?(Z?)")


class _Field(NamedTuple):
    name: str
    given: str
    value: str


def parse_records(file: File) -> Iterable[Entry]:
    """The events, tasks and journals of a calendar, or the contacts of an address book."""
    blocks = _list_blocks(file.text())
    return make_each(file, "record", blocks, lambda row: [_make_record(file, *row)])


def _list_blocks(text: str) -> Iterator[tuple[str, list[_Field]]]:
    """The lines of each event or contact, without those of nested alarms."""
    text = re.sub(r"\r?\n[ \t]", "", text)  # long lines are folded
    text = re.sub(r"=\r?\n(?=[^\n]*=[0-9A-F]{2})", "", text)
    kind, lines, inside = "", list[_Field](), 0
    for line in text.split("\n"):
        found = _RECORD_LINE.match(line.strip("\r"))
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
            lines.append(_Field(name, given, _read_value(given, value)))


def _read_value(given: str, value: str) -> str:
    if "QUOTED-PRINTABLE" in given.upper():
        charset = re.search(r"(?i)charset=([\w-]+)", given)
        raw = quopri.decodestring(value.encode())
        value = decode_bytes(raw, charset[1] if charset else "") or value
    return re.sub(r"\\(.)", lambda f: "\n" if f[1] in "nN" else f[1], value).strip()


def _make_record(file: File, kind: str, lines: list[_Field]) -> Entry:
    first = {line.name: line.value for line in reversed(lines)}

    def pick(*names: str) -> str:
        return next((first[name] for name in names if first.get(name)), "")

    shown: list[str] = []
    for name, label in (_CARD if kind == "contact" else _EVENT).items():
        for line in lines:
            if line.name == name and line.value.strip(";"):
                value = line.value.removeprefix("mailto:").removeprefix("MAILTO:")
                if name in _DATES and (found := _DATE.fullmatch(value)):
                    year, month, day, hour, minute, zone = found.groups()
                    clock = f" {hour}:{minute}{zone and ' UTC'}" if hour else ""
                    value = f"{year}-{month}-{day}{clock}"
                if name in ("ADR", "ORG"):
                    value = " ".join(filter(None, value.split(";")))
                named = re.search(r'CN="?([^";:]+)', line.given)
                value = f"{named[1]} ({value})" if named else value
                shown.append(f"{label}: {value}" if label else value)
    title = (pick("SUMMARY", "FN") or " ".join(reversed(pick("N").split(";")[:2]))).strip()
    key = "/".join(filter(None, [pick("UID"), pick("RECURRENCE-ID")]))
    url = pick("URL")
    return make_document(
        file, kind, title, "\n".join(shown) or title, path=key or DERIVED + title + pick("DTSTART"),
        keywords=",".join(line.value for line in lines if line.name == "CATEGORIES"),
        url=url if url.startswith("http") else "",
        created_at=read_time(pick("DTSTART", "DUE", "CREATED")),
        last_modified=read_time(pick("LAST-MODIFIED", "REV", "DTSTAMP")),
    )  # fmt: skip
