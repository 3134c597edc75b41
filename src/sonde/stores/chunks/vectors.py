"""Which vector belongs to which chunk: rows in SQLite name slots in vector files."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence

import apsw
import numpy as np

from sonde.errors import IndexCorrupt
from sonde.stores.chunks.base import Vectors
from sonde.stores.chunks.lexical import Ranges, contains
from sonde.stores.chunks.slots import Model, SlotMap, VectorRows, update_map
from sonde.stores.chunks.tables import advance_state, read_state
from sonde.stores.vectors import Slots

_COPIED, _FEW = 8_192, 512
_WASTED = 0.25
"""The share of unused rows from which a vector file is written anew."""


class VectorIndex:
    """The vectors of one chunk database; keeps the slots of its chunks at hand."""

    def __init__(self, open_rows: Callable[[str, int], VectorRows]) -> None:
        self._open = open_rows
        self._lock = threading.Lock()
        self._rows: dict[str, VectorRows] = {}
        self._maps: dict[str, SlotMap] = {}

    def find(
        self,
        connection: apsw.Connection,
        model: str,
        query: Vectors,
        limit: int,
        allowed: Ranges | None,
    ) -> list[tuple[int, float]]:
        """The chunks nearest to a query, nearest first, with what ties with the last."""
        known = self._refresh(connection, model)
        length = float(np.linalg.norm(query))
        if known.model is None or length == 0.0 or limit < 1:
            return []
        inside = known.retrievable
        if allowed is not None:
            inside = inside & contains(allowed, known.ids)
        ids, slots = (
            (known.ids, known.slots) if inside.all() else (known.ids[inside], known.slots[inside])
        )
        places, scores = known.model.rows.find(query / np.float32(length), slots, limit)
        return list(zip(ids[places].tolist(), scores.tolist(), strict=True))

    def read(
        self, connection: apsw.Connection, model: str, ids: Sequence[int]
    ) -> Mapping[int, Vectors]:
        """The vectors of these chunks."""
        found = self._find_model(connection, model)
        if found is None:
            return {}
        query = (
            "SELECT c.id, v.slot FROM json_each(?) CROSS JOIN chunks AS c ON c.id = value"
            " CROSS JOIN vectors AS v ON v.model_id = ? AND v.digest = c.digest AND v.slot < ?"
        )
        values = (json.dumps(list(ids)), found.id, found.rows.count_complete())
        slot_of = dict(connection.execute(query, values))
        rows = found.rows.read(np.array(list(slot_of.values()), np.int64))
        if not np.isfinite(rows).all():
            raise IndexCorrupt(f"vectors of {model} are no numbers")
        return dict(zip(slot_of, rows, strict=True))

    def find_known(
        self, connection: apsw.Connection, model: str, digests: Collection[bytes]
    ) -> set[bytes]:
        """Which of these digests have a vector."""
        found = self._find_model(connection, model)
        if found is None:
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
        found = self._find_model(connection, model) or self._add_model(
            connection, model, rows.shape[1]
        )
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
        return len(self._refresh(connection, model).ids)

    def compact(self, connection: apsw.Connection) -> list[VectorRows]:
        """Forget vectors that no chunk needs; returns files to delete after the commit."""
        connection.execute(
            "DELETE FROM vectors WHERE NOT EXISTS"
            " (SELECT 1 FROM chunks WHERE chunks.digest = vectors.digest)"
        )
        replaced = self.drop_damaged(connection)
        for model in self._list_models(connection):
            live = _list_slots(connection, model)
            if model.rows.count_rows() * (1 - _WASTED) > len(live):
                self._rewrite(connection, model, live)
                replaced.append(model.rows)
        return replaced

    def is_wasteful(self, connection: apsw.Connection) -> bool:
        """Whether a compaction would write a vector file anew, as far as that is told cheaply."""
        needed = read_state(connection, "chunks") + _FEW
        return any(
            model.rows.count_rows() * (1 - _WASTED) > needed
            for model in self._list_models(connection)
        )

    def drop_damaged(self, connection: apsw.Connection) -> list[VectorRows]:
        """Forget vectors that are not as they were written; returns files to delete after."""
        replaced = []
        for model in self._list_models(connection):
            damaged = _find_damaged(connection, model)
            if not damaged:
                continue
            query = "DELETE FROM vectors WHERE model_id = ? AND digest = ?"
            connection.executemany(query, [(model.id, digest) for digest in damaged])
            live = _list_slots(connection, model)
            if len(live):
                self._rewrite(connection, model, live)
            else:
                connection.execute("DELETE FROM models WHERE id = ?", (model.id,))
            replaced.append(model.rows)
        return replaced

    def count_damaged(self, connection: apsw.Connection) -> dict[str, int]:
        """How many vectors of each model are not as they were written."""
        counted = {
            model.name: len(_find_damaged(connection, model))
            for model in self._list_models(connection)
        }
        return {name: count for name, count in counted.items() if count}

    def clear(self, connection: apsw.Connection) -> list[VectorRows]:
        """Forget every vector; returns files to delete after the commit."""
        files = [model.rows for model in self._list_models(connection)]
        connection.execute("DELETE FROM vectors; DELETE FROM models")
        return files

    def rest(self) -> None:
        """Forget the files, and which slots are whose; whoever reads them may finish."""
        with self._lock:
            self._maps.clear()
            self._rows.clear()

    def list_named(self, connection: apsw.Connection) -> set[str]:
        """The names of all vector files or tables in use."""
        return {str(file) for (file,) in connection.execute("SELECT file FROM models")}

    def _list_models(self, connection: apsw.Connection) -> list[Model]:
        names = connection.execute("SELECT name FROM models").fetchall()
        found = [self._find_model(connection, str(name)) for (name,) in names]
        return [model for model in found if model]

    def _find_model(self, connection: apsw.Connection, name: str) -> Model | None:
        query = "SELECT id, dimensions, file FROM models WHERE name = ?"
        row = connection.execute(query, (name,)).fetchone()
        return Model(row[0], name, self._open_rows(row[2], row[1])) if row else None

    def _add_model(self, connection: apsw.Connection, name: str, dimensions: int) -> Model:
        file = self._name_file(connection, name)
        query = "INSERT INTO models (name, dimensions, file) VALUES (?, ?, ?)"
        connection.execute(query, (name, dimensions, file))
        return Model(connection.last_insert_rowid(), name, self._open_rows(file, dimensions))

    def _name_file(self, connection: apsw.Connection, model: str) -> str:
        slug = hashlib.sha256(model.encode()).hexdigest()[:12]
        return f"vectors-{slug}-{advance_state(connection, 'next_vector_file')}"

    def _open_rows(self, name: str, dimensions: int) -> VectorRows:
        with self._lock:
            if name not in self._rows:
                self._rows[name] = self._open(name, dimensions)
            return self._rows[name]

    def _rewrite(self, connection: apsw.Connection, model: Model, live: Slots) -> None:
        name = self._name_file(connection, model.name)
        target = self._open_rows(name, model.rows.dimensions)
        target.delete()  # a crash may have left one of this name, which nobody refers to
        sums: list[int] = []
        for start in range(0, len(live), _COPIED):
            sums += target.append(model.rows.read(live[start : start + _COPIED]))[1]
        # ascending slots only ever move down to free places, so no two meet on the way
        connection.executemany(
            "UPDATE vectors SET slot = ?, sum = ? WHERE model_id = ? AND slot = ?",
            (
                (new, sum_, model.id, old)
                for new, (old, sum_) in enumerate(zip(live.tolist(), sums, strict=True))
            ),
        )
        connection.execute("UPDATE models SET file = ? WHERE id = ?", (name, model.id))

    def _refresh(self, connection: apsw.Connection, name: str) -> SlotMap:
        """The slot map as of this transaction."""
        generation = read_state(connection, "generation")
        known = self._maps.get(name)
        if known and known.generation == generation:
            return known
        model = self._find_model(connection, name)
        with self._lock:
            known = self._maps.get(name)
            if known and known.generation > generation:
                known = None
            current = update_map(connection, known, model, generation)
            self._maps[name] = current
        return current


def _list_slots(connection: apsw.Connection, model: Model) -> Slots:
    query = "SELECT slot FROM vectors WHERE model_id = ? ORDER BY slot"
    return np.array([slot for (slot,) in connection.execute(query, (model.id,))], np.int64)


def _find_damaged(connection: apsw.Connection, model: Model) -> list[bytes]:
    query = "SELECT slot, digest, sum FROM vectors WHERE model_id = ? ORDER BY slot"
    stored: list[tuple[int, bytes, int | None]] = list(connection.execute(query, (model.id,)))
    damaged = []
    for start in range(0, len(stored), _COPIED):
        block = stored[start : start + _COPIED]
        held = model.rows.sums(np.array([slot for slot, _, _ in block], np.int64))
        # what an older version wrote has no sum: it only has to be there
        damaged += [
            bytes(digest)
            for (_, digest, sum_), now in zip(block, held, strict=True)
            if now is None or sum_ not in (None, now)
        ]
    return damaged
