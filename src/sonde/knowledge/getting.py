"""Reading one entry: the excerpt around a place in it, and where the next one begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sonde.errors import EntryMissing
from sonde.knowledge.ranking import read_knowledge_query
from sonde.knowledge.retrieval import (
    Location,
    Retrieval,
    choose_messages,
    list_fields,
    show_snippet,
    show_text,
)
from sonde.ranking.snippets import DEFAULT_LENGTH, find_run
from sonde.stores.knowledge.base import Conditions, Entry, KnowledgeStore, Piece, Source
from sonde.text.cuts import floor_boundary
from sonde.text.words import index_text
from sonde.types import Kind
from sonde.values import invalid_value

_NAMES: Mapping[str, str] = {"media": "medium", "chats": "conversation"}
ANCHOR_DEPTH = 200  # best messages searched for one of the conversation that is read
MAX_MESSAGES = 1_000  # of one answer, whatever its budget


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of a conversation, in order."""

    messages: tuple[Piece, ...]
    total: int
    """Of the whole conversation."""
    page: int | None = None
    page_size: int | None = None


@dataclass(frozen=True, slots=True)
class ChunkSpan:
    """A chunk of the content."""

    index: int
    start: int
    end: int
    uuid: str | None = None
    field: str = ""


@dataclass(frozen=True, slots=True)
class EntryContent:
    """An excerpt of an entry."""

    entry: Entry
    piece: Piece
    """The piece around which the content was cut."""
    content: str | Messages | Mapping[str, object]
    """A text, messages, or texts and facts by field."""
    chunks: tuple[ChunkSpan, ...] = ()
    next_offset: int | None = None
    snippet_length: int = DEFAULT_LENGTH


def find_entry(store: KnowledgeStore, source: Source, id: str, *, pieces: bool = True) -> Entry:  # noqa: A002
    """The entry with this id or uri, or the prompt with this name. Raises `EntryMissing`."""
    if id.startswith(f"{source}://"):
        id = id.removeprefix(f"{source}://").partition("#")[0]  # noqa: A001
    entry = store.get(source, id, pieces=pieces)
    if entry is None and source == "prompts":
        named = store.find_title(source, id)
        entry = store.get(source, named.id, pieces=pieces) if named else None
    if entry is None:
        what = _NAMES.get(source, source.removesuffix("s"))
        raise EntryMissing(f"no {id!r} among {source}", what=what, id=id)
    return entry


@dataclass(frozen=True, slots=True)
class FileExcerpt:
    """A part of a project's file, which is read like an entry."""

    uri: str
    kind: Kind
    path: str
    text: str
    last_modified: int  # epoch milliseconds
    next_offset: int | None


def get_entry(store: KnowledgeStore, source: Source, key: str, options: Retrieval) -> EntryContent:
    """The part of an entry that the options select."""
    terms = read_knowledge_query(options.query).terms
    entry = find_entry(store, source, key, pieces=source != "chats")
    owner = {"media": options.loc.media_id, "chats": options.loc.conversation_id}.get(source)
    if owner and owner != entry.id:
        raise invalid_value(f"`loc` is a place in {source} {owner}, not in {entry.id}")
    if source == "chats":
        return _get_chat(store, entry, options, terms)
    fields = list_fields(entry)
    if source in ("notes", "media"):
        return _get_text(entry, fields.get("", ""), options, terms)
    if options.mode == "full":
        return _get_all_fields(entry, fields, options)
    matches = {name: len(set(terms) & set(index_text(text))) for name, text in fields.items()}
    best = max(fields, key=matches.__getitem__, default="")
    field = options.loc.field if options.loc.field in fields else best
    return _get_text(entry, fields.get(field, ""), options, terms, field)


def _get_text(
    entry: Entry, text: str, options: Retrieval, terms: Sequence[str], field: str = ""
) -> EntryContent:
    """A part of an entry's text, or of one of its fields."""
    pieces = entry.pieces if entry.source == "media" else ()
    loc = options.loc
    place, anchor = _find_place(pieces, loc), loc.approx_offset
    if place is not None and pieces:
        chunk = pieces[place]
        if anchor is None or not chunk.start <= anchor < chunk.start + len(chunk.text):
            anchor = chunk.start + find_run(chunk.text, terms)[0]
    elif anchor is None:
        anchor = find_run(text, terms)[0]
    else:
        terms = ()
    anchor = min(anchor, len(text))
    piece = _piece_at(entry, anchor, field)
    if options.mode == "snippet":
        if pieces and place is not None:
            start = pieces[place].start
            content = show_snippet(pieces[place].text, terms, options, anchor - start)
        else:
            content = show_snippet(text or (entry.title if field else ""), terms, options, anchor)
        return EntryContent(entry, piece, content)
    named = bool(pieces) and options.prefer_prechunked
    # stored chunks have other numbers than those of a text that is cut for this call
    shown = show_text(text, options, anchor, pieces, place if named or not pieces else None)
    chunks = tuple(ChunkSpan(*each, pieces[each[0]].uuid if named else None, field)
                   for each in shown.chunks)  # fmt: skip
    return EntryContent(entry, piece, shown.text, chunks, shown.next_offset)


