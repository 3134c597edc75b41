"""Possible breaks -> cuts: neighbours packed to a target, nothing over the limit."""

from __future__ import annotations

import re

TARGET = 1500
"""Neighbours are packed together up to this many bytes."""
WHOLE = 2300
"""A definition or section up to this size stays in one piece, with room for what closes it."""
LARGEST = 2500
"""No chunk is larger."""
_SMALL = 250
_HEADER_ALONE = 400

JOIN, MEMBER, ENTER, LEAVE = range(4)
"""What a break is: between neighbours, before a first member, where a large piece begins, ends."""

_SOFT_END = re.compile(rb"[;,\s}](?=[^;,\s}]*\Z)")
_PARAGRAPH = re.compile(rb"\n[ \t\r]*\n(?=\S)")


class Breaks:
    """Where a text may be cut, in order, and what each place is."""

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
        """Say that a large piece ends at the next break."""
        self._next = LEAVE


def split_lines(data: bytes, start: int, end: int) -> list[int]:
    """Cuts behind `start` that bring a stretch below the limit: at lines, else at soft ends."""
    cuts = [start]
    step = min(LARGEST, (end - start) // -(-(end - start) // TARGET) + 200)
    while end - cuts[-1] > LARGEST:
        low = cuts[-1]
        cut = data.rfind(b"\n", low, low + step) + 1
        if cut <= low:
            found = _SOFT_END.search(data, low, low + LARGEST)
            cut = found.end() if found else low + LARGEST
            while data[cut] & 0xC0 == 0x80:
                cut -= 1
        cuts.append(cut)
    return cuts[1:]


def pack_breaks(breaks: Breaks, data: bytes) -> list[int]:
    """The breaks that become cuts, and more where nothing else brings the size down."""
    cuts, force = [0], [JOIN]
    ends = [*breaks.at[1:], len(data)]
    for start, end, here in zip(breaks.at, ends, breaks.force, strict=True):
        size = start - cuts[-1]
        full = end - cuts[-1] > TARGET
        if size and (full or here >= ENTER or (here == MEMBER and size >= _HEADER_ALONE)):
            cuts.append(start)
            force.append(here)
        if end - cuts[-1] > LARGEST:
            more = split_lines(data, cuts[-1], end)
            cuts += more
            force += [JOIN] * len(more)
    return _merge_slivers(cuts, force, len(data))


def _merge_slivers(cuts: list[int], force: list[int], size: int) -> list[int]:
    """A sliver joins the piece it ends, or the one it leads to, within the limit."""
    kept = [0]
    ends = [*cuts[1:], size]
    for at, end, here in zip(cuts[1:], ends[1:], force[1:], strict=True):
        tail = end - at < _SMALL and here < ENTER
        lead = at - kept[-1] < _SMALL and here < LEAVE
        if not ((tail or lead) and end - kept[-1] <= LARGEST):
            kept.append(at)
    return kept


def add_paragraphs(breaks: Breaks, data: bytes, start: int, end: int) -> None:
    """Allow cuts where a line follows blank ones."""
    for match in _PARAGRAPH.finditer(data, start, end):
        breaks.add(match.end())


def pack_lines(data: bytes) -> list[int]:
    """Cuts of a text nothing more is known of: paragraphs packed, large ones cut by lines."""
    breaks = Breaks()
    add_paragraphs(breaks, data, 0, len(data))
    return pack_breaks(breaks, data)
