"""Answers show the file as it is now, or say that they do not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from sonde.types import FileContent, FileState, Hit, ListedFile, Skipped, Span

CheckAll = Callable[[Collection[str]], Mapping[str, ListedFile | Skipped]]
Read = Callable[[str], FileContent | Skipped]


def find_changed(
    paths: Collection[str], states: Mapping[str, FileState], check_all: CheckAll
) -> set[str]:
    """Which of these files are no longer as they were when indexed."""
    changed = set()
    for path, found in check_all(paths).items():
        state = states.get(path)
        if (
            isinstance(found, Skipped)
            or state is None
            or (found.size, found.mtime_ns) != (state.size, state.mtime_ns)
        ):
            changed.add(path)
    return changed


def refresh_hit(hit: Hit, read: Read) -> Hit:
    """Move a hit to where its text is now; mark it stale when the text is gone."""
    content = read(hit.path)
    if isinstance(content, Skipped):
        return replace(hit, stale=True)
    position = _nearest(content.text, hit.text, hit.span)
    if position < 0:
        return replace(hit, stale=True)
    before = content.text[:position]
    start_line = before.count("\n") + 1
    start_byte = len(before.encode())
    span = Span(
        start_line,
        start_line + hit.span.end_line - hit.span.start_line,
        start_byte,
        start_byte + hit.span.end_byte - hit.span.start_byte,
    )
    return replace(hit, span=span)


def _nearest(text: str, piece: str, span: Span) -> int:
    """The occurrence of `piece` nearest to its old line; -1 when there is none."""
    best, best_distance = -1, 0
    position = text.find(piece)
    while position >= 0:
        distance = abs(text.count("\n", 0, position) + 1 - span.start_line)
        if best < 0 or distance < best_distance:
            best, best_distance = position, distance
        position = text.find(piece, position + 1)
    return best
