"""The words of the names that files define, kept for the next question about the same files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from sonde.ranking.features import list_name_words
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
    """The names that one file defines; from the second question on, their words by how they begin.

    Most files are candidates once: then names that cannot match are not taken apart.
    """

    def __init__(self, names: Sequence[tuple[str, str]]) -> None:
        self._names, self._asked = names, 0
        self._words: dict[str, list[tuple[str, int]]] = {}

    def __len__(self) -> int:
        return len(self._names)

    def rate(self, matches: Matches) -> NameRates:
        """Compare the names with the question's words."""
        found: dict[int, list[int]] = {}
        for word, at in self._list_words(matches):
            if bits := matches[word]:
                found.setdefault(at, []).append(bits)
        each: dict[int, float] = {}
        every, best = 0, 0.0
        for at, own in found.items():
            name, kind = self._names[at]
            said = 0
            for bits in own:
                said |= bits
            precision = len(own) / len(list_name_words(name)[1])
            recall = said.bit_count() / len(matches.query)
            each[at] = 2 * precision * recall / (precision + recall)
            # members that hold values, and keys, say little about what a file is for
            if kind in _MAJOR or (kind == "value" and "." not in name):
                every |= said
                best = max(best, each[at])
        return NameRates(each, every.bit_count() / len(matches.query) if every else 0.0, best)

    def _list_words(self, matches: Matches) -> Iterable[tuple[str, int]]:
        """The words that may match, and whose they are."""
        self._asked += 1
        if self._asked == 1:
            found = [pair for pair in enumerate(self._names) if matches.may_match(pair[1][0])]
            return [(word, at) for at, (name, _) in found for word in list_name_words(name)[1]]
        if not self._words:
            words: dict[str, list[tuple[str, int]]] = {}
            for at, (name, _) in enumerate(self._names):
                for word in list_name_words(name)[1]:
                    words.setdefault(word[:STARTS], []).append((word, at))
            self._words = words
        starts = matches.starts & self._words.keys()
        return chain.from_iterable(self._words[start] for start in starts)


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
