"""Views of a file: its documentation, an overview of its symbols, its definitions, its data.

They stand beside the plain chunks and are made from the text alone, so that nothing needs to be
kept of them until somebody asks. What cannot be parsed is shown as it is, and says so.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sonde.chunking.grammars import parse_tree
from sonde.chunking.imports import count_imports
from sonde.chunking.markdown import chunk_document
from sonde.chunking.overview import Entry, find_package, write_overview
from sonde.chunking.packing import LARGEST, TARGET, pack_lines
from sonde.chunking.signatures import cut_signature, find_lead, name_kind
from sonde.chunking.symbols import Definition, find_definitions
from sonde.chunking.text import cut_bytes, encode
from sonde.languages import Language, language_of
from sonde.types import Chunk, Kind, Span

if TYPE_CHECKING:
    from tree_sitter import Node, Tree

ViewType = Literal["documentation", "symbols", "definitions", "data"]
VIEW_TYPES: tuple[ViewType, ...] = ("documentation", "symbols", "definitions", "data")
VERSION = 1
"""Grows when the same text gives other views than before."""

_MOST_TEXT = 20
"""Chunks of a file that is shown as it is; data files can be any size."""
_MOST_VIEWS = 1000
_LONG_COMMENT = 400
_LONGEST_VALUE = 600
_LICENCE = re.compile("[Ll]icen[cs]e|[Cc]opyright")
_CONFIG = frozenset(
    "cfg dockerfile dotfile gomod graphql hcl ini json just make meson plist prisma protobuf "
    "requirements sql plsql thrift toml xml yaml bazel cmake starlark".split()
)
_NO_VIEW = frozenset("csv diff lock log subtitles svg translation turtle".split())
_ENV = re.compile(r"(?:^|/)(?:\.env[^/]*|[^/]*\.env)$")
_ASSIGNED = re.compile(r"^(\s*(?:export\s+)?[A-Za-z_]\w*\s*[=:]).*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class View:
    """A chunk under one of the four types; `header` is its title."""

    type: ViewType
    chunk: Chunk


def has_syntax(path: str) -> bool:
    """Whether views of such a file come from its syntax; otherwise its text is shown as it is."""
    return language_of(path).grammar is not None


def derive_views(path: str, text: str, kind: Kind) -> list[View]:
    """Every view of a file's text."""
    if not text or text.isspace() or path.startswith(".cortex/"):
        return []  # chunk files are views already
    language = language_of(path)
    data = encode(text)
    if path.endswith(".ipynb"):
        views = [View("documentation", chunk) for chunk in _cut_notebook(path, text)]
    elif kind == "docs" or language.kind == "docs":
        chunks = chunk_document(path, data, language.name)
        views = [View("documentation", chunk) for chunk in chunks]
    elif language.grammar and (tree := parse_tree(language.grammar, data)):
        views = list(_view_code(path, text, data, language, tree))
    elif _ENV.search(path):
        # a sample of settings: which there are, never what they are set to
        views = list(_cut_plain("data", path, encode(_ASSIGNED.sub(r"\1", text))))
    elif language.name in _NO_VIEW:
        views = []
    elif language.name in _CONFIG or language.kind == "data":
        views = list(_cut_plain("data", path, data))
    else:
        views = list(_cut_plain("definitions", path, data))
    return views[:_MOST_VIEWS]


def _cut_plain(type_: ViewType, path: str, data: bytes) -> Iterator[View]:
    cuts = pack_lines(data)
    for chunk in cut_bytes(path, data, cuts, [path] * len(cuts), [""] * len(cuts))[:_MOST_TEXT]:
        yield View(type_, chunk)


