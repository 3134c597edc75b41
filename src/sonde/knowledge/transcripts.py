"""Transcripts: what is heard and when, written as text, subtitles or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sonde.stores.knowledge_base import Entry, Piece


def write_transcript(entry: Entry, form: str, *, timestamps: bool) -> str | dict[str, Any]:
    """A medium's text in the form asked for; subtitles always carry times."""
    lines = list(_list_lines(entry))
    if form == "json":
        return {"segments": [_show_segment(line, timestamps=timestamps) for line in lines]}
    if form == "srt":
        return "\n".join(_write_cues(lines, ",", numbered=True))
    if form == "vtt":
        return "\n".join(["WEBVTT\n", *_write_cues(lines, ".", numbered=False)])
    if not timestamps:
        return "".join(piece.text for piece in entry.pieces)
    return "\n".join(f"[{_clock(line.begins or 0, '.')}] {_say(line)}" for line in lines)


def _list_lines(entry: Entry) -> Iterator[Piece]:
    """The spoken lines; a text without times is one long line a piece."""
    for piece in entry.pieces:
        if piece.text.strip():
            yield piece


def _say(line: Piece) -> str:
    text = " ".join(line.text.split())
    return f"{line.sender}: {text}" if line.sender else text


def _show_segment(line: Piece, *, timestamps: bool) -> dict[str, Any]:
    segment: dict[str, Any] = {}
    if timestamps and line.begins is not None:
        segment |= {"start": line.begins / 1000, "end": (line.ends or line.begins) / 1000}
    if line.sender:
        segment["speaker"] = line.sender
    return segment | {"text": line.text.strip()}


def _write_cues(lines: Sequence[Piece], point: str, *, numbered: bool) -> Iterator[str]:
    clock = 0
    for number, line in enumerate(lines, 1):
        begins = line.begins if line.begins is not None else clock
        ends = line.ends if line.ends is not None else begins + max(1000, 60 * len(line.text))
        clock = ends
        head = f"{number}\n" if numbered else ""
        said = f"<v {line.sender}>" if line.sender and not numbered else ""
        text = line.text.strip()
        if numbered and line.sender:
            text = f"{line.sender}: {text}"
        yield f"{head}{_clock(begins, point)} --> {_clock(ends, point)}\n{said}{text}\n"


def _clock(stamp: int, point: str) -> str:
    seconds, rest = divmod(stamp, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}{point}{rest:03d}"
