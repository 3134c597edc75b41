"""Vectors of one source's pieces: slots in SQLite, rows in an append-only file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import apsw
import numpy as np

from sonde.errors import IndexCorrupt
from sonde.stores.chunks.base import Vectors
from sonde.stores.database import read_number
from sonde.stores.knowledge.base import Conditions, Source
from sonde.stores.knowledge.tables import read_arrays, select_allowed
from sonde.stores.knowledge.words import rank_narrowed
from sonde.stores.vectors import (
    NO_SLOT,
    Ids,
    OpenRows,
    SlotIndex,
    VectorFile,
    copy_rows,
    index_slots,
    rank_ids,
)
from sonde.types import Scored

_WASTED = 0.5
"""The share of unused rows from which a file is rewritten."""
_SMALL_ROWS = 1_000
"""Files with fewer rows are not worth rewriting."""


class PieceVectors:
    """The vectors of one source of one user."""

    def __init__(self, folder: Path, source: Source) -> None:
        self._source = source
        self._files = OpenRows(lambda name, size: VectorFile(folder / name, size))
        self._known = (0, "", index_slots(()))
        """As of which generation, in which file, which slots."""

    def write(
        self, connection: apsw.Connection, model: str, numbers: Sequence[int], rows: Vectors
    ) -> None:
        """Append the vectors and record their slots; vectors of another model are dropped."""
        file = self._find(connection, model)
        if file is None:
            connection.execute(f"UPDATE {self._source}_pieces SET slot = NULL")
            file = self._start(connection, model, rows.shape[1])
        first, _ = file.append(rows)
        speaks = np.any(rows, axis=1)
        connection.executemany(
            f"UPDATE {self._source}_pieces SET slot = ? WHERE number = ?",
            [(first + at if speaks[at] else NO_SLOT, number) for at, number in enumerate(numbers)],
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
        if file is None:
            return []
        index = self._read_index(connection, generation, file.path.name)

        def find(limit: int, allowed: Ids | None = None) -> list[Scored]:
            inside = None if allowed is None else np.isin(index.ids, allowed)
            return rank_ids(index.nearest(file.find, vector, limit, inside), limit)

        select = partial(select_allowed, connection, self._source, where)
        return rank_narrowed(find, select, limit, where)

    def is_current(self, connection: apsw.Connection, model: str) -> bool:
        """Whether the slots are those of this model."""
        return self._find(connection, model) is not None

    def tidy(self, connection: apsw.Connection) -> VectorFile | None:
        """Rewrite the file if half of it is unused. Returns the old one, to delete after commit."""
        model, old = self._find_current(connection)
        if old is None:
            return None
        query = f"SELECT number, slot FROM {self._source}_pieces WHERE slot >= 0 ORDER BY slot"
        live = connection.execute(query).fetchall()
        used = old.count_rows()
        if used < _SMALL_ROWS or len(live) > used * _WASTED:
            return None
        fresh = self._start(connection, model, old.dimensions)
        try:
            copy_rows(old, np.array([slot for _, slot in live], np.int64), fresh)
        except IndexCorrupt:
            fresh.delete()
            self.forget(connection)
            return old
        connection.executemany(
            f"UPDATE {self._source}_pieces SET slot = ? WHERE number = ?",
            [(slot, number) for slot, (number, _) in enumerate(live)],
        )
        return old

    def forget(self, connection: apsw.Connection) -> VectorFile | None:
        """Drop all vectors, to be embedded again. Returns their file, to delete after commit."""
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
        name, file = self._files.create(self._source, model, count, dimensions)
        connection.execute(
            "INSERT OR REPLACE INTO models VALUES (?, ?, ?, ?)",
            (self._source, model, dimensions, name),
        )
        return file

    def _find_current(self, connection: apsw.Connection) -> tuple[str, VectorFile | None]:
        query = "SELECT name FROM models WHERE source = ?"
        row = connection.execute(query, (self._source,)).fetchone()
        return (row[0], self._find(connection, row[0])) if row else ("", None)

    def _find(self, connection: apsw.Connection, model: str) -> VectorFile | None:
        query = "SELECT file, dimensions FROM models WHERE source = ? AND name = ?"
        row = connection.execute(query, (self._source, model)).fetchone()
        return self._files.open(row[0], row[1]) if row else None

    def _read_index(self, connection: apsw.Connection, generation: int, file: str) -> SlotIndex:
        """The slots as of a generation; reads only new pieces where nothing else has changed."""
        known_generation, known_file, index = self._known
        if (known_generation, known_file) == (generation, file):
            return index
        live = f"FROM {self._source}_pieces WHERE slot >= 0"
        both = f"SELECT json_group_array(number), json_group_array(slot) {live} AND number > ?"
        if known_file != file:
            index = index_slots(())
        if len(index):
            last = int(index.ids.max())
            index = index.merge(SlotIndex(*read_arrays(connection, both, last)))
        # a slot is never used twice, so other pieces give another sum
        check = connection.execute(f"SELECT count(*), ifnull(sum(slot), 0) {live}").fetchone()
        if check != (len(index), int(index.slots.sum())):
            index = SlotIndex(*read_arrays(connection, both, -1))
        self._known = (generation, file, index)
        return index
