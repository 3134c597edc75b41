"""OpenDocument: texts, spreadsheets and presentations, packed or flat."""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sonde.knowledge.formats import (
    File,
    RefusedFormat,
    make_document,
    open_archive,
    parse_xml,
    read_member,
    write_link,
)
from sonde.knowledge.formats.office import read_part, write_row
from sonde.stores.knowledge.base import Entry
from sonde.text.formats import read_time

_NAMES = "urn:oasis:names:tc:opendocument:xmlns:"
T = f"{{{_NAMES}text:1.0}}"
_TABLE = f"{{{_NAMES}table:1.0}}"
_OFFICE = f"{{{_NAMES}office:1.0}}"
_DRAW = f"{{{_NAMES}drawing:1.0}}"
_STYLE = f"{{{_NAMES}style:1.0}}"
_SHOW = f"{{{_NAMES}presentation:1.0}}"
_SVG = f"{{{_NAMES}svg-compatible:1.0}}"
_HREF = "{http://www.w3.org/1999/xlink}href"
MAX_REPEATED = 1_000  # repetitions of a column or row; more are layout


def parse_opendocument(file: File) -> list[Entry]:
    """An OpenDocument file: headers, text, notes and footers."""
    lost: Counter[str] = Counter()
    archive = None
    if file.data.startswith(b"PK"):
        archive = open_archive(file.data)
        manifest = read_part(archive, "META-INF/manifest.xml", file)
        if manifest is not None and any("encryption" in each.tag for each in manifest.iter()):
            raise RefusedFormat("encrypted")
        roots = [parse_xml(read_member(archive, "content.xml"))]
        others = (read_part(archive, name, file) for name in ("styles.xml", "meta.xml"))
        roots += [each for each in others if each is not None]
        lost["damaged part"] = len(file.left_out)
    else:
        roots = [parse_xml(file.data)]
    reader = _Reader(roots, lost, archive)
    body = next((node for node in roots[0].iter(f"{_OFFICE}body")), None)
    if body is None:
        raise RefusedFormat("broken", "no body")
    lines = [*reader.read_margins("header"), *reader.blocks(body), *reader.notes]
    lines += reader.read_margins("footer")
    said: dict[str, str] = {}
    for meta in (node for root in roots for node in root.iter(f"{_OFFICE}meta")):
        for each in meta:
            name, value = each.tag.rsplit("}", 1)[-1], (each.text or "").strip()
            said[name] = f"{said.get(name, '')},{value}" if name == "keyword" else value
    return [
        make_document(
            file, file.suffix.removeprefix("f"), said.get("title", ""), "\n".join(lines), lost=lost,
            author=said.get("initial-creator") or said.get("creator", ""),
            keywords=said.get("keyword", ""), last_modified=read_time(said.get("date", "")),
            created_at=read_time(said.get("creation-date", "")),
        )
    ]  # fmt: skip


