"""The words of the names that files define, kept as numbers: all files are compared at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sonde.ranking.features import list_name_words
from sonde.ranking.question import Matches
from sonde.types import FileState

Names = Sequence[tuple[str, str]]
"""Name and kind of definitions."""
_MAJOR = frozenset({"type", "function"})
_ENTRY_BYTES = 500  # of a file in the cache, besides its numbers
_WORD_BYTES = 200  # of a word


class NameWords:
    """A cache, within a number of bytes: file as of one content -> the words of its names.

    After a hundred questions about a project, most of the files that the next asks for are here.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Empty the cache."""
        with self._lock:
            self._numbers: dict[str, int] = {}
            self._by_start: dict[str, list[str]] = {}
            self._files: dict[tuple[str, str], tuple[bytes, bytes]] = {}
            self._bytes = 0

    def compare(
        self,
        matches: Matches,
        files: Sequence[FileState],
        read: Callable[[Collection[str]], Mapping[str, Names]],
    ) -> list[tuple[float, float]]:
        """Per file, the share of the question's words that its names say together, and the best
        F1 of one of them; `read` gives the names of files by their paths."""
        if self._bytes > self._most:
            self.forget()
        with self._lock:
            keys = [(file.path, file.hash) for file in files]
            new = {key[0]: key for key in keys if key not in self._files}
            for path, names in read(list(new)).items() if new else ():
                self._add(new[path], names)
            held = [self._files.get(key, (b"", b"")) for key in keys]
            bits = self._match(matches)
        return _compare(bits, held, len(matches.query))

    def _add(self, key: tuple[str, str], names: Names) -> None:
        # members that hold values, and keys, say little about what a file is for
        major = (n for n, kind in names if kind in _MAJOR or (kind == "value" and "." not in n))
        named = {words for _, words in map(list_name_words, major) if words}
        numbers = self._numbers
        ids = [numbers[w] if w in numbers else self._learn(w) for each in named for w in each]
        entry = np.array(ids, np.int32).tobytes(), np.array(list(map(len, named)), "H").tobytes()
        self._files[key] = entry
        self._bytes += _ENTRY_BYTES + sum(map(len, entry))

    def _learn(self, word: str) -> int:
        number = self._numbers[word] = len(self._numbers)
        self._by_start.setdefault(word[:3], []).append(word)
        self._bytes += _WORD_BYTES
        return number

    def _match(self, matches: Matches) -> NDArray[np.uint64]:
        """Which of the question's words each known word matches."""
        bits = np.zeros(len(self._numbers), np.uint64)
        for start in matches.starts:
            for word in self._by_start.get(start, ()):
                bits[self._numbers[word]] = matches[word]
        return bits


def _compare(
    bits: NDArray[np.uint64], files: Iterable[tuple[bytes, bytes]], asked: int
) -> list[tuple[float, float]]:
    words, sizes = zip(*files, strict=True) if files else ((), ())
    found = bits[np.frombuffer(b"".join(words), np.int32)]
    counts = np.frombuffer(b"".join(sizes), "H").astype(np.int64)
    of_files = np.array([len(each) // 2 for each in sizes], np.int64)
    rates = np.zeros((len(of_files), 2))
    if len(found) and asked:
        begins = np.cumsum(counts) - counts
        said = np.bitwise_or.reduceat(found, begins)
        precision = np.add.reduceat(found != 0, begins, dtype=np.int64) / counts
        recall = np.bitwise_count(said) / asked
        f1 = 2 * precision * recall / np.maximum(precision + recall, np.finfo(np.float64).tiny)
        some = of_files > 0
        firsts = (np.cumsum(of_files) - of_files)[some]
        rates[some, 0] = np.bitwise_count(np.bitwise_or.reduceat(said, firsts)) / asked
        rates[some, 1] = np.maximum.reduceat(f1, firsts)
    return [(together, best) for together, best in rates.tolist()]
