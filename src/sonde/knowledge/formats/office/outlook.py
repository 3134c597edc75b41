"""Messages saved by Outlook, by Microsoft's specification [MS-OXMSG]."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email import message_from_string
from email.message import Message
from email.utils import format_datetime
from typing import Any

from sonde.knowledge.formats import File, RefusedFormat, decode_bytes
from sonde.knowledge.formats.mail import MAX_NESTED_MAILS, WRITTEN, make_mail
from sonde.knowledge.formats.office import decode_property, open_ole
from sonde.stores.knowledge.base import Entry

# Properties of a message, as [MS-OXPROPS] numbers them.
_HEADS = {"Subject": 0x0037, "Message-ID": 0x1035, "In-Reply-To": 0x1042}
_CLASS, _TRANSPORT, _CODE_PAGES = 0x001A, 0x007D, (0x3FFD, 0x3FDE)  # of the whole message
_BODY, _PAGE, _PACKED_RTF, _SENT = 0x1000, 0x1013, 0x1009, (0x0039, 0x0E06)  # text and time
_SENDER = (0x0C1A, 0x0042, 0x5D01, 0x5D02, 0x0C1F, 0x0065)  # names, then addresses
_RECIPIENT, _RECIPIENT_KIND = (0x3001, 0x39FE, 0x3003), 0x0C15  # likewise; 1 is To, 2 is Cc
_ATTACHED, _FILE_NAME, _MEDIA_TYPE = 0x3701, (0x3707, 0x3704, 0x3001), 0x370E  # of an attachment
_ITEMS = {"IPM.Contact": "VCF", "IPM.Appointment": "ICS", "IPM.Task": "ICS"}


def parse_msg(file: File) -> list[Entry]:
    """A message saved by Outlook, with its attachments."""
    return [make_mail(file, _Storage(open_ole(file)).read_message(0), file.data)]


class _Storage:
    """The storage of a message or attachment in an OLE file."""

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
            yield _part("application/x-lzfu", b"")  # counts as left out

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
        """Name and mail address of a person; addresses of Exchange are left out."""
        known = dict.fromkeys(map(self.read_text, keys))
        name = next((each for each in known if each and "@" not in each and each[0] != "/"), "")
        address = next((each for each in known if "@" in each), "")
        return f"{name} <{address}>" if name and address else name or address

    def read_stream(self, key: int, kind: str) -> bytes:
        path = [*self.path, f"__substg1.0_{key:04X}{kind}"]
        data: bytes = self._archive.openstream(path).read() if self._archive.exists(path) else b""
        return data

    def read_text(self, *keys: int) -> str:
        """The text of the first of these properties that has one."""
        for key in keys:
            wide = self.read_stream(key, "001F")
            narrow = self.read_stream(key, "001E").rstrip(b"\0")
            if text := decode_property(wide, "utf-16-le") or decode_bytes(narrow, self._encoding):
                return text
        return ""

    def read_fixed(self, head: int) -> Mapping[int, int]:
        """The fixed-size properties by key, after a header of `head` bytes."""
        path = [*self.path, "__properties_version1.0"]
        data = self._archive.openstream(path).read()[head:] if self._archive.exists(path) else b""
        rows = struct.iter_unpack("<HHIQ", data[: len(data) // 16 * 16])
        return {key: value for _, key, _, value in rows}


def _part(kind: str, content: Any) -> Message:
    part = Message(policy=WRITTEN)
    part["Content-Type"] = kind
    part.set_payload(content)
    return part
