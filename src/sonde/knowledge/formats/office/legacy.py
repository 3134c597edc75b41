"""The OLE files of Office, as Microsoft documents them: Word and PowerPoint 97 to 2003, Outlook.

[MS-DOC], [MS-PPT] and [MS-OXMSG] name what is read here. All text comes in: of the document, its
notes, headers, comments and text boxes; of slides in their order, with their notes; of mails with
their attachments.
"""

from __future__ import annotations

import io
import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email import message_from_string
from email.message import Message
from email.utils import format_datetime
from typing import Any

from sonde.knowledge.formats import (
    File,
    RefusedFormat,
    decode_bytes,
    make_document,
    write_link,
)
from sonde.knowledge.formats.mail import MAX_NESTED_MAILS, WRITTEN, make_mail
from sonde.stores.knowledge.base import Entry
from sonde.text.formats import read_time

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_FIELD = re.compile(r"\x13([^\x13\x14\x15]*)\x14?([^\x13\x15]*)\x15")
_LINK = re.compile(r'HYPERLINK\s+"([^"]{1,2000})"')
_OTHERS = re.compile(r"[\x00-\x06\x08\x0e-\x1f]")
_FIB_TABLE, _FIB_ENCRYPTED = 0x0200, 0x0100  # bits of the flags at 0x0A
_CONTAINER = 0xF
# Kinds of records, as [MS-PPT] numbers them.
_TEXT_UTF16, _TEXT_LATIN, _CSTRING = 0x0FA0, 0x0FA8, 0x0FBA  # texts
_SLIDE_LIST, _SLIDE_PLACE, _USER_EDIT, _DIRECTORY = 0x0FF0, 0x03F3, 0x0FF5, 0x1772  # places
_DOCUMENT, _COMMENT, _TEXT_HEAD = 0x03E8, 0x2EE0, 0x0F9F  # containers
_OBJECT_LIST, _OBJECT = 0x0409, 0x0FCC  # charts, sheets and others inside
_TITLES = (0, 6)  # kinds of text that are titles
MAX_EDITS = 1_000  # saves that a presentation remembers
MAX_NESTED_RECORDS = 50  # real ones nest about ten deep


def is_legacy(data: bytes) -> bool:
    """Whether a file is in an old format, whatever its name; newer ones with a password are not."""
    return data.startswith(_OLE) and "EncryptedPackage".encode("utf-16-le") not in data


def _open(file: File) -> Any:
    import olefile

    if not file.data.startswith(_OLE):
        raise RefusedFormat("broken", "not a file of Office 97 to 2003")
    try:
        return olefile.OleFileIO(io.BytesIO(file.data))
    except (OSError, ValueError, struct.error) as error:
        raise RefusedFormat("broken", str(error)) from error


def _stream(archive: Any, name: str) -> bytes:
    if not archive.exists(name):
        raise RefusedFormat("broken", f"no part {name}")
    data: bytes = archive.openstream(name).read()
    return data


def _make(file: File, archive: Any, text: str, lost: Counter[str]) -> Entry:
    said: dict[str, Any] = {}
    try:
        known = archive.get_metadata()
        said = {name: getattr(known, name) for name in ("title", "author", "keywords")}
        created = read_time(known.create_time) or 0
        said["created_at"] = max(created, 0)  # of no time, programs write the year 1601
        encoding = f"cp{known.codepage & 0xFFFF}" if known.codepage else "cp1252"
    except (OSError, ValueError, AttributeError, TypeError):
        encoding = "cp1252"
    encoding = "utf-8" if encoding == "cp65001" else encoding
    words = {
        name: _decode(value, encoding) for name, value in said.items() if isinstance(value, bytes)
    }
    return make_document(
        file, file.suffix, words.get("title", ""), text, lost=lost, author=words.get("author", ""),
        keywords=words.get("keywords", ""), created_at=said.get("created_at"),
    )  # fmt: skip


def _decode(value: bytes, encoding: str) -> str:
    try:
        return value.decode(encoding, "replace").strip("\0 ")
    except LookupError:
        return value.decode("cp1252", "replace").strip("\0 ")


