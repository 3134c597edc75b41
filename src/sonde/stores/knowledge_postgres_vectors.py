"""Vectors of one owner's pieces in PostgreSQL, and a copy in memory that follows their changes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from sonde.stores.base import Vectors
from sonde.stores.knowledge_base import ANYTHING, Conditions, Source
from sonde.stores.knowledge_postgres_ranking import select_allowed
from sonde.stores.knowledge_words import narrow
from sonde.stores.packed import NOTHING, PackedRows, pack_rows
from sonde.types import Scored

NO_MODEL = ""
"""The model of a piece that has no vector yet."""


class OwnerVectors:
    """The vectors of one source of one owner."""

    def __init__(self, owner: str, source: Source) -> None:
        self._owner = owner
        self._source = source
        self._lock = threading.Lock()
        self._known: tuple[str, int, PackedRows] = ("", 0, NOTHING)
        """Of which model, as of which generation, what."""

    def nearest(
        self, cursor: Any, model: str, vector: Vectors, limit: int, where: Conditions
    ) -> list[Scored]:
        """The pieces whose vectors are nearest, nearest first."""
        rows = self._follow(cursor, model)
        if where == ANYTHING:
            return rows.find(vector, limit)
        select = partial(select_allowed, cursor, self._owner, self._source, where)
        found = narrow(partial(rows.find, vector), select, limit)
        return rows.find(vector, limit, select(None)) if found is None else found

    def list_bare(self, cursor: Any, model: str, limit: int) -> list[int]:
        """Pieces that have no vector of this model, the oldest first."""
        # two ranges of an index, where `model <> …` would look at every row
        query = " UNION ALL ".join(
            f"(SELECT number FROM {self._source}_vectors WHERE owner = %s AND model {sign} %s"
            " ORDER BY number LIMIT %s)"
            for sign in "<>"
        )
        values = [self._owner, model, limit]
        return sorted(row[0] for row in cursor.execute(query, values * 2))[:limit]

    def write(
        self, cursor: Any, model: str, stamp: int, numbers: Sequence[int], rows: Vectors
    ) -> None:
        """Keep a vector for each of these pieces; those that are gone are passed over."""
        query = (
            f"UPDATE {self._source}_vectors AS v SET model = %s, stamp = %s, vector = given.vector"
            " FROM unnest(%s::bigint[], %s::bytea[]) AS given (number, vector)"
            " WHERE v.owner = %s AND v.number = given.number"
        )
        cursor.execute(query, [model, stamp, list(numbers), pack_rows(rows), self._owner])

    def _follow(self, cursor: Any, model: str) -> PackedRows:
        """What there is now, reading only what changed since the last look."""
        with self._lock:
            query = "SELECT generation, removed FROM counters WHERE owner = %s AND source = %s"
            row = cursor.execute(query, [self._owner, self._source]).fetchone()
            generation, removed = row or (0, 0)
            known_model, since, rows = self._known
            # a generation that went back belongs to another database than the one known
            if known_model != model or generation < since:
                since, rows = 0, NOTHING
            if generation == since:
                return rows
            query = (
                f"SELECT number, vector FROM {self._source}_vectors"
                " WHERE owner = %s AND stamp > %s AND model = %s ORDER BY number"
            )
            changed = cursor.execute(query, [self._owner, since, model], binary=True).fetchall()
            if removed > since and len(rows):
                query = f"SELECT number FROM {self._source}_vectors WHERE owner = %s AND model = %s"
                live = cursor.execute(query, [self._owner, model], binary=True)
                rows = rows.keep({number for (number,) in live})
            rows = rows.add(changed)
            self._known = (model, generation, rows)
            return rows
