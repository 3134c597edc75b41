"""Vectors of a source in SQLite: rows refer to slots in vector files, one file per model."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import apsw
import numpy as np

from sonde.errors import IndexCorrupt
from sonde.stores.chunks.base import Vectors
from sonde.stores.database import read_number
from sonde.stores.knowledge.base import Conditions, Source
from sonde.stores.knowledge.sqlite_words import read_arrays, read_generation, select_allowed
from sonde.stores.knowledge.words import rank_narrowed
from sonde.stores.vectors import (
    NO_SLOT,
    Ids,
    OpenRows,
    SlotIndex,
    StoredModel,
    VectorFile,
    copy_rows,
    index_slots,
    rank_ids,
)
from sonde.types import Scored

VECTOR_TABLES = """
CREATE TABLE {0}_vectors (
    model INTEGER NOT NULL, slot INTEGER NOT NULL, number INTEGER NOT NULL,
    speaks INTEGER NOT NULL, sum INTEGER NOT NULL, PRIMARY KEY (model, slot)
) WITHOUT ROWID;
CREATE UNIQUE INDEX {0}_vectors_of ON {0}_vectors (number, model);
INSERT INTO {0}_vectors SELECT m.id, iif(p.slot < 0, -p.number, p.slot), p.number, p.slot >= 0, -1
    FROM {0}_pieces AS p JOIN vector_models AS m ON m.source = '{0}' WHERE p.slot IS NOT NULL;
DROP INDEX {0}_bare;
DROP INDEX {0}_slots;
ALTER TABLE {0}_pieces DROP COLUMN slot;
"""
"""Vectors of several models; -1 is the missing checksum of older versions."""
VECTOR_MODELS = """
CREATE TABLE vector_models (
    id INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, name TEXT NOT NULL,
    dimensions INTEGER NOT NULL, file TEXT NOT NULL, UNIQUE (source, name)
);
INSERT INTO vector_models (source, name, dimensions, file)
    SELECT source, name, dimensions, file FROM models;
DROP TABLE models;
"""
_Model = StoredModel[VectorFile]
_WASTED = 0.5  # share of unused rows from which a file is rewritten
_SMALL_ROWS = 1_000  # files with fewer rows are not worth rewriting


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The verified slots of a model's vectors as of one generation."""

    generation: int
    file: str
    index: SlotIndex
    next_slot: int
    stamp: tuple[int, int]


