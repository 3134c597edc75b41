"""The OLE files of Office, as Microsoft documents them: Word and PowerPoint 97 to 2003.

[MS-DOC] and [MS-PPT] name what is read here. All text comes in: of the document, its notes,
headers, comments and text boxes; of slides in their order, with their notes.
"""

from __future__ import annotations

import io
import re
import struct
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

from sonde.knowledge.formats import (
    File,
    RefusedFormat,
    make_document,
    write_link,
)
from sonde.stores.knowledge.base import Entry
from sonde.text.formats import read_time

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_FIELD = re.compile(r"\x13([^\x13\x14\x15]*)\x14?([^\x13\x15]*)\x15")
_LINK = re.compile(r'HYPERLINK\s+"([^"]{1,2000})"')
_OTHERS = re.compile(r"[\x00-\x06\x08\x0e-\x1f]")
_HEADING_STYLES, _EMPTY = range(1, 10), ("", "\r", "\x07", "\x0c")
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


def open_ole(file: File) -> Any:
    """The streams of a file; `RefusedFormat` if it is none."""
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
        name: decode_property(value, encoding)
        for name, value in said.items()
        if isinstance(value, bytes)
    }
    return make_document(
        file, file.suffix, words.get("title", ""), text, lost=lost, author=words.get("author", ""),
        keywords=words.get("keywords", ""), created_at=said.get("created_at"),
    )  # fmt: skip


def decode_property(value: bytes, encoding: str) -> str:
    """A stored string without what fills it up; in an unknown encoding, as Western."""
    try:
        return value.decode(encoding, "replace").strip("\0 ")
    except LookupError:
        return value.decode("cp1252", "replace").strip("\0 ")


def parse_doc(file: File) -> list[Entry]:
    """A document of Word 97 to 2003, by its table of pieces."""
    archive = open_ole(file)
    main = _stream(archive, "WordDocument")
    flags, version = struct.unpack_from("<H", main, 0x0A)[0], struct.unpack_from("<H", main, 2)[0]
    if flags & _FIB_ENCRYPTED:
        raise RefusedFormat("encrypted")
    if version < 0x00C1:  # Word 97; before it, the table of pieces is another
        raise RefusedFormat("unknown", "Word 95 or older: save it as DOCX")
    table = _stream(archive, "1Table" if flags & _FIB_TABLE else "0Table")
    start, size = struct.unpack_from("<II", main, 0x01A2)
    pieces = list(_read_pieces(main, table[start : start + size]))
    text = "".join(piece for _, _, piece in pieces)
    length = struct.unpack_from("<I", main, 0x4C)[0]  # of the text without notes
    body = _mark_headings(text[:length], pieces, _find_headings(main, table))
    text = _number_notes(body) + _number_notes(text[length:])
    lost = Counter({"picture": text.count("\x01")})
    return [_make(file, archive, _write_word(text), lost)]


def _read_pieces(main: bytes, table: bytes) -> Iterator[tuple[int, int, str]]:
    """The pieces of the text in order: where each begins, how wide its characters are, itself."""
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
            yield begin, 1, main[begin : begin + length].decode("cp1252", "replace")
        else:
            yield place, 2, main[place : place + 2 * length].decode("utf-16-le", "replace")


def _find_headings(main: bytes, table: bytes) -> Mapping[int, int]:
    """Where paragraphs of the styles Heading 1 to 9 begin in the stream, and their levels."""
    found: dict[int, int] = {}
    start, size = struct.unpack_from("<II", main, 0x0102)
    count = max(size - 4, 0) // 8
    with suppress(struct.error, IndexError):  # without them, the text is still whole
        for page in struct.unpack_from(f"<{count}I", table, start + 4 * (count + 1)):
            base = (page & 0x3FFFFF) * 512
            runs = main[base + 511]
            begins = struct.unpack_from(f"<{runs}I", main, base)
            for number, begin in enumerate(begins):
                at = base + 2 * main[base + 4 * (runs + 1) + 13 * number]
                style = struct.unpack_from("<H", main, at + (1 if main[at] else 2))[0]
                if at > base and style in _HEADING_STYLES:
                    found[begin] = style
    return found


def _mark_headings(
    text: str, pieces: Iterable[tuple[int, int, str]], headings: Mapping[int, int]
) -> str:
    """The text with `#` before its headings."""
    places, at, starts = dict[int, int](), 0, sorted(headings)
    for begin, width, piece in pieces:
        end = begin + width * len(piece)
        for start in starts[bisect_left(starts, begin) : bisect_left(starts, end)]:
            places[at + (start - begin) // width] = headings[start]
        at += len(piece)
    marks = {at: "#" * n + " " for at, n in places.items() if text[at : at + 1] not in _EMPTY}
    cuts = sorted({0, len(text), *marks})
    return "".join(marks.get(begin, "") + text[begin:end] for begin, end in pairwise(cuts))


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
    archive = open_ole(file)
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
        mark = _read_mark(body) if kind == _TEXT_HEAD else mark
        if kind == _SLIDE_PLACE:
            if place >= 0:
                yield place, texts
            place, texts = struct.unpack_from("<I", body, 0)[0], []
        elif text := _text_of(kind, body):
            texts.append(mark + text)
    if place >= 0:
        yield place, texts


def _read_mark(body: bytes) -> str:
    return "# " if struct.unpack_from("<I", body, 0)[0] in _TITLES else ""


def _text_of(kind: int, body: bytes) -> str:
    if kind == _TEXT_UTF16:
        text = body.decode("utf-16-le", "replace")
    elif kind == _TEXT_LATIN:
        text = body.decode("latin-1")
    else:
        return ""
    return _OTHERS.sub("", text.replace("\r", "\n").replace("\x0b", "\n")).strip()


def _read_texts(data: bytes, depth: int = 0) -> Iterator[str]:
    at, mark = 0, ""
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
        elif kind == _TEXT_HEAD:
            mark = _read_mark(body)
        elif (text := _text_of(kind, body)) and text != "*":  # a star stands for the page's number
            yield mark + text
        at += 8 + size
