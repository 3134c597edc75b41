"""Which chunk's vector is in which slot, brought up as chunks and vectors come and go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import apsw
import numpy as np
from numpy.typing import NDArray

from sonde.stores.chunks.base import Vectors
from sonde.stores.chunks.lexical import contains
from sonde.stores.chunks.tables import LOGGED, read_number, read_state
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


def _next_slot(connection: apsw.Connection, model: Model) -> int:
    query = "SELECT max(slot) + 1 FROM vectors WHERE model_id = ?"
    return read_number(connection, query, (model.id,))


def update_map(
    connection: apsw.Connection, known: SlotMap | None, model: Model | None, generation: int
) -> SlotMap:
    """The map as of a generation, made from a former one where that is shorter."""
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
