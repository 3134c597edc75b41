"""Which vector belongs to which chunk: rows in SQLite name slots in vector files or tables."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress

import apsw
import numpy as np
from numpy.typing import NDArray

from sonde.errors import IndexCorrupt
from sonde.stores.chunks.base import DIGEST_BYTES, LAST_PLACE, ChunkLimits, Vectors, place_digest
from sonde.stores.chunks.tables import LOGGED, advance_state, read_state
from sonde.stores.database import Value, read_number
from sonde.stores.vectors import (
    NO_SLOT,
    Mask,
    OpenRows,
    Ranges,
    SlotIndex,
    Slots,
    StoredModel,
    VectorRows,
    contains,
    copy_rows,
    index_slots,
)

Table = NDArray[np.int64]
_Model = StoredModel[VectorRows]

_CHECKED_AT_ONCE = 8_192  # rows: some MB of vectors
_WASTED = 0.25  # the share of unused rows from which a vector file is rewritten

_MODELS = "SELECT id, name, file, dimensions FROM models"
_PAIR = (
    "SELECT c.id, CASE WHEN v.speaks THEN v.slot ELSE -1 END, coalesce(v.sum, -1)"  # older: none
)
# the order of the joins is given: chunk rows are long, their index by digest is not
_OF_CHUNK = (
    f"{_PAIR} FROM chunks AS c CROSS JOIN vectors AS v ON v.model_id = ? AND v.digest = c.digest"
)
_OF_VECTOR = f"{_PAIR} FROM vectors AS v CROSS JOIN chunks AS c ON c.digest = v.digest"
# both in the order of digests: the first search after a compaction waits for it
_ALL = (
    f"{_PAIR} FROM (SELECT digest, slot, speaks, sum FROM vectors WHERE model_id = ?"  # noqa: S608
    " AND +slot < ? ORDER BY digest) AS v CROSS JOIN chunks AS c ON c.digest = v.digest"
)

# a definition's digest begins with its chunk's, so that they lie together
_OF_DEFINITIONS = (
    "SELECT c.id, v.slot, coalesce(v.sum, -1), v.digest FROM json_each(?)"
    " CROSS JOIN chunks AS c ON c.id = value"
    " CROSS JOIN vectors AS v ON v.model_id = ? AND v.slot < ? AND v.speaks"
    " AND v.digest > c.digest AND v.digest < CAST(c.digest || x'FFFFFFFF' AS BLOB)"
)
_END = "SELECT max(slot) + 1 FROM vectors WHERE model_id = (SELECT id FROM models WHERE name = ?)"
_UNUSED = f"substr(digest, 1, {DIGEST_BYTES}) NOT IN (SELECT digest FROM chunks)"  # noqa: S608
_COUNT = f"SELECT count(*), sum(length(digest) = {DIGEST_BYTES}) FROM vectors WHERE model_id = ?"  # noqa: S608


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The slot of every chunk's vector as of one generation, as far as the next slot."""

    generation: int
    model: _Model | None
    index: SlotIndex
    next_chunk: int
    next_slot: int
    damaged: int = 0
    """How many chunks have a vector that is not as it was written; they are left out."""
    stamp: tuple[int, int] = (0, 0)

    def is_current(self, generation: int, end: int) -> bool:
        """Whether it has all vectors before `end`; within a generation, slots only grow."""
        return self.generation == generation and self.next_slot >= end and not self.is_rewritten()

    def is_rewritten(self) -> bool:
        """Whether vectors were written over since: files only grow."""
        if self.model is None:
            return False
        size, written = self.model.rows.stamp()
        return size == self.stamp[0] and written != self.stamp[1]


