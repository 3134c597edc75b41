"""A file's text -> chunks, symbols, imports and tags, by syntax, headings or lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sonde.chunking import packing
from sonde.chunking.details import find_details
from sonde.chunking.grammars import NOT_BREAKS, is_written, parse_tree
from sonde.chunking.imports import find_imports
from sonde.chunking.keys import find_keys
from sonde.chunking.nodes import roles_of
from sonde.chunking.packing import PATH_CHARS, WHOLE, Breaks, cut_plain
from sonde.chunking.patterns import fill_gaps, find_named, has_patterns
from sonde.chunking.symbols import Definition, find_definitions, is_leading, list_symbols
from sonde.chunking.tags import find_tags
from sonde.text.languages import language_of
from sonde.types import Chunk, Kind, Symbol

if TYPE_CHECKING:
    from tree_sitter import Node

_SIGNATURE_CHARS = 100  # about a line of code
_MAX_INDENT = 400  # bytes searched for the start of a line; code further right begins none

_DEFINING = frozenset({"type", "function", "scope", "call"})


@dataclass(slots=True)
class _Level:
    """A container being walked: its remaining children, and its kind."""

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
        return cut_plain(path, data, path[-PATH_CHARS:]), find_names(data, grammar)
    root = tree.root_node
    found = find_definitions(root, data, grammar)
    whole = len(data) <= packing.TARGET
    cuts = [0] if whole else packing.pack_breaks(find_breaks(root, data, grammar), data)
    headers, symbols = label_cuts(path, data, cuts, found)
    names = list_symbols(find_details(root, data, grammar, found), data, grammar)
    if root.has_error or grammar in _MISREAD:
        names = fill_gaps(names, data, grammar)
    return packing.cut_bytes(path, data, cuts, headers, symbols), names


_MISREAD = frozenset({"kotlin"})  # grammars that read a definition as an expression, without error
KEYED = frozenset("yaml json toml ini cfg dotfile".split())
_SCRIPT = re.compile(rb"<script\b([^>]{0,2000})>", re.IGNORECASE)
_SCRIPT_END = re.compile(rb"</script\s*>", re.IGNORECASE)


def find_names(data: bytes, language: str) -> tuple[Symbol, ...]:
    """The definitions of a file without a grammar, from patterns, keys and embedded scripts."""
    if not is_written(data):
        return ()
    if language in KEYED:
        return find_keys(data, language)
    names = find_named(data, language) if has_patterns(language) else ()
    if b"<script" in data and language in ("html", "vue", "svelte", "astro"):
        names += _name_scripts(data)
    return names


def _name_scripts(data: bytes) -> tuple[Symbol, ...]:
    """The definitions in a page's scripts, with line numbers of the page."""
    blank, at, grammar = [], 0, "javascript"
    while (script := _SCRIPT.search(data, at)) and (end := _SCRIPT_END.search(data, script.end())):
        blank += [NOT_BREAKS.sub(b" ", data[at : script.end()]), data[script.end() : end.start()]]
        at = end.start()
        grammar = "typescript" if b"ts" in script[1] else grammar
    source = b"".join(blank)
    tree = parse_tree(grammar, source)
    if tree is None:
        return ()
    outline = find_definitions(tree.root_node, source, grammar)
    return list_symbols(find_details(tree.root_node, source, grammar, outline), source, grammar)


VERSION = 4  # grows when the same text gives other chunks or tags than before
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
        from sonde.chunking.markdown import chunk_document, list_sections

        tags = find_tags(text, language.name)
        chunks, sections = chunk_document(path, data, language.name)
        # a build file that ends in `.txt` has names of its own
        docs = language.kind == "docs"
        symbols = list_sections(data, sections) if docs else find_names(data, language.name)
    else:
        chunks = cut_plain(path, data, path[-PATH_CHARS:])
        symbols = find_names(data, language.name)
    if method == "recursive":
        chunks = packing.split_text(path, text, kind)
    return Parsed(tuple(chunks[:MAX_CHUNKS]), symbols, imports, len(chunks) > MAX_CHUNKS, tags)