class _Reader:
    def __init__(
        self, roots: list[Any], lost: Counter[str], archive: zipfile.ZipFile | None
    ) -> None:
        self._roots = roots
        self._archive = archive
        self._lost = lost
        self.notes: list[str] = []
        self._lists: dict[str, dict[int, str]] = {}
        """The suffix of numbers by list style and level, empty for bullets."""
        for root in roots:
            for style in root.iter(f"{T}list-style"):
                levels = self._lists.setdefault(style.get(f"{_STYLE}name", ""), {})
                for level in style:
                    depth = _read_number(level, f"{T}level")
                    numbers = level.tag.endswith("-number") and level.get(f"{_STYLE}num-format")
                    suffix = level.get(f"{_STYLE}num-suffix", "") or "."
                    levels[depth] = suffix if numbers else ""

    def read_margins(self, kind: str) -> Iterator[str]:
        """Distinct headers or footers."""
        seen: set[str] = set()
        for root in self._roots:
            for each in root.iter(f"{_STYLE}{kind}"):
                for line in self.blocks(each):
                    if line.strip() and line not in seen:
                        seen.add(line)
                        yield line

    def blocks(self, parent: Any) -> Iterator[str]:
        """The lines of an element's content."""
        readers: Mapping[str, Callable[[Any], Iterator[str]]] = {
            f"{T}p": self._paragraph, f"{T}h": self._paragraph, f"{T}list": self._list,
            f"{_TABLE}table": self._table, f"{_OFFICE}spreadsheet": self._sheets,
            f"{_DRAW}page": self._slide, f"{_OFFICE}annotation": self._comment,
        }  # fmt: skip
        for each in parent:
            if each.tag in readers:
                yield from readers[each.tag](each)
            elif each.tag == f"{_DRAW}frame" and each.find(f"{_DRAW}object") is not None:
                yield from self._object(each)
            elif each.tag == f"{T}tracked-changes":
                self._lost["tracked deletion"] += sum(1 for _ in each.iter(f"{T}deletion"))
            elif each.tag in (f"{_SVG}title", f"{_SVG}desc") and each.text:
                yield each.text
            elif not each.tag.endswith("-source"):  # of a table of contents
                self._count(each)
                yield from self.blocks(each)

    def _sheets(self, book: Any) -> Iterator[str]:
        for sheet in book:
            name = sheet.get(f"{_TABLE}name") if sheet.tag == f"{_TABLE}table" else ""
            yield from [f"# {name}"] if name else []
            yield from self.blocks([sheet])

    def _count(self, node: Any) -> None:
        self._lost["picture"] += node.tag == f"{_DRAW}image"
        self._lost["embedded object"] += node.tag in (f"{_DRAW}object", f"{_DRAW}object-ole")
        self._lost["recording"] += node.tag == f"{_DRAW}plugin"

    def _slide(self, page: Any) -> Iterator[str]:
        yield f"Slide {page.get(f'{_DRAW}name', '')}".strip()
        for shape in page:
            is_title = shape.get(f"{_SHOW}class") == "title"
            lines = list(self.blocks([shape]))
            if is_title and lines:
                lines[0] = f"# {lines[0]}"
            yield from (line for line in lines if line.strip())
        yield ""

    def _paragraph(self, node: Any, mark: str = "") -> Iterator[str]:
        behind: list[str] = []
        text = self._inline(node, behind)
        if node.tag == f"{T}h" and text.strip():
            mark = "#" * _read_number(node, f"{T}outline-level") + " " + mark
        yield mark + text
        yield from behind

    def _inline(self, node: Any, behind: list[str]) -> str:
        """The text of a paragraph; text boxes and comments are added to `behind`."""
        parts = [node.text or ""]
        for each in node:
            name = each.tag
            if name == f"{T}s":
                parts.append(" " * min(_read_number(each, f"{T}c"), MAX_REPEATED))
            elif name == f"{T}tab":
                parts.append("\t")
            elif name == f"{T}line-break":
                parts.append("\n")
            elif name == f"{T}note":
                cited = each.findtext(f"{T}note-citation") or "*"
                body = each.find(f"{T}note-body")
                lines = list(self.blocks(body)) if body is not None else []
                parts.append(f"[{cited}]")
                self.notes.append(f"[{cited}] " + "\n".join(lines))
            elif name == f"{_OFFICE}annotation":
                behind += self._comment(each)
            elif name == f"{T}a":
                parts.append(write_link(self._inline(each, behind), each.get(_HREF, "")))
            elif name in (f"{_DRAW}frame", f"{_DRAW}custom-shape", f"{_DRAW}g", f"{_DRAW}text-box"):
                behind += self.blocks([each])
            elif not name.endswith(("}annotation-end", "}bookmark", "}page-number", "}page-count")):
                parts.append(self._inline(each, behind))
            parts.append(each.tail or "")
        return "".join(parts) if "\n" in parts else re.sub(r"\s*\n\s*", " ", "".join(parts))

    def _comment(self, node: Any) -> Iterator[str]:
        author = node.findtext("{http://purl.org/dc/elements/1.1/}creator") or ""
        lines = [line for each in node if each.tag.startswith(T) for line in self.blocks([each])]
        yield f"Comment by {author}: ".replace(" by :", ":") + " ".join(lines)

    def _list(self, node: Any, depth: int = 1, above: str = "") -> Iterator[str]:
        style = node.get(f"{T}style-name", above)
        suffix = self._lists.get(style, {}).get(depth, "")
        number = 0
        for item in node:
            number = _read_number(item, f"{T}start-value", number + 1)
            mark = (f"{number}{suffix} " if suffix else "- ") if item.tag == f"{T}list-item" else ""
            for each in item:
                if each.tag == f"{T}list":
                    yield from self._list(each, depth + 1, style)
                elif each.tag in (f"{T}p", f"{T}h"):
                    yield from self._paragraph(each, mark)
                    mark = ""
                else:
                    yield from self.blocks([each])

    def _object(self, frame: Any) -> Iterator[str]:
        """The texts of an embedded chart or document, or of its picture's description."""
        inner = frame.find(f"{_DRAW}object")
        place = inner.get(_HREF, "").removeprefix("./")
        packed = None
        if self._archive and place:  # a damaged one counts like an unreadable one
            packed = read_part(self._archive, f"{place}/content.xml", File("", b""))
        bodies = (inner if packed is None else packed).iter(f"{_OFFICE}body")
        lines = [line for body in bodies for line in self.blocks(body) if line.strip()]
        self._lost["embedded object"] += not lines
        yield from lines
        yield from self.blocks(each for each in frame if each.tag.startswith(_SVG))

    def _table(self, node: Any) -> Iterator[str]:
        for row in _find_rows(node):
            cells: list[str] = []
            for cell in row:
                lines = [line for line in self.blocks(cell) if line.strip()]
                times = _read_number(cell, f"{_TABLE}number-columns-repeated")
                cells += [" ".join(lines)] * (times if lines and times <= MAX_REPEATED else 1)
            times = _read_number(row, f"{_TABLE}number-rows-repeated")
            if line := write_row(cells):
                yield from [line] * (times if times <= MAX_REPEATED else 1)
        for shapes in node.findall(f"{_TABLE}shapes"):  # what lies on a sheet
            yield from self.blocks(shapes)


def _read_number(node: Any, name: str, default: int = 1) -> int:
    written = node.get(name, "")
    return int(written) if written.isdigit() else default


def _find_rows(node: Any) -> Iterator[Any]:
    """The rows of a table and of its groups, without those of nested tables."""
    for each in node:
        if each.tag == f"{_TABLE}table-row":
            yield each
        elif each.tag != f"{_TABLE}shapes":
            yield from _find_rows(each)
