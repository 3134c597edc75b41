"""Presentations and workbooks: PPTX, XLSX, and XLS and XLSB by calamine."""

from __future__ import annotations

import contextlib
import io
import re
import struct
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from itertools import islice, takewhile
from typing import Any

from sonde.knowledge.formats import File, RefusedFormat, make_document, read_member
from sonde.knowledge.formats.office import (
    OLE,
    R,
    find_main,
    make_legacy,
    make_office,
    open_office,
    open_ole,
    read_drawn_texts,
    read_part,
    read_relations,
    read_stream,
    write_row,
)
from sonde.stores.knowledge.base import Entry

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"
_DML = "http://schemas.openxmlformats.org/drawingml/2006/"
_EOF, _FORMAT, _XF = 0x0A, 0x041E, 0x00E0  # records of XLS: end, number format, cell format
_TEXT_OBJECT, _CONTINUE, _LINK = 0x01B6, 0x003C, 0x01B8  # comment or text box, its text; link
_RESULT, _CHART_TEXT = 0x0207, 0x100D  # text of a formula, which may be continued; chart title
_CHART = re.compile(rb"\x09\x08\x10\x00\x00\x06\x20\x00.{12}", re.DOTALL)  # its first record
_CELLS, _PASSED_OVER = (*range(0x0200, 0x0206), 0x027E, 0x00BD), 0x1065
_URL = re.compile(
    rb"\xe0\xc9\xea\x79\xf9\xba\xce\x11\x8c\x82\x00\xaa\x00\x4b\xa9\x0b(....)", re.DOTALL
)
"""The bytes before an address in a link, and its length."""
_PASSWORD = 0x002F  # one of the first records of an encrypted XLS
_OLDEST = re.compile(rb"\x09[\x00\x02\x04]\x06\x00")  # first record of an XLS before Excel 5
_OWN_FORMATS = range(164, 383)  # numbers of custom formats
MAX_CELLS = 5_000_000  # of a workbook: as many as fit in a parser's memory as text
_STYLES, _TEXTS = "xl/styles.xml", "xl/sharedStrings.xml"
_TEXT_NUMBER = re.compile(rb't="s"[^>]*><v>(\d{1,7})</v>')
_FORMULA = re.compile(rb"<f[ >/](?:[^<]|<(?!/c>))*?(?=</c>|<v|<is>)(?P<value><v>[^<]|<is>)?")


def parse_pptx(file: File) -> list[Entry]:
    """The slides of a presentation with tables, charts, diagrams, notes and comments."""
    archive = open_office(file)
    main = find_main(archive)
    targets = read_relations(archive, main, file)
    root = read_part(archive, main)
    if root is None:
        raise RefusedFormat("broken", "no presentation")
    lost: Counter[str] = Counter()
    parts: list[str] = []
    listed = [each.get(f"{R}id", "") for each in root.iter(f"{_P}sldId")]
    for number, key in enumerate(listed, 1):
        name = targets.get(key, ("", ""))[0]
        try:
            parts += [f"Slide {number}", *_read_slide(file, archive, name, lost), ""]
        except RefusedFormat as error:
            lost["damaged page"] += 1
            file.skip_part(f"slide {number}", error.detail)
    return [make_office(file, "pptx", archive, "\n".join(parts), lost)]


def _read_slide(
    file: File, archive: zipfile.ZipFile, name: str, lost: Counter[str]
) -> Iterator[str]:
    slide = read_part(archive, name)
    if slide is None:
        return
    targets = read_relations(archive, name, file)
    yield from _read_shapes(slide, targets, archive, lost)
    for target, kind in sorted(targets.values()):
        if kind == "notesSlide" and (notes := read_part(archive, target, file)) is not None:
            yield from _read_shapes(notes, {}, archive, Counter(), notes=True)
        elif kind == "comments" and (root := read_part(archive, target, file)) is not None:
            yield from (f"Comment: {each.text}" for each in root.iter(f"{_P}text") if each.text)


