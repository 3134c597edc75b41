"""DOCX with text boxes, content controls, tracked insertions, notes, headers and comments."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from sonde.knowledge.formats import File, RefusedFormat, read_member, write_link
from sonde.knowledge.formats.office import (
    R,
    find_main,
    make_office,
    open_office,
    read_drawn_texts,
    read_part,
    read_relations,
)
from sonde.stores.knowledge.base import Entry

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_LINK = re.compile(r'HYPERLINK\s+"([^"]{1,2000})"')
_HEADING = re.compile(r"(?i)^(?:heading|überschrift|titre|título|titolo) ?(\d)$")
_MAX_LEVEL = 9  # of lists and headings in Word
_LIST, _LIST_LEVEL = f"{W}pPr/{W}numPr/{W}numId", f"{W}pPr/{W}numPr/{W}ilvl"


def parse_docx(file: File) -> list[Entry]:
    """A Word document: headers, text, notes, comments and footers."""
    archive = open_office(file)
    reader = _Reader(file, archive, find_main(archive))
    text = "\n".join(reader.read())
    return [make_office(file, "docx", archive, text, reader.lost)]


class _Reader:
    def __init__(self, file: File, archive: zipfile.ZipFile, main: str) -> None:
        self._file = file
        self._archive = archive
        self._main = main
        self._relations = read_relations(archive, main, file)
        self._styles: dict[str, tuple[int, str, str]] = {}
        """By id of a style: heading level (0 for none), its list, and the level in the list."""
        self._levels: dict[tuple[str, str], tuple[str, str, int]] = {}
        """By list and level: number format, pattern of the text, first number."""
        self._counts: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self._numbers: dict[tuple[str, str], int] = {}
        """Numbers of notes by kind and id, in the order of their marks."""
        self.lost: Counter[str] = Counter()

    def read(self) -> Iterator[str]:
        """The lines of the document."""
        self._read_styles()
        self._read_numbering()
        body = read_part(self._archive, self._main)
        if body is None:
            raise RefusedFormat("broken", "no document")
        kinds: defaultdict[str, list[str]] = defaultdict(list)
        for target, kind in self._relations.values():
            kinds[kind].append(target)
        yield from self._read_others(kinds, "header")
        yield from self._blocks(body)
        for kind in ("footnotes", "endnotes", "comments", "footer", "chart", "diagramData"):
            yield from self._read_others(kinds, kind)

    def _read_others(self, kinds: Mapping[str, list[str]], kind: str) -> Iterator[str]:
        seen: set[str] = set()
        for name in sorted(kinds.get(kind, ())):
            root = read_part(self._archive, name, self._file)
            of_body = self._relations
            self._relations = read_relations(self._archive, name, self._file)
            lines = list(read_drawn_texts(root)) if kind in ("chart", "diagramData") else []
            if root is not None and not lines:
                lines = list(self._notes(root)) if kind.endswith("s") else list(self._blocks(root))
            self._relations = of_body
            for line in lines:
                if line.strip() and (line not in seen or kind.endswith("s")):
                    seen.add(line)  # sections repeat their headers
                    yield line

    def _notes(self, root: Any) -> Iterator[str]:
        """Footnotes, endnotes and comments, with their numbers or authors."""
        for note in root:
            if note.get(f"{W}type") in ("separator", "continuationSeparator", "continuationNotice"):
                continue
            text = "\n".join(self._blocks(note)).strip()
            author = note.get(f"{W}author")
            kind = note.tag.rsplit("}", 1)[-1][:3]
            mark = self.note_mark(kind, note.get(f"{W}id", "")) + " "
            mark = f"Comment by {author}: " if author else mark
            yield f"{mark}{text}" if text else ""

    def _read_beside(self, name: str) -> Any:
        place = posixpath.join(posixpath.dirname(self._main), name)
        return read_part(self._archive, place, self._file)

    def _read_styles(self) -> None:
        root = self._read_beside("styles.xml")
        for style in root.iter(f"{W}style") if root is not None else ():
            name = _find_value(style, f"{W}name")
            found = _HEADING.match(name)
            level = int(found[1]) if found else int(name.lower() == "title")
            listed, below = _find_value(style, _LIST), _find_value(style, _LIST_LEVEL, "0")
            self._styles[style.get(f"{W}styleId", "")] = level, listed, below

    def _read_numbering(self) -> None:
        root = self._read_beside("numbering.xml")
        if root is None:
            return
        abstract = {each.get(f"{W}abstractNumId"): each for each in root.iter(f"{W}abstractNum")}
        for number in root.iter(f"{W}num"):
            refers = number.find(f"{W}abstractNumId")
            base = abstract.get(refers.get(f"{W}val")) if refers is not None else None
            for level in base.iter(f"{W}lvl") if base is not None else ():
                said = {each.tag: each.get(f"{W}val", "") for each in level}
                start = said.get(f"{W}start", "1")
                known = said.get(f"{W}numFmt", ""), said.get(f"{W}lvlText", "")
                key = number.get(f"{W}numId", ""), level.get(f"{W}ilvl", "0")
                self._levels[key] = (*known, int(start) if start.isdigit() else 1)

    def _blocks(self, parent: Any) -> Iterator[str]:
        """The lines of the paragraphs and tables in an element, at any depth."""
        for each in parent:
            if each.tag == f"{W}p":
                yield from self._paragraph(each)
            elif each.tag == f"{W}tbl":
                yield from self._table(each)
            elif each.tag == f"{W}altChunk":
                yield from self._read_inserted(self.target(each.get(f"{R}id", "")))
            elif each.tag == f"{W}del" or each.tag.endswith("}Fallback"):
                continue
            elif len(each):
                yield from self._blocks(each)

    def _read_inserted(self, name: str) -> Iterator[str]:
        """The text of an inserted file (altChunk): HTML, RTF or DOCX."""
        try:
            yield self._file.read_nested(name, read_member(self._archive, name))
        except RefusedFormat:
            self.lost["embedded object"] += 1

    def _table(self, table: Any) -> Iterator[str]:
        for row in _find_children(table, f"{W}tr", f"{W}tbl"):
            cells = [list(self._blocks(cell)) for cell in _find_children(row, f"{W}tc", f"{W}tbl")]
            if any(len(lines) > 1 for lines in cells) and len(cells) == 1:
                yield from cells[0]
            else:
                yield " | ".join(" ".join(filter(None, lines)) for lines in cells)

    def _paragraph(self, paragraph: Any) -> Iterator[str]:
        runs = _Runs(self)
        runs.read(paragraph)
        text = "".join(runs.parts)
        known = self._styles.get(_find_value(paragraph, f"{W}pPr/{W}pStyle"), (0, "", "0"))
        mark = self._number(paragraph, known) if text.strip() else ""
        heading = "#" * known[0] + " " if known[0] and text.strip() else ""
        yield heading + mark + text
        for box in runs.boxes:
            yield from self._blocks(box)

    def _number(self, paragraph: Any, style: tuple[int, str, str]) -> str:
        """The number or bullet of a paragraph in a list."""
        number = _find_value(paragraph, _LIST, style[1])
        at = _find_value(paragraph, _LIST_LEVEL, style[2])
        if number in ("", "0") or (number, at) not in self._levels or not at.isdigit():
            return ""
        level = min(int(at), _MAX_LEVEL)
        kind, text, start = self._levels[number, at]
        if kind in ("bullet", "none", ""):
            return "- " if kind == "bullet" else ""
        counts = self._counts[number]
        counts[level] = counts.get(level, start - 1) + 1
        for deeper in [each for each in counts if each > level]:
            del counts[deeper]

        def show(found: re.Match[str]) -> str:
            which = int(found[1]) - 1
            form = self._levels.get((number, str(which)), ("decimal", "", 1))[0]
            return _spell(counts.get(which, 1), form)

        return re.sub(r"%(\d)", show, text) + " "

    def note_mark(self, kind: str, key: str) -> str:
        """The number of a note in the order of the text."""
        return f"[{self._numbers.setdefault((kind, key), len(self._numbers) + 1)}]"

    def target(self, key: str) -> str:
        """The target of a relation."""
        return self._relations.get(key, ("", ""))[0]


def _find_value(node: Any, path: str, default: str = "") -> str:
    """The `val` attribute of a descendant."""
    found = node.find(path)
    return found.get(f"{W}val", default) if found is not None else default


def _find_children(parent: Any, tag: str, border: str) -> Iterator[Any]:
    """The nearest descendants with a tag, looking through other elements up to a border."""
    for each in parent:
        if each.tag == tag:
            yield each
        elif each.tag != border:
            yield from _find_children(each, tag, border)


def _spell(number: int, form: str) -> str:
    if form in ("lowerLetter", "upperLetter"):
        text = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
    elif form in ("lowerRoman", "upperRoman") and number < 4_000:  # Romans had no more letters
        text = ""
        for value, letters in zip(
            (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),
            "m cm d cd c xc l xl x ix v iv i".split(), strict=True,
        ):  # fmt: skip
            text += letters * (number // value)
            number %= value
    else:
        return str(number)
    return text.upper() if form.startswith("upper") else text


class _Runs:
    """The text of one paragraph: runs, fields, links, notes, breaks."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self.boxes: list[Any] = []
        self.parts: list[str] = []
        self._fields: list[tuple[str, int]] = []
        """Open fields: instruction, and index of the first part of the result (-1 before it)."""

    def read(self, parent: Any) -> None:
        for each in parent:
            name = each.tag.rsplit("}", 1)[-1]
            if name in ("pPr", "rPr", "del", "Fallback", "moveFrom"):
                self._reader.lost["tracked deletion"] += name == "del"
            elif name == "txbxContent":
                self.boxes.append(each)
            elif name in ("hyperlink", "fldSimple"):
                at = len(self.parts)
                self.read(each)
                found = _LINK.search(each.get(f"{W}instr", ""))
                self._link(at, found[1] if found else self._reader.target(each.get(f"{R}id", "")))
            else:
                self._leaf(name, each)

    def _leaf(self, name: str, each: Any) -> None:
        if name == "t":
            self.parts.append(each.text or "")
        elif name in ("tab", "ptab"):
            self.parts.append("\t")
        elif name in ("br", "cr"):
            self.parts.append("\n")
        elif name == "noBreakHyphen":
            self.parts.append("-")
        elif name == "sym":
            code = each.get(f"{W}char", "")
            self.parts.append(chr(int(code, 16)) if re.fullmatch(r"[0-9A-Fa-f]{4}", code) else "")
        elif name in ("footnoteReference", "endnoteReference"):
            self.parts.append(self._reader.note_mark(name[:3], each.get(f"{W}id", "")))
        elif name == "docPr" and each.get("descr"):
            self.parts.append(f" {each.get('descr')} ")
        elif name == "fldChar":
            self._field(each.get(f"{W}fldCharType", ""))
        elif name == "instrText":
            if self._fields:
                code, at = self._fields[-1]
                self._fields[-1] = code + (each.text or ""), at
        else:
            self._reader.lost["picture"] += name in ("pic", "imagedata")
            self._reader.lost["embedded object"] += name == "OLEObject"
            self.read(each)

    def _field(self, kind: str) -> None:
        if kind == "begin":
            self._fields.append(("", -1))
        elif kind == "separate" and self._fields:
            self._fields[-1] = self._fields[-1][0], len(self.parts)
        elif kind == "end" and self._fields:
            code, at = self._fields.pop()
            if (found := _LINK.search(code)) and at >= 0:
                self._link(at, found[1])

    def _link(self, at: int, target: str) -> None:
        self.parts[at:] = [write_link("".join(self.parts[at:]), target)]
