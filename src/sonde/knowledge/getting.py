"""One entry, shown as a retrieval asks: the anchor found, the text cut, the rest named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sonde.errors import EntryMissing
from sonde.knowledge.ranking import read_knowledge_query
from sonde.knowledge.retrieval import (
    Retrieval,
    choose_messages,
    find_anchor,
    join_text,
    list_fields,
    show_snippet,
    show_text,
)
from sonde.stores.knowledge.base import TITLE, Conditions, Entry, KnowledgeStore, Piece, Source
from sonde.text.cuts import floor_boundary

_NAMES: Mapping[Source, str] = {
    "notes": "note",
    "media": "medium",
    "chats": "conversation",
    "characters": "character",
    "prompts": "prompt",
}
_ANCHORS = 200


@dataclass(frozen=True, slots=True)
class EntryContent:
    """What is shown of an entry."""

    entry: Entry
    piece: Piece
    """The one that the content is anchored at."""
    content: Any
    attachments: list[dict[str, Any]] | None = None
    next_offset: int | None = None


def find_entry(store: KnowledgeStore, source: Source, id: str, *, pieces: bool = True) -> Entry:  # noqa: A002
    """The entry with this id; prompts answer to their names, too."""
    entry = store.get(source, id, pieces=pieces)
    if entry is None and source == "prompts":
        named = store.find_title(source, id)
        entry = store.get(source, named.id, pieces=pieces) if named else None
    if entry is None:
        raise EntryMissing(f"no {id!r} among {source}", what=_NAMES[source], id=id)
    return entry


def get_entry(
    store: KnowledgeStore,
    source: Source,
    id: str,  # noqa: A002
    options: Retrieval,
    recent: Sequence[str] = (),
) -> EntryContent:
    """As much of an entry as was asked for; `recent` questions say where when nothing else does."""
    question = options.query or next(iter(recent), "")
    terms = read_knowledge_query(question).terms if question else ()
    if source == "chats":
        return _get_chat(store, find_entry(store, source, id, pieces=False), options, terms)
    entry = find_entry(store, source, id)
    if source in ("characters", "prompts"):
        return _get_fields(entry, options, terms)
    return _get_text(entry, options, terms)


def _get_text(entry: Entry, options: Retrieval, terms: Sequence[str]) -> EntryContent:
    text = join_text(entry)
    pieces = entry.pieces if entry.source == "media" else ()
    loc = options.loc
    place = None
    if pieces:
        place = _find_place(pieces, loc)
    elif isinstance(loc.get("chunk_index"), int):
        place = max(0, loc["chunk_index"])
    anchor = _read_offset(loc)
    if place is not None and pieces:
        anchor = pieces[place].start
        terms_here = terms
    elif anchor is None:
        anchor, terms_here = find_anchor(text, terms), terms
    else:
        terms_here = ()
    anchor = min(anchor or 0, len(text))
    if options.mode == "snippet":
        seen = pieces[place].text if pieces and place is not None else text
        content = show_snippet(seen, terms_here, options, 0 if seen is not text else anchor)
        return EntryContent(entry, _piece_at(entry, anchor), content)
    shown = show_text(text, options, anchor, pieces, place)
    attachments = [
        {"chunk_index": at, "start": start, "end": end}
        | ({"chunk_uuid": pieces[at].uuid} if pieces and options.prefer_prechunked else {})
        for at, start, end in shown.chunks
    ]
    return EntryContent(
        entry, _piece_at(entry, anchor), shown.text, attachments or None, shown.next_offset
    )


def _find_place(pieces: Sequence[Piece], loc: Mapping[str, Any]) -> int | None:
    uuid, index = loc.get("chunk_uuid"), loc.get("chunk_index")
    for at, piece in enumerate(pieces):
        if uuid and piece.uuid == uuid:
            return at
    if isinstance(index, int) and not isinstance(index, bool):
        return max(0, min(index, len(pieces) - 1))
    return None


def _read_offset(loc: Mapping[str, Any]) -> int | None:
    offset = loc.get("approx_offset")
    usable = isinstance(offset, int | float) and not isinstance(offset, bool) and offset >= 0
    return int(offset) if usable and offset is not None else None


def _piece_at(entry: Entry, offset: int, field: str = "") -> Piece:
    best = Piece("", 0, 0, field)
    for piece in entry.pieces:
        if piece.field == field and piece.start <= offset:
            best = piece
    return best


def _get_fields(entry: Entry, options: Retrieval, terms: Sequence[str]) -> EntryContent:
    """Characters and prompts: all fields at once, or a part of the one that matters."""
    fields = list_fields(entry)
    if options.mode == "full":
        return _get_all_fields(entry, fields, options)
    field = options.loc.get("field")
    if field not in fields:
        field = _best_field(fields, terms)
    text = fields.get(field, "")
    offset = _read_offset(options.loc)
    anchor = min(find_anchor(text, terms) if offset is None else offset, len(text))
    piece = _piece_at(entry, anchor, field)
    if options.mode == "snippet":
        seen = text or entry.title
        return EntryContent(entry, piece, show_snippet(seen, terms, options, anchor))
    shown = show_text(text, options, anchor)
    attachments = [
        {"field": field, "chunk_index": at, "start": start, "end": end}
        for at, start, end in shown.chunks
    ]
    return EntryContent(entry, piece, shown.text, attachments, shown.next_offset)


def _best_field(fields: Mapping[str, str], terms: Sequence[str]) -> str:
    wanted = set(terms)

    def weigh(name: str) -> int:
        from sonde.text.words import index_text

        return len(wanted.intersection(index_text(fields[name])))

    return max(fields, key=weigh, default="")


def _get_all_fields(entry: Entry, fields: Mapping[str, str], options: Retrieval) -> EntryContent:
    """Every field, cut in order where the budget ends."""
    content: dict[str, Any] = {"name": entry.title}
    at, room = 0, options.budget
    next_offset: int | None = None
    for name, text in fields.items():
        skip = min(max(options.offset - at, 0), len(text))
        start, end = skip, floor_boundary(text, skip + room)
        if end <= start < len(text) and at + start == options.offset:
            end = start + min(room, 1)  # one character is more than the budget: a part of it
        if start < end:
            content[name] = text[start:end]
        room -= end - start
        if end < len(text) and next_offset is None:
            next_offset, room = at + end, 0
        at += len(text)
    content |= {key: value for key, value in entry.facts.items() if key not in content}
    return EntryContent(
        entry, _piece_at(entry, 0, next(iter(fields), "")), content, None, next_offset
    )


def _get_chat(
    store: KnowledgeStore, entry: Entry, options: Retrieval, terms: Sequence[str]
) -> EntryContent:
    total = store.count_pieces("chats", entry.id)
    if options.mode == "full":
        return read_messages(store, entry, options.offset, total, options.budget)
    at = _find_message(store, entry, options.loc, terms)
    window = options.sibling_window if options.mode == "chunk_with_siblings" else 0
    first = max(0, at - window)
    messages = store.read_pieces("chats", entry.id, first, at - first + window + 1)
    anchor = next((message for message in messages if message.place == at), None)
    if anchor is None:
        return EntryContent(
            entry, Piece("", 0), "" if options.mode == "snippet" else _wrap([], total)
        )
    if options.mode == "snippet":
        return EntryContent(entry, anchor, show_snippet(anchor.text, terms, options, 0))
    chosen = choose_messages(messages, at - first, options)
    if len(chosen) == 1 and len(chosen[0].text) > options.budget:
        shown = show_text(chosen[0].text, replace(options, mode="full", offset=0), 0)
        chosen = [replace(chosen[0], text=shown.text)]
    return EntryContent(entry, anchor, _wrap(chosen, total))


def _find_message(
    store: KnowledgeStore, entry: Entry, loc: Mapping[str, Any], terms: Sequence[str]
) -> int:
    if isinstance(loc.get("message_id"), str):
        piece = store.find_piece("chats", entry.id, loc["message_id"])
        if piece:
            return piece.place
    index = loc.get("message_index")
    if isinstance(index, int) and not isinstance(index, bool) and index >= 0:
        return index
    if terms:  # a light search: the best messages of the store, the first of this conversation
        found = store.rank("chats", terms, _ANCHORS, Conditions(fields=("",)))
        places = store.locate("chats", [one.id for one in found])
        for one in found:
            if one.id in places and places[one.id].entry.id == entry.id:
                return places[one.id].piece.place
    return 0


def read_messages(
    store: KnowledgeStore, entry: Entry, first: int, count: int, budget: int
) -> EntryContent:
    """Messages from a place on, as many as fit; at least a part of one."""
    total = store.count_pieces("chats", entry.id)
    chosen: list[Piece] = []
    room = budget
    for message in store.read_pieces("chats", entry.id, first, min(count, 1_000)):
        if len(message.text) > room:
            if not chosen:
                cut = floor_boundary(message.text, room) or room
                chosen.append(replace(message, text=message.text[:cut]))
            break
        chosen.append(message)
        room -= len(message.text)
    behind = chosen[-1].place + 1 if chosen else total
    more = behind if behind < total else None
    anchor = chosen[0] if chosen else Piece("", 0)
    return EntryContent(entry, anchor, _wrap(chosen, total), None, more)


def _wrap(messages: Sequence[Piece], total: int) -> dict[str, Any]:
    from sonde.text.times import show_time

    return {
        "messages": [
            {
                "message_id": message.uuid,
                "message_index": message.place,
                "sender": message.sender or None,
                "created_at": show_time(message.created_at),
                "content": message.text,
            }
            for message in messages
            if message.field != TITLE
        ],
        "total_messages": total,
    }


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
