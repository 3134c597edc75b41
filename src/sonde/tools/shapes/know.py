"""KNOW's answers, field by field."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NotRequired, TypedDict

from sonde.knowledge.getting import EntryContent
from sonde.knowledge.ranking import KnowledgeHit, make_uri
from sonde.knowledge.retrieval import cut_excerpt, find_offset
from sonde.stores.knowledge.base import NUMBERED, TITLE, Entry, Piece
from sonde.text.times import show_time


class KnowAnswer(TypedDict):
    """What every search of knowledge answers."""

    results: list[dict[str, Any]]
    has_more: bool
    next_offset: int | None
    total_estimated: int | None
    truncated: NotRequired[bool]
    session_id: NotRequired[str]
    suppressed: NotRequired[int]
    """How many a session had seen before and were held back."""


class GetAnswer(TypedDict):
    """What every look at one entry answers."""

    meta: dict[str, Any]
    content: str | dict[str, Any]
    attachments: list[dict[str, Any]] | None
    next_offset: NotRequired[int]


class TranscriptAnswer(TypedDict):
    """What media_transcript answers."""

    content: str | dict[str, Any]


def show_id(entry: Entry) -> str | int:
    """The id as its source has it."""
    return int(entry.id) if entry.source in NUMBERED and entry.id.isdecimal() else entry.id


def show_knowledge_hit(
    hit: KnowledgeHit, terms: Collection[str], length: int, hints: Collection[str], opening: str
) -> dict[str, Any]:
    """One result; `opening` is the first message of a conversation found by its title."""
    text = hit.piece.text
    if hit.piece.field == TITLE:
        text = f"{hit.entry.title}: {opening}" if opening else hit.entry.title
    snippet = cut_excerpt(text, terms, length, hints)
    return _show_item(hit.entry, hit.piece, snippet, hit.score, hit.score_type, terms)


def show_got(got: EntryContent, snippet_length: int) -> GetAnswer:
    """An entry and what was asked for of it."""
    snippet = cut_excerpt(got.piece.text or got.entry.title, (), snippet_length)
    meta = _show_item(got.entry, got.piece, snippet, 1.0, "exact", ())
    if isinstance(got.content, str) and got.content == snippet:
        meta["snippet"] = None  # once is enough
    answer: GetAnswer = {"meta": meta, "content": got.content, "attachments": got.attachments}
    if got.next_offset is not None:
        answer["next_offset"] = got.next_offset
    return answer


def show_compact(item: dict[str, Any]) -> dict[str, Any]:
    """A result in the shape of deep-research clients."""
    metadata = {
        key: item[key]
        for key in ("source", "score", "last_modified", "tags", "media_type", "loc")
        if item.get(key)
    }
    return {
        "id": item["uri"],
        "title": item["title"] or "",
        "text": item["snippet"] or "",
        "url": item.get("url") or item["uri"],
        "metadata": metadata,
    }


def _show_item(
    entry: Entry,
    piece: Piece,
    snippet: str,
    score: float,
    score_type: str,
    terms: Collection[str],
) -> dict[str, Any]:
    message = piece.uuid if entry.source == "chats" and piece.field != TITLE else ""
    row: dict[str, Any] = {
        "id": show_id(entry),
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
    }
    if entry.source == "media":
        row |= {"media_type": entry.media_type or None, "url": entry.url or None}
    if entry.source == "chats":
        row["conversation_id"] = entry.id
        row["message_id"] = message or None
        row["sender"] = piece.sender or None
    return row | {"loc": _show_loc(entry, piece, terms, message)}


def _show_loc(
    entry: Entry, piece: Piece, terms: Collection[str], message: str
) -> dict[str, Any] | None:
    if entry.source == "media":
        return {
            "media_id": show_id(entry),
            "chunk_index": piece.place,
            "chunk_uuid": piece.uuid,
        }
    if entry.source == "chats":
        place = {"message_id": message, "message_index": piece.place} if message else {}
        return {"conversation_id": entry.id, **place}
    if piece.field == TITLE:
        return {"field": "name", "approx_offset": 0}
    offset = piece.start + (find_offset(piece.text, terms) if terms else 0)
    return {"approx_offset": offset} | ({"field": piece.field} if piece.field else {})