class VectorIndex:
    """The vectors of one chunk database; caches the slots of its chunks."""

    def __init__(self, open_rows: Callable[[str, int], VectorRows], limits: ChunkLimits) -> None:
        self._rows = OpenRows(open_rows)
        self._limits = limits
        self._lock = threading.Lock()
        self._snapshots: dict[str, _Snapshot] = {}

    def find(
        self,
        connection: apsw.Connection,
        model: str,
        query: Vectors,
        limit: int,
        allowed: Ranges | None,
    ) -> list[tuple[int, float]]:
        """The chunks nearest to a query, nearest first, including ties with the last."""
        known = self._refresh(connection, model)
        if known.model is None:
            return []
        inside = None if allowed is None else contains(allowed, known.index.ids)
        return known.index.nearest(known.model.rows.find, query, limit, inside)

    def read(
        self, connection: apsw.Connection, model: str, ids: Sequence[int]
    ) -> Mapping[int, Vectors]:
        """The vectors of these chunks."""
        known = self._refresh(connection, model)
        if known.model is None:
            return {}
        found = known.index.choose(np.array(ids, np.int64))
        heard = found.slots != NO_SLOT
        rows = np.zeros((len(found), known.model.rows.dimensions), np.float32)
        rows[heard] = known.model.rows.read(found.slots[heard])
        if not np.isfinite(rows).all():
            raise IndexCorrupt(f"vectors of {model} are no numbers")
        return dict(zip(found.ids.tolist(), rows, strict=True))

    def read_definitions(
        self, connection: apsw.Connection, model: str, ids: Sequence[int]
    ) -> dict[tuple[int, int], Vectors]:
        """The vectors of the definitions that begin in these chunks, by chunk and place."""
        if (found := self._find_model(connection, model)) is None:
            return {}
        values = (json.dumps(list(ids)), found.id, found.rows.count_complete())
        stored = list(connection.execute(_OF_DEFINITIONS, values))
        table = np.array([row[:3] for row in stored], np.int64).reshape(-1, 3)
        rows = found.rows.read(table[:, 1])
        if _find_damaged(found.rows, table).any() or not np.isfinite(rows).all():
            raise IndexCorrupt(f"vectors of {model} are not as they were written")
        places = [int.from_bytes(row[3][DIGEST_BYTES:], "big") for row in stored]
        return dict(zip(zip(table[:, 0].tolist(), places, strict=True), rows, strict=True))

    def find_known(
        self, connection: apsw.Connection, model: str, digests: Collection[bytes]
    ) -> set[bytes]:
        """Which of these digests have a vector."""
        if (found := self._find_model(connection, model)) is None:
            return set()
        query = "SELECT digest FROM vectors WHERE model_id = ? AND digest = ? AND slot < ?"
        complete = found.rows.count_complete()
        rows = connection.executemany(query, [(found.id, digest, complete) for digest in digests])
        return {bytes(digest) for (digest,) in rows}

    def count_complete(self, connection: apsw.Connection, model: str) -> int:
        """The slots below this one can be read."""
        found = self._find_model(connection, model)
        return found.rows.count_complete() if found else 0

    def write(
        self, connection: apsw.Connection, model: str, digests: Sequence[bytes], vectors: Vectors
    ) -> None:
        """Append vectors to their file, then name their slots."""
        rows = np.asarray(vectors, np.float32)
        if len(rows) != len(digests):
            raise ValueError(f"{len(digests)} digests but {len(rows)} vectors")
        if not len(rows):
            return
        found = self._find_model(connection, model)
        if found is None:
            file, target = self._create_rows(connection, model, rows.shape[1])
            query = "INSERT INTO models (name, dimensions, file) VALUES (?, ?, ?)"
            connection.execute(query, (model, rows.shape[1], file))
            found = StoredModel(connection.last_insert_rowid(), model, target)
        if rows.shape[1] != found.rows.dimensions:
            raise ValueError(f"{model} has {found.rows.dimensions} dimensions, not {rows.shape[1]}")
        first, sums = found.rows.append(rows)
        speaks: list[bool] = np.any(rows, axis=1).tolist()
        connection.executemany(
            "INSERT OR REPLACE INTO vectors (model_id, digest, slot, speaks, sum)"
            " VALUES (?, ?, ?, ?, ?)",
            [
                (found.id, digest, first + place, speaks[place], sums[place])
                for place, digest in enumerate(digests)
            ],
        )

    def count(self, connection: apsw.Connection, model: str) -> int:
        """How many chunks have a vector."""
        return len(self._refresh(connection, model).index)

    def count_left_out(self) -> int:
        """How many chunks were searched without their vectors, since those are damaged."""
        return sum(known.damaged for known in list(self._snapshots.values()))

    def compact(self, connection: apsw.Connection) -> list[VectorRows]:
        """Forget vectors that no chunk needs; returns files to delete after the commit."""
        connection.execute(f"DELETE FROM vectors WHERE {_UNUSED}")  # noqa: S608 - our own names
        replaced = self.drop_damaged(connection)
        for model in self._list_models(connection):
            live = _list_slots(connection, model)
            if model.rows.count_rows() * (1 - _WASTED) > len(live):
                self._rewrite(connection, model, live)
                replaced.append(model.rows)
        return replaced

    def is_wasteful(self, connection: apsw.Connection) -> bool:
        """Whether a compaction would rewrite a vector file, by a cheap estimate."""
        chunks = read_state(connection, "chunks")
        for model in self._list_models(connection):
            most = model.rows.count_rows() * (1 - _WASTED) - self._limits.spare_rows
            if most > chunks:
                ((every, whole),) = connection.execute(_COUNT, (model.id,))
                if not whole or most > chunks * every / whole:  # a chunk's definitions count, too
                    return True
        return False

    def drop_damaged(self, connection: apsw.Connection) -> list[VectorRows]:
        """Forget vectors that are not as they were written; returns files to delete after."""
        replaced = []
        for model in self._list_models(connection):
            damaged = _list_damaged(connection, model)
            if not damaged:
                continue
            # a chunk and its definitions go together: they are made together
            query = "DELETE FROM vectors WHERE model_id = ? AND digest >= ? AND digest <= ?"
            roots = {digest[:DIGEST_BYTES] for digest in damaged}
            ends = ((model.id, root, place_digest(root, LAST_PLACE)) for root in roots)
            connection.executemany(query, ends)
            live = _list_slots(connection, model)
            if len(live):
                self._rewrite(connection, model, live)
            else:
                connection.execute("DELETE FROM models WHERE id = ?", (model.id,))
            replaced.append(model.rows)
        return replaced

    def count_damaged(self, connection: apsw.Connection) -> dict[str, int]:
        """How many vectors of each model are not as they were written."""
        models = self._list_models(connection)
        damaged = {model.name: _list_damaged(connection, model) for model in models}
        return {name: len(digests) for name, digests in damaged.items() if digests}

    def clear(self, connection: apsw.Connection) -> list[VectorRows]:
        """Forget every vector; returns files to delete after the commit."""
        files = [model.rows for model in self._list_models(connection)]
        connection.execute("DELETE FROM vectors; DELETE FROM models")
        return files

    def rest(self) -> None:
        """Drop the cached files and slots; readers that still use them may finish."""
        with self._lock:
            self._snapshots.clear()
        self._rows.forget()

    def list_named(self, connection: apsw.Connection) -> set[str]:
        """The names of all vector files or tables in use."""
        return {str(file) for (file,) in connection.execute("SELECT file FROM models")}

    def _list_models(self, connection: apsw.Connection) -> list[_Model]:
        return self._rows.list_models(connection.execute(_MODELS))

    def _find_model(self, connection: apsw.Connection, name: str) -> _Model | None:
        row = connection.execute(f"{_MODELS} WHERE name = ?", (name,)).fetchone()
        return StoredModel(row[0], name, self._rows.open(row[2], row[3])) if row else None

    def _create_rows(
        self, connection: apsw.Connection, model: str, dimensions: int
    ) -> tuple[str, VectorRows]:
        number = advance_state(connection, "next_vector_file")
        return self._rows.create("vectors", model, number, dimensions)

    def _rewrite(self, connection: apsw.Connection, model: _Model, live: Slots) -> None:
        name, target = self._create_rows(connection, model.name, model.rows.dimensions)
        sums = copy_rows(model.rows, live, target)
        # ascending slots only ever move down to free places, so no two meet on the way
        connection.executemany(
            "UPDATE vectors SET slot = ?, sum = ? WHERE model_id = ? AND slot = ?",
            (
                (new, sum_, model.id, old)
                for new, (old, sum_) in enumerate(zip(live.tolist(), sums, strict=True))
            ),
        )
        connection.execute("UPDATE models SET file = ? WHERE id = ?", (name, model.id))

    def _refresh(self, connection: apsw.Connection, name: str) -> _Snapshot:
        """The slots as of this transaction."""
        generation = read_state(connection, "generation")
        end = read_number(connection, _END, (name,))
        known = self._snapshots.get(name)
        if known and known.is_current(generation, end):
            return known
        model = self._find_model(connection, name)
        with self._lock:
            known = self._snapshots.get(name)
            if known and (known.generation > generation or known.is_rewritten()):
                known = None
            current = _update_snapshot(connection, known, model, generation, end)
            self._snapshots[name] = current
        return current


