"""The library: every user's store, opened on first use, and the search sessions on them."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from sonde.knowledge.ranking import AnyHit, Duplicate, FileHit, KnowledgeHit
from sonde.knowledge.retrieval import KnowledgePreferences, check_preferences
from sonde.knowledge.vectors import KnowledgeModels, start_deep_vectors
from sonde.paging.cursor import ResultSets
from sonde.runtime.jobs import Jobs
from sonde.stores.knowledge.base import Entry, KnowledgeStore, Piece, RankedPiece, Source
from sonde.stores.knowledge.shared import SharedKnowledge
from sonde.types import Caller, Skipped

SESSION_TTL_S = 3_600.0
"""A session is dropped an hour after its last use, as the specification's TTL reaper does."""
MAX_SESSIONS = 500  # bounds memory; the least recently used are dropped first
MAX_SEEN_URIS = 2_000  # per session, so that a long conversation cannot grow without bound
MAX_RECENT_QUERIES = 10  # bounds a session; snippets use fewer (`HINTING_QUERIES`)
SHARED_RANKING_TTL_S = 300.0  # as long as a result set lives in one server


@dataclass(slots=True)
class KnowledgeSession:
    """One conversation with one user."""

    id: str
    seen: OrderedDict[str, None] = field(default_factory=OrderedDict)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_RECENT_QUERIES))
    """The newest query first."""
    preferences: KnowledgePreferences = field(default_factory=KnowledgePreferences)
    last_used: float = 0.0

    def mark_seen(self, uris: Iterable[str]) -> None:
        """Record what was shown, and drop the oldest beyond the limit."""
        for uri in uris:
            self.seen[uri] = None
            self.seen.move_to_end(uri)
        while len(self.seen) > MAX_SEEN_URIS:
            self.seen.popitem(last=False)

    def add_query(self, query: str) -> None:
        """Put a query in front of the recent ones."""
        if query in self.recent:
            self.recent.remove(query)
        self.recent.appendleft(query)


Refusals = dict[str, tuple[str, Skipped]]
"""Files that no parser could read, by path, with their size and time; a file is parsed again once
these change."""


