"""The recursive character splitter: cut at the coarsest separator that fits, with overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sonde.types import Chunk, Kind, Span


@dataclass(frozen=True, slots=True)
class Splitting:
    """How large a piece may be, how much of it the next repeats, and where to cut first."""

    size: int
    overlap: int
    separators: tuple[str, ...]


SPLITTINGS: dict[Kind, Splitting] = {
    "code": Splitting(4000, 800, ("\n\n", "\n", " ", "")),
    "docs": Splitting(8000, 2000, ("\n\n", "\n", ". ", " ", "")),
}


def encode(text: str) -> bytes:
    """The bytes that spans count; lone surrogates survive."""
    return text.encode("utf-8", "surrogatepass")


def _find_end(text: str, start: int, passed: int, how: Splitting) -> int:
    """The last cut in reach of `start` and behind `passed`, at the coarsest separator."""
    reach = start + how.size
    if reach >= len(text):
        return len(text)
    for separator in how.separators:
        found = text.rfind(separator, passed, reach) if separator else -1
        if found >= 0:
            return found + len(separator)
    return reach


def _find_start(text: str, passed: int, end: int, how: Splitting) -> int:
    """Where the piece behind `end` begins: as early as the overlap and a separator allow."""
    low = max(passed + 1, end - how.overlap)
    for separator in how.separators:
        found = text.find(separator, max(0, low - len(separator)), end) if separator else -1
        if found >= 0 and found + len(separator) < end:
            return found + len(separator)
    return min(low, end)


def split_ranges(text: str, how: Splitting) -> list[tuple[int, int]]:
    """Character ranges that cover the text in order, each within the size, overlapping as told."""
    ranges: list[tuple[int, int]] = []
    start = end = 0
    while end < len(text):
        end = _find_end(text, start, end, how)
        ranges.append((start, end))
        start = _find_start(text, start, end, how)
    return ranges


def split_text(path: str, text: str, kind: Kind) -> list[Chunk]:
    """Cut a file as the kind of text it is, with plain character windows."""
    chunks: list[Chunk] = []
    char = byte = 0
    line = 1
    for start, end in split_ranges(text, SPLITTINGS[kind]):
        skipped = text[char:start]
        byte += len(encode(skipped))
        line += skipped.count("\n")
        char = start
        piece = text[start:end]
        last = line + piece.count("\n", 0, -1)
        span = Span(line, last, byte, byte + len(encode(piece)))
        chunks.append(Chunk(path, piece, span, header=path))
    return chunks


def cut_bytes(
    path: str,
    data: bytes,
    cuts: Sequence[int],
    headers: Sequence[str],
    symbols: Sequence[str],
) -> list[Chunk]:
    """Chunks from where each begins (a byte offset, the first being 0); they partition `data`."""
    chunks: list[Chunk] = []
    line = 1
    ends = [*cuts[1:], len(data)]
    for start, end, header, symbol in zip(cuts, ends, headers, symbols, strict=True):
        piece = data[start:end]
        newlines = piece.count(b"\n")
        last = line + newlines - piece.endswith(b"\n")
        text = piece.decode("utf-8", "surrogatepass")
        chunks.append(Chunk(path, text, Span(line, last, start, end), header, symbol))
        line += newlines
    return chunks
