"""The words of the names that files define, kept for the next question about the same files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from sonde.ranking.features import split_name
from sonde.ranking.question import STARTS, Matches
from sonde.types import FileState

_MAJOR = frozenset({"type", "function"})


@dataclass(frozen=True, slots=True)
class NameRates:
    """How well the names that a file defines answer a question, from 0 to 1."""

    each: Mapping[int, float]
    """F1 of each definition, by its place in the file, that shares a word with the question."""
    recall: float = 0.0
    """Share of the question's words that the names say together."""
    best: float = 0.0
    """The best F1; here and above, of names that say what a file is for."""


class FileNames:
    """The words of the names that one file defines, by how they begin."""

    def __init__(self, names: Sequence[tuple[str, str]]) -> None:
        self._words: dict[str, list[tuple[str, int]]] = {}
        lengths, major = bytearray(), bytearray()
        for at, (name, kind) in enumerate(names):
            words = split_name(name.rpartition(".")[2])[1]
            for word in words:
                self._words.setdefault(word[:STARTS], []).append((word, at))
            lengths.append(min(len(words), 255))
            # members that hold values, and keys, say little about what a file is for
            major.append(kind in _MAJOR or (kind == "value" and "." not in name))
        self._lengths, self._major = bytes(lengths), bytes(major)

    def __len__(self) -> int:
        return len(self._lengths)

    def rate(self, matches: Matches) -> NameRates:
        """Compare the names with the question's words."""
        found: dict[int, list[int]] = {}
        for start in matches.starts & self._words.keys():
            for word, at in self._words[start]:
                if bits := matches[word]:
                    found.setdefault(at, []).append(bits)
        each: dict[int, float] = {}
        every, best = 0, 0.0
        for at, own in found.items():
            said = 0
            for bits in own:
                said |= bits
            precision, recall = len(own) / self._lengths[at], said.bit_count() / len(matches.query)
            each[at] = 2 * precision * recall / (precision + recall)
            if self._major[at]:
                every |= said
                best = max(best, each[at])
        return NameRates(each, every.bit_count() / len(matches.query) if every else 0.0, best)


class NameWords:
    """A cache of `most` names: a file as of one content -> its names."""

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0
        self._known: dict[tuple[str, str], FileNames] = {}
        self._lock = threading.Lock()

    def read(
        self,
        files: Sequence[FileState],
        names_of: Callable[[Collection[str]], Mapping[str, Sequence[tuple[str, str]]]],
    ) -> list[FileNames]:
        """The names of each file; `names_of` reads names and kinds by paths."""
        keys = [(file.path, file.hash) for file in files]
        with self._lock:
            if self._count > self._most:
                self._count, self._known = 0, {}
            new = {path: (path, hash_) for path, hash_ in keys if (path, hash_) not in self._known}
            for path, names in names_of(new).items() if new else ():
                self._known[new[path]] = known = FileNames(names)
                self._count += len(known)
            return [self._known.get(key, _NONE) for key in keys]


_NONE = FileNames(())