def parse_doc(file: File) -> list[Entry]:
    """A document of Word 97 to 2003, by its table of pieces."""
    archive = _open(file)
    main = _stream(archive, "WordDocument")
    flags, version = struct.unpack_from("<H", main, 0x0A)[0], struct.unpack_from("<H", main, 2)[0]
    if flags & _FIB_ENCRYPTED:
        raise RefusedFormat("encrypted")
    if version < 0x00C1:  # Word 97; before it, the table of pieces is another
        raise RefusedFormat("unknown", "Word 95 or older: save it as DOCX")
    table = _stream(archive, "1Table" if flags & _FIB_TABLE else "0Table")
    start, size = struct.unpack_from("<II", main, 0x01A2)
    text = "".join(_read_pieces(main, table[start : start + size]))
    length = struct.unpack_from("<I", main, 0x4C)[0]  # of the text without notes
    text = _number_notes(text[:length]) + _number_notes(text[length:])
    lost = Counter({"picture": text.count("\x01")})
    return [_make(file, archive, _write_word(text), lost)]


def _read_pieces(main: bytes, table: bytes) -> Iterator[str]:
    at = 0
    while at < len(table) and table[at] == 1:  # formatting
        at += 3 + struct.unpack_from("<H", table, at + 1)[0]
    if at >= len(table) or table[at] != 2:
        raise RefusedFormat("broken", "no table of pieces")
    size = struct.unpack_from("<I", table, at + 1)[0]
    pieces = table[at + 5 : at + 5 + size]
    count = (size - 4) // 12
    ends = struct.unpack_from(f"<{count + 1}I", pieces, 0)
    for number in range(count):
        place = struct.unpack_from("<I", pieces, 4 * (count + 1) + 8 * number + 2)[0]
        length = ends[number + 1] - ends[number]
        if place & 0x4000_0000:  # one byte for a character
            begin = (place & ~0x4000_0000) // 2
            yield main[begin : begin + length].decode("cp1252", "replace")
        else:
            yield main[place : place + 2 * length].decode("utf-16-le", "replace")


def _number_notes(text: str) -> str:
    """The marks of notes, which are all the same character, as numbers."""
    numbers = iter(range(1, text.count("\x02") + 1))
    return re.sub("\x02", lambda _: f"[{next(numbers)}] ", text)


def _write_word(text: str) -> str:
    """Word's characters as plain text: fields by their result, cells with bars."""

    def show(found: re.Match[str]) -> str:
        if found[1].split()[:1] in (["PAGE"], ["NUMPAGES"]):
            return ""
        link = _LINK.search(found[1])
        return write_link(found[2], link[1] if link else "")

    for _ in range(5):  # fields in fields
        text, count = _FIELD.subn(show, text)
        if not count:
            break
    text = text.replace("\x07\x07", "\n").replace("\x07", " | ")
    text = text.translate(str.maketrans("\r\x0b\x0c\xa0\x1e", "\n\n\n -", "\x1f"))
    return re.sub(r"\n{3,}", "\n\n", _OTHERS.sub("", text)).strip()


def parse_ppt(file: File) -> list[Entry]:
    """A presentation of PowerPoint 97 to 2003, slide by slide."""
    archive = _open(file)
    if archive.exists("EncryptedSummary"):
        raise RefusedFormat("encrypted")
    if archive.exists("Header") or not archive.exists("Current User"):
        raise RefusedFormat("unknown", "PowerPoint 95 or older: save it as PPTX")
    data = _stream(archive, "PowerPoint Document")
    edit = struct.unpack_from("<I", _stream(archive, "Current User"), 16)[0]
    places, document = _read_directory(data, edit)
    if document not in places:
        raise RefusedFormat("broken", "no document")
    kind, _, body = _record(data, places[document])
    if kind != _DOCUMENT:
        raise RefusedFormat("broken", "no document")
    parts: list[str] = []
    slides: list[tuple[int, list[str]]] = []
    notes: list[tuple[int, list[str]]] = []
    lost = Counter({"picture": int(archive.exists("Pictures"))})
    for inner, instance, inside in _records(body):
        if inner == _SLIDE_LIST and instance in (0, 2):
            (slides if instance == 0 else notes).extend(_read_list(inside))
        elif inner == _OBJECT_LIST:
            lost["embedded object"] = sum(kind == _OBJECT for kind, _, _ in _records(inside))
    for number, (place, outline) in enumerate([*slides, *notes], 1):
        own = _read_texts(_record(data, places[place])[2]) if place in places else ()
        parts += [f"Slide {number}"] if number <= len(slides) else []
        parts += [*outline, *own, ""]
    return [_make(file, archive, "\n".join(parts), lost)]


def _record(data: bytes, at: int) -> tuple[int, int, bytes]:
    """Kind, instance and content of the record at a place."""
    if at + 8 > len(data):
        raise RefusedFormat("broken", "cut short")
    head, kind, size = struct.unpack_from("<HHI", data, at)
    return kind, head >> 4, data[at + 8 : at + 8 + size]


