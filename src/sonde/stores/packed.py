"""What a database cannot hold as it is: odd characters in text, and vectors as bytes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from sonde.stores.base import Vectors
from sonde.types import Scored

_MARK = "\ue000"
"""Begins a text that is written with escapes."""
_STEPS = 127
_SCORED_AT_ONCE = 4_096


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


def pack_rows(vectors: Vectors) -> list[bytes]:
    """Each vector as a scale and one signed byte a number."""
    scales = np.abs(vectors).max(axis=1, initial=0.0).astype(np.float32) / np.float32(_STEPS)
    steps = np.rint(vectors / np.where(scales > 0, scales, 1)[:, None]).astype(np.int8)
    return [scale.tobytes() + row.tobytes() for scale, row in zip(scales, steps, strict=True)]


class PackedRows:
    """Packed vectors by number, ready to be searched."""

    def __init__(self, rows: Iterable[tuple[int, bytes]]) -> None:
        pairs = [(number, bytes(data)) for number, data in rows]
        self._numbers = np.array([number for number, _ in pairs], np.int64)
        width = len(pairs[0][1]) if pairs else 4
        packed = np.frombuffer(b"".join(data for _, data in pairs), np.int8).reshape(-1, width)
        self._scales = np.ascontiguousarray(packed[:, :4]).view(np.float32).reshape(-1)
        self._steps: NDArray[np.int8] = packed[:, 4:]

    def find(self, query: Vectors, limit: int, allowed: Collection[int] | None) -> list[Scored]:
        """The nearest that speak, nearest first, among those allowed."""
        length = float(np.linalg.norm(query))
        if not length or not len(self._numbers) or self._steps.shape[1] != len(query):
            return []
        places = np.flatnonzero(self._scales > 0)
        if allowed is not None:
            wanted = np.array(sorted(allowed), np.int64)
            places = places[np.isin(self._numbers[places], wanted)]
        unit = (query / np.float32(length)).astype(np.float32)
        scores = np.empty(len(places), np.float32)
        for start in range(0, len(places), _SCORED_AT_ONCE):
            part = places[start : start + _SCORED_AT_ONCE]
            steps = self._steps[part].astype(np.float32)
            scores[start : start + len(part)] = (steps @ unit) * self._scales[part]
        order = np.lexsort((self._numbers[places], -scores))[:limit]
        return [Scored(int(self._numbers[places[at]]), float(scores[at])) for at in order.tolist()]
