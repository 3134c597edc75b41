"""Views of a file: its documentation, an overview of its symbols, its definitions, its data.

They complement the plain chunks and are derived from the text alone, so they need not be stored
until they are used. Files that cannot be parsed are shown as plain text.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal, NamedTuple

from sonde.chunking.grammars import parse_tree
from sonde.chunking.imports import count_imports
from sonde.chunking.markdown import chunk_document
from sonde.chunking.packing import MAX_BYTES, TARGET, WHOLE, cut_plain, encode
from sonde.chunking.symbols import EQUATIONS, Definition, find_definitions, find_lead, index_lines
from sonde.text.languages import Language, language_of
from sonde.types import Chunk, Kind, Span

if TYPE_CHECKING:
    from tree_sitter import Node, Tree


_MAX_ENTRIES = 200  # of each kind; a generated file can define thousands
_PACKAGE = {
    "go": r"^package\s+(\w+)",
    "java": r"^[^\S\n]*package\s+([\w.]+)",
    "kotlin": r"^[^\S\n]*package\s+([\w.`]+)",
    "scala": r"^[^\S\n]*package\s+(?!object\b)([\w.]+)",
    "csharp": r"^[^\S\n]*namespace\s+([\w.]+)",
    "php": r"^[^\S\n]*namespace\s+([\w\\]+)",
    "haskell": r"^module\s+([\w.]+)",
    "elixir": r"^[^\S\n]*defmodule\s+([\w.]+)",
    "ruby": r"^[^\S\n]*module\s+([\w:]+)",
    "cpp": r"^[^\S\n]*namespace\s+([\w:]+)",
}
_READ = re.compile(
    r"\A(?:Package|Module): (?P<package>.*)\n\nImports: (?P<imports>\d+) packages?"
    r"(?:\n\nTypes:(?: \((?P<types>\d+)\))?\n(?P<type_rows>(?:  - .*\n?)+))?"
    r"(?:\s*Functions:(?: \((?P<functions>\d+)\))?\n(?P<function_rows>(?:  - .*\n?)+))?"
)


class OverviewEntry(NamedTuple):
    """A definition and its lines."""

    name: str
    kind: str
    start_line: int
    end_line: int


def find_package(path: str, text: str, language: str) -> str:
    """The package that a source declares; else its module, from its path."""
    pattern = _PACKAGE.get(language)
    found = re.search(pattern, text, re.MULTILINE) if pattern else None
    if found:
        return found[1]
    place = PurePosixPath(path)
    parts = [part for part in place.with_suffix("").parts if part not in ("src", "lib")]
    if language == "python":
        return ".".join(part for part in parts if part != "__init__") or place.stem
    return place.stem


def write_overview(
    package: str, imports: int, types: Sequence[OverviewEntry], functions: Sequence[OverviewEntry]
) -> str:
    """The text of the overview."""
    parts = [f"Package: {package}", f"Imports: {imports} package{'' if imports == 1 else 's'}"]
    for title, entries in (("Types", types), ("Functions", functions)):
        if entries:
            count = f" ({len(entries)})" if len(entries) > _MAX_ENTRIES else ""
            rows = [f"{title}:{count}"]
            for name, kind, first, last in entries[:_MAX_ENTRIES]:
                rows.append(f"  - {name}{f' ({kind})' if kind else ''} (lines {first}-{last})")
            parts.append("\n".join(rows))
    return "\n\n".join(parts)


def read_overview(text: str) -> dict[str, str | int]:
    """The figures of an overview, as metadata."""
    found = _READ.match(text)
    if found is None:
        return {}
    read = {"package": found["package"], "imports_count": int(found["imports"])}
    for kind in ("type", "function"):
        rows = found[f"{kind}_rows"] or ""
        read[f"{kind}s_count"] = int(found[f"{kind}s"] or 0) or rows.count("  - ")
    return read


_BODY = re.compile(
    r"^(?:block|body|.*_body|compound_statement|statement_block|field_declaration_list"
    r"|declaration_list|enumerator_list|enum_variant_list|class_declarations|do_block"
    r"|ordered_field_declaration_list|body_statement|struct_type_body)$"
)
_KIND = re.compile(
    "struct|interface|enum|trait|record|protocol|union|object|namespace|module|mod(?=_)|class"
    "|concept|typealias|alias|newtype|delegate|annotation|instance|extension|family|data|given"
)
_SHORT_BYTES = 400  # a definition without a body is shown whole up to this size
_WORDS = {"mod": "module", "typealias": "type alias", "alias": "type alias", "data": "data type"}


def find_body(node: Node) -> Node | None:
    """The body of a definition, where the grammar has one."""
    for found in (node, node.child_by_field_name("value"), node.child_by_field_name("right")):
        body = found.child_by_field_name("body") if found else None
        if body is not None:
            return body
    return next((child for child in node.named_children if _BODY.match(child.type)), None)


def _end_docstring(body: Node, end: int) -> int:
    """The end of a docstring that opens a body."""
    first = body.named_children[0] if body.named_child_count else None
    if first is not None and first.type == "expression_statement" and first.named_child_count:
        first = first.named_children[0]
    return first.end_byte if first is not None and first.type == "string" else end


def cut_signature(one: Definition, data: bytes, *, holds_functions: bool) -> tuple[int, int]:
    """The start of a definition's comments and the end of its signature; small types are whole."""
    start = find_lead(data, one.start)
    body = find_body(one.node)
    if one.role == "type" and not holds_functions and one.end - start <= WHOLE:
        end = one.end
    elif body is not None and body.start_byte > one.start:
        end = _end_docstring(body, body.start_byte)
    else:
        line = data.find(b"\n", one.start, one.end)
        end = one.end if one.end - start <= _SHORT_BYTES or line < 0 else line
    end = min(end, start + MAX_BYTES)
    while end < len(data) and data[end] & 0xC0 == 0x80:
        end -= 1
    return start, end


