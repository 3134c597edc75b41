"""The static model: a text is the sum of one learned vector per distinct word piece in it.

A thousand times cheaper than an encoder, because nothing depends on context.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from itertools import chain
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from sonde.embedding.base import Mode, Vectors
from sonde.text.words import WordCache, find_words, split_identifier

BUNDLED: Traversable = files("sonde.embedding") / "models"  # weights, from a wheel or not
UNKNOWN = "[UNK]"
_LONGEST_WORD = 100  # as in Hugging Face's WordPiece
_INNER = "##"
_PARSING = threading.Lock()  # numpy parses a header as Python, which 3.11 cannot do in two threads


def read_vocabulary(folder: Traversable, name: str) -> tuple[str, ...]:
    """The pieces, in the order of their ids."""
    return tuple((folder / name).read_text("utf-8").split("\n")[:-1])


def map_array(folder: Traversable, name: str) -> NDArray[np.generic]:
    """An array of a folder, memory-mapped where it lies in a real file."""
    with as_file(folder / name) as path, _PARSING:
        array: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
        return array


class WordPiece:
    """Greedy longest-match pieces; all but a word's first begin with `##`."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        ids = {piece: i for i, piece in enumerate(vocabulary)}
        self.unknown = ids[UNKNOWN]
        self._first = _measure_pieces(ids)
        cut = len(_INNER)
        inner = {piece[cut:]: i for piece, i in ids.items() if piece.startswith(_INNER)}
        self._inner = _measure_pieces(inner)

    def split_word(self, word: str) -> tuple[int, ...]:
        """The pieces of one lower-case word; the unknown piece alone if some part is none."""
        if len(word) > _LONGEST_WORD:
            return (self.unknown,)
        ids: list[int] = []
        start, end = 0, len(word)
        known, longest = self._first
        while start < end:
            reach = min(end, start + longest.get(word[start], 0))
            for stop in range(reach, start, -1):
                if (piece := known.get(word[start:stop])) is not None:
                    ids.append(piece)
                    start = stop
                    break
            else:
                return (self.unknown,)
            known, longest = self._inner
        return tuple(ids)


def _measure_pieces(ids: dict[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Pieces for one kind of position, and the length of the longest by first letter."""
    return ids, {piece[:1]: len(piece) for piece in sorted(ids, key=len)}


NAME, EVERYDAY_NAME = "sonde-static-1", "sonde-everyday-1"
DIMENSIONS = 256  # of the rows of one table


class Pieces:
    """The rows that the words of a text stand for."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        pieces = WordPiece(vocabulary)

        def split_part(part: str) -> tuple[int, ...]:
            ids = pieces.split_word(part)
            if pieces.unknown in ids and not part.isascii():
                # A pair of ideographs is seldom a piece, each of them mostly is.
                ids = tuple(chain.from_iterable(map(pieces.split_word, part)))
            return tuple(id_ for id_ in ids if id_ != pieces.unknown)

        parts = WordCache(split_part)
        self._rows = WordCache(
            lambda word: tuple(chain.from_iterable(map(parts.__getitem__, split_identifier(word))))
        )

    def find_rows(self, text: str) -> NDArray[np.intp]:
        """The distinct rows of a text, in order, so that sums do not depend on the process."""
        found = set(chain.from_iterable(map(self._rows.__getitem__, set(find_words(text)))))
        return np.array(sorted(found), np.intp)


_SHARED: WeakValueDictionary[str, Pieces] = WeakValueDictionary()


def _share_pieces() -> Pieces:
    """The pieces, which have a row in every table: read once, as long as any model is loaded."""
    with _PARSING:
        pieces = _SHARED.get(NAME) or Pieces(read_vocabulary(BUNDLED, "static-vocab.txt"))
        _SHARED[NAME] = pieces
        return pieces


_Table = tuple[NDArray[np.int8], NDArray[np.float32], float]
"""Rows, their scales, and the share of the table in a vector."""


class StaticEmbedder:
    """The table for code and documentation. Loads on first use; rows stay memory-mapped."""

    tables: Mapping[str, float] = {"static": 1.0}
    """The tables by name, and how much each counts."""
    name = NAME
    dimensions = DIMENSIONS

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loaded: tuple[Pieces, list[_Table]] | None = None

    @property
    def is_loaded(self) -> bool:
        return self._loaded is not None

    def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:  # noqa: ARG002
        pieces, tables = self._load()
        # each step for all texts: what it looks up stays in the processor's cache
        found = [pieces.find_rows(text) for text in texts]
        vectors = np.empty((len(texts), len(tables), DIMENSIONS), np.float32)
        for at, (rows, scales, share) in enumerate(tables):
            part = vectors[:, at]
            for ids, vector in zip(found, part, strict=True):
                # row by row and without BLAS: the same in any process, whatever comes with it
                scaled = rows.take(ids, 0).astype(np.float32)
                scaled *= scales.take(ids)[:, None]
                np.add.reduce(scaled, axis=0, out=vector)
            lengths = np.sqrt(np.einsum("ij,ij->i", part, part))
            part /= (np.where(lengths, lengths, 1) / share)[:, None]
        return vectors.reshape(len(texts), self.dimensions)

    def close(self) -> None:
        with self._lock:
            self._loaded = None

    def _load(self) -> tuple[Pieces, list[_Table]]:
        with self._lock:
            if self._loaded is None:
                pieces = _share_pieces()
                length = math.hypot(*self.tables.values())
                tables = [(*self._map(name), n / length) for name, n in self.tables.items()]
                self._loaded = (pieces, tables)
            return self._loaded

    def _map(self, name: str) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        # as plain arrays: every look into a `memmap` costs some Python
        rows = np.asarray(map_array(BUNDLED, f"{name}-rows.npy"), np.int8)
        return rows, np.asarray(map_array(BUNDLED, f"{name}-scales.npy"), np.float32)


class EverydayEmbedder(StaticEmbedder):
    """For notes, documents and chats: a table of everyday English beside the same one."""

    tables: Mapping[str, float] = {"static": 0.6, "everyday": 1.0}
    name = EVERYDAY_NAME
    dimensions = 2 * DIMENSIONS
