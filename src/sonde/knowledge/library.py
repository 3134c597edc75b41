"""The library: every user's store, opened on first use, and the sessions that search it."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from sonde.embedding.base import Embedder
from sonde.knowledge.ranking import AnyHit, FileHit, KnowledgeHit
from sonde.knowledge.retrieval import KnowledgePreferences, check_preferences
from sonde.paging.results import ResultSets
from sonde.runtime.jobs import Jobs
from sonde.stores.knowledge.base import Entry, KnowledgeStore, Piece, RankedPiece, Source
from sonde.types import Caller, Skipped

SESSION_TTL_S = 3_600.0
"""A session is dropped an hour after its last use, as the specification's TTL reaper does."""
MAX_SESSIONS = 500
MAX_SEEN_URIS = 2_000
"""Per session, so that a long conversation cannot grow without bound."""
MAX_RECENT_QUERIES = 10
SHARED_RANKING_TTL_S = 300.0
"""As long as a result set lives in one server."""


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
        """Remember what was shown; the oldest are dropped first."""
        for uri in uris:
            self.seen[uri] = None
            self.seen.move_to_end(uri)
        while len(self.seen) > MAX_SEEN_URIS:
            self.seen.popitem(last=False)

    def forget_seen(self, uris: Iterable[str]) -> None:
        """Allow these to be shown again."""
        for uri in uris:
            self.seen.pop(uri, None)

    def add_query(self, query: str) -> None:
        """Put a query in front of the recent ones."""
        if query in self.recent:
            self.recent.remove(query)
        self.recent.appendleft(query)


class Sessions:
    """The sessions in use, by user and id; the least recently used are evicted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], KnowledgeSession] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, user: str, id: str) -> KnowledgeSession:  # noqa: A002
        """The user's session with this id, created if there is none."""
        with self._lock:
            oldest = self._clock() - SESSION_TTL_S
            for key in [key for key, kept in self._kept.items() if kept.last_used < oldest]:
                del self._kept[key]
            session = self._kept.setdefault((user, id), KnowledgeSession(id))
            session.last_used = self._clock()
            self._kept.move_to_end((user, id))
            while len(self._kept) > MAX_SESSIONS:
                self._kept.popitem(last=False)
            return session

    def close(self, user: str, id: str) -> None:  # noqa: A002
        """Drop a session, if there is one."""
        with self._lock:
            self._kept.pop((user, id), None)


Refusals = dict[str, tuple[str, Skipped]]
"""By path, files that no parser could read, each with its size and time then: as long as they stay
the same, it is not tried again."""


class Library:
    """The stores of all users, their sessions, and the services that work on them need."""

    def __init__(
        self,
        open_store: Callable[[str], KnowledgeStore],
        *,
        start: Path,
        jobs: Jobs,
        results: ResultSets,
        embedder: Embedder | None,
        max_tokens: int,
        close: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.start = start
        """The folder that relative paths of imports start from."""
        self.jobs = jobs
        self.results = results
        self.embedder = embedder
        self.max_tokens = max_tokens
        """Of an answer whose call and session set no budget."""
        self.sessions = Sessions()
        self.refused: dict[tuple[str, str, Source | None], Refusals] = {}
        """By user, folder and source: what earlier imports refused."""
        self._open_store = open_store
        self._close = close
        self._clock = clock
        self._stores: dict[str, KnowledgeStore] = {}
        self._lock = threading.Lock()

    def of(self, user: str) -> KnowledgeStore:
        """The user's store."""
        with self._lock:
            if user not in self._stores:
                self._stores[user] = self._open_store(user)
            return self._stores[user]

    def now_ms(self) -> int:
        """The time in epoch milliseconds, as entries carry it."""
        return int(self._clock() * 1000)

    def open_session(
        self,
        caller: Caller,
        id: str | None,  # noqa: A002
        changes: Mapping[str, object] | None = None,
    ) -> KnowledgeSession | None:
        """The session named, else the connection's own, as any server last saved it.

        `new` makes one; None where neither is named. `changes` are preferences that it keeps.
        """
        name, user = id or caller.session, caller.user
        if not name:
            return None
        session = self.sessions.open(user, secrets.token_urlsafe(12) if name == "new" else name)
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

    def save_session(self, user: str, session: KnowledgeSession) -> None:
        """Publish a session to the other servers, where there are any."""
        store = self.of(user)
        if store.shared:
            known = {
                "seen": list(session.seen),
                "recent": list(session.recent),
                "defaults": session.preferences,
            }
            store.remember(f"session:{session.id}", json.dumps(known), SESSION_TTL_S)

    def forget_session(self, user: str, session: str) -> None:
        """End a session on every server."""
        self.sessions.close(user, session)
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


def save_ranking(store: KnowledgeStore, key: str, hits: Sequence[AnyHit], held: int) -> None:
    """Publish a ranking to the other servers, so that any of them can show its later pages."""
    if store.shared:
        known = {"hits": [_pack_hit(hit) for hit in hits], "held": held}
        store.remember(f"set:{key}", json.dumps(known), SHARED_RANKING_TTL_S)


def load_ranking(store: KnowledgeStore, key: str) -> tuple[Sequence[AnyHit], int] | None:
    """A ranking that any server published; deleted entries keep their places, without text."""
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
        hits.append(KnowledgeHit(found.entry, found.piece, row["score"], row["score_type"]))
    return hits, known["held"]


def _pack_hit(hit: AnyHit) -> Mapping[str, object]:
    if isinstance(hit, FileHit):
        return {"file": asdict(hit)}
    known, piece = hit.entry, hit.piece
    # what is still shown of an entry that is deleted meanwhile
    entry = Entry(known.source, known.title, id=known.id, last_modified=known.last_modified)
    place = Piece("", piece.place, field=piece.field, uuid=piece.uuid, number=piece.number)
    return asdict(replace(hit, entry=entry, piece=place))
