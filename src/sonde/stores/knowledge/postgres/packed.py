"""Vectors stored in PostgreSQL as packed rows, and searched in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from sonde.stores.chunks.base import Vectors
from sonde.stores.vectors import (
    NO_SLOT,
    SCALE_BYTES,
    Ids,
    Mask,
    Rows,
    Signs,
    SlotIndex,
    find_nearest,
    pack_signs,
    quantize,
    rank_ids,
)
from sonde.types import Scored


def pack_rows(vectors: Vectors) -> list[bytes]:
    """Each vector as a scale and one signed byte per dimension."""
    return [row.tobytes() for row in quantize(vectors)]


class MemoryVectors:
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

    def keep(self, ids: Ids) -> MemoryVectors:
        """The vectors with these ids."""
        return self._take(np.isin(self.index.ids, ids))

    def add(self, pairs: Sequence[tuple[int, bytes]]) -> MemoryVectors:
        """The vectors with packed rows added, which replace those with the same ids."""
        if not pairs:
            return self
        ids = np.array([id_ for id_, _ in pairs], np.int64)
        width = len(pairs[0][1])
        rows = np.frombuffer(b"".join(data for _, data in pairs), np.int8).reshape(-1, width)
        signs = pack_signs(rows[:, SCALE_BYTES:])
        if not len(self) or self.rows.shape[1] != width:
            return MemoryVectors(ids, rows, signs)
        rest = self._take(~np.isin(self.index.ids, ids))
        return MemoryVectors(
            np.concatenate((rest.index.ids, ids)),
            np.concatenate((rest.rows, rows)),
            np.concatenate((rest.signs, signs)),
        )

    def _take(self, chosen: Mask) -> MemoryVectors:
        if chosen.all():
            return self
        return MemoryVectors(self.index.ids[chosen], self.rows[chosen], self.signs[chosen])


NO_VECTORS = MemoryVectors(
    np.empty(0, np.int64), np.empty((0, SCALE_BYTES), np.int8), np.empty((0, 0), np.uint64)
)
