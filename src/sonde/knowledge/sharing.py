"""What several servers on one store must know of each other: sessions, and rankings with pages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from sonde.knowledge.ranking import KnowledgeHit
from sonde.knowledge.sessions import TTL_S, Session
from sonde.stores.knowledge_base import SOURCES, Found, KnowledgeStore

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


def save_ranking(store: KnowledgeStore, key: str, hits: Iterable[KnowledgeHit], held: int) -> None:
    """Keep a ranking for its later pages, whichever server shows them."""
    if store.shared:
        rows = [[hit.source, hit.piece.number, hit.score, hit.score_type] for hit in hits]
        store.remember(f"set:{key}", json.dumps({"hits": rows, "held": held}), _SET_S)


def load_ranking(store: KnowledgeStore, key: str) -> tuple[Sequence[KnowledgeHit], int] | None:
    """A ranking that any server kept; what was removed since is not in it."""
    text = store.recall(f"set:{key}") if store.shared else None
    if text is None:
        return None
    known = json.loads(text)
    places: dict[tuple[str, int], Found] = {}
    for source in SOURCES:
        numbers = [number for each, number, _, _ in known["hits"] if each == source]
        found = store.locate(source, numbers) if numbers else {}
        places |= {(source, number): place for number, place in found.items()}
    hits = [
        KnowledgeHit(places[source, number].entry, places[source, number].piece, score, kind)
        for source, number, score, kind in known["hits"]
        if (source, number) in places
    ]
    return hits, known["held"]
