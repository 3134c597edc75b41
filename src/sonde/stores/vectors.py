"""Vectors by slot: rows in append-only files or in memory, and which row's vector is in which slot.

A row is a float32 scale and one signed byte per dimension. Its cosine is off by a few thousandths
at most, it takes a quarter of the space of floats, and is scored much faster than half precision,
which is converted number by number. Sign bits beside it find the candidates among many rows.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sonde.errors import IndexCorrupt
from sonde.runtime.private import make_folder
from sonde.stores.chunks.base import Vectors
from sonde.types import Scored

Ids = NDArray[np.int64]
Slots = NDArray[np.int64]
Ranges = NDArray[np.int64]  # rows of (first id, end), ascending and disjoint
Mask = NDArray[np.bool_]
Rows = NDArray[np.int8]
Signs = NDArray[np.uint64]
_NONE: Slots = np.empty(0, np.int64)
Find = Callable[[Vectors, Slots, int], tuple[Slots, Vectors]]  # `VectorRows.find`

EXACT = 4_000  # up to this many candidates, every vector is scored
_RESCORED, _RESCORED_PART, _BITS_RESCORED = 8_000, 8, 768_000
"""Beyond that, the nearest by sign bits: one in eight, more where bits are few, at most so many. Of
the nearest 100 of 25,000 vectors with 256 bits that misses 0.3 %."""
_RESCORED_PER_RESULT = 4  # sign bits are coarse: the best by score are among the next ones, too
SCALE_BYTES, _STEPS = 4, 127  # a float32; the largest signed byte
_COMPARED_AT_ONCE = 65_536  # rows of sign bits: 2 MB, which stay cached for all words of a row
_SCORED_AT_ONCE = 512  # so few that BLAS does not use threads, which cost more than they save
_COPIED_AT_ONCE = 8_192  # rows read into memory at once when a file is rewritten
_SUMMED_AT_ONCE = 512  # rows: they stay in the cache, and damage costs a look at so few
NO_SLOT = -1  # of a vector that is all zeros: it is known, but never retrieved


class VectorRows(Protocol):
    """Vectors of one model by slot: rows are added at the end and never changed."""

    @property
    def dimensions(self) -> int:
        """Numbers per vector."""

    def append(self, vectors: Vectors) -> tuple[int, list[int]]:
        """Add rows, durably. Returns the first one's slot and all checksums."""

    def find_damaged(self, slots: Slots, sums: Slots) -> Mask:
        """Which of these distinct slots are not as they were written; a sum of -1 is unknown."""

    def stamp(self) -> tuple[int, int]:
        """How much is stored, and when it was last written."""

    def count_rows(self) -> int:
        """How many slots are used, including torn ones at the end."""

    def count_complete(self) -> int:
        """How many slots can be read."""

    def read(self, slots: Slots) -> Vectors:
        """The vectors in these slots."""

    def find(self, query: Vectors, slots: Slots, limit: int) -> tuple[Slots, Vectors]:
        """Positions in `slots` of the nearest and their scores, including ties with the last."""

    def delete(self) -> None:
        """Remove all rows."""


R = TypeVar("R", bound=VectorRows)


class StoredModel(NamedTuple, Generic[R]):
    """A model whose vectors are kept, and where."""

    id: int
    name: str
    rows: R


class OpenRows(Generic[R]):
    """Vector files or tables by name, each opened once."""

    def __init__(self, open_rows: Callable[[str, int], R]) -> None:
        self._open_rows = open_rows
        self._lock = threading.Lock()
        self._rows: dict[str, R] = {}

    def open(self, name: str, dimensions: int) -> R:
        """The rows of this name."""
        with self._lock:
            if name not in self._rows:
                self._rows[name] = self._open_rows(name, dimensions)
            return self._rows[name]

    def list_models(self, stored: Iterable[Any]) -> list[StoredModel[R]]:
        """The models of these rows of id, name, name of the file or table, and dimensions."""
        return [StoredModel(id_, name, self.open(file, size)) for id_, name, file, size in stored]

    def create(self, prefix: str, model: str, number: int, dimensions: int) -> tuple[str, R]:
        """New rows of a model, and their name; what a crash left under it is removed."""
        name = f"{prefix}-{hashlib.sha256(model.encode()).hexdigest()[:12]}-{number}"
        rows = self.open(name, dimensions)
        rows.delete()
        return name, rows

    def forget(self) -> None:
        """Drop all of them; callers that still read one may finish."""
        with self._lock:
            self._rows.clear()