@dataclass(eq=False, kw_only=True, slots=True)
class Library:
    """The stores of all users, their sessions, and the services that work on them need."""

    open_store: Callable[[str], KnowledgeStore]
    close_stores: Callable[[], None] = lambda: None
    """Releases what the stores share."""
    uploads: Path
    """The folder for uploaded files until they are imported."""
    start: Path
    """The folder to which relative paths of imports refer."""
    jobs: Jobs
    results: ResultSets
    models: KnowledgeModels
    max_tokens: int
    """The budget of an answer if neither call nor session set one."""
    list_shared: Callable[[str], Sequence[str]] = lambda _user: ()
    """The collections shared with a user: names of the users that own the stores."""
    agent_notes: bool = False
    """Whether agents may add notes, if their user agrees."""
    list_filled: Callable[[str], Sequence[str]] = lambda _user: ()
    """The collections that a user may also add to."""
    clock: Callable[[], float] = time.time
    refused: dict[tuple[str, str, Source | None], Refusals] = field(default_factory=dict)
    """The files that earlier imports refused, by user, folder and source."""
    _stores: dict[str, KnowledgeStore] = field(default_factory=dict, init=False)
    _sessions: OrderedDict[tuple[str, str], KnowledgeSession] = field(
        default_factory=OrderedDict, init=False
    )
    """By user and id, the least recently used first."""
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def of(self, user: str) -> KnowledgeStore:
        """The user's own store."""
        with self._lock:
            if user not in self._stores:
                self._stores[user] = self.open_store(user)
            return self._stores[user]

    def list_collections(self, user: str) -> tuple[str, ...]:
        """The collections that a user may read now, besides their own knowledge."""
        return tuple(sorted({*self.list_shared(user), *self.list_filled(user)} - {user}))

    def seen_by(self, user: str) -> KnowledgeStore:
        """The user's store together with the collections shared with them, for reading."""
        own, names = self.of(user), self.list_collections(user)
        return SharedKnowledge(own, {name: self.of(name) for name in names}) if names else own

    def deepen(self, user: str) -> None:
        """Start jobs for missing deep vectors of all that a user may read."""
        for name in (user, *self.list_collections(user)):
            start_deep_vectors(self.models, self.jobs, self.of(name), name)

    def now_ms(self) -> int:
        """The time in epoch milliseconds, as entries carry it."""
        return int(self.clock() * 1000)

    def open_session(
        self,
        caller: Caller,
        id: str | None,  # noqa: A002
        changes: Mapping[str, object] | None = None,
    ) -> KnowledgeSession | None:
        """The session with this id, else the connection's own; None if there is neither.

        The id `new` makes one. Sessions are shared between servers. `changes` are added to the
        session's preferences.
        """
        name, user = id or caller.session, caller.user
        if not name:
            return None
        session = self._find_session(user, secrets.token_urlsafe(12) if name == "new" else name)
        store = self.of(user)
        text = store.recall(f"session:{session.id}") if store.shared else None
        if text:
            known = json.loads(text)
            session.seen = OrderedDict.fromkeys(known["seen"])
            session.recent = deque(known["recent"], MAX_RECENT_QUERIES)
            session.preferences = known["defaults"]
        if changes:
            session.preferences |= check_preferences(changes)
        return session

    def _find_session(self, user: str, name: str) -> KnowledgeSession:
        now = time.monotonic()
        with self._lock:
            for key in [k for k, s in self._sessions.items() if s.last_used < now - SESSION_TTL_S]:
                del self._sessions[key]
            session = self._sessions.setdefault((user, name), KnowledgeSession(name))
            session.last_used = now
            self._sessions.move_to_end((user, name))
            while len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
            return session

    def save_session(self, user: str, session: KnowledgeSession) -> None:
        """Share a session with the other servers of the store."""
        store = self.of(user)
        if store.shared:
            seen, recent = list(session.seen), list(session.recent)
            known = {"seen": seen, "recent": recent, "defaults": session.preferences}
            store.remember(f"session:{session.id}", json.dumps(known), SESSION_TTL_S)

    def forget_session(self, user: str, session: str) -> None:
        """End a session on every server."""
        with self._lock:
            self._sessions.pop((user, session), None)
        store = self.of(user)
        if store.shared:
            store.remember(f"session:{session}", "", -1.0)

    def close(self) -> None:
        """Close every store."""
        with self._lock:
            for store in self._stores.values():
                store.close()
            self._stores = {}
            self.close_stores()


def save_ranking(store: KnowledgeStore, key: str, hits: Sequence[AnyHit], held: int) -> None:
    """Share a ranking with the other servers of the store, which may serve its later pages."""
    if store.shared:
        known = {"hits": [_pack_hit(hit) for hit in hits], "held": held}
        store.remember(f"set:{key}", json.dumps(known), SHARED_RANKING_TTL_S)


def load_ranking(store: KnowledgeStore, key: str) -> tuple[Sequence[AnyHit], int] | None:
    """A ranking that a server shared; hits whose entry was deleted stay, without text."""
    text = store.recall(f"set:{key}") if store.shared else None
    if text is None:
        return None
    store.remember(f"set:{key}", text, SHARED_RANKING_TTL_S)
    known = json.loads(text)
    numbers: dict[Source, list[int]] = {}
    for row in known["hits"]:
        if "entry" in row:
            numbers.setdefault(row["entry"]["source"], []).append(row["piece"]["number"])
    places = {source: store.locate(source, those) for source, those in numbers.items()}
    hits: list[AnyHit] = []
    for row in known["hits"]:
        if "file" in row:
            hits.append(FileHit(**row["file"]))
            continue
        entry, piece = Entry(**row["entry"]), Piece(**row["piece"])
        found = places[entry.source].get(piece.number) or RankedPiece(entry, piece)
        copies = tuple(Duplicate(**each) for each in row["duplicates"])
        hits.append(KnowledgeHit(found.entry, found.piece, row["score"], row["score_type"], copies))
    return hits, known["held"]


def _pack_hit(hit: AnyHit) -> Mapping[str, object]:
    if isinstance(hit, FileHit):
        return {"file": asdict(hit)}
    known, piece = hit.entry, hit.piece
    # what is shown if the entry is deleted meanwhile
    entry = Entry(known.source, known.title, id=known.id, last_modified=known.last_modified)
    place = Piece("", piece.place, field=piece.field, uuid=piece.uuid, number=piece.number)
    return asdict(replace(hit, entry=entry, piece=place))
