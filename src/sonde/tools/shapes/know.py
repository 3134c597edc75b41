"""KNOW's shapes: the filters that a search takes, and every answer field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import PurePosixPath
from typing import Annotated, Literal, NotRequired, TypedDict, TypeVar
from urllib.parse import quote

from sonde.knowledge.formats import BY_TESSERACT, LEFT_OUT
from sonde.knowledge.getting import EntryContent, FileExcerpt, Messages
from sonde.knowledge.ranking import AnyHit, FileHit, find_message_id, make_uri
from sonde.knowledge.retrieval import SHORTEST, Order, cut_excerpt
from sonde.knowledge.service import RankedPage
from sonde.paging.budget import fit_page
from sonde.stores.knowledge.base import (
    ANYTHING,
    NUMBERED,
    SOURCES,
    TITLE,
    Conditions,
    Entry,
    Piece,
    Source,
)
from sonde.text.formats import read_day_end, read_time, show_time
from sonde.tools.schema import Param, bind
from sonde.tools.tool import read_arguments
from sonde.types import Caller, Json
from sonde.values import invalid_value

RESERVED_TOKENS = 25
"""Room for fields that are added to an answer after its page was cut."""
SHOWN_DUPLICATES = 5  # entries with the same text that a result names; the rest is counted
PROMPT_FIELDS = ("name", "details", "system_prompt", "user_prompt", "author", "keywords")

Shape = Literal["full", "pointers", "compact"]
"""How a result is written: KNOW's fields, the same with its `uri` as `id`, or five fields."""
NameT = TypeVar("NameT", bound=str)

OrderParam = Annotated[Order | None, Param("By `relevance` or `recent` first", terse=True)]


def filter_notes(
    keywords: Annotated[
        tuple[str, ...], Param("Only notes with all of these tags", max_length=50, terse=True)
    ] = (),
) -> Conditions:
    """Notes by their tags."""
    return Conditions(tags=tuple(keywords))


def filter_media(
    media_types: Annotated[
        tuple[str, ...],
        Param("Only these kinds: video, audio, pdf, epub, html …", max_length=50, terse=True),
    ] = (),
    date_from: Annotated[
        str | None, Param("Not older (ISO 8601)", max_length=50, terse=True)
    ] = None,
    date_to: Annotated[str | None, Param("Not newer (ISO 8601)", max_length=50, terse=True)] = None,
    order_by: OrderParam = None,
) -> Conditions:
    """Media by kind and time; `order_by` is read by the search itself."""
    del order_by
    since = _read_date("date_from", date_from, read_time)
    until = _read_date("date_to", date_to, read_day_end)
    return Conditions(media_types=tuple(media_types), since=since, until=until)


def filter_chats(
    by: Annotated[Literal["both", "title", "message"], Param("Where to look")] = "both",
    character_id: Annotated[
        int | None, Param("Only with this character", minimum=0, maximum=2**53)
    ] = None,
    sender: Annotated[str, Param("Only messages of this sender", max_length=500, terse=True)] = "",
) -> Conditions:
    """Titles and messages of conversations."""
    fields = {"both": (), "title": ("title",), "message": ("",)}[by]
    character = "" if character_id is None else str(character_id)
    return Conditions(fields=fields, character=character, sender=sender)


def filter_prompts(
    fields: Annotated[
        tuple[str, ...],
        Param(f"Only in these of {', '.join(PROMPT_FIELDS)}", max_length=10, terse=True),
    ] = (),
) -> Conditions:
    """Fields of prompts."""
    _check_names("fields", fields, PROMPT_FIELDS)
    return Conditions(fields=tuple("title" if name == "name" else name for name in fields))


FILTERS: Mapping[Source, Callable[..., Conditions]] = {
    "notes": filter_notes,
    "media": filter_media,
    "chats": filter_chats,
    "characters": lambda: ANYTHING,
    "prompts": filter_prompts,
}


def choose_sources(names: Sequence[str], known: tuple[NameT, ...]) -> tuple[NameT, ...]:
    """The known sources that are named, in order; all of them when none is."""
    _check_names("sources", names, known)
    return tuple(source for source in known if source in names) or known


