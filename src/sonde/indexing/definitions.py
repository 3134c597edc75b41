"""The texts that a deeper model embeds: of a chunk, and of each definition that begins in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sonde.embedding.base import Embedder, Mode, Vectors
from sonde.ranking.evidence import OPENING_CHARS
from sonde.ranking.passages import split_comments
from sonde.stores.chunks.base import place_digest
from sonde.types import Chunk, Symbol


def embed_chunks(
    embedder: Embedder, mode: Mode, chunks: Sequence[Chunk], symbols: Mapping[str, Iterable[Symbol]]
) -> tuple[list[bytes], Vectors]:
    """Digests and vectors of the definitions that begin in these chunks, then of the chunks."""
    texts: dict[bytes, str] = {}
    for chunk in chunks:
        texts |= list_texts(chunk, symbols.get(chunk.path, ()))
    # a chunk after what begins in it: a file that was cut short has never lost only that
    texts |= {chunk.digest: chunk.embedded_text for chunk in chunks}
    return list(texts), embedder.embed(list(texts.values()), mode)


def list_texts(chunk: Chunk, symbols: Iterable[Symbol]) -> dict[bytes, str]:
    """Digest -> text of the definitions that begin in a chunk, of all that its file defines.

    They are cut from this chunk alone: as long as it stays the same, so do they.
    """
    first, last = chunk.span.start_line, chunk.span.end_line
    inside = [symbol for symbol in symbols if first <= symbol.start_line <= last]
    inside.sort(key=lambda symbol: (symbol.start_line, -symbol.end_line))
    lines = chunk.text.split("\n")
    found: dict[bytes, str] = {}
    for at, symbol in enumerate(inside):
        place = symbol.start_line - first
        is_documented = symbol.kind == "declaration" and symbol.end_line > symbol.start_line
        # nobody asks for a value by what it does, nor for a bare declaration
        if symbol.kind in ("function", "type") or is_documented:
            key = place_digest(chunk.digest, place)
            found.setdefault(key, _write(chunk.path, symbol, lines[place:], inside[at + 1 :]))
    return found


def _write(path: str, symbol: Symbol, lines: Sequence[str], later: Sequence[Symbol]) -> str:
    """The text of a definition for the model: of a type, its opening and its members' names.

    A function is read without its comments: they are compared by words, and a sibling that has
    some would be nearer to any question than the function that was asked for.
    """
    members = [one for one in later if one.start_line <= symbol.end_line]
    text = "\n".join(lines[: symbol.end_line - symbol.start_line + 1])
    if symbol.kind == "type" and members:
        own = max(members[0].start_line, symbol.line + 1) - symbol.start_line
        names = " ".join(one.name.rpartition(".")[2] for one in members)
        text = "\n".join([*lines[:own], names])
    elif symbol.kind == "function":
        text = split_comments(text)[0]
    return f"{path} {symbol.name}\n{text[:OPENING_CHARS]}"
