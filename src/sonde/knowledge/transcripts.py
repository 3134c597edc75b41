"""Transcripts of recordings as text, subtitles or JSON, in parts that fit a budget."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NotRequired, TypedDict

from sonde.knowledge.retrieval import Retrieval, show_text
from sonde.stores.knowledge.base import Entry, Piece
from sonde.text.cuts import floor_boundary

_ENVELOPE_CHARS = 20  # of the budget: the heading of subtitles, or the braces around segments
TranscriptFormat = Literal["text", "srt", "vtt", "json"]


class Segment(TypedDict):
    """One spoken line; times are in seconds."""

    start: NotRequired[float]
    end: NotRequired[float]
    speaker: NotRequired[str]
    text: str


class Segments(TypedDict):
    """A transcript as JSON."""

    segments: list[Segment]


@dataclass(frozen=True, slots=True)
class _Line:
    """A spoken line: its number, where it starts in the text, and when it was said."""

    number: int
    start: int
    piece: Piece
    begins: int
    ends: int


def write_transcript(
    entry: Entry, form: TranscriptFormat, options: Retrieval, *, timestamps: bool
) -> tuple[str | Segments, int | None]:
    """A transcript in a format, as much as fits, and the character to continue from.

    Parts read one after the other join to the whole. Subtitles always carry times.
    """
    if form == "text" and not timestamps:
        text = "".join(piece.text for piece in entry.pieces)
        shown = show_text(text, replace(options, mode="full"), 0)
        return shown.text, shown.next_offset

    def render(line: _Line) -> str | Segment:
        if form == "json":
            return _make_segment(line.piece, timestamps=timestamps)
        if form == "text":
            said = _name_speaker(line.piece, " ".join(line.piece.text.split()))
            return f"[{_clock(line.piece.begins or 0, '.')}] {said}\n"
        return _write_cue(line, form)

    parts, next_offset = _fit_lines(entry, options, render)
    if form == "json":
        return {"segments": [part for part in parts if not isinstance(part, str)]}, next_offset
    head = "WEBVTT\n\n" if form == "vtt" and not options.offset else ""
    text = head + "".join(part for part in parts if isinstance(part, str))
    return text if next_offset is not None else text[:-1], next_offset


def _fit_lines(
    entry: Entry, options: Retrieval, render: Callable[[_Line], str | Segment]
) -> tuple[list[str | Segment], int | None]:
    """The lines from the offset on that fit, or a part of one, and where the rest begins."""
    parts: list[str | Segment] = []
    room = options.budget - _ENVELOPE_CHARS
    for line in _list_lines(entry.pieces, options.offset):
        part, said = render(line), line.piece.text
        length = len(part) if isinstance(part, str) else len(json.dumps([part], ensure_ascii=False))
        if length > room and parts:
            return parts, line.start
        if length > room:
            end = max(floor_boundary(said, max(room - length + len(said), 1)), 1)
            if end < len(said):
                cut = replace(line, piece=replace(line.piece, text=said[:end]))
                return [render(cut)], line.start + end
        parts.append(part)
        room -= length
    return parts, None


def _list_lines(pieces: Sequence[Piece], offset: int) -> Iterator[_Line]:
    """The lines from an offset on; missing times are estimated from the length of the text."""
    behind = number = clock = 0
    for piece in pieces:
        start, behind = behind, behind + len(piece.text)
        if not piece.text.strip():
            continue
        number += 1
        begins = piece.begins if piece.begins is not None else clock
        clock = piece.ends if piece.ends is not None else begins + max(1000, 60 * len(piece.text))
        rest = piece.text[max(0, offset - start) :]
        if rest.strip():
            shown = replace(piece, text=rest)
            yield _Line(number, max(start, offset), shown, begins, clock)


def _name_speaker(line: Piece, text: str) -> str:
    return f"{line.sender}: {text}" if line.sender else text


def _make_segment(line: Piece, *, timestamps: bool) -> Segment:
    segment: Segment = {"text": line.text.strip()}
    if line.sender:
        segment = {"speaker": line.sender, **segment}
    if timestamps and line.begins is not None:
        ends = line.ends or line.begins
        segment = {"start": line.begins / 1000, "end": ends / 1000, **segment}
    return segment


def _write_cue(line: _Line, form: TranscriptFormat) -> str:
    text, sender, point = line.piece.text.strip(), line.piece.sender, "," if form == "srt" else "."
    head = f"{line.number}\n" if form == "srt" else ""
    if form == "srt":
        text = _name_speaker(line.piece, text)
    elif sender:
        text = f"<v {sender}>{text}"
    return f"{head}{_clock(line.begins, point)} --> {_clock(line.ends, point)}\n{text}\n\n"


def _clock(stamp: int, point: str) -> str:
    seconds, rest = divmod(stamp, 1000)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours:02d}:{minutes:02d}:{seconds % 60:02d}{point}{rest:03d}"
