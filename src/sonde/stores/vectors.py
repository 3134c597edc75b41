"""Vectors in append-only files: bytes with a scale to score, sign bits to find candidates.

A row is a float32 scale and one signed byte per dimension. Its cosine is off by a few thousandths
at most, it takes a quarter of the space of floats, and is scored much faster than half precision,
which is converted number by number.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import zlib
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.errors import IndexCorrupt
from sonde.stores.chunks.base import Vectors
from sonde.types import Scored

Slots = NDArray[np.int64]
Rows = NDArray[np.int8]
Signs = NDArray[np.uint64]

EXACT = 20_000
"""Up to so many candidates every vector is scored."""
_RESCORED = 8_000
"""Beyond, so many nearest by sign bits are scored (more when more are asked for)."""
_PER_RESULT = 4
_SCALE_BYTES, _STEPS = 4, 127
_SCORED_AT_ONCE = 512
"""Small enough that the product is not spread over threads, which costs more than it gives."""


class VectorFile:
    """The vectors of one model: row n of the file is slot n, and is never changed.

    Rows are on disk before anything refers to them, so a crash leaves at most rows that nobody
    knows. Maps are opened anew when the file grew; an older map stays valid for whoever has it.
    """

    def __init__(self, path: Path, dimensions: int) -> None:
        self.path = path.with_suffix(".i8")
        self.dimensions = dimensions
        self._words = -(-dimensions // 64)
        self._lock = threading.Lock()
        self._width = dimensions + _SCALE_BYTES
        self._rows = np.empty((0, self._width), np.int8)
        self._bits = np.empty((0, self._words), np.uint64)

    @property
    def bits_path(self) -> Path:
        """The file with the sign bits."""
        return self.path.with_suffix(".bits")

    def append(self, vectors: Vectors) -> tuple[int, list[int]]:
        """Write rows at the end, flushed to the disk: the first one's slot and all checksums."""
        rows, bits = quantize(vectors), pack_signs(vectors)
        first = self.count_rows()
        for path, data in ((self.path, rows), (self.bits_path, bits)):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("r+b" if path.exists() else "w+b") as file:
                file.seek(first * data.strides[0])
                file.write(data.tobytes())
                file.flush()
                os.fsync(file.fileno())
        return first, _sum_rows(rows, bits)

    def count_rows(self) -> int:
        """How many rows are used, torn ones at the end included."""
        sizes = ((self.path, self._width), (self.bits_path, self._words * 8))
        return max(-(-_measure(path) // width) for path, width in sizes)

    def count_complete(self) -> int:
        """How many rows are whole in both files."""
        rows, bits = _measure(self.path), _measure(self.bits_path)
        return min(rows // self._width, bits // (self._words * 8))

    def sums(self, slots: Slots) -> list[int | None]:
        """The checksum of what each of these slots holds now; None where nothing can be read."""
        complete = self.count_complete()
        whole = slots < complete
        rows, bits = self._map(complete)
        known = iter(_sum_rows(rows[slots[whole]], bits[slots[whole]]))
        return [next(known) if here else None for here in whole.tolist()]

    def read(self, slots: Slots) -> Vectors:
        """The vectors in these slots."""
        rows, _ = self._map(int(slots.max()) + 1 if len(slots) else 0)
        chosen = rows[slots]
        return chosen[:, _SCALE_BYTES:].astype(np.float32) * _read_scales(chosen)[:, None]

    def find(self, query: Vectors, slots: Slots, limit: int) -> tuple[Slots, Vectors]:
        """Positions in `slots` of the nearest vectors and their scores, nearest first.

        Whatever ties with the last one is returned too.
        """
        if not len(slots):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        rows, bits = self._map(int(slots.max()) + 1)
        places, scores = find_nearest(rows, bits, query, slots, limit)
        if not np.isfinite(scores).all():
            raise IndexCorrupt(f"{self.path} holds vectors that are no numbers")
        return places, scores

    def delete(self) -> None:
        """Remove the files; maps that are open stay readable where the system allows it."""
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
    rows = np.empty((len(vectors), vectors.shape[1] + _SCALE_BYTES), np.int8)
    rows[:, :_SCALE_BYTES] = scales.astype(np.float32)[:, None].view(np.int8)
    rows[:, _SCALE_BYTES:] = np.rint(steps)
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
    """Positions in `slots` of the nearest rows and their scores; ties with the last one, too."""
    places = np.arange(len(slots))
    wanted = max(_RESCORED, limit * _PER_RESULT)
    if len(slots) > max(EXACT, wanted):
        places = np.argpartition(_measure_distances(signs, query, slots), wanted)[:wanted]
    scores = np.empty(len(places), np.float32)
    for start in range(0, len(places), _SCORED_AT_ONCE):
        part = slice(start, start + _SCORED_AT_ONCE)
        chosen = rows[slots[places[part]]]
        scores[part] = chosen[:, _SCALE_BYTES:].astype(np.float32) @ query
        scores[part] *= _read_scales(chosen)
    if limit < len(scores) and np.isfinite(scores).all():
        least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        kept = np.flatnonzero(scores >= least)
        places, scores = places[kept], scores[kept]
    order = np.argsort(-scores, kind="stable")
    return places[order], scores[order]


def _measure_distances(signs: Signs, query: Vectors, slots: Slots) -> NDArray[np.uint16]:
    wanted = pack_signs(query[None, :])[0]
    distance = np.zeros(len(slots), np.uint16)
    # the usual case, slots in order without gaps, needs no copy
    whole = bool(slots[0] == 0 and slots[-1] == len(slots) - 1 and np.all(np.diff(slots) == 1))
    chosen = signs[: len(slots)] if whole else signs[slots]
    for word in range(len(wanted)):
        distance += np.bitwise_count(chosen[:, word] ^ wanted[word])
    return distance


def _sum_rows(rows: Rows, bits: Signs) -> list[int]:
    return [zlib.crc32(sign, zlib.crc32(row)) for row, sign in zip(rows, bits, strict=True)]


def _read_scales(rows: Rows) -> Vectors:
    return np.ascontiguousarray(rows[:, :_SCALE_BYTES]).view(np.float32)[:, 0]


def _measure(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _map_rows(path: Path, kind: np.dtype, width: int) -> NDArray:  # type: ignore[type-arg]
    count = _measure(path) // (width * kind.itemsize)
    return (
        np.memmap(path, kind, mode="r", shape=(count, width))
        if count
        else np.empty((0, width), kind)
    )


def delete_strays(folder: Path, named: Collection[str]) -> None:
    """Remove vector files that are in nobody's name (left by a crash)."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.stem not in named and path.suffix in (".i8", ".bits"):
            path.unlink(missing_ok=True)


_MARK = "\ue000"
"""Begins a text that is written with escapes."""


def pack_text(text: str) -> str:
    """The text itself, or with escapes where it holds NUL or is no Unicode."""
    if "\0" not in text and not text.startswith(_MARK):
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return _MARK + json.dumps(text)


def unpack_text(text: str) -> str:
    """The text that was packed."""
    return str(json.loads(text[1:])) if text.startswith(_MARK) else text


def unpack_row(row: Sequence[Any]) -> list[Any]:
    """A row whose texts were packed."""
    return [unpack_text(v) if type(v) is str and v[:1] == _MARK else v for v in row]


def pack_rows(vectors: Vectors) -> list[bytes]:
    """Each vector as a scale and one signed byte a number."""
    return [row.tobytes() for row in quantize(vectors)]


class PackedRows:
    """Packed vectors by number, ready to be searched; never changed, only followed by another."""

    def __init__(self, numbers: Slots, rows: Rows, signs: NDArray[np.uint64]) -> None:
        self.numbers, self.rows, self.signs = numbers, rows, signs
        self._speaks = np.flatnonzero(rows[:, 4:].any(axis=1))

    def __len__(self) -> int:
        return len(self.numbers)

    def find(
        self, query: Vectors, limit: int, allowed: Collection[int] | None = None
    ) -> list[Scored]:
        """The nearest that speak, nearest first, among those allowed."""
        length = float(np.linalg.norm(query))
        if not length or not len(self) or self.rows.shape[1] != len(query) + 4 or limit < 1:
            return []
        places = self._speaks
        if allowed is not None:
            wanted = np.fromiter(allowed, np.int64, len(allowed))
            places = places[np.isin(self.numbers[places], wanted)]
        unit = (query / np.float32(length)).astype(np.float32)
        at, scores = find_nearest(self.rows, self.signs, unit, places, limit)
        numbers = self.numbers[places[at]]
        order = np.lexsort((numbers, -scores))[:limit]
        return [Scored(int(numbers[at]), float(scores[at])) for at in order.tolist()]

    def keep(self, numbers: Collection[int]) -> PackedRows:
        """Only these."""
        return self._take(np.isin(self.numbers, np.fromiter(numbers, np.int64, len(numbers))))

    def add(self, pairs: Sequence[tuple[int, bytes]]) -> PackedRows:
        """These too, in place of what they had."""
        if not pairs:
            return self
        numbers = np.array([number for number, _ in pairs], np.int64)
        width = len(pairs[0][1])
        rows = np.frombuffer(b"".join(data for _, data in pairs), np.int8).reshape(-1, width)
        fresh = PackedRows(numbers, rows, pack_signs(rows[:, 4:]))
        if not len(self) or self.rows.shape[1] != width:
            return fresh
        rest = self._take(~np.isin(self.numbers, numbers))
        return PackedRows(
            np.concatenate((rest.numbers, fresh.numbers)),
            np.concatenate((rest.rows, fresh.rows)),
            np.concatenate((rest.signs, fresh.signs)),
        )

    def _take(self, chosen: NDArray[np.bool_]) -> PackedRows:
        if chosen.all():
            return self
        return PackedRows(self.numbers[chosen], self.rows[chosen], self.signs[chosen])


NOTHING = PackedRows(np.empty(0, np.int64), np.empty((0, 4), np.int8), np.empty((0, 0), np.uint64))
