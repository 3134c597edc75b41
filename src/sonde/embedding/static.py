"""The static model: a text is the sum of learned vectors of its distinct word pieces.

A thousand times cheaper than an encoder, because vectors do not depend on context.
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

BUNDLED: Traversable = files("sonde.embedding") / "models"  # the weights
UNKNOWN = "[UNK]"
_LONGEST_WORD = 100  # as in Hugging Face's WordPiece
_INNER = "##"
_PARSING = threading.Lock()  # numpy parses headers as Python, which is not thread-safe in 3.11


def read_vocabulary(folder: Traversable, name: str) -> tuple[str, ...]:
    """The pieces, in the order of their ids."""
    return tuple((folder / name).read_text("utf-8").split("\n")[:-1])


def map_array(folder: Traversable, name: str) -> NDArray[np.generic]:
    """An array of a folder, memory-mapped if it is in a real file."""
    with as_file(folder / name) as path, _PARSING:
        array: NDArray[np.generic] = np.load(path, mmap_mode="r", allow_pickle=False)
        return array


class WordPiece:
    """Splits words into the longest known pieces; all but the first begin with `##`."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        ids = {piece: i for i, piece in enumerate(vocabulary)}
        self.unknown = ids[UNKNOWN]
        self._first = _measure_pieces(ids)
        cut = len(_INNER)
        inner = {piece[cut:]: i for piece, i in ids.items() if piece.startswith(_INNER)}
        self._inner = _measure_pieces(inner)

    def split_word(self, word: str) -> tuple[int, ...]:
        """The pieces of a lower-case word; the unknown piece if a part has none."""
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
    """The pieces, and the length of the longest by first letter."""
    return ids, {piece[:1]: len(piece) for piece in sorted(ids, key=len)}


NAME, EVERYDAY_NAME = "sonde-static-1", "sonde-everyday-1"
DIMENSIONS = 256  # of the rows of one table


class Pieces:
    """Tokenizer: text -> rows of the tables."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        pieces = WordPiece(vocabulary)

        def split_part(part: str) -> tuple[int, ...]:
            ids = pieces.split_word(part)
            if pieces.unknown in ids and not part.isascii():
                # pairs of ideographs are rarely pieces, single ones usually are
                ids = tuple(chain.from_iterable(map(pieces.split_word, part)))
            return tuple(id_ for id_ in ids if id_ != pieces.unknown)

        parts = WordCache(split_part)
        self._rows = WordCache(
            lambda word: tuple(chain.from_iterable(map(parts.__getitem__, split_identifier(word))))
        )

    def find_rows(self, text: str) -> NDArray[np.intp]:
        """The distinct rows of a text, in order, so that sums are the same in every process."""
        found = set(chain.from_iterable(map(self._rows.__getitem__, set(find_words(text)))))
        return np.array(sorted(found), np.intp)


_SHARED: WeakValueDictionary[str, Pieces] = WeakValueDictionary()


def share_pieces() -> Pieces:
    """The tokenizer of all tables, loaded once while any model is loaded."""
    with _PARSING:
        pieces = _SHARED.get(NAME) or Pieces(read_vocabulary(BUNDLED, "static-vocab.txt"))
        _SHARED[NAME] = pieces
        return pieces


_Table = tuple[NDArray[np.int8], NDArray[np.float32], float]
"""Rows, scales, and the weight of the table."""


class StaticEmbedder:
    """The table for code and documentation. Loads on first use; rows stay memory-mapped."""

    tables: Mapping[str, float] = {"static": 1.0}
    """The weights of the tables by name."""
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
        # step by step for all texts, which uses the processor's cache better
        found = [pieces.find_rows(text) for text in texts]
        vectors = np.empty((len(texts), len(tables), DIMENSIONS), np.float32)
        for at, (rows, scales, share) in enumerate(tables):
            part = vectors[:, at]
            for ids, vector in zip(found, part, strict=True):
                # without BLAS, so that results are the same in every process
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
                pieces = share_pieces()
                length = math.hypot(*self.tables.values())
                tables = [(*self._map(name), n / length) for name, n in self.tables.items()]
                self._loaded = (pieces, tables)
            return self._loaded

    def _map(self, name: str) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        # plain arrays: indexing a `memmap` is slower
        rows = np.asarray(map_array(BUNDLED, f"{name}-rows.npy"), np.int8)
        return rows, np.asarray(map_array(BUNDLED, f"{name}-scales.npy"), np.float32)


class EverydayEmbedder(StaticEmbedder):
    """For notes, documents and chats: adds a table of everyday English."""

    tables: Mapping[str, float] = {"static": 0.6, "everyday": 1.0}
    name = EVERYDAY_NAME
    dimensions = 2 * DIMENSIONS