def _find_place(pieces: Sequence[Piece], loc: Location) -> int | None:
    """The number of the chunk at a location, None without one. Raises `EntryMissing`."""
    if loc.chunk_uuid and pieces:
        places = (at for at, piece in enumerate(pieces) if piece.uuid == loc.chunk_uuid)
        place = next(places, None)
        return _require_part(place, "chunk", loc.chunk_uuid)
    if loc.chunk_index is None:
        return None
    inside = loc.chunk_index >= 0 and not (pieces and loc.chunk_index >= len(pieces))
    return _require_part(loc.chunk_index if inside else None, "chunk", loc.chunk_index)


def _require_part(place: int | None, what: str, named: str | int) -> int:
    if place is None:
        raise EntryMissing(f"the entry has no {what} {named!r}", what=what, id=named)
    return place


def _piece_at(entry: Entry, offset: int, field: str = "") -> Piece:
    pieces = reversed(entry.pieces)
    before = (piece for piece in pieces if piece.field == field and piece.start <= offset)
    return next(before, Piece("", 0, 0, field))


def _get_all_fields(entry: Entry, fields: Mapping[str, str], options: Retrieval) -> EntryContent:
    """All fields in order, cut at the budget."""
    content: dict[str, object] = {"name": entry.title}
    at, room = 0, options.budget
    next_offset: int | None = None
    for name, text in fields.items():
        start = min(max(options.offset - at, 0), len(text))
        end = floor_boundary(text, start + room)
        if end <= start < len(text) and at + start == options.offset:
            end = start + min(room, 1)  # one character exceeds the budget: take a part of it
        if start < end:
            content[name] = text[start:end]
        room -= end - start
        if end < len(text) and next_offset is None:
            next_offset, room = at + end, 0
        at += len(text)
    content |= {key: value for key, value in entry.facts.items() if key not in content}
    piece = _piece_at(entry, 0, next(iter(fields), ""))
    return EntryContent(entry, piece, content, next_offset=next_offset)


def _get_chat(
    store: KnowledgeStore, entry: Entry, options: Retrieval, terms: Sequence[str]
) -> EntryContent:
    if options.mode == "full":
        return read_messages(store, entry, options.offset, MAX_MESSAGES, options)
    total = store.count_pieces("chats", entry.id)
    at = _find_message(store, entry, options.loc, terms)
    window = options.sibling_window if options.mode == "chunk_with_siblings" else 0
    first = max(0, at - window)
    messages = store.read_pieces("chats", entry.id, first, at - first + window + 1)
    anchor = next((message for message in messages if message.place == at), None)
    if anchor is None:
        nothing = "" if options.mode == "snippet" else Messages((), total)
        return EntryContent(entry, Piece("", 0), nothing)
    if options.mode == "snippet":
        return EntryContent(entry, anchor, show_snippet(anchor.text, terms, options, 0))
    chosen = choose_messages(messages, at - first, options)
    if len(chosen) == 1 and len(chosen[0].text) > options.budget:
        shown = show_text(chosen[0].text, replace(options, mode="full", offset=0), 0)
        chosen = [replace(chosen[0], text=shown.text)]
    return EntryContent(entry, anchor, Messages(tuple(chosen), total))


def _find_message(store: KnowledgeStore, entry: Entry, loc: Location, terms: Sequence[str]) -> int:
    if loc.message_id:
        piece = store.find_piece("chats", entry.id, loc.message_id)
        return _require_part(piece.place if piece else None, "message", loc.message_id)
    if loc.message_index is not None:
        known = loc.message_index < store.count_pieces("chats", entry.id)
        return _require_part(loc.message_index if known else None, "message", loc.message_index)
    if terms:  # the best match in this conversation, by words alone
        found = store.rank("chats", terms, ANCHOR_DEPTH, Conditions(fields=("",)))
        places = store.locate("chats", [one.id for one in found])
        for one in found:
            if one.id in places and places[one.id].entry.id == entry.id:
                return places[one.id].piece.place
    return 0


def read_messages(
    store: KnowledgeStore, entry: Entry, first: int, count: int, options: Retrieval,
    page: int | None = None,
) -> EntryContent:  # fmt: skip
    """A conversation's messages from a place on, as many as fit, at least a part of one."""
    total = store.count_pieces("chats", entry.id)
    chosen: list[Piece] = []
    room = options.budget
    for message in store.read_pieces("chats", entry.id, first, min(count, MAX_MESSAGES)):
        if len(message.text) > room:
            if not chosen:
                cut = floor_boundary(message.text, room) or room
                chosen.append(replace(message, text=message.text[:cut]))
            break
        chosen.append(message)
        room -= len(message.text)
    behind = chosen[-1].place + 1 if chosen else total
    piece, content = chosen[0] if chosen else Piece(""), Messages(tuple(chosen), total, page, count)
    return EntryContent(entry, piece, content, next_offset=behind if behind < total else None)
