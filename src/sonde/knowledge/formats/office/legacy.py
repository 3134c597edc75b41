"""Word and PowerPoint 97 to 2003, by Microsoft's specifications [MS-DOC] and [MS-PPT].

Read are the text of a document with notes, headers, comments and text boxes; and the slides of a
presentation in order, with their notes.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple

from sonde.knowledge.formats import File, RefusedFormat, write_link
from sonde.knowledge.formats.office import make_legacy, open_ole, read_stream, write_row
from sonde.stores.knowledge.base import Entry

_FIELD = re.compile(r"\x13([^\x13\x14\x15]*)\x14?([^\x13\x15]*)\x15")
_LINK = re.compile(r'HYPERLINK\s+"([^"]{1,2000})"')
_OTHERS = re.compile(r"[\x00-\x06\x08\x0e-\x1f]")
_EQUATION = re.compile(r'^\s*EQ|\\\*\s*(?:"[^"]*"|\S+)|\\\w+(?:\s*\d+)?|[(),;]')
_HEADING_STYLES, _EMPTY = range(1, 10), ("", "\r", "\x0c")
_FIB_TABLE, _FIB_ENCRYPTED = 0x0200, 0x0100  # bits of the flags at 0x0A
_FIB_CHARACTERS, _FIB_PARAGRAPHS, _FIB_DRAWINGS = 0x00FA, 0x0102, 0x022A  # offsets of tables
_DELETED, _ROW_END, _ROW_MARK = 0x0800, 0x2417, "\x1d"
_OPERANDS = (1, 1, 2, 4, 2, 2, 0, 3)  # bytes of a property's operand by kind; 0 is variable
# Kinds of records, as [MS-PPT] numbers them.
_TEXT_UTF16, _TEXT_LATIN, _CSTRING = 0x0FA0, 0x0FA8, 0x0FBA  # texts
_SLIDE_LIST, _SLIDE_PLACE, _USER_EDIT, _DIRECTORY = 0x0FF0, 0x03F3, 0x0FF5, 0x1772  # places
_DOCUMENT, _NOTES, _COMMENT, _TAG_DATA, _TEXT_HEAD = 0x03E8, 0x03F1, 0x2EE0, 0x138B, 0x0F9F
_OBJECT_LIST, _OBJECT, _LINKED, _LINK_ID = 0x0409, 0x0FCC, 0x0FD7, 0x0FD3  # charts and others
_ACTION, _ACTION_ATOM, _ACTION_RANGE = 0x0FF2, 0x0FF3, 0x0FDF  # what a click does, and where
_FOOTERS, _FOOTER_FLAGS, _SHOWN = 0x0FD9, 0x0FDA, {0: 0x04, 1: 0x10, 2: 0x20}
# Those of drawings, by [MS-ODRAW].
_GROUP, _SHAPE, _TEXT_BOX, _CHILD_ANCHOR, _MORE_OPTIONS = 0xF003, 0xF004, 0xF00D, 0xF00F, 0xF122
_OPTIONS, _IS_TABLE, _ART_TEXT = 0xF00B, 0x039F, 0x00C0  # of a shape: groups may be tables
_TITLES = (0, 6)  # text types of titles
MAX_EDITS = 1_000  # incremental saves in a presentation
MAX_NESTED_RECORDS = 50  # real files nest about ten deep


def parse_doc(file: File) -> list[Entry]:
    """A document of Word 97 to 2003, read by its piece table."""
    archive = open_ole(file)
    main = read_stream(archive, "WordDocument")
    flags, version = struct.unpack_from("<H", main, 0x0A)[0], struct.unpack_from("<H", main, 2)[0]
    if flags & _FIB_ENCRYPTED:
        raise RefusedFormat("encrypted")
    if version < 0x00C1:  # Word 97; earlier piece tables differ
        raise RefusedFormat("unknown", "Word 95 or older: save it as DOCX")
    table = read_stream(archive, "1Table" if flags & _FIB_TABLE else "0Table")
    start, size = struct.unpack_from("<II", main, 0x01A2)
    formats = _Formats(main, table)
    length = struct.unpack_from("<I", main, 0x4C)[0]  # of the text without notes
    body, notes = "", ""
    for begin, width, piece in _read_pieces(main, table[start : start + size]):
        rest = piece[length:] if length > 0 else piece
        own = piece[: len(piece) - len(rest)]
        body += formats.apply(own, begin, width)
        notes += formats.apply(rest, begin + width * len(own), width)
        length -= len(piece)
    start, size = struct.unpack_from("<II", main, _FIB_DRAWINGS)
    drawn = _read_drawings(table[start : start + size])
    text = "\n".join([_number_notes(body) + _number_notes(notes), *drawn])
    objects = sum(
        len(each) == 2 for each in archive.listdir(streams=False) if each[0] == "ObjectPool"
    )
    lost = Counter({"picture": max(text.count("\x01") - objects, 0), "embedded object": objects})
    lost["tracked deletion"] = len(formats.deleted)
    return [make_legacy(file, archive, _write_word(text), lost)]


def _read_pieces(main: bytes, table: bytes) -> Iterator[tuple[int, int, str]]:
    """The pieces of the text in order: offset, bytes per character, text."""
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


class _Formats:
    """Paragraphs of the stream that are headings or ends of rows, and deleted ranges."""

    def __init__(self, main: bytes, table: bytes) -> None:
        self._marks: dict[int, str] = {}
        for begin, _, format_ in _list_formats(main, table, _FIB_PARAGRAPHS):
            style = int.from_bytes(format_[:2], "little")
            if style in _HEADING_STYLES:
                self._marks[begin] = "#" * style + " "
            elif _is_set(format_[2:], _ROW_END):
                self._marks[begin] = _ROW_MARK
        runs = _list_formats(main, table, _FIB_CHARACTERS)
        self.deleted = sorted((begin, end) for begin, end, one in runs if _is_set(one, _DELETED))
        self._starts = sorted(self._marks)

    def apply(self, text: str, begin: int, width: int) -> str:
        """A piece of the text with `#` before headings, without deleted ranges."""
        end = begin + width * len(text)
        near = max(bisect_left(self.deleted, (begin,)) - 1, 0)  # it may begin before the piece
        for start, stop in self.deleted[near : bisect_left(self.deleted, (end,))]:
            first, last = max(start - begin, 0) // width, max(min(stop, end) - begin, 0) // width
            text = text[:first] + "\0" * (last - first) + text[last:]
        starts = self._starts[bisect_left(self._starts, begin) : bisect_left(self._starts, end)]
        places = {(at - begin) // width: self._marks[at] for at in starts}
        cuts = sorted({0, len(text), *(at for at in places if text[at : at + 1] not in _EMPTY)})
        return "".join(places.get(at, "") + text[at:stop] for at, stop in pairwise(cuts))


def _list_formats(main: bytes, table: bytes, place: int) -> Iterator[tuple[int, int, bytes]]:
    """Start, end and format of the paragraphs or character runs in the stream."""
    start, size = struct.unpack_from("<II", main, place)
    count, row = max(size - 4, 0) // 8, 13 if place == _FIB_PARAGRAPHS else 1
    with suppress(struct.error, IndexError):  # without them, the text is still whole
        for page in struct.unpack_from(f"<{count}I", table, start + 4 * (count + 1)):
            base = (page & 0x3FFFFF) * 512
            runs = main[base + 511]
            bounds = struct.unpack_from(f"<{runs + 1}I", main, base)
            for number, (begin, end) in enumerate(pairwise(bounds)):
                at = base + 2 * main[base + 4 * (runs + 1) + row * number]
                if at > base:
                    at += row > 1 and not main[at]  # then the length is in the next byte
                    length = main[at] * (2 if row > 1 else 1)
                    yield begin, end, main[at + 1 : at + 1 + length]


def _is_set(format_: bytes, wanted: int) -> bool:
    """Whether a property is on in a format."""
    at = 0
    while at + 3 <= len(format_):
        code = struct.unpack_from("<H", format_, at)[0]
        if code == wanted:
            return format_[at + 2] == 1
        at += 2 + (_OPERANDS[code >> 13] or 1 + format_[at + 2])
    return False


def _read_drawings(data: bytes) -> Iterator[str]:
    for found in re.finditer(rb"(?=[\x03-\xf3].\x0b\xf0)", data, re.DOTALL):
        with suppress(struct.error, RefusedFormat):  # of what only looks like options
            yield from _read_word_art(_record(data, found.start()))


def _number_notes(text: str) -> str:
    """Number the marks of notes, which are all the same character."""
    numbers = iter(range(1, text.count("\x02") + 1))
    return re.sub("\x02", lambda _: f"[{next(numbers)}] ", text)


def _write_word(text: str) -> str:
    """Replace Word's control characters: fields by their results, ends of cells by bars."""

    def show(found: re.Match[str]) -> str:
        name, *said = found[1].split(None, 2) or [""]
        if name in ("PAGE", "NUMPAGES"):
            return ""
        if name == "MACROBUTTON":
            return "".join(said[1:])
        if name == "EQ":  # characters above others: how they are read
            return " ".join(_EQUATION.sub(" ", found[1]).split())
        link = _LINK.search(found[1])
        return write_link(found[2], link[1] if link else "")

    for _ in range(5):  # fields in fields
        text, count = _FIELD.subn(show, text)
        if not count:
            break
    row_end = f"\x07*{_ROW_MARK}\x07" if _ROW_MARK in text else "\x07\x07"
    text = re.sub("\x07(?:#+ )?", " | ", re.sub(row_end, "\n", text))  # headings begin lines
    text = text.translate(str.maketrans("\r\x0b\x0c\xa0\x1e", "\n\n\n -", "\x1f"))
    return re.sub(r"\n{3,}", "\n\n", _OTHERS.sub("", text)).strip()