def _check_names(argument: str, names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise invalid_value(f"`{argument}` must be some of {', '.join(known)}; one is {name!r}")


def read_filters(given: Mapping[str, object]) -> dict[Source, Conditions]:
    """The conditions of each source, checked like arguments."""
    where: dict[Source, Conditions] = {}
    for name, filters in given.items():
        _check_names("filters", (name,), SOURCES)
        source: Source = next(known for known in SOURCES if known == name)
        if not isinstance(filters, dict):
            raise invalid_value(f"`filters.{name}` must be an object")
        if source == "characters" and filters:
            raise invalid_value(f"`filters.{name}` is reserved: there is nothing to filter by yet")
        narrow = FILTERS[source]
        where[source] = narrow(**bind(f"filters.{name}", read_arguments(narrow), filters))
    return where


def list_recent(given: Mapping[str, object]) -> tuple[Source, ...]:
    """The sources that are to be sorted by time before they are merged with the others."""
    orders = {
        name: {filters.get("order_by"), filters.get("orderBy")}
        for name, filters in given.items()
        if isinstance(filters, dict)
    }
    return tuple(name for name in SOURCES if "recent" in orders.get(name, ()))


def _read_date(name: str, text: str | None, read: Callable[[str], int | None]) -> int | None:
    stamp = read(text) if text else None
    if text and stamp is None:
        raise invalid_value(f"`{name}` must be a date such as 2024-05-31; it is {text!r}")
    return stamp


class KnowAnswer(TypedDict):
    """The answer of every knowledge search."""

    results: list[Json]
    has_more: bool
    next_offset: int | None
    total_estimated: int | None
    truncated: NotRequired[bool]
    session_id: NotRequired[str]
    suppressed: NotRequired[int]
    """How many hits were hidden because the session had seen them."""
    note: NotRequired[str]


class GetAnswer(TypedDict):
    """The answer of every call that reads one entry."""

    meta: Json
    content: str | Json
    attachments: list[Json] | None
    next_offset: NotRequired[int]


def show_ranked_page(page: RankedPage, caller: Caller, shape: Shape = "full") -> KnowAnswer:
    """A page of results within its budget: fewer rows, then a shorter snippet."""

    def render(hit: AnyHit, length: int) -> Json:
        row = _show_hit(hit, length, page, caller)
        if shape == "pointers":
            row["id"] = row["uri"]
        return _show_compact(row) if shape == "compact" else row

    def whole(rows: list[Json]) -> KnowAnswer:
        behind = page.offset + len(rows)
        more = bool(rows) and behind < len(page.hits)
        return {
            "results": rows,
            "has_more": more,
            "next_offset": behind if more else None,
            "total_estimated": len(page.hits),
        }

    answer = fit_page(
        page.shown,
        render,
        whole,
        page.max_tokens - RESERVED_TOKENS,
        length=page.snippet_length,
        shortest=SHORTEST,
        shrink=(1, 2),
        envelope=None,
    )
    if len(answer["results"]) < len(page.shown):
        answer["truncated"] = True
    if page.session:
        answer["session_id"] = page.session.id
    if page.suppressed:
        answer["suppressed"] = page.suppressed
    if page.note:
        answer["note"] = page.note
    return answer


def _show_hit(hit: AnyHit, length: int, page: RankedPage, caller: Caller) -> Json:
    text, place = page.answers[hit.uri]
    snippet = cut_excerpt(text, place, length)
    if isinstance(hit, FileHit):
        loc = {"path": hit.path, "start_line": hit.start_line, "end_line": hit.end_line}
        return _show_file(hit.source, hit.uri, hit.path, hit.last_modified, loc, caller) | {
            "snippet": snippet or None,
            "score": round(hit.score, 4),
            "score_type": hit.score_type,
        }
    row = _show_entry(hit.entry, hit.piece, snippet, hit.score, hit.score_type, place[0], caller)
    if hit.duplicates:
        row["duplicates"] = [asdict(each) for each in hit.duplicates[:SHOWN_DUPLICATES]]
        row["duplicates_total"] = len(hit.duplicates)
    return row


def show_content(found: EntryContent | FileExcerpt, caller: Caller) -> GetAnswer:
    """An entry or a file, and the part of it that was read."""
    if isinstance(found, FileExcerpt):
        title, loc = PurePosixPath(found.path).name, {"path": found.path}
        meta = _show_file(found.kind, found.uri, title, found.last_modified, loc, caller)
        answer: GetAnswer = {"meta": meta, "content": found.text, "attachments": None}
    else:
        snippet = cut_excerpt(found.piece.text or found.entry.title, (0, 0), found.snippet_length)
        meta = _show_entry(found.entry, found.piece, snippet, 1.0, "exact", 0, caller)
        if found.content == snippet:
            meta["snippet"] = None  # once is enough
        facts = found.entry.facts
        meta |= {
            name: facts[name] for name in ("author", LEFT_OUT, BY_TESSERACT) if facts.get(name)
        }
        meta |= {"url": found.entry.url} if found.entry.url else {}
        chunks: list[Json] = []
        for chunk in found.chunks:
            place = {"chunk_index": chunk.index, "start": chunk.start, "end": chunk.end}
            field = {"field": chunk.field} if chunk.field else {}
            uuid = {} if chunk.uuid is None else {"chunk_uuid": chunk.uuid}
            chunks.append({**field, **place, **uuid})
        answer = {"meta": meta, "content": _write_content(found), "attachments": chunks or None}
    if found.next_offset is not None:
        answer["next_offset"] = found.next_offset
    return answer


def _write_content(found: EntryContent) -> str | Json:
    content = found.content
    if not isinstance(content, Messages):
        return content if isinstance(content, str) else dict(content)
    messages = [
        {
            "message_id": message.uuid,
            "message_index": message.place,
            "sender": message.sender or None,
            "created_at": show_time(message.created_at),
            "content": message.text,
        }
        for message in content.messages
    ]
    numbers = {"page": content.page, "page_size": content.page_size} if content.page else {}
    return {"messages": messages, "total_messages": content.total, **numbers}


def _show_compact(row: Json) -> Json:
    """A result in the shape of deep-research clients."""
    metadata = {
        key: row.get(key)
        for key in ("source", "score", "last_modified", "tags", "media_type", "loc", "duplicates")
        if row.get(key)
    }
    return {
        "id": row["uri"],
        "title": row["title"] or "",
        "text": row["snippet"] or "",
        "url": row.get("url") or row.get("link") or row["uri"],
        "metadata": metadata,
    }


def show_compact_content(answer: GetAnswer) -> Json:
    """The part of an entry or a file that was read, as one text."""
    content = answer["content"]
    if isinstance(content, dict) and "messages" in content:
        content = "\n".join(
            f"{each['sender'] or ''}: {each['content']}" for each in content["messages"]
        )
    elif isinstance(content, dict):
        content = "\n\n".join(f"{key}: {value}" for key, value in content.items())
    return _show_compact(answer["meta"]) | {"text": content}


def _show_link(address: str, caller: Caller) -> Json:
    """The URL of a result for HTTP callers; for others its `uri` is a resource."""
    return {"link": caller.link(address)} if caller.base_url else {}


def _show_file(
    kind: str, uri: str, title: str, last_modified: int, loc: Mapping[str, object], caller: Caller
) -> Json:
    project, _, path = uri.partition("://")[2].partition("#")[0].rpartition("//")
    lines = f"&lines={loc['start_line']}-{loc['end_line']}" if "start_line" in loc else ""
    return {
        "id": uri,
        "source": kind,
        "title": title,
        "snippet": None,
        "uri": uri,
        "score": 1.0,
        "score_type": "exact",
        "created_at": None,
        "last_modified": show_time(last_modified),
        "version": None,
        "tags": None,
        "loc": loc,
        **_show_link(f"files/{path}?project={project}{lines}", caller),
    }


def _show_entry(
    entry: Entry,
    piece: Piece,
    snippet: str,
    score: float,
    score_type: str,
    offset: int,
    caller: Caller,
) -> Json:
    message = find_message_id(entry, piece)
    start = f"?offset={piece.place}" if message and piece.place else ""
    extra: Json = {}
    if entry.source == "media":
        extra = {"media_type": entry.media_type or None, "url": entry.url or None}
    if entry.source == "chats":
        extra = {
            "conversation_id": entry.id,
            "message_id": message or None,
            "sender": piece.sender or None,
        }
    return {
        "id": _show_id(entry),
        "source": entry.source,
        "title": entry.title or None,
        "snippet": snippet or None,
        "uri": make_uri(entry.source, entry.id, message),
        "score": round(score, 4),
        "score_type": score_type,
        "created_at": show_time(piece.created_at if message else entry.created_at),
        "last_modified": show_time(entry.last_modified),
        "version": entry.version,
        "tags": list(entry.tags) or None,
        **extra,
        "loc": _show_location(entry, piece, offset, message),
        **_show_link(f"knowledge/{entry.source}/{quote(entry.id, safe='')}{start}", caller),
    }


def _show_id(entry: Entry) -> str | int:
    """The id in its source's own type."""
    return int(entry.id) if entry.source in NUMBERED and entry.id.isdecimal() else entry.id


def _show_location(entry: Entry, piece: Piece, offset: int, message: str) -> Mapping[str, object]:
    if entry.source == "chats":
        place = {"message_id": message, "message_index": piece.place} if message else {}
        return {"conversation_id": entry.id, **place}
    found = {"approx_offset": piece.start + offset}
    if entry.source == "media":
        chunk = {"chunk_index": piece.place, "chunk_uuid": piece.uuid}
        return {"media_id": _show_id(entry), **chunk, **found}
    if piece.field == TITLE:
        return {"field": "name", "approx_offset": 0}
    return found | {"field": piece.field} if piece.field else found
