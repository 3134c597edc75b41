"""What a database cannot hold as it is: odd characters in text, and vectors as bytes."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonde.stores.base import Vectors
from sonde.stores.vectors import Rows, Slots, find_nearest, pack_signs, quantize
from sonde.types import Scored

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