def parse_ppt(file: File) -> list[Entry]:
    """A presentation of PowerPoint 97 to 2003, slide by slide."""
    archive = open_ole(file)
    if archive.exists("EncryptedSummary"):
        raise RefusedFormat("encrypted")
    if archive.exists("Header") or not archive.exists("Current User"):
        raise RefusedFormat("unknown", "PowerPoint 95 or older: save it as PPTX")
    edit = struct.unpack_from("<I", read_stream(archive, "Current User"), 16)[0]
    slides = _Slides(file, read_stream(archive, "PowerPoint Document"), edit)
    text = "\n".join(slides.read())
    if archive.exists("Pictures"):
        slides.lost["picture"] = sum(1 for _ in _records(read_stream(archive, "Pictures")))
    return [make_legacy(file, archive, text, slides.lost)]


class _Record(NamedTuple):
    kind: int
    instance: int = 0
    body: bytes = b""
    is_container: bool = False

    def number(self, at: int = 0) -> int:
        return int(struct.unpack_from("<i", self.body, at)[0])

    def text(self) -> str:
        return self.body.decode("latin-1" if self.kind == _TEXT_LATIN else "utf-16-le", "replace")


def _record(data: bytes, at: int) -> _Record:
    if at + 8 > len(data):
        raise RefusedFormat("broken", "cut short")
    head, kind, size = struct.unpack_from("<HHI", data, at)
    is_container = head & 0xF == 0xF or kind == _TAG_DATA
    return _Record(kind, head >> 4, data[at + 8 : at + 8 + size], is_container)


