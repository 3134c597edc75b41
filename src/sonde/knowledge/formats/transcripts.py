"""Transcripts: subtitles, recognised speech, and logs of chats with assistants."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sonde.knowledge.formats import (
    SAMPLE_BYTES,
    File,
    RefusedFormat,
    list_dicts,
    make_chat,
    make_document,
    read_media_facts,
)
from sonde.stores.knowledge.base import Entry, Piece
from sonde.text.formats import read_time

_CUE = re.compile(
    r"(?:(\d{1,6}):)?(\d{1,2}):(\d{2})[.,](\d{1,3})[ \t]*+-->[ \t]*+"
    r"(?:(\d{1,6}):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
)
_VOICE = re.compile(r"<v(?:\.[^ <>]*+)? ([^<>]++)>")
_MARKUP = re.compile(r"<[^<>\n]*+>|\{\\[^{}]*+\}")
_NOTED = re.compile(r"(?m)^(?:NOTE[ \t]++)?([A-Za-z_]{1,20}+):[ \t]++(\S[^\n]*+)$")
_AUDIO = re.compile(r"\.(?:mp3|m4a|wav|flac|ogg|opus|aac)\b")
TITLE_CHARS = 80  # of the first message, as the title of a log without one
_SHOWN = {"user_message": "user", "agent_message": "assistant"}
_TAVERN_TIMES = (
    "%B %d, %Y %I:%M%p", "%Y-%m-%d @%Hh %Mm %Ss %fms", "%Y-%m-%d@%Hh%Mm%Ss",
    "%Y-%m-%d@%Hh%Mm%Ss%fms",
)  # fmt: skip


def parse_subtitles(file: File) -> list[Entry]:
    """SubRip and WebVTT: one piece per cue."""
    pieces: list[Piece] = []
    lines: list[str] = []
    times: tuple[int, int] | None = None
    speaker = ""

    def keep() -> None:
        if times and lines:
            text = "\n".join(lines) + "\n"
            start = pieces[-1].start + len(pieces[-1].text) if pieces else 0
            begins, ends = times
            pieces.append(Piece(text, len(pieces), start, sender=speaker, begins=begins, ends=ends))

    for line in [*file.text().split("\n"), ""]:
        if found := _CUE.search(line):
            keep()
            lines, speaker = [], ""
            times = (_stamp(*found.groups()[:4]), _stamp(*found.groups()[4:]))
        elif not line.strip():
            keep()
            lines, times = [], None
        elif times:
            voice = _VOICE.search(line)
            speaker = voice[1].strip() if voice else speaker
            lines += filter(None, [_MARKUP.sub("", line).strip()])
    if not pieces:
        raise RefusedFormat("unknown", "no cues")
    head = file.text()[:SAMPLE_BYTES].partition("-->")[0]
    said = {name.lower(): value.strip() for name, value in _NOTED.findall(head)}
    return [_make_heard(file, pieces, said)]


def is_transcript(value: Any) -> bool:
    """Whether JSON is a transcript, as speech recognisers and video sites write it."""
    rows = value.get("segments") if isinstance(value, dict) else value
    first = rows[0] if isinstance(rows, list) and rows else None
    return isinstance(first, dict) and "text" in first and ("start" in first or "offset" in first)


def parse_transcript(file: File, value: Any) -> list[Entry]:
    """A transcript in JSON: one piece per segment."""
    pieces: list[Piece] = []
    start = 0
    for row in value["segments"] if isinstance(value, dict) else value:
        text = str(row.get("text", "")).strip() + "\n"
        begins = _milliseconds(row.get("start", row.get("offset")))
        ends = _milliseconds(row.get("end"))
        if ends is None and begins is not None and "duration" in row:
            ends = begins + (_milliseconds(row["duration"]) or 0)
        sender = str(row.get("speaker") or "")
        pieces.append(Piece(text, len(pieces), start, sender=sender, begins=begins, ends=ends))
        start += len(text)
    return [_make_heard(file, pieces, value if isinstance(value, dict) else {})]


def _make_heard(file: File, pieces: list[Piece], said: Mapping[str, Any]) -> Entry:
    words = file.path.lower()
    audio = "audio" in words or _AUDIO.search(words)
    kind = "podcast" if "podcast" in words else "audio" if audio else "video"
    title = str(said.get("title") or "") or re.sub(r"\.[a-z]{2,3}(-[A-Za-z]+)?$", "", file.stem)
    return Entry("media", title, tuple(pieces), **read_media_facts(said, file, kind))


def _stamp(hours: str | None, minutes: str, seconds: str, rest: str) -> int:
    whole = (int(hours or 0) * 60 + int(minutes)) * 60 + int(seconds)
    return whole * 1000 + int(rest.ljust(3, "0"))


_MOST_MS = 1 << 53  # longer than any recording; stores take integers of 64 bits


def _milliseconds(value: Any) -> int | None:
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        return at if abs(at := int(float(value) * 1000)) <= _MOST_MS else None
    return None


def _read_lines(file: File) -> list[Mapping[str, Any]]:
    """The objects in a file of JSON lines; skips and reports unreadable lines."""
    rows: list[Mapping[str, Any]] = []
    for number, line in enumerate(file.text().split("\n"), 1):
        try:
            row = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError) as error:
            file.skip_part(f"line {number}", str(error))
            if len(file.left_out) > 2 * len(rows) + 10:
                raise RefusedFormat("broken", f"line {number} is not JSON") from error
            continue
        if isinstance(row, dict):
            rows.append(row)
    if not rows:
        raise RefusedFormat("broken" if file.left_out else "no_text", "no lines of JSON")
    return rows


def parse_log(file: File) -> list[Entry]:
    """The conversation in a log."""
    rows = _read_lines(file)
    if str(rows[0].get("format", "")).startswith("sonde-knowledge-"):
        raise RefusedFormat("unknown", "an export of sonde: use `sonde knowledge restore`")
    if any("sessionId" in row and row.get("type") in ("user", "assistant") for row in rows[:50]):
        return [_make_claude_code(file, rows)]
    if "mes" in rows[-1] or "chat_metadata" in rows[0]:
        return [_make_tavern(file, rows)]
    if any("payload" in row or row.get("type") in ("message", "session_meta") for row in rows[:50]):
        return [_make_codex(file, rows)]
    if file.is_named:
        return [make_document(file, "txt", "", file.text())]
    raise RefusedFormat("unknown", "not a known log")


def _make_claude_code(file: File, rows: Sequence[Mapping[str, Any]]) -> Entry:
    messages: list[Piece] = []
    title, session, folder = "", "", ""
    for row in rows:
        title = str(row.get("summary") or title)
        session = str(row.get("sessionId") or session)
        folder = str(row.get("cwd") or folder)
        message = row.get("message")
        if row.get("type") not in ("user", "assistant") or not isinstance(message, dict):
            continue
        text = read_content(message.get("content"))
        if text.strip() and not row.get("isMeta"):
            key, sender = str(row.get("uuid") or ""), str(message.get("role") or row["type"])
            when = read_time(row.get("timestamp"))
            messages.append(Piece(text, uuid=key, sender=sender, created_at=when))
    facts = {"app": "Claude Code", "session": session, "folder": folder}
    return _finish(file, title, messages, facts)


def _make_codex(file: File, rows: Sequence[Mapping[str, Any]]) -> Entry:
    messages: list[Piece] = []
    shown: list[Piece] = []
    """Texts of the screen, which some sessions keep instead of messages."""
    facts = {"app": "Codex"}
    for row in rows:
        body: Any = row.get("payload") if isinstance(row.get("payload"), dict) else row
        when = read_time(row.get("timestamp"))
        if row.get("type") == "session_meta":
            facts |= {"session": str(body.get("id") or ""), "folder": str(body.get("cwd") or "")}
        if sender := _SHOWN.get(str(body.get("type"))):
            shown.append(Piece(str(body.get("message") or ""), sender=sender, created_at=when))
        if body.get("type") != "message" or body.get("role") not in ("user", "assistant"):
            continue
        text = read_content(body.get("content"))
        if text.strip() and not text.startswith(("<environment_context>", "<user_instructions>")):
            messages.append(Piece(text, sender=str(body["role"]), created_at=when))
    messages = messages or [piece for piece in shown if piece.text.strip()]
    return _finish(file, "", messages, facts)


def _make_tavern(file: File, rows: Sequence[Mapping[str, Any]]) -> Entry:
    head: Mapping[str, Any] = rows[0] if "mes" not in rows[0] else {}
    said = [row for row in rows if str(row.get("mes") or "").strip()]
    messages = [
        Piece(str(row["mes"]), created_at=_read_tavern_time(row.get("send_date")),
              sender=str(row.get("name") or ("user" if row.get("is_user") else "")))
        for row in said
    ]  # fmt: skip
    character = str(head.get("character_name") or "")
    if character in ("", "unused"):  # newer versions write that instead of a name
        named = (row.get("name") for row in rows if row.get("is_user") is False and "mes" in row)
        character = str(next(named, "") or "")
    swipes = {  # alternative answers that the user discarded
        str(at): row["swipes"] for at, row in enumerate(said)
        if isinstance(row.get("swipes"), list) and len(row["swipes"]) > 1
    }  # fmt: skip
    facts = {"app": "SillyTavern", "character_name": character, "swipes": swipes}
    return _finish(file, f"{character} {file.stem}".strip(), messages, facts)


def _read_tavern_time(value: Any) -> int | None:
    """Parse a time in any format of SillyTavern's versions."""
    text = re.sub(r"\s+", " ", str(value)).strip()
    for form in _TAVERN_TIMES:
        with contextlib.suppress(ValueError):
            return read_time(datetime.strptime(text, form).replace(tzinfo=UTC))
    return read_time(value)


def _finish(file: File, title: str, messages: list[Piece], facts: Mapping[str, Any]) -> Entry:
    if not messages:
        raise RefusedFormat("no_text")
    first = next((m.text for m in messages if m.sender == "user"), messages[0].text)
    title = title or " ".join(first.split())[:TITLE_CHARS]
    return make_chat(title, messages, file, facts=facts)


def read_content(content: Any) -> str:
    """The text of a message, with tool calls but without their results."""
    if isinstance(content, str):
        return content
    parts: list[str] = []
    for part in list_dicts(content):
        if part.get("type") in ("text", "input_text", "output_text"):
            parts.append(str(part.get("text") or ""))
        elif part.get("type") == "tool_use":
            given = json.dumps(part.get("input"), ensure_ascii=False)[:500]
            parts.append(f"[{part.get('name')}] {given}")
    return "\n".join(filter(None, parts))
