"""RTF: text, tables, links, footnotes, headers and comments, in the declared encodings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sonde.knowledge.formats import File, RefusedFormat, make_document, write_link
from sonde.stores.knowledge.base import Entry
from sonde.text.formats import read_time

_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})?[ ]?|\\'([0-9a-fA-F]{2})|\\(.)|([{}])|[\r\n]+|([^\\{}\r\n]+)",
    re.DOTALL,
)
_LINK = re.compile(r'HYPERLINK\s+"?([^"\s]{1,2000})')
_HIDDEN = frozenset(
    "fonttbl colortbl listtable listoverridetable revtbl rsidtbl generator xmlnstbl themedata "
    "colorschememapping datastore latentstyles filetbl pgptbl mmathPr bkmkstart bkmkend datafield "
    "objdata blipuid panose falt listpicture picprop objclass nonshppict fldrslttmp".split()
)
_WORDS: Mapping[str, str] = {
    "par": "\n", "line": "\n", "sect": "\n", "page": "\n", "tab": "\t", "cell": " | ", "row": "\n",
    "nestcell": " | ", "nestrow": "\n", "emdash": "—", "endash": "–", "lquote": "‘", "rquote": "’",
    "ldblquote": "“", "rdblquote": "”", "bullet": "•", "emspace": " ",
    "enspace": " ", "qmspace": " ",
}  # fmt: skip
_INFO = frozenset("title author keywords subject operator comment doccomm company manager".split())
_NOTES = frozenset(
    "footnote annotation header headerl headerr headerf footer footerl footerr footerf".split()
)
_DRAWN = frozenset("pict object result shprslt sn sv".split())
_CHARSETS = {0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gb18030", 136: "cp950",
             161: "cp1253", 162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256",
             186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250"}  # fmt: skip
"""Encodings by the character set numbers of Windows."""
_HEADING = re.compile(r"(?i)heading (\d)\b")
_MAX_LEVEL = 9  # of outlines; level 9, counted from 0, is body text
MAX_GROUPS = 1_000  # nested; no real file is deeper


@dataclass(slots=True)
class _Group:
    """The state within a pair of braces."""

    into: list[str]
    encoding: str = "cp1252"
    skip: int = 1
    """Number of fallback characters after `\\u`, for programs without Unicode."""
    hidden: bool = False
    deleted: bool = False
    field_link: list[str] = field(default_factory=list)
    end: str = ""
    """The destination that the group is for."""
    style: int = -1
    in_table: bool = False
    level: int = 0
    """Of a heading; 0 for none."""


def parse_rtf(file: File) -> list[Entry]:
    """A document in the Rich Text Format."""
    if not file.data.lstrip()[:5] == b"{\\rtf":
        raise RefusedFormat("broken", "it does not begin like RTF")
    reader = _Reader(file.data)
    reader.read()
    lines = [re.sub(r"( \| )+$", "", line).rstrip() for line in _join(reader.text).split("\n")]
    said = {name: _join(parts).strip() for name, parts in reader.said.items()}
    notes = [line for note in reader.notes if (line := _join(note).strip())]
    text = "\n".join([*lines, *dict.fromkeys(notes)])
    return [
        make_document(
            file, "rtf", said.get("title", ""), text, lost=reader.lost, created_at=reader.created,
            author=said.get("author", ""), keywords=said.get("keywords", ""),
        )
    ]  # fmt: skip


def _join(parts: list[str]) -> str:
    """The text of these parts, with units of UTF-16 as characters."""
    return "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.text: list[str] = []
        self.notes: list[list[str]] = []
        self.said: dict[str, list[str]] = {}
        self.created: int | None = None
        self.lost: Counter[str] = Counter()
        self._fonts: dict[int, str] = {}
        self._font = 0
        self._groups = [_Group(self.text)]
        self._left = 0  # characters to skip behind a \u
        self._bytes = bytearray()  # of a character that may have two
        self._time: dict[str, int] = {}
        self._levels: dict[int, int] = {}
        """Heading levels by number of the style."""
        self._start = 0  # index of the paragraph in the text
        self._marks = 0  # number of footnotes
        self._author: list[str] = []

    def read(self) -> None:
        at, data, begins = 0, self._data, False
        while found := _TOKEN.match(data, at):
            at = found.end()
            word, number, code, symbol, brace, plain = found.groups()
            if word == b"bin":
                at += max(0, int(number or 0))
            elif code is not None:
                self._write_bytes(bytes.fromhex(code.decode()))
            elif plain is not None:
                self._write_bytes(plain)
            else:
                self._flush()
                self._left = 0  # fallbacks are plain characters
                if brace == b"{":
                    if len(self._groups) > MAX_GROUPS:
                        raise RefusedFormat("hostile", "nested too deeply")
                    above = self._groups[-1]
                    self._groups.append(replace(above, end=""))
                    if above.end == "stylesheet":
                        self._groups[-1] = replace(above, end="style", into=[], hidden=False)
                elif brace == b"}":
                    self._close()
                elif word:
                    self._control(word.decode(), int(number) if number else None)
                elif symbol and (begins or symbol != b"*"):
                    self._symbol(symbol)
            begins = brace == b"{"  # `\*` has a meaning only at the start of a group
        self._flush()

    def _write_bytes(self, data: bytes) -> None:
        while self._left and data:
            data, self._left = data[1:], self._left - 1
        self._bytes += data

    def _flush(self) -> None:
        if self._bytes:
            self._write(self._bytes.decode(self._groups[-1].encoding, "replace"))
            self._bytes.clear()

    def _write(self, text: str) -> None:
        group = self._groups[-1]
        if not group.hidden and not group.deleted:
            group.into.append(text)

    def _close(self) -> None:
        if len(self._groups) == 1:
            return
        group = self._groups.pop()
        if group.end == "style":
            found = _HEADING.match("".join(group.into).strip())
            self._levels[group.style] = group.level or (int(found[1]) if found else 0)
        elif group.end == "instruction":
            self._groups[-1].field_link[:] = _LINK.findall("".join(group.into))[:1]
        elif group.end == "result":
            self._write(write_link("".join(group.into), next(iter(group.field_link), "")))
        elif group.end in ("creatim", "revtim") and self._time.get("yr"):
            known = {"mo": 1, "dy": 1, "hr": 0, "min": 0} | self._time
            when = read_time("{yr:04}-{mo:02}-{dy:02}T{hr:02}:{min:02}".format(**known))
            self.created = self.created or when if group.end == "creatim" else self.created

    def _symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self._groups[-1].end = "*"
        elif symbol in b"{}\\":
            self._write(symbol.decode())
        else:
            self._write({b"~": "\u00a0", b"_": "-", b"\n": "\n", b"\r": "\n"}.get(symbol, ""))

    def _control(self, word: str, number: int | None) -> None:
        group = self._groups[-1]
        if word == "u" and number is not None:
            self._write(chr(number & 0xFFFF))  # a unit of UTF-16
            self._left = group.skip
        elif word == "uc":
            group.skip = min(number or 0, 10)  # programs write 0 to 4
        elif word in ("par", "sect", "page", "row"):
            self._end_paragraph(word, group)
        elif word in ("pard", "intbl", "outlinelevel", "s"):
            self._format_paragraph(word, number, group)
        elif word in _WORDS:
            self._write(_WORDS[word])
        elif word in ("ansicpg", "mac", "f", "deff", "fcharset"):
            self._choose_encoding(word, number or 0, group)
        elif word == "plain":
            group.deleted = False
        elif word == "deleted":
            group.deleted = number != 0
            self.lost["tracked deletion"] += number != 0
        elif word in ("yr", "mo", "dy", "hr", "min") and number is not None:
            self._time[word] = number
        else:
            self._destination(word, group)

    def _end_paragraph(self, word: str, group: _Group) -> None:
        if word == "par" and group.in_table:
            self._write(" ")
            return
        level = group.level or self._levels.get(group.style, 0)
        if group.into is self.text:
            if level and "".join(self.text[self._start :]).strip():
                self.text.insert(self._start, "#" * level + " ")
            self._write("\n")
            self._start = len(self.text)
        else:
            self._write("\n")

    def _format_paragraph(self, word: str, number: int | None, group: _Group) -> None:
        if word == "pard":
            group.in_table, group.level, group.style = False, 0, -1
        elif word == "intbl":
            group.in_table = True
        elif number is not None and word == "s":
            group.style = number
        elif number is not None and number < _MAX_LEVEL:
            group.level = number + 1

    def _choose_encoding(self, word: str, number: int, group: _Group) -> None:
        if word in ("ansicpg", "mac"):
            self._set_encoding("mac_roman" if word == "mac" else f"cp{number}")
        elif word == "fcharset":
            self._fonts[self._font] = _CHARSETS.get(number, "cp1252")
        else:
            self._font = number
            if number in self._fonts and not group.hidden:
                group.encoding = self._fonts[number]

    def _set_encoding(self, name: str) -> None:
        try:
            b"".decode(name)
        except LookupError:
            return
        for group in self._groups:
            group.encoding = name

    def _open_note(self, word: str) -> None:
        mark = ""
        if word == "footnote":
            self._marks += 1
            mark = f"[{self._marks}] "
            self._write(mark.strip())
        elif word == "annotation":
            mark = f"Comment by {''.join(self._author)}: ".replace(" by :", ":")
        self.notes.append([mark])

    def _draw(self, word: str, group: _Group) -> None:
        if word in ("pict", "object"):
            self.lost["picture" if word == "pict" else "embedded object"] += not group.hidden
            group.hidden = word == "pict"
        elif word in ("sn", "sv"):  # name and value of a shape's property, which may be a picture
            group.into = []
        else:
            group.hidden = word == "shprslt"  # the text of the shape, once more

    def _destination(self, word: str, group: _Group) -> None:
        starred = group.end == "*"
        if word in _INFO and not group.hidden:
            self.said[word] = group.into = []
            group.end = word
        elif word in ("creatim", "revtim", "printim", "buptim"):
            self._time, group.end, group.hidden = {}, word, True
        elif word in _NOTES:
            self._open_note(word)
            group.into, group.end = self.notes[-1], word
        elif word == "atnauthor":  # of the comment behind it
            group.into = self._author = []
        elif word == "field":
            group.field_link = []
        elif word == "fldinst":
            group.into, group.end, group.hidden = [], "instruction", False
        elif word == "fldrslt":
            group.into, group.end = [], "result"
        elif word == "stylesheet":
            group.end, group.hidden = word, True
        elif word in _DRAWN:
            self._draw(word, group)
        elif word in _HIDDEN or (starred and word not in ("shpinst", "shptxt", "shppict", "ud")):
            group.hidden = True
        if starred and group.end == "*":
            group.end = ""
