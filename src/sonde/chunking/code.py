"""The syntax chunker: whole definitions where they fit, with the context they stand in."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sonde.chunking.grammars import parse_tree
from sonde.chunking.symbols import Definition, Outline, find_definitions, roles_of
from sonde.chunking.text import cut_bytes
from sonde.types import Chunk, Symbol

if TYPE_CHECKING:
    from tree_sitter import Node

TARGET = 1500
"""Neighbours are packed together up to this many bytes."""
LARGEST = 2500
"""No chunk is larger."""
_WHOLE = 2300
"""A definition up to this size stays in one piece (with room for what closes around it)."""
_SMALL = 250
_HEADER_ALONE = 400
_HEADER_LENGTH = 299

_LEADING = re.compile(
    "comment|attribute|annotation|decorator|^haddock|^signature$|^unary_operator$"
)
_SOFT_ENDS = re.compile(rb"[;,\s}](?=[^;,\s}]*\Z)")
_PARAGRAPH = re.compile(rb"\n[ \t\r]*\n(?=[^\s])")


class _Breaks:
    """Where a file may be cut, in order: 0 if neighbours may be packed across, 1 if only a
    small piece may, 2 if the border of something large runs there."""

    def __init__(self) -> None:
        self.at: list[int] = [0]
        self.force: list[int] = [0]

    def add(self, offset: int, force: int) -> None:
        if offset > self.at[-1]:
            self.at.append(offset)
            self.force.append(force)
        elif offset == self.at[-1]:
            self.force[-1] = max(force, self.force[-1])


def _line_start(data: bytes, offset: int) -> int:
    """The start of the line if only blanks precede `offset` on it, otherwise -1."""
    start = data.rfind(b"\n", 0, offset) + 1
    return start if not data[start:offset].strip() else -1


def find_breaks(root: Node, data: bytes, grammar: str) -> _Breaks:
    """Borders between siblings, descending only into what is too large for one chunk."""
    roles = roles_of(grammar)
    breaks = _Breaks()
    stack: list[tuple[list[Node], int, bool]] = [(root.children, 0, False)]
    lead = lead_end = -1
    force = 0
    while stack:
        nodes, index, first_member = stack.pop()
        while index < len(nodes):
            node = nodes[index]
            index += 1
            if not node.is_named:
                continue
            start, end = node.start_byte, node.end_byte
            at = _line_start(data, start)
            if at < 0:
                lead = -1
            else:
                if lead >= 0 and data.count(b"\n", lead_end, start) <= 1:
                    at = lead
                if _LEADING.search(node.type):
                    if lead != at:
                        lead = at
                        breaks.add(at, force)
                        force = 0
                    lead_end = end
                    if end - lead <= _WHOLE:
                        continue
                else:
                    lead = -1
            large = end - (at if at >= 0 else start) > _WHOLE
            role = roles.get(node.type)
            defines = role in ("type", "function", "scope", "call")
            if at >= 0:
                if large and defines:
                    force = 2
                elif first_member and defines:
                    force = max(force, 1)
                    first_member = False
                breaks.add(at, force)
                force = 0
            if large and data.find(b"\n", start, end) >= 0:
                stack.append((nodes, index, first_member))
                nodes, index, first_member = node.children, 0, first_member or role == "type"
                if defines:
                    stack.append(([], 0, False))
        if not nodes:
            force = 2
    return breaks


def _split_lines(data: bytes, start: int, end: int) -> list[int]:
    """Cuts that bring an oversize stretch below the limit: at lines, else at soft ends."""
    cuts = [start]
    pieces = -(-(end - start) // TARGET)
    step = min(LARGEST, -(-(end - start) // pieces) + 200)
    while end - cuts[-1] > LARGEST:
        low = cuts[-1]
        cut = data.rfind(b"\n", low, low + step) + 1
        if cut <= low:
            found = _SOFT_ENDS.search(data[low : low + LARGEST])
            cut = low + found.end() if found else low + LARGEST
            while cut > low + 1 and data[cut] & 0xC0 == 0x80:
                cut -= 1
        cuts.append(cut)
    return cuts


def pack_breaks(breaks: _Breaks, data: bytes) -> list[int]:
    """Choose the breaks that become cuts."""
    cuts = [0]
    hard: list[bool] = [False]
    ends = [*breaks.at[1:], len(data)]
    for start, end, force in zip(breaks.at, ends, breaks.force, strict=True):
        size = start - cuts[-1]
        full = end - cuts[-1] > TARGET
        if size and (full or force == 2 or (force == 1 and size >= _HEADER_ALONE)):
            if size < _SMALL and not hard[-1] and end - cuts[-1] <= LARGEST and force < 2:
                pass
            else:
                cuts.append(start)
                hard.append(force == 2)
        if end - cuts[-1] > LARGEST:
            more = _split_lines(data, cuts[-1], end)[1:]
            cuts.extend(more)
            hard.extend([False] * len(more))
    return _merge_small(cuts, hard, len(data))


def _merge_small(cuts: list[int], hard: list[bool], size: int) -> list[int]:
    """A sliver joins the piece before it, or the large one it leads to."""
    kept: list[int] = [0]
    ends = [*cuts[1:], size]
    for index in range(1, len(cuts)):
        before, at, end = kept[-1], cuts[index], ends[index]
        tail = end - at < _SMALL and not hard[index]
        lead = at - before < _SMALL and not (len(kept) > 1 and hard[index - 1])
        if (tail or lead) and end - before <= LARGEST:
            continue
        kept.append(at)
    return kept


def pack_lines(data: bytes) -> list[int]:
    """Cuts of a text without a grammar: paragraphs packed together, large ones by lines."""
    breaks = _Breaks()
    if len(data) > TARGET:
        for match in _PARAGRAPH.finditer(data):
            breaks.add(match.end(), 0)
    return pack_breaks(breaks, data)


def _signature(one: Definition, data: bytes) -> str:
    """The line that opens a definition, without its body."""
    body = one.node.child_by_field_name("body")
    end = body.start_byte if body is not None and body.start_byte > one.start else one.end
    text = data[one.start : min(end, one.start + 400)]
    if body is None:
        text = text.split(b"\n", 1)[0]
    line = " ".join(text.decode("utf-8", "replace").split()).rstrip(" :{=(")
    return line if len(line) <= 100 else line[:99] + "…"


def label_cuts(
    path: str, data: bytes, cuts: list[int], outline: Outline
) -> tuple[list[str], list[str]]:
    """For each chunk its header (path, enclosing scopes) and the symbol it opens."""
    headers: list[str] = []
    symbols: list[str] = []
    definitions = outline.definitions
    place = path if len(path) <= 140 else "…" + path[-139:]
    open_ones: list[Definition] = []
    at = 0
    ends = [*cuts[1:], len(data)]
    for start, end in zip(cuts, ends, strict=True):
        while at < len(definitions) and definitions[at].start < start:
            open_ones.append(definitions[at])
            at += 1
        open_ones = [one for one in open_ones if one.end > start]
        inside = at
        symbol = ""
        while inside < len(definitions) and definitions[inside].start < end:
            one = definitions[inside]
            inside += 1
            if one.role in ("type", "function"):
                symbol = one.name
                break
            if one.role == "value":
                symbol = symbol or one.name
        scopes = [_signature(one, data) for one in open_ones[-3:] if one.end - start > 2]
        headers.append("\n".join([place, *scopes])[:_HEADER_LENGTH])
        symbols.append(symbol)
    return headers, symbols


def chunk_code(path: str, data: bytes, grammar: str) -> tuple[list[Chunk], tuple[Symbol, ...]]:
    """Cut a source at its definitions; also returns what it defines."""
    tree = parse_tree(grammar, data)
    root = tree.root_node
    outline = find_definitions(root, data, grammar)
    cuts = pack_breaks(find_breaks(root, data, grammar), data) if len(data) > TARGET else [0]
    headers, symbols = label_cuts(path, data, cuts, outline)
    return cut_bytes(path, data, cuts, headers, symbols), outline.symbols(data)