def _update_snapshot(
    connection: apsw.Connection,
    known: _Snapshot | None,
    model: _Model | None,
    generation: int,
    end: int,
) -> _Snapshot:
    """The snapshot of a generation, made from an earlier one where that is shorter."""
    next_chunk = read_state(connection, "next_chunk")
    if model is None:
        return _Snapshot(generation, None, index_slots(), next_chunk, 0)

    damaged, stamp = 0, model.rows.stamp()

    def select(query: str, *values: Value) -> SlotIndex:
        nonlocal damaged
        table = _read_table(connection, query, *values)
        bad = _find_damaged(model.rows, table)
        damaged += int(bad.sum())
        return index_slots(table[~bad, 0], table[~bad, 1])

    complete = model.rows.count_complete()
    if (
        complete < end
        or known is None
        or known.model is None
        or known.model.rows is not model.rows
        or known.damaged
        or generation - known.generation >= LOGGED
    ):
        # slots that a truncated file has lost are left out; they are written again
        index = select(_ALL, model.id, complete)
        end = min(end, complete)
    else:
        query = "SELECT first, first + count FROM removed WHERE generation >= ? ORDER BY first"
        rows = connection.execute(query, (known.generation,)).fetchall()
        removed = contains(np.array(rows, np.int64).reshape(-1, 2), known.index.ids)
        # new vectors of known chunks, then new chunks
        since = f"{_OF_VECTOR} WHERE v.model_id = ? AND v.slot >= ? AND c.id < ?"
        index = (
            known.index.drop(removed)
            .merge(select(since, model.id, known.next_slot, known.next_chunk))
            .merge(select(f"{_OF_CHUNK} WHERE c.id >= ?", model.id, known.next_chunk))
        )
    return _Snapshot(generation, model, index, next_chunk, end, damaged, stamp)