def _records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at + 8 <= len(data):
        kind, instance, body = _record(data, at)
        yield kind, instance, body
        at += 8 + struct.unpack_from("<I", data, at + 4)[0]


def _read_directory(data: bytes, edit: int) -> tuple[Mapping[int, int], int]:
    """Where each object lies, as of the last save; and the number of the document."""
    places: dict[int, int] = {}
    document = 0
    for _ in range(MAX_EDITS):
        kind, _, body = _record(data, edit)
        if kind != _USER_EDIT or len(body) < 20:
            raise RefusedFormat("broken", "no list of saves")
        before, directory, reference = struct.unpack_from("<III", body, 8)
        document = document or reference
        kind, _, rows = _record(data, directory)
        at = 0
        while kind == _DIRECTORY and at + 4 <= len(rows):
            packed = struct.unpack_from("<I", rows, at)[0]
            first, count = packed & 0xFFFFF, packed >> 20
            for number, place in enumerate(struct.unpack_from(f"<{count}I", rows, at + 4)):
                places.setdefault(first + number, place)
            at += 4 + 4 * count
        if not before:
            break
        edit = before
    return places, document


def _read_list(data: bytes) -> Iterator[tuple[int, list[str]]]:
    """The objects of a list, each with the texts of its outline."""
    place, texts, mark = -1, list[str](), ""
    for kind, _, body in _records(data):
        if kind == _TEXT_HEAD:
            mark = "# " if struct.unpack_from("<I", body, 0)[0] in _TITLES else ""
        if kind == _SLIDE_PLACE:
            if place >= 0:
                yield place, texts
            place, texts = struct.unpack_from("<I", body, 0)[0], []
        elif text := _text_of(kind, body):
            texts.append(mark + text)
    if place >= 0:
        yield place, texts


def _text_of(kind: int, body: bytes) -> str:
    if kind == _TEXT_UTF16:
        text = body.decode("utf-16-le", "replace")
    elif kind == _TEXT_LATIN:
        text = body.decode("latin-1")
    else:
        return ""
    return _OTHERS.sub("", text.replace("\r", "\n").replace("\x0b", "\n")).strip()


def _read_texts(data: bytes, depth: int = 0) -> Iterator[str]:
    at = 0
    while at + 8 <= len(data):
        head, kind, size = struct.unpack_from("<HHI", data, at)
        body = data[at + 8 : at + 8 + size]
        if head & 0xF == _CONTAINER and depth < MAX_NESTED_RECORDS:
            if kind == _COMMENT:
                yield "Comment: " + " ".join(
                    b.decode("utf-16-le", "replace") for k, _, b in _records(body) if k == _CSTRING
                )
            else:
                yield from _read_texts(body, depth + 1)
        elif (text := _text_of(kind, body)) and text != "*":  # a star stands for the page's number
            yield text
        at += 8 + size


# Properties of a message, as [MS-OXPROPS] numbers them.
_HEADS = {"Subject": 0x0037, "Message-ID": 0x1035, "In-Reply-To": 0x1042}
_CLASS, _TRANSPORT, _CODE_PAGES = 0x001A, 0x007D, (0x3FFD, 0x3FDE)  # of the whole message
_BODY, _PAGE, _PACKED_RTF, _SENT = 0x1000, 0x1013, 0x1009, (0x0039, 0x0E06)  # text and time
_SENDER = (0x0C1A, 0x0042, 0x5D01, 0x5D02, 0x0C1F, 0x0065)  # names, then addresses
_RECIPIENT, _RECIPIENT_KIND = (0x3001, 0x39FE, 0x3003), 0x0C15  # likewise; 1 is To, 2 is Cc
_ATTACHED, _FILE_NAME, _MEDIA_TYPE = 0x3701, (0x3707, 0x3704, 0x3001), 0x370E  # of an attachment
_ITEMS = {"IPM.Contact": "VCF", "IPM.Appointment": "ICS", "IPM.Task": "ICS"}


def parse_msg(file: File) -> list[Entry]:
    """A message that Outlook saved, with its attachments."""
    return [make_mail(file, _Storage(_open(file)).read_message(0), file.data)]


