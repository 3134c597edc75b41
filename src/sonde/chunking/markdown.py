"""Documents by their headings: a section with the trail of titles that leads to it.

Sections up to `WHOLE` bytes stay in one piece, smaller neighbours under the same parent are packed
to the target, larger ones are cut between paragraphs, never inside fenced code that fits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sonde.chunking import packing
from sonde.chunking.packing import WHOLE, Breaks, add_paragraphs
from sonde.chunking.patterns import MAX_SYMBOLS
from sonde.chunking.symbols import index_lines
from sonde.text.words import is_generic
from sonde.types import Chunk, Symbol

_MARKS = {
    "markdown": rb"^ {0,3}(?P<mark>#{1,6})[ \t]+(?P<title>[^\n]*)",
    "asciidoc": rb"^(?P<mark>={1,6})[ \t]+(?P<title>[^\n]*)",
    "org": rb"^(?P<mark>\*{1,6})[ \t]+(?P<title>[^\n]*)",
    "latex": rb"^[ \t]*\\(?P<mark>(?:sub)*section|chapter|part)\*?\{(?P<title>[^\n]*?)\}",
    "man": rb"^\.(?P<mark>SH|SS)[ \t]+(?P<title>[^\n]*)",
    "pod": rb"^=(?P<mark>head[1-6])[ \t]+(?P<title>[^\n]*)",
    "jupyter": rb'"cell_type":[ \t]*"(?P<cell>\w+)"'
    rb'|^[ \t]*"(?P<mark>#{1,6})[ \t]+(?P<title>(?:[^"\\\n]|\\[^n])*)(?:\\n)?",?[ \t\r]*$',
}
_MARKS["wiki"] = _MARKS["typst"] = _MARKS["asciidoc"]
_LEVELS = {b"part": 1, b"chapter": 1, b"section": 2, b"subsection": 3, b"subsubsection": 4,
           b"SH": 1, b"SS": 2} | {b"head%d" % level: level for level in range(1, 7)}  # fmt: skip
_FENCES = {
    "markdown": rb"^ {0,3}(?P<fence>`{3,}|~{3,})",
    "asciidoc": rb"^(?P<fence>-{4,}|={4,}|\.{4,})[ \t\r]*$",
}
_SETEXT = rb"^ {0,3}(?P<text>[^\s#>|\-`~*][^\n]*)\n {0,3}(?P<under>=+|-{2,})[ \t\r]*$"
_UNDERLINED = (
    rb"^(?P<over>([=\-~^\"'`#*+.:_])\2{2,}[ \t\r]*\n)?[ \t]*(?P<text>\S[^\n]*)\n"
    rb"(?P<under>={2,}|-{2,}|~{2,}|\^{2,}|\"{2,}|'{2,}|`{2,}|#{2,}|\*{2,}|\+{2,}|\.{2,})[ \t\r]*$"
)
_FRONT = re.compile(rb"\A(---|\+\+\+)[ \t\r]*\n(?:.*?\n)?\1[ \t\r]*(?:\n|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Section:
    """The offset of a heading and its trail of titles; level 0 is the text before the first."""

    start: int
    level: int
    trail: tuple[str, ...]
    titled: int = 0  # where its title stands


def list_sections(data: bytes, sections: Sequence[Section]) -> tuple[Symbol, ...]:
    """The sections of a document as symbols, named by their trails, with all that lies in them."""
    line_at = index_lines(data)
    found: list[Symbol] = []
    following: list[Section] = []
    for one in reversed(sections[1 : MAX_SYMBOLS + 1]):
        while following and following[-1].level > one.level:
            following.pop()
        end = following[-1].start if following else len(data)
        following.append(one)
        stop = one.start + len(data[one.start : end].rstrip()) - 1
        start, line, last = map(line_at, (one.start, one.titled, stop))
        found.append(Symbol(" > ".join(one.trail), "section", line, start, max(line, last)))
    return tuple(reversed(found))


@cache
def _pattern_for(language: str) -> re.Pattern[bytes]:
    title = _SETEXT if language in ("markdown", "jupyter") else _UNDERLINED
    kinds = [_FENCES.get(language), _MARKS.get(language), title]
    return re.compile(b"|".join(kind for kind in kinds if kind), re.MULTILINE)


def _level_of(groups: dict[str, bytes | None], styles: list[tuple[bytes, bool]]) -> int:
    """The level of a heading, 0 if it is none; underlines rank in the order of their first use."""
    mark, under, text = groups.get("mark"), groups["under"] or b"", groups["text"] or b""
    if mark:
        return _LEVELS.get(mark) or len(mark)
    if "over" not in groups:
        return 1 if under[:1] == b"=" else 2
    if len(under) < len(text.decode("utf-8", "replace").strip()):
        return 0
    style = (under[:1], bool(groups["over"]))
    if style not in styles:
        styles.append(style)
    return styles.index(style) + 1


def read_sections(data: bytes, language: str) -> tuple[list[Section], list[tuple[int, int]]]:
    """The sections of a text, by headings outside fenced code and front matter; its fenced code."""
    sections = [Section(0, 0, ())]
    fences: list[tuple[int, int]] = []
    titles: list[tuple[int, str]] = []
    styles: list[tuple[bytes, bool]] = []
    opened: tuple[int, bytes] | None = None
    front = _FRONT.match(data)
    pattern = _pattern_for(language)
    prose = language != "jupyter"  # in a notebook, inside a cell of prose
    for match in pattern.finditer(data, front.end() if front else 0):
        groups = match.groupdict()
        fence = groups.get("fence")
        if cell := groups.get("cell"):
            prose = cell == b"markdown"
        elif not prose:
            continue
        elif opened:
            if fence and fence.startswith(opened[1]):
                fences.append((opened[0], match.end()))
                opened = None
        elif fence:
            opened = (match.start(), fence)
        elif level := _level_of(groups, styles):
            title = (groups.get("title") or groups["text"] or b"").decode("utf-8", "replace")
            title = title.strip("# \t\r")[: packing.HEADER_CHARS]
            titles = [*(one for one in titles if one[0] < level), (level, title)]
            trail = tuple(name for _, name in titles)
            titled = match.start("title" if groups.get("title") else "text")
            sections.append(Section(match.start(), level, trail, titled))
    return sections, fences


def _find_breaks(
    data: bytes, sections: Sequence[Section], fences: Sequence[tuple[int, int]]
) -> Breaks:
    breaks = Breaks()
    base = begun = 0
    for one, end in zip(sections, [*(s.start for s in sections[1:]), len(data)], strict=True):
        # A section above the one that began the current chunk has another parent.
        leaves = one.level < base
        breaks.add(one.start, packing.ENTER if leaves else packing.JOIN)
        if leaves or end - begun > packing.TARGET:
            base, begun = one.level, one.start
        if end - one.start > WHOLE:
            at = one.start
            for start, stop in fences:
                if at <= start < end and stop - start <= WHOLE:
                    add_paragraphs(breaks, data, at, start)
                    at = stop
            add_paragraphs(breaks, data, at, end)
            breaks.leave()
    return breaks


def chunk_document(path: str, data: bytes, language: str) -> tuple[list[Chunk], list[Section]]:
    """Cut a document at its headings; each chunk's header is the path, unless it is generic, and
    its trail. Returns its chunks and sections.
    """
    place = "" if is_generic(path.rpartition(".")[0] or path) else path[-packing.PATH_CHARS :]
    sections, fences = read_sections(data, language)
    cuts = packing.pack_breaks(_find_breaks(data, sections, fences), data)
    headers: list[str] = []
    index = 0
    for cut, end in zip(cuts, [*cuts[1:], len(data)], strict=True):
        while index + 1 < len(sections) and sections[index + 1].start <= cut:
            index += 1
        trail = sections[index].trail
        if not trail and index + 1 < len(sections) and sections[index + 1].start < end:
            trail = sections[index + 1].trail
        headers.append("\n".join(filter(None, (place, " > ".join(trail))))[: packing.HEADER_CHARS])
    return packing.cut_bytes(path, data, cuts, headers, [""] * len(cuts)), sections
