"""The words of the names that files define, kept for the next question about the same files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from sonde.ranking.features import split_name
from sonde.types import FileState

Named = Collection[tuple[str, ...]]
_MAJOR = frozenset({"type", "function"})


class NameWords:
    """A cache of `most` names: a file as of one content -> the words of each name it defines."""

    def __init__(self, most: int) -> None:
        self._most, self._count = most, 0
        self._known: dict[tuple[str, str], Named] = {}
        self._lock = threading.Lock()

    def read(
        self,
        files: Sequence[FileState],
        names_of: Callable[[Collection[str]], Mapping[str, Sequence[tuple[str, str]]]],
    ) -> list[Named]:
        """Per file the words of its names; `names_of` reads names and kinds by paths."""
        keys = [(file.path, file.hash) for file in files]
        with self._lock:
            if self._count > self._most:
                self._count, self._known = 0, {}
            new = {path: (path, hash_) for path, hash_ in keys if (path, hash_) not in self._known}
            for path, names in names_of(new).items() if new else ():
                # members that hold values, and keys, say little about what a file is for
                major = (n for n, k in names if k in _MAJOR or (k == "value" and "." not in n))
                ends = {name.rpartition(".")[2] for name in major}
                self._known[new[path]] = {words for _, words in map(split_name, ends)}
                self._count += len(ends)
            return [self._known.get(key, ()) for key in keys]