class _Storage:
    """A message or attachment in an OLE file, and its properties."""

    def __init__(self, archive: Any, path: tuple[str, ...] = (), encoding: str = "cp1252") -> None:
        self._archive, self.path, self._encoding = archive, path, encoding

    def read_message(self, depth: int) -> Message:
        fixed = self.read_fixed(24 if depth else 32)
        codes = (f"cp{fixed[key] & 0xFFFF}" for key in _CODE_PAGES if fixed.get(key))
        self._encoding = next(codes, "cp1252").replace("cp65001", "utf-8")
        item = self.read_text(_CLASS)
        form = next((form for name, form in _ITEMS.items() if item.startswith(name)), "")
        if form and not depth:
            raise RefusedFormat("unknown", f"{item[4:]} of Outlook: export it as {form}")
        message: Message = message_from_string(self.read_text(_TRANSPORT).lstrip(), policy=WRITTEN)
        said = {name: self.read_text(key) for name, key in _HEADS.items()}
        said["From"] = self.read_person(_SENDER)
        people = [(each.read_fixed(8).get(_RECIPIENT_KIND), each.read_person(_RECIPIENT))
                  for each in self._list_inside("__recip_version1.0_#")]  # fmt: skip
        for kind, name in ((1, "To"), (2, "Cc")):
            said[name] = ", ".join(person for is_kind, person in people if is_kind == kind)
        if sent := next((fixed[key] for key in _SENT if 0 < fixed.get(key, 0) < 1 << 61), 0):
            when = datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=sent // 10)
            said["Date"] = format_datetime(when)
        for name, value in said.items():
            if value and name not in message:
                message[name] = value
        for name in ("Content-Type", "Content-Transfer-Encoding", "Content-Disposition"):
            del message[name]
        message["Content-Type"] = "multipart/mixed"
        bodies = _part("multipart/alternative", list(self._list_bodies()))
        message.set_payload([bodies, *self._list_attached(depth)])
        return message

    def _list_bodies(self) -> Iterator[Message]:
        plain, shown = self.read_text(_BODY), self.read_text(_PAGE)
        raw = self.read_stream(_PAGE, "0102")
        yield _part("text/plain; charset=utf-8", plain.encode())
        if shown or raw:
            charset = "utf-8" if shown else self._encoding
            yield _part(f"text/html; charset={charset}", shown.encode() or raw)
        elif not plain and self.read_stream(_PACKED_RTF, "0102"):
            yield _part("application/x-lzfu", b"")  # to be counted as left out

    def _list_attached(self, depth: int) -> Iterator[Message]:
        for attached in self._list_inside("__attach_version1.0_#"):
            kind = attached.read_text(_MEDIA_TYPE) or "application/octet-stream"
            part = _part(kind, attached.read_stream(_ATTACHED, "0102"))
            path = (*attached.path, f"__substg1.0_{_ATTACHED:04X}000D")
            inner = _Storage(self._archive, path, self._encoding)
            if depth < MAX_NESTED_MAILS and inner.read_fixed(24):
                part = _part("message/rfc822", [inner.read_message(depth + 1)])
            name = attached.read_text(*_FILE_NAME)
            part.add_header("Content-Disposition", "attachment", filename=name)
            yield part

    def _list_inside(self, prefix: str) -> Iterator[_Storage]:
        below = len(self.path)
        for path in sorted({tuple(each[: below + 1]) for each in self._archive.listdir()}):
            if path[:-1] == self.path and path[-1].startswith(prefix):
                yield _Storage(self._archive, path, self._encoding)

    def read_person(self, keys: tuple[int, ...]) -> str:
        """A name and an address; Exchange has addresses that are none of mail."""
        known = dict.fromkeys(map(self.read_text, keys))
        name = next((each for each in known if each and "@" not in each and each[0] != "/"), "")
        address = next((each for each in known if "@" in each), "")
        return f"{name} <{address}>" if name and address else name or address

    def read_stream(self, key: int, kind: str) -> bytes:
        path = [*self.path, f"__substg1.0_{key:04X}{kind}"]
        data: bytes = self._archive.openstream(path).read() if self._archive.exists(path) else b""
        return data

    def read_text(self, *keys: int) -> str:
        """The first of these properties that has a text."""
        for key in keys:
            wide = self.read_stream(key, "001F")
            narrow = self.read_stream(key, "001E").rstrip(b"\0")
            if text := _decode(wide, "utf-16-le") or decode_bytes(narrow, self._encoding):
                return text
        return ""

    def read_fixed(self, head: int) -> Mapping[int, int]:
        """Numbers and times by key; they begin behind so many bytes."""
        path = [*self.path, "__properties_version1.0"]
        data = self._archive.openstream(path).read()[head:] if self._archive.exists(path) else b""
        rows = struct.iter_unpack("<HHIQ", data[: len(data) // 16 * 16])
        return {key: value for _, key, _, value in rows}


def _part(kind: str, content: Any) -> Message:
    part = Message(policy=WRITTEN)
    part["Content-Type"] = kind
    part.set_payload(content)
    return part
