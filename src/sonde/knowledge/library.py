"""The knowledge of every user of this installation, each opened when first asked for."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sonde.knowledge.ranking import KnowledgeHit
from sonde.knowledge.retrieval import BOUNDS, clamp_option, refuse_option
from sonde.stores.knowledge.base import Entry, KnowledgeStore, Piece, RankedPiece, Source

TTL_S = 3_600.0
MOST_SESSIONS = 500
MOST_SEEN = 2_000
MOST_QUERIES = 10
DEFAULTS = ("snippet_length", "max_tokens", "sibling_window", "order_by", "chars_per_token")
"""What a session or a request may prefer."""


@dataclass(slots=True)
class KnowledgeSession:
    """One conversation with one user."""

    id: str
    seen: OrderedDict[str, None] = field(default_factory=OrderedDict)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_QUERIES))
    """The newest question first."""
    defaults: dict[str, Any] = field(default_factory=dict)
    last_used: float = 0.0

    def mark(self, uris: Iterable[str]) -> None:
        """Remember what was shown; the oldest are forgotten first."""
        for uri in uris:
            self.seen[uri] = None
            self.seen.move_to_end(uri)
        while len(self.seen) > MOST_SEEN:
            self.seen.popitem(last=False)

    def forget(self, uris: Iterable[str]) -> None:
        """Show these again."""
        for uri in uris:
            self.seen.pop(uri, None)

    def ask(self, query: str) -> None:
        """Remember a question."""
        if query in self.recent:
            self.recent.remove(query)
        self.recent.appendleft(query)


class Sessions:
    """The sessions in use, each one user's; the least recently used make room."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], KnowledgeSession] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, user: str, id: str) -> KnowledgeSession:  # noqa: A002
        """The session of this name; a new one where there is none."""
        with self._lock:
            oldest = self._clock() - TTL_S
            for key in [key for key, kept in self._kept.items() if kept.last_used < oldest]:
                del self._kept[key]
            session = self._kept.setdefault((user, id), KnowledgeSession(id))
            session.last_used = self._clock()
            self._kept.move_to_end((user, id))
            while len(self._kept) > MOST_SESSIONS:
                self._kept.popitem(last=False)
            return session

    def clear(self, user: str, id: str) -> bool:  # noqa: A002
        """Forget a session; whether there was one."""
        with self._lock:
            return self._kept.pop((user, id), None) is not None

    def __len__(self) -> int:
        return len(self._kept)


def make_session_id() -> str:
    """A name nobody guesses."""
    return secrets.token_urlsafe(12)


def read_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Preferences of a session or a request, clamped; what is not one of them is refused."""
    kept: dict[str, Any] = {}
    for name, value in given.items():
        if name not in DEFAULTS:
            raise refuse_option(f"`{name}` is no preference; there are {', '.join(DEFAULTS)}")
        if name in BOUNDS:
            kept[name] = clamp_option(name, value)
        elif value in ("relevance", "recent"):
            kept[name] = value
        else:
            raise refuse_option("`order_by` must be relevance or recent")
    return kept


class Library:
    """Stores by user, and the sessions that look at them."""

    def __init__(
        self,
        open_store: Callable[[str], KnowledgeStore],
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._open_store = open_store
        self._close = close
        self._stores: dict[str, KnowledgeStore] = {}
        self._lock = threading.Lock()
        self.sessions = Sessions()
        self.refused: dict[tuple[str, str, str | None], dict[str, tuple[str, str, str]]] = {}
        """By user, folder and source: what need not be tried again while it is as it was."""

    def of(self, user: str) -> KnowledgeStore:
        """What this user has."""
        with self._lock:
            if user not in self._stores:
                self._stores[user] = self._open_store(user)
            return self._stores[user]

    def forget_session(self, user: str, session: str) -> None:
        """End a session wherever it is known."""
        self.sessions.clear(user, session)
        store = self.of(user)
        if store.shared:
            store.remember(f"session:{session}", "", -1.0)

    def close(self) -> None:
        """Close every store."""
        with self._lock:
            for store in self._stores.values():
                store.close()
            self._stores = {}
            self._close()


_SET_S = 300.0


def load_session(store: KnowledgeStore, session: KnowledgeSession) -> None:
    """Take over what another server knows of this session."""
    text = store.recall(f"session:{session.id}") if store.shared else None
    if text:
        known = json.loads(text)
        session.seen.clear()
        session.mark(known["seen"])
        session.recent.clear()
        session.recent.extend(known["recent"])
        session.defaults = known["defaults"]


def save_session(store: KnowledgeStore, session: KnowledgeSession) -> None:
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


def _restore(hit: Mapping[str, Any], found: RankedPiece | None) -> KnowledgeHit:
    if found is None:
        piece = Piece(hit.get("text", ""), hit["place"], field=hit["field"], uuid=hit["uuid"])
        found = RankedPiece(
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
