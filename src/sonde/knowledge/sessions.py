"""What a session remembers: what it was shown, what it asked, what it prefers."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sonde.knowledge.retrieval import BOUNDS, clamp_option, refuse

TTL_S = 3_600.0
MOST_SESSIONS = 500
MOST_SEEN = 2_000
MOST_QUERIES = 10
DEFAULTS = ("snippet_length", "max_tokens", "sibling_window", "order_by", "chars_per_token")
"""What a session or a request may prefer."""


@dataclass(slots=True)
class Session:
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
        self._kept: OrderedDict[tuple[str, str], Session] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, user: str, id: str) -> Session:  # noqa: A002
        """The session of this name; a new one where there is none."""
        with self._lock:
            oldest = self._clock() - TTL_S
            for key in [key for key, kept in self._kept.items() if kept.last_used < oldest]:
                del self._kept[key]
            session = self._kept.setdefault((user, id), Session(id))
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
            raise refuse(f"`{name}` is no preference; there are {', '.join(DEFAULTS)}")
        if name in BOUNDS:
            kept[name] = clamp_option(name, value)
        elif value in ("relevance", "recent"):
            kept[name] = value
        else:
            raise refuse("`order_by` must be relevance or recent")
    return kept
