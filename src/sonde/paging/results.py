"""Result sets: frozen rankings that pages are cut from."""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sonde.errors import BadCursor
from sonde.paging.cursor import Cursor, decode_cursor, encode_cursor, hash_parameters
from sonde.runtime.processes import trim_heap

TTL_S = 300.0
"""How long a ranking is kept after its last use, as documented."""
SWEEP_S = 60.0
MOST_SETS = 100
"""Rankings kept at a time, as documented."""
MOST_CHARS = 64_000_000
"""Text of all kept rankings together; the least recently used make room."""


@dataclass(slots=True)
class ResultSet:
    """One ranking and the parameters it answers."""

    id: str
    parameters: Mapping[str, Any]
    hits: Sequence[Any]
    """`Hit`s, or what else a family of tools ranks; each has a `text`."""
    last_used: float = field(default=0.0)
    facts: Any = None
    """What every page says of the whole ranking; its tool knows the type."""
    pages: dict[int, int] = field(default_factory=lambda: {0: 1})
    """Offset -> number of the page that starts there; a budget makes pages of unequal length."""
    chars: int = 0
    """Text of all hits, of which only so much is kept."""

    def number_next(self, offset: int, end: int) -> None:
        """The page from `offset` ends before `end`: the next one begins there."""
        self.pages.setdefault(end, self.pages.get(offset, 1) + 1)


class ResultSets:
    """The newest hundred rankings, each kept for five minutes after its last use."""

    def __init__(self, key: bytes, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = key
        self._clock = clock
        self._sets: OrderedDict[str, ResultSet] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = threading.Event()

    def __len__(self) -> int:
        return len(self._sets)

    def keep(
        self,
        parameters: Mapping[str, Any],
        hits: Sequence[Any],
        facts: Any = None,
    ) -> ResultSet:
        """Freeze a ranking."""
        kept = ResultSet(
            uuid.uuid4().hex,
            dict(parameters),
            tuple(hits),
            self._clock(),
            facts,
            chars=sum(len(hit.text) for hit in hits),
        )
        with self._lock:
            self._drop_expired()
            self._sets[kept.id] = kept
            total = sum(one.chars for one in self._sets.values())
            while len(self._sets) > MOST_SETS or (total > MOST_CHARS and len(self._sets) > 1):
                total -= self._sets.popitem(last=False)[1].chars
        return kept

    def find(self, parameters: Mapping[str, Any]) -> ResultSet | None:
        """The newest ranking kept for just these parameters, for pages named by number."""
        digest = hash_parameters(parameters)
        with self._lock:
            self._drop_expired()
            for key, kept in reversed(self._sets.items()):
                if hash_parameters(kept.parameters) == digest:
                    self._sets.move_to_end(key)
                    kept.last_used = self._clock()
                    return kept
        return None

    def sweep(self) -> int:
        """Drop the expired sets. Returns how many."""
        with self._lock:
            before = len(self._sets)
            self._drop_expired()
            return before - len(self._sets)

    def start_sweeping(self, every_s: float = SWEEP_S) -> None:
        """Sweep in the background until closed."""

        def sweep_on() -> None:
            while not self._closed.wait(every_s):
                if self.sweep():
                    trim_heap()

        threading.Thread(target=sweep_on, name="sonde-sweep", daemon=True).start()

    def close(self) -> None:
        """Stop sweeping and let go of everything."""
        self._closed.set()
        with self._lock:
            self._sets.clear()

    def cursor_at(self, results: ResultSet, offset: int) -> str | None:
        """The cursor for the page that starts at `offset`; None past the end."""
        if offset >= len(results.hits):
            return None
        digest = hash_parameters(results.parameters)
        return encode_cursor(Cursor(results.id, offset, digest), self._key)

    def resume(self, text: str, given: Mapping[str, Any]) -> tuple[ResultSet, int]:
        """The ranking and offset a cursor points at; parameters given with it must agree."""
        cursor = decode_cursor(text, self._key)
        with self._lock:
            self._drop_expired()
            results = self._sets.get(cursor.session_id)
            if results is None:
                raise BadCursor("the results this cursor points at have expired (5 minutes)")
            self._sets.move_to_end(cursor.session_id)
            results.last_used = self._clock()
        if cursor.search_params_hash != hash_parameters(results.parameters):
            raise BadCursor("the cursor belongs to another search")
        for name, value in given.items():
            if results.parameters.get(name) != value:
                raise BadCursor(
                    f"`{name}` differs from the search that this cursor continues",
                    next_action="Pass the cursor alone, or search again without it.",
                )
        return results, cursor.offset

    def _drop_expired(self) -> None:
        oldest = self._clock() - TTL_S
        for key in [k for k, kept in self._sets.items() if kept.last_used < oldest]:
            del self._sets[key]