def _records(data: bytes) -> Iterator[_Record]:
    at = 0
    while at + 8 <= len(data):
        yield _record(data, at)
        at += 8 + struct.unpack_from("<I", data, at + 4)[0]


def _read_strings(data: bytes) -> Mapping[int, str]:
    return {each.instance: each.text() for each in _records(data) if each.kind == _CSTRING}


def _find(data: bytes, kind: int) -> _Record | None:
    return next((each for each in _records(data) if each.kind == kind), None)


def _read_directory(data: bytes, edit: int) -> tuple[Mapping[int, int], int]:
    """The offsets of objects as of the last save, and the id of the document."""
    places: dict[int, int] = {}
    document = 0
    for _ in range(MAX_EDITS):
        save = _record(data, edit)
        if save.kind != _USER_EDIT or len(save.body) < 20:
            raise RefusedFormat("broken", "no list of saves")
        before, directory, reference = struct.unpack_from("<III", save.body, 8)
        document = document or reference
        listed = _record(data, directory)
        at, rows = 0, listed.body if listed.kind == _DIRECTORY else b""
        while at + 4 <= len(rows):
            packed = struct.unpack_from("<I", rows, at)[0]
            first, count = packed & 0xFFFFF, packed >> 20
            for number, place in enumerate(struct.unpack_from(f"<{count}I", rows, at + 4)):
                places.setdefault(first + number, place)
            at += 4 + 4 * count
        if not before:
            break
        edit = before
    return places, document


