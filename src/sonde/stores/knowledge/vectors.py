"""Vectors of one source's pieces: slots in SQLite, rows in an append-only file."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray

from sonde.errors import IndexCorrupt
from sonde.stores.chunks.base import Vectors
from sonde.stores.chunks.tables import read_number
from sonde.stores.database import Value
from sonde.stores.knowledge.base import ANYTHING, Conditions, Source
from sonde.stores.knowledge.words import narrow, select_allowed_sqlite, sqlite_condition
from sonde.stores.vectors import VectorFile
from sonde.types import Scored

_MUTE = -1
"""The slot of a piece whose vector is all zeros."""
_WASTED = 0.5
_COPIED = 8_192
_LEAST = 1_000

Numbers = NDArray[np.int64]


class PieceVectors:
    """The vectors of one source of one user."""

    def __init__(self, folder: Path, source: Source) -> None:
        self._folder = folder
        self._source = source
        self._lock = threading.Lock()
        self._files: dict[str, VectorFile] = {}
        self._map: tuple[int, str, Numbers, Numbers] | None = None

    def write(
        self, connection: apsw.Connection, model: str, numbers: Sequence[int], rows: Vectors
    ) -> None:
        """Append the vectors and name their slots; another model's are given up."""
        file = self._find(connection, model)
        if file is None:
            connection.execute(f"UPDATE {self._source}_pieces SET slot = NULL")
            file = self._start(connection, model, rows.shape[1])
        first, _ = file.append(rows)
        speaks = np.any(rows, axis=1)
        connection.executemany(
            f"UPDATE {self._source}_pieces SET slot = ? WHERE number = ?",
            [(first + at if speaks[at] else _MUTE, number) for at, number in enumerate(numbers)],
        )

    def nearest(
        self,
        connection: apsw.Connection,
        generation: int,
        model: str,
        vector: Vectors,
        limit: int,
        where: Conditions,
    ) -> list[Scored]:
        """The pieces whose vectors are nearest, nearest first."""
        file = self._find(connection, model)
        length = float(np.linalg.norm(vector))
        if file is None or not length or limit < 1:
            return []
        numbers, slots = self._read_map(connection, generation, file.path.name)
        unit = vector / np.float32(length)

        def rank(depth: int) -> list[Scored]:
            return _find(file, unit, numbers, slots, depth)

        if where == ANYTHING:
            return rank(limit)
        allow = partial(select_allowed_sqlite, connection, self._source, where)
        found = narrow(rank, allow, limit)
        if found is not None:
            return found
        condition, values = sqlite_condition(self._source, where)
        query = (
            f"SELECT json_group_array(p.number) FROM {self._source}_pieces AS p"
            f" JOIN {self._source} AS e ON e.number = p.item WHERE {condition}"
        )
        inside = np.isin(numbers, _read_arrays(connection, query, values)[0])
        return _find(file, unit, numbers[inside], slots[inside], limit)

    def is_current(self, connection: apsw.Connection, model: str) -> bool:
        """Whether the slots are those of this model."""
        return self._find(connection, model) is not None

    def tidy(self, connection: apsw.Connection) -> VectorFile | None:
        """Write the file anew when half of it is unused; the old one, to delete after commit."""
        model, old = self._find_current(connection)
        if old is None:
            return None
        query = f"SELECT number, slot FROM {self._source}_pieces WHERE slot >= 0 ORDER BY slot"
        live = connection.execute(query).fetchall()
        used = old.count_rows()
        if used < _LEAST or len(live) > used * _WASTED:
            return None
        fresh = self._start(connection, model, old.dimensions)
        for at in range(0, len(live), _COPIED):
            part = live[at : at + _COPIED]
            try:
                rows = old.read(np.array([slot for _, slot in part], np.int64))
            except IndexCorrupt:
                fresh.delete()
                self.forget(connection)
                break
            first, _ = fresh.append(rows)
            connection.executemany(
                f"UPDATE {self._source}_pieces SET slot = ? WHERE number = ?",
                [(first + offset, number) for offset, (number, _) in enumerate(part)],
            )
        return old

    def forget(self, connection: apsw.Connection) -> VectorFile | None:
        """Give up all of them, so that they are made anew; their file, to delete after commit."""
        _, old = self._find_current(connection)
        connection.execute("DELETE FROM models WHERE source = ?", (self._source,))
        connection.execute(f"UPDATE {self._source}_pieces SET slot = NULL")
        return old

    def _start(self, connection: apsw.Connection, model: str, dimensions: int) -> VectorFile:
        query = (
            "INSERT INTO state VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET value = value + 1"
            " RETURNING value"
        )
        count = read_number(connection, query, (f"{self._source}_files",))
        slug = hashlib.sha256(model.encode()).hexdigest()[:12]
        name = f"{self._source}-{slug}-{count}"
        connection.execute(
            "INSERT OR REPLACE INTO models VALUES (?, ?, ?, ?)",
            (self._source, model, dimensions, name),
        )
        file = self._open(name, dimensions)
        file.delete()  # what a crash left under this name belongs to nobody
        return file

    def _find_current(self, connection: apsw.Connection) -> tuple[str, VectorFile | None]:
        query = "SELECT name FROM models WHERE source = ?"
        row = connection.execute(query, (self._source,)).fetchone()
        return (row[0], self._find(connection, row[0])) if row else ("", None)

    def _find(self, connection: apsw.Connection, model: str) -> VectorFile | None:
        query = "SELECT file, dimensions FROM models WHERE source = ? AND name = ?"
        row = connection.execute(query, (self._source, model)).fetchone()
        return self._open(row[0], row[1]) if row else None

    def _open(self, name: str, dimensions: int) -> VectorFile:
        with self._lock:
            if name not in self._files:
                self._files[name] = VectorFile(self._folder / name, dimensions)
            return self._files[name]

    def _read_map(
        self, connection: apsw.Connection, generation: int, file: str
    ) -> tuple[Numbers, Numbers]:
        """Which piece has which slot; after a change only what is new is read, if that is all."""
        known = self._map
        if known and known[:2] == (generation, file):
            return known[2], known[3]
        live = f"FROM {self._source}_pieces WHERE slot >= 0"
        both = f"SELECT json_group_array(number), json_group_array(slot) {live} AND number > ?"
        numbers = slots = np.empty(0, np.int64)
        if known and known[1] == file and len(known[2]):
            numbers, slots = known[2:]
            more = _read_arrays(connection, both, [int(numbers.max())])
            numbers, slots = np.concatenate((numbers, more[0])), np.concatenate((slots, more[1]))
        # a slot is never used twice, so that other pieces give another sum
        check = connection.execute(f"SELECT count(*), ifnull(sum(slot), 0) {live}").fetchone()
        if check != (len(slots), int(slots.sum())):
            numbers, slots = _read_arrays(connection, both, [-1])
        self._map = (generation, file, numbers, slots)
        return numbers, slots


def _find(
    file: VectorFile, unit: Vectors, numbers: Numbers, slots: Numbers, limit: int
) -> list[Scored]:
    places, scores = file.find(unit, slots, limit)
    found = zip(numbers[places].tolist(), scores.tolist(), strict=True)
    ordered = sorted(found, key=lambda pair: (-pair[1], pair[0]))
    return [Scored(number, score) for number, score in ordered[:limit]]


def _read_arrays(connection: apsw.Connection, query: str, values: Sequence[Value]) -> list[Numbers]:
    (columns,) = connection.execute(query, values).fetchall()
    return [np.array(json.loads(str(column)), np.int64) for column in columns]
