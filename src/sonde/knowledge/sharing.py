"""What several servers on one store must know of each other: sessions, and rankings with pages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sonde.knowledge.ranking import KnowledgeHit
from sonde.knowledge.sessions import TTL_S, Session
from sonde.stores.knowledge_base import Entry, Found, KnowledgeStore, Piece, Source

_SET_S = 300.0


def load_session(store: KnowledgeStore, session: Session) -> None:
    """Take over what another server knows of this session."""
    text = store.recall(f"session:{session.id}") if store.shared else None
    if text:
        known = json.loads(text)
        session.seen.clear()
        session.mark(known["seen"])
        session.recent.clear()
        session.recent.extend(known["recent"])
        session.defaults = known["defaults"]


def save_session(store: KnowledgeStore, session: Session) -> None:
    """Let other servers know."""
    if store.shared:
        known = {
            "seen": list(session.seen),
            "recent": list(session.recent),
            "defaults": session.defaults,
        }
        store.remember(f"session:{session.id}", json.dumps(known), TTL_S)


def save_ranking(store: KnowledgeStore, key: str, hits: Sequence[KnowledgeHit], held: int) -> None:
    """Keep a ranking for its later pages, whichever server shows them."""
    if store.shared:
        known = {"hits": [_describe(hit) for hit in hits], "held": held}
        store.remember(f"set:{key}", json.dumps(known), _SET_S)


def load_ranking(store: KnowledgeStore, key: str) -> tuple[Sequence[KnowledgeHit], int] | None:
    """A ranking that any server kept; what is gone since is still in its place, without text."""
    text = store.recall(f"set:{key}") if store.shared else None
    if text is None:
        return None
    store.remember(f"set:{key}", text, _SET_S)
    known = json.loads(text)
    numbers: dict[Source, list[int]] = {}
    for hit in known["hits"]:
        numbers.setdefault(hit["source"], []).append(hit["number"])
    places = {source: store.locate(source, those) for source, those in numbers.items()}
    return [
        _restore(hit, places[hit["source"]].get(hit["number"])) for hit in known["hits"]
    ], known["held"]


def _describe(hit: KnowledgeHit) -> dict[str, Any]:
    entry, piece = hit.entry, hit.piece
    row = {
        "source": entry.source,
        "number": piece.number,
        "id": entry.id,
        "title": entry.title,
        "field": piece.field,
        "place": piece.place,
        "uuid": piece.uuid,
        "last_modified": entry.last_modified,
        "score": hit.score,
        "score_type": hit.score_type,
    }
    # what is no entry of the store, such as lines of a file, is found nowhere else again
    return row if piece.number else row | {"text": piece.text, "facts": dict(entry.facts)}


def _restore(hit: Mapping[str, Any], found: Found | None) -> KnowledgeHit:
    if found is None:
        piece = Piece(hit.get("text", ""), hit["place"], field=hit["field"], uuid=hit["uuid"])
        found = Found(
            Entry(
                hit["source"],
                hit["title"],
                id=hit["id"],
                last_modified=hit["last_modified"],
                facts=hit.get("facts", {}),
            ),
            piece,
        )
    return KnowledgeHit(found.entry, found.piece, hit["score"], hit["score_type"])
