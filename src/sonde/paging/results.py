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
from sonde.types import Hit

TTL_S = 300.0
MOST_SETS = 100


@dataclass(slots=True)
class ResultSet:
    """One ranking and the parameters it answers."""

    id: str
    parameters: Mapping[str, Any]
    hits: Sequence[Hit]
    last_used: float = field(default=0.0)


class ResultSets:
    """The newest hundred rankings, each kept for five minutes after its last use."""

    def __init__(self, key: bytes, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = key
        self._clock = clock
        self._sets: OrderedDict[str, ResultSet] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._sets)

    def keep(self, parameters: Mapping[str, Any], hits: Sequence[Hit]) -> ResultSet:
        """Freeze a ranking."""
        kept = ResultSet(uuid.uuid4().hex, dict(parameters), tuple(hits), self._clock())
        with self._lock:
            self._sweep()
            self._sets[kept.id] = kept
            while len(self._sets) > MOST_SETS:
                self._sets.popitem(last=False)
        return kept

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
            self._sweep()
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
                    next_action="Pass the cursor alone, or search anew without it.",
                )
        return results, cursor.offset

    def _sweep(self) -> None:
        oldest = self._clock() - TTL_S
        for key in [k for k, kept in self._sets.items() if kept.last_used < oldest]:
            del self._sets[key]
