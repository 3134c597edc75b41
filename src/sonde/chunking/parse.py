"""The one entry: a file's text -> chunks, symbols and imports, by whatever suits it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sonde.chunking.text import cut_bytes, encode, split_text
from sonde.languages import language_of
from sonde.types import Chunk, Kind, Symbol

MOST_CHUNKS = 1000
"""Per file; what lies behind is not searched."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """Everything cut from one text; `truncated` when it held more chunks than are kept."""

    chunks: tuple[Chunk, ...] = ()
    symbols: tuple[Symbol, ...] = ()
    imports: tuple[str, ...] = ()
    truncated: bool = False


def parse_text(
    path: str, text: str, *, kind: Kind, method: Literal["syntax", "recursive"] = "syntax"
) -> Parsed:
    """Cut a file's text; `recursive` uses plain character windows for the chunks."""
    if not text or text.isspace():
        return Parsed()
    from sonde.chunking.code import chunk_code, pack_lines

    symbols: tuple[Symbol, ...] = ()
    language = language_of(path)
    data = encode(text)
    if kind == "code" and language.grammar:
        chunks, symbols = chunk_code(path, data, language.grammar)
    else:
        cuts = pack_lines(data)
        chunks = cut_bytes(path, data, cuts, [path] * len(cuts), [""] * len(cuts))
    if method == "recursive":
        chunks = split_text(path, text, kind)
    return Parsed(tuple(chunks[:MOST_CHUNKS]), symbols, (), len(chunks) > MOST_CHUNKS)