def name_kind(node: Node) -> str:
    """The kind of a type in a word (`struct`, `class`, `interface`)."""
    inner = node.child_by_field_name("type") or node.child_by_field_name("value")
    keyword = node.child_by_field_name("declaration_kind")
    for found in (inner, keyword, node):
        match = _KIND.search(found.type) if found is not None else None
        if match:
            return _WORDS.get(match[0], match[0])
    return "type"


ViewType = Literal["documentation", "symbols", "definitions", "data"]
VIEW_TYPES: tuple[ViewType, ...] = ("documentation", "symbols", "definitions", "data")
VERSION = 2  # grows when the same text gives other views than before

_MAX_PLAIN_CHUNKS = 20  # of a file that is shown as plain text; data files can be any size
_MAX_VIEWS = 1000  # per file, as many as chunks
_LONG_COMMENT = 400  # bytes from which a comment is documentation of its own
_MAX_VALUE_BYTES = 600  # shown of a value: its beginning says what it is
_LICENCE = re.compile("[Ll]icen[cs]e|[Cc]opyright")
_CONFIG = frozenset(
    "cfg dockerfile dotfile gomod graphql hcl ini json just make meson plist prisma protobuf "
    "requirements sql plsql thrift toml xml yaml bazel cmake starlark".split()
)
_NO_VIEW = frozenset("csv diff lock log subtitles svg translation turtle".split())
_ENV = re.compile(r"(?:^|/)(?:\.env[^/]*|[^/]*\.env)$")
_ASSIGNED = re.compile(r"^([^\S\n]*(?:export\s+)?[A-Za-z_]\w*\s*[=:]).*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class View:
    """A chunk under one of the four types; `header` is its title."""

    type: ViewType
    chunk: Chunk


def has_syntax(path: str) -> bool:
    """Whether views of such a file come from its syntax instead of its plain text."""
    return language_of(path).grammar is not None


def derive_views(path: str, text: str, kind: Kind) -> list[View]:
    """Every view of a file's text."""
    if not text or text.isspace() or path.startswith(".cortex/"):
        return []  # chunk files are views already
    language = language_of(path)
    data = encode(text)

    def view_plain(type_: ViewType, data: bytes) -> list[View]:
        return [View(type_, chunk) for chunk in cut_plain(path, data, path)[:_MAX_PLAIN_CHUNKS]]

    if path.endswith(".ipynb"):
        views = [View("documentation", chunk) for chunk in _cut_notebook(path, text)]
    elif kind == "docs" or language.kind == "docs":
        chunks, _ = chunk_document(path, data, language.name)
        views = [View("documentation", chunk) for chunk in chunks]
    elif language.grammar and (tree := parse_tree(language.grammar, data)):
        views = list(_view_code(path, text, data, language, tree))
    elif _ENV.search(path):
        # a sample of settings: their names, never their values
        views = view_plain("data", encode(_ASSIGNED.sub(r"\1", text)))
    elif language.name in _NO_VIEW:
        views = []
    else:
        is_data = language.name in _CONFIG or language.kind == "data"
        views = view_plain("data" if is_data else "definitions", data)
    return views[:_MAX_VIEWS]


def _cut_notebook(path: str, text: str) -> list[Chunk]:
    """The prose between the cells of a notebook."""
    try:
        cells = json.loads(text)["cells"]
        prose = "\n\n".join(
            "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return chunk_document(path, encode(prose), "markdown")[0] if prose.strip() else []


def _view_code(path: str, text: str, data: bytes, language: Language, tree: Tree) -> Iterator[View]:
    line_at = index_lines(data)
    root, grammar = tree.root_node, language.grammar or ""
    found = _drop_repeats(find_definitions(root, data, grammar), grammar)

    taken: set[tuple[ViewType, int]] = set()

    def span(start: int, end: int) -> Span:
        return Span(line_at(start), line_at(max(start, end - 1)), start, end)

    def make(type_: ViewType, start: int, end: int, symbol: str, own: int) -> Iterator[View]:
        """A view; from its own start if another begins where this one would, so that no two have
        the same place; none if that begins there too."""
        start = own if (type_, start) in taken else start
        if (type_, start) not in taken:
            taken.add((type_, start))
            piece = data[start:end].decode("utf-8", "replace")
            yield View(type_, Chunk(path, piece, span(start, end), f"{path} {symbol}", symbol))

    functions = [one.start for one in found if one.role == "function"]
    listed: dict[str, list[OverviewEntry]] = {"type": [], "function": []}
    views: list[View] = []
    opening = data[: min(_end_opening(root), MAX_BYTES)].decode("utf-8", "ignore")
    has_opening = len(opening) > _LONG_COMMENT and not _LICENCE.search(opening)
    if has_opening:
        taken.add(("documentation", 0))
    ends = 0
    for one in found:
        if one.role not in listed:
            continue
        place = span(one.start, one.end)
        kind = name_kind(one.node) if one.role == "type" else ""
        listed[one.role].append(OverviewEntry(one.name, kind, place.start_line, place.end_line))
        inner = bisect.bisect_right(functions, one.start)
        holds = inner < len(functions) and functions[inner] < one.end
        start, end = cut_signature(one, data, holds_functions=holds)
        views += make("definitions", max(start, ends), end, one.name, one.start)
        if one.start - start > _LONG_COMMENT and start >= ends:
            views += make("documentation", start, one.start, one.name, start)
        if kind == "enum" and one.end - one.start <= MAX_BYTES:
            views += make("data", max(start, ends), one.end, one.name, one.start)
        ends = end if not holds else ends
    package = find_package(path, text, language.name)
    imports = count_imports(text, language.name)
    overview = write_overview(package, imports, listed["type"], listed["function"])
    whole = span(0, len(data))
    yield View("symbols", Chunk(path, overview, whole, f"{path} symbols"))
    if has_opening:
        place = span(0, len(encode(opening)))
        yield View("documentation", Chunk(path, opening, place, path))
    yield from views
    for start, end, name, own in _pack_values(found, data):
        yield from make("data", start, end, name, own)


def _drop_repeats(found: Sequence[Definition], grammar: str) -> list[Definition]:
    """Definitions without further equations of one function and those at the same start."""
    kept: list[Definition] = []
    for one in found:
        same = grammar in EQUATIONS and kept and one.name == kept[-1].name
        if same or (kept and one.start == kept[-1].start):
            continue
        kept.append(one)
    return kept


def _end_opening(root: Node) -> int:
    """The end of the comments or the string that open a file."""
    end = 0
    for node in root.named_children:
        inner = node
        if node.type == "expression_statement" and node.named_child_count:
            inner = node.named_children[0]
        if "comment" not in node.type and inner.type != "string":
            break
        end = node.end_byte
    return end


def _pack_values(found: Sequence[Definition], data: bytes) -> Iterator[tuple[int, int, str, int]]:
    """Constants and other values outside functions, neighbours packed together: from where to
    where, under which name, and where the first one itself starts."""
    pieces: list[tuple[int, int, str, int]] = []
    for one in found:
        if one.role != "value":
            continue
        start = find_lead(data, one.start)
        end = min(one.end, one.start + _MAX_VALUE_BYTES)
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        if pieces:
            first, last, name, own = pieces[-1]
            near = not data[last:start].strip(b" \t\r\n,;") if last <= start else True
            if near and end - first <= TARGET:
                pieces[-1] = (first, max(last, end), name, own)
                continue
        pieces.append((start, end, one.name, one.start))
    yield from pieces