def copy_rows(source: VectorRows, slots: Slots, target: VectorRows) -> list[int]:
    """Append the vectors of these slots to other rows, in this order. Returns the checksums."""
    sums: list[int] = []
    for start in range(0, len(slots), _COPIED_AT_ONCE):
        sums += target.append(source.read(slots[start : start + _COPIED_AT_ONCE]))[1]
    return sums


@dataclass(frozen=True, slots=True)
class SlotIndex:
    """Which id's vector is in which slot, by ascending id. Immutable: a change makes another."""

    ids: Ids
    slots: Slots

    def __len__(self) -> int:
        return len(self.ids)

    def nearest(
        self, find: Find, query: Vectors, limit: int, allowed: Mask | None = None
    ) -> list[tuple[int, float]]:
        """The nearest ids and their scores, nearest first, including ties with the last."""
        length = float(np.linalg.norm(query))
        if not length or limit < 1:
            return []
        silent = self.slots == NO_SLOT
        heard = self.drop(silent if allowed is None else silent | ~allowed)
        places, scores = find(query / np.float32(length), heard.slots, limit)
        return list(zip(heard.ids[places].tolist(), scores.tolist(), strict=True))

    def drop(self, gone: Mask) -> SlotIndex:
        """Without these ids."""
        return SlotIndex(self.ids[~gone], self.slots[~gone]) if gone.any() else self

    def choose(self, wanted: Ids) -> SlotIndex:
        """Those of the wanted ids that are known, in the order they are wanted."""
        places = np.searchsorted(self.ids, wanted)
        places[places == len(self.ids)] = 0
        known = self.ids[places] == wanted if len(self.ids) else np.zeros(len(wanted), np.bool_)
        return SlotIndex(wanted[known], self.slots[places[known]])

    def merge(self, more: SlotIndex) -> SlotIndex:
        """With other ids added; where an id is in both, the other's slot wins."""
        if not len(more):
            return self
        both = np.concatenate([self.slots, more.slots])
        if not len(self) or more.ids[0] > self.ids[-1]:
            return SlotIndex(np.concatenate([self.ids, more.ids]), both)
        # np.unique keeps the first of equals
        ids, places = np.unique(np.concatenate([more.ids, self.ids]), return_index=True)
        return SlotIndex(ids, np.concatenate([more.slots, self.slots])[places])


def index_slots(ids: Ids = _NONE, slots: Slots = _NONE) -> SlotIndex:
    """An index of ids in any order and their slots; without any, an empty one."""
    order = np.argsort(ids)
    return SlotIndex(ids[order], slots[order])


def contains(ranges: Ranges, ids: Ids) -> Mask:
    """Which of these ids lie in one of the ranges, none of which is empty."""
    if not len(ranges):
        return np.zeros(len(ids), np.bool_)
    place = np.searchsorted(ranges[:, 0], ids, side="right") - 1
    inside: Mask = (place >= 0) & (ids < ranges[place, 1])
    return inside


def rank_ids(nearest: Sequence[tuple[int, float]], limit: int) -> list[Scored]:
    """The best of these by score, then id."""
    ordered = sorted(nearest, key=lambda pair: (-pair[1], pair[0]))
    return [Scored(id_, score) for id_, score in ordered[:limit]]


