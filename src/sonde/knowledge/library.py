"""The knowledge of every user of this installation, each opened when first asked for."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sonde.knowledge.sessions import Sessions
from sonde.stores.knowledge_base import KnowledgeStore


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
