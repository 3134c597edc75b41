"""A file's text -> chunks, symbols, imports and tags, by syntax, headings or lines.

Parsers are loaded on first use and cached per thread.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from sonde.chunking import packing
from sonde.chunking.imports import find_imports
from sonde.chunking.packing import PATH_CHARS, WHOLE, Breaks, cut_plain
from sonde.chunking.symbols import (
    Definition,
    find_definitions,
    is_leading,
    list_symbols,
    roles_of,
)
from sonde.chunking.tags import find_tags
from sonde.runtime.processes import require_memory
from sonde.text.languages import language_of
from sonde.types import Chunk, Kind, Symbol

if TYPE_CHECKING:
    from tree_sitter import Language, Node, Parser, Tree

_MODULES = {
    "csharp": ("tree_sitter_c_sharp", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}
_MAX_PARSED_BYTES = 1024 * 1024  # larger sources are nearly always generated
_MEAN_LINE_BYTES = 400  # minified and generated sources have longer lines than this on average
_STRIDE, _BLOCK, _PERIOD, _RUN = 512, 64, 16, 600  # bytes: step, sample, longest token, run
_READ_BYTES, _MAX_READS = 128, 100
"""The parser reads a source in pieces of this size, each at most this often on average; code
usually needs two or three reads, the worst of 6,000 files seventeen."""
_BASE_MEMORY, _MEMORY_PER_BYTE = 24 << 20, 100
"""Upper bound of the memory for a grammar and a parse, in total and per byte of the source."""

_parsers = threading.local()


@cache
def load_language(grammar: str) -> Language:
    """The compiled grammar of that name."""
    from tree_sitter import Language

    module, function = _MODULES.get(grammar, (f"tree_sitter_{grammar}", "language"))
    return Language(getattr(importlib.import_module(module), function)())


def _parser_for(grammar: str) -> Parser:
    known: Parser | None = getattr(_parsers, grammar, None)
    if known is None:
        from tree_sitter import Parser

        known = Parser(load_language(grammar))
        setattr(_parsers, grammar, known)
    return known


def _repeats(data: bytes) -> bool:
    """Whether a long stretch repeats one short token.

    Error recovery takes quadratic time and more on such text (8 kB can take a minute), and
    the way to stop a parse, the progress callback of tree-sitter 0.26, crashes the process.
    """
    for at in range(0, len(data) - _BLOCK - _PERIOD, _STRIDE):
        block = data[at : at + _BLOCK]
        for period in range(1, _PERIOD + 1):
            if block == data[at + period : at + period + _BLOCK] and not block.isspace():
                low = max(0, at - _STRIDE)
                window = data[low : at + _RUN + _STRIDE]
                unit = block[:period] * (_RUN // period)
                if unit in window:
                    return True
    return False


def parse_tree(grammar: str, data: bytes) -> Tree | None:
    """The syntax tree of a source, with or without errors; None for a source that is huge, minified
    or one token repeated, or would take too long. Raises `MemoryError` where it may not suffice.
    """
    sane = min(_MAX_PARSED_BYTES, _MEAN_LINE_BYTES * (data.count(b"\n") + 2))
    if len(data) > sane or _repeats(data):
        return None
    require_memory(_BASE_MEMORY + _MEMORY_PER_BYTE * len(data))
    left = _MAX_READS * (len(data) // _READ_BYTES + _MAX_READS)

    def read(offset: int, _: object) -> bytes:
        # the number of reads measures the effort, equally on every machine
        nonlocal left
        left -= 1
        if left <= 0:
            return b""  # as if the source ended
        end = offset + _READ_BYTES
        # never inside a character: the parser crashes if the source ends after its first half
        while end < len(data) and data[end] & 0xC0 == 0x80 and end > offset + _READ_BYTES - 3:
            end -= 1
        return data[offset:end]

    tree = _parser_for(grammar).parse(read)
    return tree if left > 0 else None


_SIGNATURE_CHARS = 100  # about a line of code
_MAX_INDENT = 400  # bytes searched for the start of a line; code further right begins none

_DEFINING = frozenset({"type", "function", "scope", "call"})


@dataclass(slots=True)
class _Level:
    """One container on the way down: its remaining children, and what it is."""

    nodes: Iterator[Node]
    large: bool
    first: bool  # until the first definition in a type was seen


@dataclass(slots=True)
class _Lead:
    """Comments and attributes that belong to what follows them without a blank line."""

    start: int = -1
    end: int = -1

    def locate(self, node: Node, data: bytes) -> int:
        """The start of the stretch that `node` belongs to, -1 if it begins inside a line."""
        offset = node.start_byte
        at = data.rfind(b"\n", max(0, offset - _MAX_INDENT), offset) + 1
        if (not at and offset > _MAX_INDENT) or data[at:offset].strip():
            at = -1
        if at >= 0 and self.start >= 0 and data.count(b"\n", self.end, node.start_byte) <= 1:
            at = self.start
        leads = at >= 0 and node.end_byte - at <= WHOLE and is_leading(node)
        self.start, self.end = (at, node.end_byte) if leads else (-1, -1)
        return at


def find_breaks(root: Node, data: bytes, grammar: str) -> Breaks:
    """Borders between siblings, descending only into what is too large for one chunk."""
    roles = roles_of(grammar)
    breaks, lead = Breaks(), _Lead()
    stack = [_Level(iter(root.named_children), large=False, first=False)]
    while stack:
        level = stack[-1]
        node = next(level.nodes, None)
        if node is None:
            stack.pop()
            if level.large:
                breaks.leave()
            continue
        start, end = node.start_byte, node.end_byte
        at = lead.locate(node, data)
        role = roles.get(node.type)
        large = end - (at if at >= 0 else start) > WHOLE
        defines = role in _DEFINING
        if at >= 0:
            kind = packing.ENTER if large else packing.MEMBER if level.first else packing.JOIN
            breaks.add(at, kind if defines else packing.JOIN)
            level.first = level.first and not defines
        if large and data.find(b"\n", start, end) >= 0:
            first = role == "type" or (role == "through" and level.first)
            stack.append(_Level(iter(node.named_children), large=defines, first=first))
    return breaks


def _signature(one: Definition, data: bytes) -> str:
    """The line that opens a definition, without its body."""
    body = one.node.child_by_field_name("body")
    if body is not None and body.start_byte > one.start:
        text = data[one.start : min(body.start_byte, one.start + 4 * _SIGNATURE_CHARS)]
        lines = text.split(b"\n")
        # A comment may stand between the signature and the body.
        ends = (i for i, line in enumerate(lines) if line.rstrip().endswith((b":", b"{")))
        text = b"\n".join(lines[: next(ends, len(lines)) + 1])
    else:
        text = data[one.start : min(one.end, one.start + 4 * _SIGNATURE_CHARS)].split(b"\n", 1)[0]
    line = " ".join(text.decode("utf-8", "replace").split()).rstrip(" :{=(")
    return line if len(line) <= _SIGNATURE_CHARS else line[: _SIGNATURE_CHARS - 1] + "…"


def label_cuts(
    path: str, data: bytes, cuts: list[int], definitions: Sequence[Definition]
) -> tuple[list[str], list[str]]:
    """For each chunk its header (path, enclosing scopes) and the symbol it opens."""
    headers: list[str] = []
    symbols: list[str] = []
    place = path[-PATH_CHARS:]
    scopes_open: list[Definition] = []
    at = 0
    ends = [*cuts[1:], len(data)]
    for start, end in zip(cuts, ends, strict=True):
        while at < len(definitions) and definitions[at].start < start:
            scopes_open.append(definitions[at])
            at += 1
        scopes_open = [one for one in scopes_open if one.end > start]
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
        scopes = [_signature(one, data) for one in scopes_open[-3:]]
        headers.append("\n".join([place, *scopes])[: packing.HEADER_CHARS])
        symbols.append(symbol)
    return headers, symbols


def chunk_code(path: str, data: bytes, grammar: str) -> tuple[list[Chunk], tuple[Symbol, ...]]:
    """Cut a source at its definitions. Returns its chunks and symbols."""
    tree = parse_tree(grammar, data)
    if tree is None:
        return cut_plain(path, data, path[-PATH_CHARS:]), ()
    root = tree.root_node
    found = find_definitions(root, data, grammar)
    whole = len(data) <= packing.TARGET
    cuts = [0] if whole else packing.pack_breaks(find_breaks(root, data, grammar), data)
    headers, symbols = label_cuts(path, data, cuts, found)
    return packing.cut_bytes(path, data, cuts, headers, symbols), list_symbols(found, data, grammar)


VERSION = 3  # grows when the same text gives other chunks or tags than before
MAX_CHUNKS = 1000  # per file; text after them is not searched


@dataclass(frozen=True, slots=True)
class Parsed:
    """Everything parsed from one text; `truncated` if it has more chunks than are kept."""

    chunks: tuple[Chunk, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    imports: tuple[str, ...] = ()
    truncated: bool = False
    tags: tuple[str, ...] = ()


def parse_source(
    path: str, text: str, *, kind: Kind, method: Literal["syntax", "recursive"] = "syntax"
) -> Parsed:
    """Cut a file's text; `recursive` uses plain character windows for the chunks."""
    if not text or text.isspace():
        return Parsed()
    language = language_of(path)
    imports = find_imports(text, language.name) if kind == "code" else ()
    symbols: tuple[Symbol, ...] = ()
    tags: tuple[str, ...] = ()
    data = packing.encode(text)
    if kind == "code" and language.grammar:
        chunks, symbols = chunk_code(path, data, language.grammar)
    elif kind == "docs" or language.kind == "docs":
        from sonde.chunking.markdown import chunk_document

        tags = find_tags(text, language.name)
        chunks = chunk_document(path, data, language.name)
    else:
        chunks = cut_plain(path, data, path[-PATH_CHARS:])
    if method == "recursive":
        chunks = packing.split_text(path, text, kind)
    return Parsed(tuple(chunks[:MAX_CHUNKS]), symbols, imports, len(chunks) > MAX_CHUNKS, tags)