class VectorFile:
    """The vectors of one model in a file: row n is slot n.

    Rows are on disk before anything refers to them, so a crash leaves at most unreferenced rows.
    The file is mapped again when it grew; an older map stays valid for the reader that has it.
    """

    def __init__(self, path: Path, dimensions: int) -> None:
        self.path, self.bits_path = path.with_suffix(".i8"), path.with_suffix(".bits")
        self.dimensions = dimensions
        self._width, self._words = dimensions + SCALE_BYTES, -(-dimensions // 64)
        self._lock = threading.Lock()
        self._rows = np.empty((0, self._width), np.int8)
        self._bits = np.empty((0, self._words), np.uint64)

    def append(self, vectors: Vectors) -> tuple[int, list[int]]:
        rows, bits = quantize(vectors), pack_signs(vectors)
        first = self.count_rows()
        for path, data in ((self.path, rows), (self.bits_path, bits)):
            make_folder(path.parent)
            with path.open("r+b" if path.exists() else "w+b") as file:
                file.seek(first * data.strides[0])
                file.write(data.tobytes())
                file.flush()
                os.fsync(file.fileno())
        return first, _sum_rows(rows, bits)

    def count_rows(self) -> int:
        sizes = ((self.path, self._width), (self.bits_path, self._words * 8))
        return max(-(-_measure(path) // width) for path, width in sizes)

    def count_complete(self) -> int:
        rows, bits = _measure(self.path), _measure(self.bits_path)
        return min(rows // self._width, bits // (self._words * 8))

    def find_damaged(self, slots: Slots, sums: Slots) -> Mask:
        damaged = np.zeros(len(slots), np.bool_)
        rows, bits = self._map(int(slots.max()) + 1 if len(slots) else 0)
        known = np.flatnonzero(sums >= 0)
        for start in range(0, len(known), _SUMMED_AT_ONCE):
            part = known[start : start + _SUMMED_AT_ONCE]
            here, there = rows[slots[part]], bits[slots[part]]
            if not _agree(here, there, sums[part]):
                damaged[part] = np.array(_sum_rows(here, there)) != sums[part]
        return damaged

    def stamp(self) -> tuple[int, int]:
        try:
            found = [path.stat() for path in (self.path, self.bits_path)]
        except FileNotFoundError:
            return 0, 0
        return sum(each.st_size for each in found), sum(each.st_mtime_ns for each in found)

    def read(self, slots: Slots) -> Vectors:
        rows, _ = self._map(int(slots.max()) + 1 if len(slots) else 0)
        chosen = rows[slots]
        return chosen[:, SCALE_BYTES:].astype(np.float32) * _read_scales(chosen)[:, None]

    def find(self, query: Vectors, slots: Slots, limit: int) -> tuple[Slots, Vectors]:
        if not len(slots):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        rows, bits = self._map(int(slots.max()) + 1)
        places, scores = find_nearest(rows, bits, query, slots, limit)
        if not np.isfinite(scores).all():
            raise IndexCorrupt(f"{self.path} holds vectors that are no numbers")
        return places, scores

    def delete(self) -> None:
        """Remove the files; open maps stay readable where the system allows it."""
        with self._lock:
            self._rows, self._bits = self._rows[:0], self._bits[:0]
        for path in (self.path, self.bits_path):
            # a system that keeps mapped files from being removed gets another chance later
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def _map(self, count: int) -> tuple[Rows, Signs]:
        with self._lock:
            # to touch a mapped page behind the end of a file that was cut ends the process
            complete = self.count_complete()
            if count > complete:
                raise IndexCorrupt(f"{self.path} lacks vectors that the database names")
            # one of the two may have been mapped while it was ahead of the other
            if not count <= min(len(self._rows), len(self._bits)) <= complete:
                try:
                    rows = _map_rows(self.path, np.dtype(np.int8), self._width)
                    bits = _map_rows(self.bits_path, np.dtype(np.uint64), self._words)
                except FileNotFoundError as error:
                    raise IndexCorrupt(f"{self.path} is gone") from error
                if count > min(len(rows), len(bits)):
                    raise IndexCorrupt(f"{self.path} was removed meanwhile")
                self._rows, self._bits = rows, bits
            return self._rows, self._bits


def quantize(vectors: Vectors) -> Rows:
    """Each vector as a row: its scale, then one signed byte a number."""
    scales = np.abs(vectors).max(axis=1, initial=0.0) / _STEPS
    steps = np.divide(vectors, scales[:, None], where=scales[:, None] > 0, out=0 * vectors)
    rows = np.empty((len(vectors), vectors.shape[1] + SCALE_BYTES), np.int8)
    rows[:, :SCALE_BYTES] = scales.astype(np.float32)[:, None].view(np.int8)
    rows[:, SCALE_BYTES:] = np.rint(steps)
    return rows


def pack_signs(vectors: Vectors | Rows) -> Signs:
    """Which numbers of each vector are positive, 64 to a word."""
    packed = np.zeros((len(vectors), -(-vectors.shape[1] // 64) * 8), np.uint8)
    signs = np.packbits(vectors > 0, axis=1)
    packed[:, : signs.shape[1]] = signs
    return packed.view(np.uint64)


def find_nearest(
    rows: Rows, signs: Signs, query: Vectors, slots: Slots, limit: int
) -> tuple[Slots, Vectors]:
    """Positions in `slots` of the nearest rows and their scores, including ties with the last."""
    places = np.arange(len(slots))
    enough = max(len(slots) // _RESCORED_PART, _BITS_RESCORED // len(query))
    wanted = max(min(enough, _RESCORED), limit * _RESCORED_PER_RESULT)
    if len(slots) > max(EXACT, wanted):
        distances = _measure_distances(signs, query, slots)
        # with what is as near as the last of them: in order, they are read in half of the time
        places = np.flatnonzero(distances <= np.partition(distances, wanted)[wanted])
    scores = np.empty(len(places), np.float32)
    for start in range(0, len(places), _SCORED_AT_ONCE):
        part = slice(start, start + _SCORED_AT_ONCE)
        chosen = rows[slots[places[part]]]
        scores[part] = chosen[:, SCALE_BYTES:].astype(np.float32) @ query
        scores[part] *= _read_scales(chosen)
    if limit < len(scores) and np.isfinite(scores).all():
        least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        kept = np.flatnonzero(scores >= least)
        places, scores = places[kept], scores[kept]
    order = np.argsort(-scores, kind="stable")
    return places[order], scores[order]


def _measure_distances(signs: Signs, query: Vectors, slots: Slots) -> NDArray[np.uint16]:
    wanted = pack_signs(query[None, :])[0]
    # where most are asked for, choosing distances is cheaper than choosing rows
    most = 2 * len(slots) > slots.max()
    chosen = signs[: slots.max() + 1] if most else signs[slots]
    distance = np.zeros(len(chosen), np.uint16)
    for start in range(0, len(chosen), _COMPARED_AT_ONCE):
        block = slice(start, start + _COMPARED_AT_ONCE)
        for word in range(len(wanted)):
            distance[block] += np.bitwise_count(chosen[block, word] ^ wanted[word])
    return distance[slots] if most else distance


def _sum_rows(rows: Rows, bits: Signs) -> list[int]:
    return [zlib.crc32(sign, zlib.crc32(row)) for row, sign in zip(rows, bits, strict=True)]


def _agree(rows: Rows, bits: Signs, sums: Slots) -> bool:
    """Whether rows have these checksums, all at once.

    CRCs are linear: that of an odd number of rows XORed is the XOR of theirs. A row of zeros makes
    an even number odd.
    """
    row, sign = np.bitwise_xor.reduce(rows, axis=0), np.bitwise_xor.reduce(bits, axis=0)
    (total,) = _sum_rows(row[None], sign[None])
    if len(rows) % 2 == 0:
        total ^= _sum_rows(np.zeros_like(row[None]), np.zeros_like(sign[None]))[0]
    return total == int(np.bitwise_xor.reduce(sums))


def _read_scales(rows: Rows) -> Vectors:
    return np.ascontiguousarray(rows[:, :SCALE_BYTES]).view(np.float32)[:, 0]


def _measure(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def _map_rows(path: Path, kind: np.dtype, width: int) -> NDArray:  # type: ignore[type-arg]
    count = _measure(path) // (width * kind.itemsize)
    if not count:
        return np.empty((0, width), kind)
    # as a plain array: every look into a `memmap` costs some Python
    return np.asarray(np.memmap(path, kind, mode="r", shape=(count, width)))
