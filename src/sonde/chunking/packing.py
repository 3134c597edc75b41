"""Cutting a text at its possible breaks: neighbours packed to a target, none over the limit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sonde.types import Chunk, Kind, Span

TARGET = 1500  # bytes up to which neighbours are packed together
WHOLE = 2300  # a definition or section up to this size stays whole, with room for its closing lines
MAX_BYTES = 2500  # no chunk is larger
_SLIVER_BYTES = 250  # smaller pieces join a neighbour
_HEADER_BYTES = 400  # the opening of a type is cut from its first member from this size on
HEADER_CHARS, PATH_CHARS = 299, 140  # of the longest header, and of the path in it

JOIN, MEMBER, ENTER, LEAVE = range(4)
"""Kinds of breaks: between neighbours, before a first member, into or out of a large piece."""

_SOFT_END = re.compile(rb"[;,\s}](?=[^;,\s}]*\Z)")
_PARAGRAPH = re.compile(rb"\n[ \t\r]*\n(?=\S)")


class Breaks:
    """Offsets where a text may be cut, in order, each with its kind."""

    def __init__(self) -> None:
        self.at: list[int] = [0]
        self.force: list[int] = [JOIN]
        self._next = JOIN

    def add(self, offset: int, force: int = JOIN) -> None:
        """Allow a cut before `offset`; earlier offsets and repetitions only add their force."""
        force = max(force, self._next)
        if offset > self.at[-1]:
            self.at.append(offset)
            self.force.append(force)
            self._next = JOIN
        elif offset == self.at[-1]:
            self.force[-1] = max(force, self.force[-1])

    def leave(self) -> None:
        """Mark the next break as the end of a large piece."""
        self._next = LEAVE


def split_lines(data: bytes, start: int, end: int) -> list[int]:
    """Cuts after `start` that keep each piece below the limit: at line or soft ends."""
    cuts = [start]
    step = min(MAX_BYTES, (end - start) // -(-(end - start) // TARGET) + 200)
    while end - cuts[-1] > MAX_BYTES:
        low = cuts[-1]
        cut = data.rfind(b"\n", low, low + step) + 1
        if cut <= low:
            found = _SOFT_END.search(data, low, low + MAX_BYTES)
            cut = found.end() if found else low + MAX_BYTES
            while data[cut] & 0xC0 == 0x80:
                cut -= 1
        cuts.append(cut)
    return cuts[1:]


def pack_breaks(breaks: Breaks, data: bytes) -> list[int]:
    """The breaks that become cuts, and more where they leave a piece too large."""
    cuts, force = [0], [JOIN]
    ends = [*breaks.at[1:], len(data)]
    for start, end, here in zip(breaks.at, ends, breaks.force, strict=True):
        size = start - cuts[-1]
        full = end - cuts[-1] > TARGET
        if size and (full or here >= ENTER or (here == MEMBER and size >= _HEADER_BYTES)):
            cuts.append(start)
            force.append(here)
        if end - cuts[-1] > MAX_BYTES:
            more = split_lines(data, cuts[-1], end)
            cuts += more
            force += [JOIN] * len(more)
    return _merge_slivers(cuts, force, len(data))


def _merge_slivers(cuts: list[int], force: list[int], size: int) -> list[int]:
    """Join slivers to the piece before or after them, within the limit."""
    kept = [0]
    ends = [*cuts[1:], size]
    for at, end, here in zip(cuts[1:], ends[1:], force[1:], strict=True):
        tail = end - at < _SLIVER_BYTES and here < ENTER
        lead = at - kept[-1] < _SLIVER_BYTES and here < LEAVE
        if not ((tail or lead) and end - kept[-1] <= MAX_BYTES):
            kept.append(at)
    return kept


def add_paragraphs(breaks: Breaks, data: bytes, start: int, end: int) -> None:
    """Allow cuts where a line follows blank ones."""
    for match in _PARAGRAPH.finditer(data, start, end):
        breaks.add(match.end())


@dataclass(frozen=True, slots=True)
class Splitting:
    """The size of a piece, its overlap with the next, and the separators to cut at, best first."""

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
    """The last cut in reach of `start` and after `passed`, at the coarsest separator."""
    reach = start + how.size
    if reach >= len(text):
        return len(text)
    for separator in how.separators:
        found = text.rfind(separator, passed, reach) if separator else -1
        if found >= 0:
            return found + len(separator)
    return reach


def _find_start(text: str, passed: int, end: int, how: Splitting) -> int:
    """The start of the piece after `end`: as early as the overlap and a separator allow."""
    low = max(passed + 1, end - how.overlap)
    for separator in how.separators:
        found = text.find(separator, max(0, low - len(separator)), end) if separator else -1
        if found >= 0 and found + len(separator) < end:
            return found + len(separator)
    return min(low, end)


def split_ranges(text: str, how: Splitting) -> list[tuple[int, int]]:
    """Character ranges that cover the text in order, with the given size and overlap."""
    ranges: list[tuple[int, int]] = []
    start = end = 0
    while end < len(text):
        end = _find_end(text, start, end, how)
        ranges.append((start, end))
        start = _find_start(text, start, end, how)
    return ranges


def split_text(path: str, text: str, kind: Kind) -> list[Chunk]:
    """Cut a file into character windows, sized for its kind."""
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


def cut_plain(path: str, data: bytes, header: str) -> list[Chunk]:
    """Chunks of a text of unknown structure: paragraphs packed, large ones cut at lines."""
    breaks = Breaks()
    add_paragraphs(breaks, data, 0, len(data))
    cuts = pack_breaks(breaks, data)
    return cut_bytes(path, data, cuts, [header] * len(cuts), [""] * len(cuts))


def cut_bytes(
    path: str, data: bytes, cuts: Sequence[int], headers: Sequence[str], symbols: Sequence[str]
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