class _Slides:
    """The slides of a presentation, as of its last save."""

    def __init__(self, file: File, data: bytes, edit: int) -> None:
        self.lost: Counter[str] = Counter()
        self._file, self._data = file, data
        self._places, self._document = _read_directory(data, edit)
        self._links: dict[int, str] = {}

    def read(self) -> Iterator[str]:
        """The lines of each slide with its notes; skips and reports damaged slides."""
        listed: dict[int, list[list[_Record]]] = {0: [], 2: []}  # slides; notes
        root = _record(self._data, self._places.get(self._document, len(self._data)))
        if root.kind != _DOCUMENT:
            raise RefusedFormat("broken", "no document")
        for each in _records(root.body):
            if each.kind == _OBJECT_LIST:
                self._read_objects(each.body)
            elif each.kind == _FOOTERS:
                yield from _read_footers(each.body)
            elif each.kind == _SLIDE_LIST and each.instance in listed:
                for inner in _records(each.body):
                    if inner.kind == _SLIDE_PLACE:
                        listed[each.instance].append([inner])
                    elif listed[each.instance]:
                        listed[each.instance][-1].append(inner)
        notes = {self._find_subject(each[0]): each for each in listed[2]}
        for number, slide in enumerate(listed[0], 1):
            yield f"Slide {number}"
            yield from self._read_page(slide, f"slide {number}")
            yield from self._read_page(notes.pop(slide[0].number(12), []), f"notes {number}")
            yield ""
        for rest in notes.values():
            yield from self._read_page(rest, "notes")

    def _read_objects(self, data: bytes) -> None:
        for each in _records(data):
            self.lost["embedded object"] += each.kind == _OBJECT
            if each.kind == _LINKED and (atom := _find(each.body, _LINK_ID)):
                self._links[atom.number()] = _read_strings(each.body).get(1, "")

    def _find_subject(self, place: _Record) -> int:
        """The id of the slide that notes belong to."""
        at = self._places.get(place.number(), -1)
        atom = _find(self._data[at + 8 : at + 72], _NOTES) if at >= 0 else None  # the first record
        return atom.number() if atom and len(atom.body) >= 4 else 0

    def _read_page(self, listed: Sequence[_Record], name: str) -> Iterator[str]:
        """The texts of a page: those of the outline, then those of its shapes."""
        at = self._places.get(listed[0].number()) if listed else None
        try:
            yield from self._read_texts(listed[1:])
            yield from self._read_shapes(_record(self._data, at).body) if at is not None else ()
        except (RefusedFormat, struct.error) as error:
            self.lost["damaged page"] += 1
            self._file.skip_part(name, str(error))

    def _read_texts(self, records: Iterable[_Record]) -> Iterator[str]:
        mark, text, target = "", "", ""
        links: list[tuple[int, int, str]] = []
        for each in (*records, _Record(_TEXT_HEAD, body=b"\xff" * 4)):  # ends the last text
            if each.kind in (_TEXT_HEAD, _TEXT_UTF16, _TEXT_LATIN):
                for begin, end, link in sorted(links, reverse=True):
                    shown = text[begin:end].rstrip()
                    text = text[:begin] + write_link(shown, link) + text[begin + len(shown) :]
                text = _OTHERS.sub("", re.sub("[\r\x0b]", "\n", text)).strip()
                if text and text != "*":  # a star stands for the page's number
                    yield mark + (" ".join(text.split()) if mark else text)
                links, text = [], "" if each.kind == _TEXT_HEAD else each.text()
                if each.kind == _TEXT_HEAD:
                    mark = "# " if each.number() in _TITLES else ""
            elif each.kind == _ACTION:
                target = self._find_link(each)
            elif each.kind == _ACTION_RANGE:
                links.append((each.number(), each.number(4), target))

    def _find_link(self, action: _Record) -> str:
        atom = _find(action.body, _ACTION_ATOM)
        return self._links.get(atom.number(4), "") if atom else ""

    def _read_shapes(self, data: bytes, depth: int = 0) -> Iterator[str]:
        for each in _records(data) if depth < MAX_NESTED_RECORDS else ():
            if each.kind == _COMMENT:
                said = _read_strings(each.body)
                yield f"Comment by {said.get(0, '')}: {said.get(1, '')}".replace("\r\n", "\n")
            elif each.kind == _FOOTERS:
                yield from _read_footers(each.body)
            elif each.kind == _TEXT_BOX:
                yield from self._read_texts(_records(each.body))
            elif each.kind == _ACTION:
                yield from filter(None, [self._find_link(each)])
            elif each.kind == _GROUP and _is_table(each.body):
                yield from self._read_table(each.body)
            elif each.kind == _OPTIONS:
                yield from _read_word_art(each)
            elif each.is_container:
                yield from self._read_shapes(each.body, depth + 1)

    def _read_table(self, data: bytes) -> Iterator[str]:
        rows: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for shape in _records(data):
            if (anchor := _find(shape.body, _CHILD_ANCHOR)) and _find(shape.body, _TEXT_BOX):
                text = " ".join(self._read_shapes(shape.body))
                rows[anchor.number(4)].append((anchor.number(), text))
        for _, cells in sorted(rows.items()):
            yield write_row([text for _, text in sorted(cells)])


def _is_table(group: bytes) -> bool:
    """Whether a group of shapes is a table, by the options of its first shape."""
    shape = _find(group, _SHAPE)
    said = _find(shape.body, _MORE_OPTIONS) if shape else None
    return said is not None and _IS_TABLE in dict(_list_options(said))


def _list_options(said: _Record) -> Iterator[tuple[int, bytes]]:
    """The options of a shape: number, and value if it is stored separately."""
    at = 6 * said.instance
    for place in range(0, at, 6):
        number, size = struct.unpack_from("<HI", said.body, place)
        size = size if number & 0x8000 else 0
        yield number & 0x3FFF, said.body[at : at + size]
        at += size


def _read_word_art(said: _Record) -> Iterator[str]:
    """The text of WordArt, an option of its shape."""
    texts = (value for number, value in _list_options(said) if number == _ART_TEXT)
    yield from filter(None, (text.decode("utf-16-le", "replace").strip("\0") for text in texts))


def _read_footers(data: bytes) -> Iterator[str]:
    """Date, header and footer of slides, if they are shown."""
    flags = _find(data, _FOOTER_FLAGS)
    shown = flags.body[2] if flags else 0
    return (text for at, text in _read_strings(data).items() if shown & _SHOWN.get(at, 0))
