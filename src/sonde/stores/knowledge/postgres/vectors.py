"""Vectors stored in PostgreSQL as packed rows, and searched in memory."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

from sonde.stores.chunks.base import Vectors
from sonde.stores.knowledge.base import Conditions, Source
from sonde.stores.knowledge.postgres.words import read_ids, select_pieces
from sonde.stores.knowledge.words import rank_narrowed
from sonde.stores.vectors import (
    NO_SLOT,
    SCALE_BYTES,
    Ids,
    Rows,
    Signs,
    SlotIndex,
    find_nearest,
    pack_signs,
    quantize,
    rank_ids,
)
from sonde.types import Scored


class _Packed:
    """Packed vectors by id, in memory. Immutable: changes return a new object."""

    def __init__(self, ids: Ids, rows: Rows, signs: Signs) -> None:
        self.rows, self.signs = rows, signs
        retrievable = rows[:, SCALE_BYTES:].any(axis=1)
        self.index = SlotIndex(ids, np.where(retrievable, np.arange(len(ids)), NO_SLOT))

    def __len__(self) -> int:
        return len(self.index)

    def nearest(self, query: Vectors, limit: int, allowed: Ids | None = None) -> list[Scored]:
        """The nearest of those allowed, nearest first."""
        if self.rows.shape[1] != len(query) + SCALE_BYTES:
            return []
        inside = None if allowed is None else np.isin(self.index.ids, allowed)
        find = partial(find_nearest, self.rows, self.signs)
        return rank_ids(self.index.nearest(find, query, limit, inside), limit)

    def compare(self, query: Vectors, ids: Ids) -> Mapping[int, float]:
        """The similarity of these vectors; zero vectors are left out."""
        if self.rows.shape[1] != len(query) + SCALE_BYTES:
            return {}
        inside = np.isin(self.index.ids, ids) & (self.index.slots != NO_SLOT)
        places, scores = find_nearest(
            self.rows, self.signs, query, self.index.slots[inside], len(ids)
        )
        return dict(zip(self.index.ids[inside][places].tolist(), scores.tolist(), strict=True))

    def keep(self, ids: Ids, *, invert: bool = False) -> _Packed:
        """The vectors with these ids, or all others."""
        chosen = np.isin(self.index.ids, ids, invert=invert)
        if chosen.all():
            return self
        return _Packed(self.index.ids[chosen], self.rows[chosen], self.signs[chosen])

    def add(self, pairs: Sequence[tuple[int, bytes]]) -> _Packed:
        """The vectors with packed rows added, which replace those with the same ids."""
        if not pairs:
            return self
        ids = np.array([id_ for id_, _ in pairs], np.int64)
        width = len(pairs[0][1])
        rows = np.frombuffer(b"".join(data for _, data in pairs), np.int8).reshape(-1, width)
        signs = pack_signs(rows[:, SCALE_BYTES:])
        if not len(self) or self.rows.shape[1] != width:
            return _Packed(ids, rows, signs)
        rest = self.keep(ids, invert=True)
        return _Packed(
            np.concatenate((rest.index.ids, ids)),
            np.concatenate((rest.rows, rows)),
            np.concatenate((rest.signs, signs)),
        )


_EMPTY = _Packed(
    np.empty(0, np.int64), np.empty((0, SCALE_BYTES), np.int8), np.empty((0, 0), np.uint64)
)


class OwnerVectors:
    """The vectors of one source of one owner, of all models."""

    def __init__(self, owner: str, source: Source) -> None:
        self._owner = owner
        self._source = source
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, _Packed]] = {}
        """By model: generation and vectors."""
        self._counted: dict[str, tuple[int, tuple[int, int]]] = {}

    def nearest(
        self, cursor: Any, model: str, vector: Vectors, limit: int, where: Conditions
    ) -> list[Scored]:
        """The pieces with the nearest vectors, nearest first."""
        find = partial(self._refresh(cursor, model)[0].nearest, vector)
        select = partial(select_pieces, cursor, self._owner, self._source, where)
        return rank_narrowed(find, select, limit, where)

    def compare(
        self, cursor: Any, model: str, vector: Vectors, numbers: Sequence[int]
    ) -> Mapping[int, float]:
        """The similarity of these pieces; those without a vector are left out."""
        return self._refresh(cursor, model)[0].compare(vector, np.array(numbers, np.int64))

    def find_damaged(self, cursor: Any, model: str) -> list[int]:
        """Pieces with damaged vectors; only new vectors are verified."""
        return self._refresh(cursor, model)[1]

    def drop(self, cursor: Any, model: str, numbers: Sequence[int]) -> None:
        """Delete the vectors of these pieces, to be made again."""
        query = (
            f"DELETE FROM {self._source}_vectors"
            " WHERE owner = %s AND model = %s AND number = ANY(%s)"
        )
        cursor.execute(query, [self._owner, model, list(numbers)])

    def count(self, cursor: Any, model: str) -> tuple[int, int]:
        """The number of pieces with a vector of this model, and of all."""
        generation = self._read_counters(cursor)[0]
        known = self._counted.get(model)
        if known is None or known[0] != generation:
            query = (
                f"SELECT (SELECT count(*) FROM {self._source}_vectors WHERE owner = %s"
                f" AND model = %s), (SELECT count(*) FROM {self._source}_pieces WHERE owner = %s)"
            )
            have, total = cursor.execute(query, [self._owner, model, self._owner]).fetchone()
            known = generation, (int(have), int(total))
            self._counted[model] = known
        return known[1]

    def forget(self, cursor: Any, kept: Collection[str]) -> bool:
        """Delete the vectors of all other models. Returns whether there were any."""
        query = f"DELETE FROM {self._source}_vectors WHERE owner = %s AND NOT model = ANY(%s)"
        return bool(cursor.execute(query, [self._owner, list(kept)]).rowcount)

    def list_bare(self, cursor: Any, model: str, limit: int, before: int | None) -> list[int]:
        """The newest pieces without a vector of this model, with keys below `before`."""
        query = (
            f"SELECT p.number FROM {self._source}_pieces AS p WHERE p.owner = %s AND p.number < %s"
            f" AND NOT EXISTS (SELECT 1 FROM {self._source}_vectors AS v WHERE v.number = p.number"
            " AND v.model = %s) ORDER BY p.number DESC LIMIT %s"
        )
        below = 1 << 62 if before is None else before
        return [row[0] for row in cursor.execute(query, [self._owner, below, model, limit])]

    def write(
        self, cursor: Any, model: str, stamp: int, numbers: Sequence[int], rows: Vectors
    ) -> None:
        """Store vectors; skips pieces that are gone."""
        packed = [row.tobytes() for row in quantize(rows)]  # a scale, then a byte per dimension
        query = (
            f"INSERT INTO {self._source}_vectors (number, owner, model, stamp, vector, sum)"
            " SELECT p.number, p.owner, %s, %s, given.vector, given.sum"
            " FROM unnest(%s::bigint[], %s::bytea[], %s::bigint[]) AS given (number, vector, sum)"
            f" JOIN {self._source}_pieces AS p ON p.number = given.number AND p.owner = %s"
            " ON CONFLICT (number, model) DO UPDATE SET stamp = excluded.stamp,"
            " vector = excluded.vector, sum = excluded.sum"
        )
        values = [model, stamp, list(numbers), packed, [crc32(row) for row in packed], self._owner]
        cursor.execute(query, values)

    def _read_counters(self, cursor: Any) -> tuple[int, int]:
        query = "SELECT generation, removed FROM counters WHERE owner = %s AND source = %s"
        row = cursor.execute(query, [self._owner, self._source]).fetchone()
        return row or (0, 0)

    def _refresh(self, cursor: Any, model: str) -> tuple[_Packed, list[int]]:
        """The verified vectors as of this transaction, and the pieces with damaged vectors.

        Reads only changes since the last call. Damaged vectors are reported until they are dropped.
        """
        with self._lock:
            generation, removed = self._read_counters(cursor)
            since, rows = self._known.get(model, (0, _EMPTY))
            # a generation that went back belongs to another database
            if generation < since:
                since, rows = 0, _EMPTY
            if generation == since:
                return rows, []
            query = (
                f"SELECT number, vector, sum FROM {self._source}_vectors"
                " WHERE owner = %s AND stamp > %s AND model = %s ORDER BY number"
            )
            changed = cursor.execute(query, [self._owner, since, model], binary=True).fetchall()
            if removed > since and len(rows):
                query = f"SELECT number FROM {self._source}_vectors WHERE owner = %s AND model = %s"
                live = cursor.execute(query, [self._owner, model], binary=True)
                rows = rows.keep(read_ids(live))
            damaged = [at for at, data, sum_ in changed if sum_ != crc32(data)]
            bad = frozenset(damaged)
            rows = rows.add([(at, data) for at, data, _ in changed if at not in bad])
            if not damaged:
                self._known[model] = (generation, rows)
            return rows, damaged