def _cut_notebook(path: str, text: str) -> list[Chunk]:
    """The prose between the cells of a notebook."""
    try:
        cells = json.loads(text)["cells"]
        prose = "\n\n".join(
            "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return chunk_document(path, encode(prose), "markdown") if prose.strip() else []


class _Lines:
    """Line numbers of byte offsets."""

    def __init__(self, data: bytes) -> None:
        self._ends = [match.start() for match in re.finditer(b"\n", data)]

    def span(self, start: int, end: int) -> Span:
        first = bisect.bisect_left(self._ends, start) + 1
        last = bisect.bisect_left(self._ends, max(start, end - 1)) + 1
        return Span(first, last, start, end)


def _view_code(path: str, text: str, data: bytes, language: Language, tree: Tree) -> Iterator[View]:
    lines = _Lines(data)
    root, grammar = tree.root_node, language.grammar or ""
    found = _drop_repeats(find_definitions(root, data, grammar).definitions, grammar)

    def make(type_: ViewType, start: int, end: int, title: str, symbol: str = "") -> View:
        piece = data[start:end].decode("utf-8", "replace")
        return View(type_, Chunk(path, piece, lines.span(start, end), title, symbol))

    functions = [one.start for one in found if one.role == "function"]
    listed: dict[str, list[Entry]] = {"type": [], "function": []}
    views: list[View] = []
    ends = 0
    for one in found:
        if one.role not in listed:
            continue
        place = lines.span(one.start, one.end)
        kind = name_kind(one.node) if one.role == "type" else ""
        listed[one.role].append(Entry(one.name, kind, place.start_line, place.end_line))
        holds = _holds(functions, one)
        start, end = cut_signature(one, data, holds_functions=holds)
        title = f"{path} {one.name}"
        views.append(make("definitions", max(start, ends), end, title, one.name))
        if one.start - start > _LONG_COMMENT and start >= ends:
            views.append(make("documentation", start, one.start, title, one.name))
        if kind == "enum" and one.end - one.start <= LARGEST:
            views.append(make("data", max(start, ends), one.end, title, one.name))
        ends = end if not holds else ends
    imports = count_imports(text, language.name)
    overview = write_overview(
        find_package(path, text, language.name), imports, listed["type"], listed["function"]
    )
    whole = lines.span(0, len(data))
    yield View("symbols", Chunk(path, overview, whole, f"{path} symbols"))
    end = min(_end_opening(root), LARGEST)
    opening = data[:end].decode("utf-8", "ignore")
    if _is_prose(opening):
        place = lines.span(0, len(encode(opening)))
        yield View("documentation", Chunk(path, opening, place, path))
    yield from views
    for start, end, name in _pack_values(found, data):
        yield make("data", start, end, f"{path} {name}", name)


def _drop_repeats(found: Sequence[Definition], grammar: str) -> list[Definition]:
    """Without the further equations of one function, and what starts where another does."""
    kept: list[Definition] = []
    equations = grammar in ("elixir", "haskell")
    for one in found:
        same = equations and kept and one.name == kept[-1].name
        if same or (kept and one.start == kept[-1].start):
            continue
        kept.append(one)
    return kept


def _holds(functions: Sequence[int], one: Definition) -> bool:
    at = bisect.bisect_right(functions, one.start)
    return at < len(functions) and functions[at] < one.end


def _end_opening(root: Node) -> int:
    """Where the comments, or the string, that a file opens with end."""
    end = 0
    for node in root.named_children:
        inner = node
        if node.type == "expression_statement" and node.named_child_count:
            inner = node.named_children[0]
        if "comment" not in node.type and inner.type != "string":
            break
        end = node.end_byte
    return end


def _is_prose(text: str) -> bool:
    """Whether what a file opens with says something, beyond a licence."""
    return len(text) > _LONG_COMMENT and not _LICENCE.search(text)


def _pack_values(found: Sequence[Definition], data: bytes) -> Iterator[tuple[int, int, str]]:
    """Constants and other values outside functions, neighbours together."""
    pieces: list[tuple[int, int, str]] = []
    for one in found:
        if one.role != "value":
            continue
        start = find_lead(data, one.start)
        end = min(one.end, one.start + _LONGEST_VALUE)
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        if pieces:
            first, last, name = pieces[-1]
            near = not data[last:start].strip(b" \t\r\n,;") if last <= start else True
            if near and end - first <= TARGET:
                pieces[-1] = (first, max(last, end), name)
                continue
        pieces.append((start, end, one.name))
    yield from pieces
