"""Which vector belongs to which chunk: rows in SQLite name slots in vector files."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import apsw
import numpy as np
from numpy.typing import NDArray

from sonde.errors import IndexCorrupt
from sonde.stores.base import Vectors
from sonde.stores.chunk_lexical import Ranges, contains
from sonde.stores.chunk_schema import LOGGED, advance_state, read_number, read_state
from sonde.stores.vectors import Slots

Ids = NDArray[np.int64]

_PAIR = "SELECT c.id, CASE WHEN v.speaks THEN v.slot ELSE -1 END"
# the order of the joins is given: chunk rows are long, their index by digest is not
_OF_CHUNK = (
    f"{_PAIR} FROM chunks AS c CROSS JOIN vectors AS v ON v.model_id = ? AND v.digest = c.digest"
)
_OF_VECTOR = f"{_PAIR} FROM vectors AS v CROSS JOIN chunks AS c ON c.digest = v.digest"
# both in the order of digests: whoever asks first after a compaction waits for it
_ALL = (
    f"{_PAIR} FROM (SELECT digest, slot, speaks FROM vectors WHERE model_id = ?"  # noqa: S608
    " AND +slot < ? ORDER BY digest) AS v CROSS JOIN chunks AS c ON c.digest = v.digest"
)
_COPIED, _FEW = 8_192, 512
_WASTED = 0.25
"""The share of unused rows from which a vector file is written anew."""


class VectorRows(Protocol):
    """Vectors of one model by slot: rows are added at the end and never changed."""

    @property
    def dimensions(self) -> int:
        """Numbers per vector."""

    def append(self, vectors: Vectors) -> tuple[int, list[int]]:
        """Add rows, durably: the first one's slot and all checksums."""

    def sums(self, slots: Slots) -> list[int | None]:
        """The checksum of what each of these slots holds now; None where nothing can be read."""

    def count_rows(self) -> int:
        """How many slots are used."""

    def count_complete(self) -> int:
        """How many slots can be read."""

    def read(self, slots: Slots) -> Vectors:
        """The vectors in these slots."""

    def find(self, query: Vectors, slots: Slots, limit: int) -> tuple[Slots, Vectors]:
        """Positions in `slots` of the nearest and their scores, with ties of the last."""

    def delete(self) -> None:
        """Remove them all."""


@dataclass(frozen=True, slots=True)
class Model:
    """A model whose vectors are kept, and where."""

    id: int
    name: str
    rows: VectorRows


@dataclass(frozen=True, slots=True)
class SlotMap:
    """The slot of every chunk's vector as of one generation, by ascending id."""

    generation: int
    model: Model | None
    ids: Ids
    slots: Slots
    """-1 for a vector that is all zeros."""
    next_chunk: int
    next_slot: int

    @property
    def retrievable(self) -> NDArray[np.bool_]:
        """Which of the ids have a vector worth comparing."""
        return self.slots >= 0


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
        """The slot map as of this transaction, made from the last one where that is shorter."""
        generation = read_state(connection, "generation")
        known = self._maps.get(name)
        if known and known.generation == generation:
            return known
        model = self._find_model(connection, name)
        with self._lock:
            known = self._maps.get(name)
            if known and known.generation > generation:
                known = None
            current = _update_map(connection, known, model, generation)
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


def _next_slot(connection: apsw.Connection, model: Model) -> int:
    query = "SELECT max(slot) + 1 FROM vectors WHERE model_id = ?"
    return read_number(connection, query, (model.id,))


def _update_map(
    connection: apsw.Connection, known: SlotMap | None, model: Model | None, generation: int
) -> SlotMap:
    next_chunk = read_state(connection, "next_chunk")
    if model is None:
        nothing = np.empty(0, np.int64)
        return SlotMap(generation, None, nothing, nothing, next_chunk, 0)
    next_slot = _next_slot(connection, model)
    complete = model.rows.count_complete()
    if (
        complete < next_slot
        or known is None
        or known.model is None
        or known.model.rows is not model.rows
        or generation - known.generation >= LOGGED
    ):
        # slots that a file which was cut has lost are not there; they are written again
        ids, slots = _to_arrays(connection.execute(_ALL, (model.id, complete)))
        return SlotMap(generation, model, ids, slots, next_chunk, min(next_slot, complete))
    ids, slots = _drop_removed(connection, known)
    # vectors that came for chunks that were there, then chunks that came since
    came = [
        _to_arrays(
            connection.execute(
                f"{_OF_VECTOR} WHERE v.model_id = ? AND v.slot >= ? AND c.id < ?",
                (model.id, known.next_slot, known.next_chunk),
            )
        ),
        _to_arrays(
            connection.execute(f"{_OF_CHUNK} WHERE c.id >= ?", (model.id, known.next_chunk))
        ),
    ]
    for more in came:
        ids, slots = _merge(ids, slots, *more)
    return SlotMap(generation, model, ids, slots, next_chunk, next_slot)


def _drop_removed(connection: apsw.Connection, known: SlotMap) -> tuple[Ids, Slots]:
    query = "SELECT first, first + count FROM removed WHERE generation >= ? ORDER BY first"
    rows = connection.execute(query, (known.generation,)).fetchall()
    if not rows:
        return known.ids, known.slots
    kept = ~contains(np.array(rows, np.int64), known.ids)
    return known.ids[kept], known.slots[kept]


def _merge(ids: Ids, slots: Slots, more_ids: Ids, more_slots: Slots) -> tuple[Ids, Slots]:
    if not len(more_ids):
        return ids, slots
    if not len(ids) or more_ids[0] > ids[-1]:
        return np.concatenate([ids, more_ids]), np.concatenate([slots, more_slots])
    # np.unique keeps the first of equals: the newcomers win
    merged, places = np.unique(np.concatenate([more_ids, ids]), return_index=True)
    return merged, np.concatenate([more_slots, slots])[places]


def _to_arrays(rows: Iterable[tuple[int, int]]) -> tuple[Ids, Slots]:
    """Pairs as two arrays, by ascending id."""
    pairs = np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, 2)
    order = np.argsort(pairs[:, 0])
    return pairs[order, 0], pairs[order, 1]
