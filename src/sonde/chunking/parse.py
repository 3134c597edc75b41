"""The one entry: a file's text -> chunks, symbols and imports, by whatever suits it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sonde.chunking.imports import find_imports
from sonde.chunking.packing import pack_lines
from sonde.chunking.tags import find_tags
from sonde.chunking.text import cut_bytes, encode, split_text
from sonde.languages import language_of
from sonde.types import Chunk, Kind, Symbol

VERSION = 2
"""Grows when the same text is cut into other chunks, or found to hold other tags, than before."""
MOST_CHUNKS = 1000
"""Per file; what lies behind is not searched."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """Everything cut from one text; `truncated` when it held more chunks than are kept."""

    chunks: tuple[Chunk, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    imports: tuple[str, ...] = ()
    truncated: bool = False
    tags: tuple[str, ...] = ()


def parse_text(
    path: str, text: str, *, kind: Kind, method: Literal["syntax", "recursive"] = "syntax"
) -> Parsed:
    """Cut a file's text; `recursive` uses plain character windows for the chunks."""
    if not text or text.isspace():
        return Parsed()
    language = language_of(path)
    imports = find_imports(text, language.name) if kind == "code" else ()
    symbols: tuple[Symbol, ...] = ()
    tags: tuple[str, ...] = ()
    data = encode(text)
    if kind == "code" and language.grammar:
        from sonde.chunking.code import chunk_code

        chunks, symbols = chunk_code(path, data, language.grammar)
    elif kind == "docs" or language.kind == "docs":
        tags = find_tags(text, language.name)
        from sonde.chunking.markdown import chunk_document

        chunks = chunk_document(path, data, language.name)
    else:
        cuts = pack_lines(data)
        chunks = cut_bytes(path, data, cuts, [path[-140:]] * len(cuts), [""] * len(cuts))
    if method == "recursive":
        chunks = split_text(path, text, kind)
    return Parsed(tuple(chunks[:MOST_CHUNKS]), symbols, imports, len(chunks) > MOST_CHUNKS, tags)