def _read_table(connection: apsw.Connection, query: str, *values: Value) -> Table:
    """Rows of (chunk, slot, checksum)."""
    rows = chain.from_iterable(connection.execute(query, values))
    return np.fromiter(rows, np.int64).reshape(-1, 3)


def _find_damaged(rows: VectorRows, table: Table) -> Mask:
    """Which rows of a table name a vector that is not as it was written."""
    slots, first, place = np.unique(table[:, 1], return_index=True, return_inverse=True)
    heard = slots != NO_SLOT
    damaged = np.zeros(len(slots), np.bool_)
    # files that a compaction removed meanwhile say so when they are searched
    with contextlib.suppress(IndexCorrupt):
        damaged[heard] = rows.find_damaged(slots[heard], table[first[heard], 2])
    found: Mask = damaged[place]
    return found


def _list_slots(connection: apsw.Connection, model: _Model) -> Slots:
    query = "SELECT slot FROM vectors WHERE model_id = ? ORDER BY slot"
    return np.array([slot for (slot,) in connection.execute(query, (model.id,))], np.int64)


def _list_damaged(connection: apsw.Connection, model: _Model) -> list[bytes]:
    # what an older version wrote has no sum: it only has to be there
    query = "SELECT slot, coalesce(sum, -1), digest FROM vectors WHERE model_id = ? ORDER BY slot"
    stored, complete = list(connection.execute(query, (model.id,))), model.rows.count_complete()
    damaged = [bytes(digest) for slot, _, digest in stored if slot >= complete]
    stored = stored[: len(stored) - len(damaged)]
    for start in range(0, len(stored), _CHECKED_AT_ONCE):
        block = stored[start : start + _CHECKED_AT_ONCE]
        table = np.array([row[:2] for row in block], np.int64)
        bad = model.rows.find_damaged(table[:, 0], table[:, 1]).tolist()
        damaged += [bytes(digest) for _, _, digest in compress(block, bad)]
    return damaged
