"""The words of the names that files define, kept for the next question about the same files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from sonde.ranking.features import list_name_words
from sonde.ranking.question import Matches, overlap_of
from sonde.types import FileState


class FileNames:
    """The names that a file defines, given with their kinds, and their words by how they begin."""

    def __init__(self, names: Sequence[tuple[str, str]]) -> None:
        self.names = names
        self._words: dict[str, list[tuple[str, int]]] = {}
        self._major: set[int] = set()
        for at, (name, kind) in enumerate(names):
            # members that hold values, and keys, say little about what a file is for
            if kind in ("type", "function") or (kind == "value" and "." not in name):
                self._major.add(at)
            for word in list_name_words(name)[1]:
                self._words.setdefault(word[:3], []).append((word, at))

    def rate(self, matches: Matches) -> tuple[dict[int, float], dict[str, float]]:
        """F1 of each name that shares a word with the question, and the features of all."""
        starts = matches.starts & self._words.keys()
        found = {at for start in starts for word, at in self._words[start] if matches[word]}
        words_of = {at: list_name_words(self.names[at][0])[1] for at in found}
        rates = {at: overlap_of(matches, words)[2] for at, words in words_of.items()}
        major = found & self._major
        said = {word for at in major for word in words_of[at]}
        best = max(map(rates.__getitem__, major), default=0.0)
        recall = overlap_of(matches, said)[1]
        return rates, {"definitions_recall": recall, "definition_f1": best}


class NameWords:
    """A cache of `most` names: a file as of one content -> the names it defines."""

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
                self._known[new[path]] = FileNames(names)
                self._count += len(names)
            return [self._known.get(key) or FileNames(()) for key in keys]