def _read_shapes(
    parent: Any, targets: Any, archive: zipfile.ZipFile, lost: Counter[str], *, notes: bool = False
) -> Iterator[str]:
    for each in parent:
        if each.tag == f"{_P}sp":
            kind = each.find(f".//{_P}nvPr/{_P}ph")
            known = kind.get("type", "") if kind is not None else ""
            if notes and known in ("sldNum", "hdr", "dt", "sldImg"):
                continue
            mark = "# " if known in ("title", "ctrTitle") and not notes else ""
            text = "\n".join(_read_paragraphs(each, targets))
            yield from [mark + text] if text.strip() else []
        elif each.tag == f"{_A}tbl":
            for row in each.iter(f"{_A}tr"):
                cells = (_read_paragraphs(cell, targets) for cell in row.iter(f"{_A}tc"))
                yield " | ".join(map(" ".join, cells))
        elif each.tag == f"{_A}graphicData" and each.get("uri") != f"{_DML}table":
            found = False
            for inner in each:
                for key in (inner.get(f"{R}id"), inner.get(f"{R}dm")):
                    target = targets.get(key, ("", ""))[0] if key else ""
                    # a damaged one counts like one without text
                    root = read_part(archive, target, File("", b"")) if target else None
                    texts = list(read_drawn_texts(root))
                    found = found or bool(texts)
                    yield from texts
            lost["embedded object"] += not found
        elif each.tag == f"{_P}pic":
            said = each.find(f"{_P}nvPicPr/{_P}cNvPr")
            lost["picture"] += 1
            yield from [said.get("descr")] if said is not None and said.get("descr") else []
        elif not each.tag.endswith("}Fallback"):
            yield from _read_shapes(each, targets, archive, lost, notes=notes)


def _read_paragraphs(shape: Any, targets: Any) -> Iterator[str]:
    for paragraph in shape.iter(f"{_A}p"):
        parts: list[str] = []
        for run in paragraph:
            if run.tag == f"{_A}br":
                parts.append("\n")
                continue
            text = "".join(each.text or "" for each in run.iter() if each.tag.endswith("}t"))
            link = run.find(f"{_A}rPr/{_A}hlinkClick")
            target = (
                targets.get(link.get(f"{R}id"), ("", ""))[0] if link is not None and targets else ""
            )
            parts.append(f"[{text}]({target})" if text and target.startswith("http") else text)
        if "".join(parts).strip():
            yield "".join(parts)


def parse_xlsx(file: File) -> list[Entry]:
    """The sheets of a workbook as lines of cells, then comments and links."""
    archive = open_office(file)
    lost: Counter[str] = Counter()
    try:
        parts = list(_read_sheets(file, lost))
    except RefusedFormat as error:
        if error.reason != "broken":
            raise
        parts = list(_read_sheets(replace(file, data=_leave_out_damaged(file, archive)), lost))
    for name in sorted(archive.namelist()):
        if re.match(r"xl/worksheets/[^/]+\.xml$", name):
            lost["formula without a result"] += _count_formulas(archive, name)
            targets = read_relations(archive, name, file).values()
            links = [target for target, kind in targets if kind == "hyperlink"]
            parts += dict.fromkeys(links)
        elif re.match(r"xl/(?:threadedComments/|comments).*\.xml$", name):
            root = read_part(archive, name, file)
            for each in root.iter() if root is not None else ():
                if each.tag.endswith(("}comment", "}threadedComment")):
                    said = (part for part in each.iter() if part.tag.endswith(("}t", "}text")))
                    parts.append("Comment: " + "".join(part.text or "" for part in said))
        elif re.match(r"xl/(?:charts/chart|drawings/drawing)[^/]*\.xml$", name):
            drawn = read_drawn_texts(read_part(archive, name, file))
            parts += [text for text in drawn if not re.fullmatch(r"[\d.eE+-]+", text)]
    return [make_office(file, "xlsx", archive, "\n".join(parts), lost)]


def _leave_out_damaged(file: File, archive: zipfile.ZipFile) -> bytes:
    """The workbook without damaged styles and shared texts, which calamine cannot open."""
    present = {_STYLES, _TEXTS} & set(archive.namelist())
    damaged = {name for name in present if read_part(archive, name, file) is None}
    packed, highest = io.BytesIO(), 0
    with zipfile.ZipFile(packed, "w") as target:
        for name in set(archive.namelist()) - damaged:
            with contextlib.suppress(RefusedFormat):
                data = read_member(archive, name)
                target.writestr(name, data)
                highest = max([highest, *map(int, _TEXT_NUMBER.findall(data))])
        if _TEXTS in damaged:  # empty texts, to keep the cells with numbers
            space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
            empty = "<si><t/></si>" * (highest + 1)
            target.writestr(_TEXTS, f'<sst xmlns="{space}">{empty}</sst>')
    return packed.getvalue()


def _count_formulas(archive: zipfile.ZipFile, name: str) -> int:
    """The number of formulas without a result; calamine reports a damaged sheet."""
    try:
        found = _FORMULA.finditer(read_member(archive, name))
    except RefusedFormat:
        return 0
    return sum(each["value"] is None for each in found)