class PieceVectors:
    """The vectors of one source, of all models."""

    def __init__(self, folder: Path, source: Source) -> None:
        self._source = source
        self._files = OpenRows(lambda name, size: VectorFile(folder / name, size))
        self._known: dict[str, _Snapshot] = {}
        self._counted: dict[str, tuple[int, tuple[int, int]]] = {}
        """By model: generation, number of pieces with a vector and of all."""

    def write(
        self, connection: apsw.Connection, model: str, numbers: Sequence[int], rows: Vectors
    ) -> None:
        """Append vectors and store their slots; skips pieces that are gone."""
        found = self.find(connection, model) or self._start(connection, model, rows.shape[1])
        first, sums = found.rows.append(rows)
        speaks = np.any(rows, axis=1).tolist()
        connection.executemany(
            f"INSERT OR REPLACE INTO {self._source}_vectors SELECT ?, ?, number, ?, ?"
            f" FROM {self._source}_pieces WHERE number = ?",
            [
                (found.id, first + at, speaks[at], sums[at], number)
                for at, number in enumerate(numbers)
            ],
        )

    def nearest(
        self,
        connection: apsw.Connection,
        model: str,
        vector: Vectors,
        limit: int,
        where: Conditions,
    ) -> list[Scored]:
        """The pieces with the nearest vectors, nearest first."""
        found = self.find(connection, model)
        if found is None:
            return []
        index, _ = self._refresh(connection, found)

        def find(limit: int, allowed: Ids | None = None) -> list[Scored]:
            inside = None if allowed is None else np.isin(index.ids, allowed)
            return rank_ids(index.nearest(found.rows.find, vector, limit, inside), limit)

        select = partial(select_allowed, connection, self._source, where)
        return rank_narrowed(find, select, limit, where)

    def compare(
        self, connection: apsw.Connection, model: str, vector: Vectors, numbers: Sequence[int]
    ) -> Mapping[int, float]:
        """The similarity of these pieces; those without a vector are left out."""
        found = self.find(connection, model)
        if found is None or not len(numbers):
            return {}
        index, _ = self._refresh(connection, found)
        inside = np.isin(index.ids, np.array(numbers, np.int64)) & (index.slots != NO_SLOT)
        scores = found.rows.read(index.slots[inside]) @ vector
        if not np.isfinite(scores).all():
            raise IndexCorrupt(f"vectors of {model} are no numbers")
        return dict(zip(index.ids[inside].tolist(), scores.tolist(), strict=True))

    def find_damaged(self, connection: apsw.Connection, model: str) -> list[int]:
        """Pieces with damaged vectors; only new vectors are verified."""
        found = self.find(connection, model)
        return self._refresh(connection, found)[1] if found else []

    def drop(self, connection: apsw.Connection, model: str, numbers: Sequence[int]) -> None:
        """Delete the vectors of these pieces, to be made again."""
        query = f"DELETE FROM {self._source}_vectors WHERE number = ? AND model = ?"
        if found := self.find(connection, model):
            connection.executemany(query, [(number, found.id) for number in numbers])

    def count(self, connection: apsw.Connection, model: str) -> tuple[int, int]:
        """The number of pieces with a vector of this model, and of all."""
        generation = read_generation(connection, self._source)
        known = self._counted.get(model)
        if known is None or known[0] != generation:
            found = self.find(connection, model)
            total = read_number(connection, f"SELECT count(*) FROM {self._source}_pieces")
            known = generation, (self._count(connection, found.id) if found else 0, total)
            self._counted[model] = known
        return known[1]

    def list_bare(
        self, connection: apsw.Connection, model: str, limit: int, before: int | None
    ) -> list[int]:
        """The newest pieces without a vector of this model, with keys below `before`."""
        found = self.find(connection, model)
        query = (
            f"SELECT p.number FROM {self._source}_pieces AS p WHERE p.number < ? AND NOT EXISTS"
            f" (SELECT 1 FROM {self._source}_vectors AS v WHERE v.number = p.number"
            " AND v.model = ?) ORDER BY p.number DESC LIMIT ?"
        )
        below = 1 << 62 if before is None else before
        rows = connection.execute(query, (below, found.id if found else 0, limit))
        return [int(number) for (number,) in rows]

    def tidy(self, connection: apsw.Connection) -> list[VectorFile]:
        """Rewrite files if half of them is unused. Returns the old ones, to delete after commit."""
        replaced = []
        for model in self._list_models(connection):
            query = (
                f"SELECT number, slot, speaks, sum FROM {self._source}_vectors"
                " WHERE model = ? AND slot >= 0 ORDER BY slot"
            )
            used = model.rows.count_rows()
            if used < _SMALL_ROWS or self._count(connection, model.id) > used * _WASTED:
                continue
            live = connection.execute(query, (model.id,)).fetchall()
            self.forget(connection, [model.name])
            replaced.append(model.rows)
            fresh = self._start(connection, model.name, model.rows.dimensions)
            table = np.array(live, np.int64).reshape(-1, 4)
            try:
                table = table[~model.rows.find_damaged(table[:, 1], table[:, 3])]
                sums = copy_rows(model.rows, table[:, 1], fresh.rows)
            except IndexCorrupt:
                continue  # all are made again
            rows = zip(table[:, 0].tolist(), table[:, 2].tolist(), sums, strict=True)
            connection.executemany(
                f"INSERT INTO {self._source}_vectors VALUES (?, ?, ?, ?, ?)",
                [(fresh.id, at, *row) for at, row in enumerate(rows)],
            )
        return replaced

    def forget(
        self, connection: apsw.Connection, models: Collection[str] | None = None
    ) -> list[VectorFile]:
        """Delete the vectors of some or all models. Returns the files to delete after commit."""
        known = self._list_models(connection)
        gone = [one for one in known if models is None or one.name in models]
        for one in gone:
            connection.execute(f"DELETE FROM {self._source}_vectors WHERE model = ?", (one.id,))
            connection.execute("DELETE FROM vector_models WHERE id = ?", (one.id,))
        return [one.rows for one in gone]

    def find(self, connection: apsw.Connection, model: str) -> _Model | None:
        """The model of this name, if it has vectors here."""
        return next((one for one in self._list_models(connection) if one.name == model), None)

    def list_names(self, connection: apsw.Connection) -> list[str]:
        """The models that have vectors here."""
        return [one.name for one in self._list_models(connection)]

    def _count(self, connection: apsw.Connection, id_: int) -> int:
        query = f"SELECT count(*) FROM {self._source}_vectors WHERE model = ?"
        return read_number(connection, query, (id_,))

    def _start(self, connection: apsw.Connection, model: str, dimensions: int) -> _Model:
        query = (
            "INSERT INTO state VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET value = value + 1"
            " RETURNING value"
        )
        count = read_number(connection, query, (f"{self._source}_files",))
        name, file = self._files.create(self._source, model, count, dimensions)
        connection.execute(
            "INSERT INTO vector_models (source, name, dimensions, file) VALUES (?, ?, ?, ?)",
            (self._source, model, dimensions, name),
        )
        return StoredModel(connection.last_insert_rowid(), model, file)

    def _list_models(self, connection: apsw.Connection) -> list[_Model]:
        query = "SELECT id, name, file, dimensions FROM vector_models WHERE source = ?"
        return self._files.list_models(connection.execute(query, (self._source,)))

    def _refresh(self, connection: apsw.Connection, model: _Model) -> tuple[SlotIndex, list[int]]:
        """The verified slots as of now, and the pieces with damaged vectors.

        Reads and verifies only new rows if nothing else changed. Damaged vectors are reported until
        they are dropped.
        """
        generation, stamp = read_generation(connection, self._source), model.rows.stamp()
        known = self._find_snapshot(model, stamp)
        if known and known.generation == generation:
            return known.index, []
        base, since = (known.index, known.next_slot) if known else (index_slots(), -(1 << 62))
        live = f"FROM {self._source}_vectors WHERE model = ?"
        columns = (
            "SELECT json_group_array(number), json_group_array(iif(speaks, slot, -1)),"
            " json_group_array(sum), json_group_array(slot)"
        )
        ids, slots, sums, places = read_arrays(
            connection, f"{columns} {live} AND slot >= ?", model.id, since
        )
        check = connection.execute(f"SELECT count(*), ifnull(sum(number), 0) {live}", (model.id,))
        merged = base.merge(index_slots(ids, slots))
        # numbers of pieces are never reused, so that other pieces have another sum
        if check.fetchone() != (len(merged), int(merged.ids.sum())) and known:
            ids, slots, sums, places = read_arrays(connection, f"{columns} {live}", model.id)
            merged = index_slots(ids, slots)
        heard = slots != NO_SLOT
        damaged = np.zeros(len(ids), np.bool_)
        with contextlib.suppress(IndexCorrupt):  # a truncated file is reported by the search
            damaged[heard] = model.rows.find_damaged(slots[heard], sums[heard])
        if damaged.any():
            bad = ids[damaged]
            return merged.drop(np.isin(merged.ids, bad)), bad.tolist()
        last = int(places.max(initial=since - 1)) + 1
        current = _Snapshot(generation, model.rows.path.name, merged, last, stamp)
        self._known[model.name] = current
        return merged, []

    def _find_snapshot(self, model: _Model, stamp: tuple[int, int]) -> _Snapshot | None:
        """The last snapshot, unless its file was replaced or overwritten."""
        known = self._known.get(model.name)
        if known is None or known.file != model.rows.path.name:
            return None
        # files only grow: one of the same size with another time was overwritten
        return known if known.stamp[0] != stamp[0] or known.stamp == stamp else None