def parse_workbook(file: File) -> list[Entry]:
    """A workbook in XLS or XLSB."""
    import olefile

    lost: Counter[str] = Counter()
    if not file.data.startswith(OLE):
        text = "\n".join(_read_sheets(file, lost))
        lost["damaged part"] = len(file.left_out)
        return [make_document(file, file.suffix, file.stem, text, lost=lost)]
    archive = open_ole(file)
    name = next(filter(archive.exists, ("EncryptedPackage", "Workbook", "Book")), "")
    records = read_stream(archive, name)
    first = islice(_list_records(records), 5)
    if name == "EncryptedPackage" or any(kind == _PASSWORD for kind, _, _ in first):
        raise RefusedFormat("encrypted")  # calamine does not recognise it
    copy, remarks = io.BytesIO(file.data), list[str]()
    with contextlib.suppress(OSError, ValueError, struct.error, IndexError):
        olefile.OleFileIO(copy, write_mode=True).write_stream("Workbook", _mend_records(records))
        remarks += _read_remarks(records)
    lines = [*_read_sheets(replace(file, data=copy.getvalue()), lost), *dict.fromkeys(remarks)]
    lost["damaged part"] = len(file.left_out)
    return [make_legacy(file, archive, "\n".join(lines), lost)]


def _read_remarks(records: bytes) -> Iterator[str]:
    """Comments, text boxes, links, chart titles and long texts, which calamine leaves out."""
    left = 0  # characters of a text that continue in the next record
    for kind, at, size in _list_records(records):
        body = records[at : at + size]
        if kind == _CONTINUE and left > 0 and size > 1:
            text = body[1:].decode("utf-16-le" if body[0] & 1 else "latin-1", "replace")
            left -= len(text)
            yield text.strip("\0")
            continue
        left = 0
        if kind == _TEXT_OBJECT:
            (left,) = struct.unpack_from("<H", body, 10)
        elif kind == _RESULT:
            left = struct.unpack_from("<H", body)[0] - (size - 3) // (1 + (body[2] & 1))
        elif kind == _CHART_TEXT:
            yield body[4:].decode("utf-16-le" if body[3] & 1 else "latin-1", "replace")
        elif kind == _LINK and (found := _URL.search(body)):
            (length,) = struct.unpack("<I", found[1])
            address = body[found.end() : found.end() + length].decode("utf-16-le", "replace")
            yield address.partition("\0")[0]


def _list_records(records: bytes | bytearray, at: int = 0) -> Iterator[tuple[int, int, int]]:
    """Kind, offset and size of each record of an XLS."""
    while at + 4 <= len(records):
        kind, size = struct.unpack_from("<HH", records, at)
        yield kind, at + 4, size
        at += 4 + size


def _read_sheets(file: File, lost: Counter[str]) -> Iterator[str]:
    import python_calamine

    try:
        book = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(file.data))
    except python_calamine.PasswordError as error:
        raise RefusedFormat("encrypted") from error
    except python_calamine.CalamineError as error:
        if _OLDEST.match(file.data):
            raise RefusedFormat("unknown", "Excel 4 or older: save it as XLSX") from error
        raise RefusedFormat("broken", str(error)) from error
    cells = 0
    for name in book.sheet_names:
        try:
            rows = book.get_sheet_by_name(name).to_python(skip_empty_area=True)
        except python_calamine.CalamineError as error:
            file.skip_part(name, str(error))
            continue
        yield f"# {name}"
        for row in rows:
            filled = len(row) - row.count("")
            cells += filled
            if cells > MAX_CELLS:
                lost["row over the limit"] += bool(filled)
            elif filled and (line := write_row([show_cell(cell) for cell in row])):
                yield line


def _mend_records(data: bytes) -> bytes:
    """Rewrite an XLS to avoid two defects of calamine.

    It takes formats below 164 for built-in ones, but gnumeric stores its dates under 50: they would
    become numbers. And it reads the cached values of a chart as the first cells of the sheet.
    """
    records = bytearray(data)
    places: dict[int, list[int]] = defaultdict(list)
    own: set[int] = set()
    for kind, at, _ in takewhile(lambda row: row[0] != _EOF, _list_records(records)):
        if kind in (_FORMAT, _XF):
            place = at + (2 if kind == _XF else 0)
            (number,) = struct.unpack_from("<H", records, place)
            places[number].append(place)
            own |= {number} if kind == _FORMAT else set()
    free = (number for number in _OWN_FORMATS if number not in own)
    for number in own - set(_OWN_FORMATS):
        new = next(free, number)
        for place in places[number]:
            struct.pack_into("<H", records, place, new)
    for chart in _CHART.finditer(records):
        inside = _list_records(records, chart.end())
        for kind, at, _ in takewhile(lambda row: row[0] != _EOF, inside):
            if kind in _CELLS:
                struct.pack_into("<H", records, at - 4, _PASSED_OVER)
    return bytes(records)


def show_cell(value: Any) -> str:
    """The text that a spreadsheet shows for a value."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime) and not (value.hour or value.minute or value.second):
        return value.date().isoformat()
    return str(value).replace("\0", "")  # calamine reads some UTF-16 texts as single bytes
