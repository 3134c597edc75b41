"""Candidates: the files that may answer a question, each with all evidence about it; and the
comparison of the names that they define with the question."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from sonde.ranking.question import Matches, shorten_word
from sonde.text.words import WordCache, split_names
from sonde.types import Chunk, FileState

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Evidence = Literal["lexical", "dense", "deep", "report_lexical", "report_dense"]
"""BM25 of the question's words, similarity to it by the static and by the deeper model, and the
first two for the whole text of a report."""
_MOST_PARTS = 10  # of a score that are worth reading
_LEAST_PART = 0.05  # of a score that is worth mentioning: scores differ by more
EVIDENCE: tuple[Evidence, ...] = get_args(Evidence)


OF_NAMES = ("definitions_recall", "definition_f1")
"""The features of the names that a file defines."""
_MOST_WORDS, _MOST_FILES = 40_000, 4_000  # that are kept: 10 MB
_Arrays: TypeAlias = "tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.bool_]]"


class NameWords:
    """The words of defined names by number, so that all names of a file are compared at once."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._clear()

    def _clear(self) -> None:
        self._words = ["\n"]  # number 0 ends a name
        self._starting: defaultdict[str, list[int]] = defaultdict(list)  # by their first letters
        numbers = WordCache(self._add)
        self._numbers = WordCache(lambda part: numbers[shorten_word(part.lower())])
        self._known: dict[tuple[str, str], _Arrays] = {}

    def _add(self, word: str) -> int:
        if word == "\n":
            return 0
        self._words.append(word)
        self._starting[word[:3]].append(len(self._words) - 1)
        return len(self._words) - 1

    def compare(
        self,
        files: Mapping[str, str],
        read: Callable[[Sequence[str]], Mapping[str, Sequence[tuple[str, str]]]],
        matches: Matches,
    ) -> list[tuple[dict[int, tuple[float, float]], dict[str, float]]]:
        """Per file, precision and F1 of each name that shares a word with the question, by place,
        and the features of all. `read` gets names and kinds, once for each hash of a file."""
        import numpy as np

        with self._guard:
            if len(self._words) > _MOST_WORDS or len(self._known) > _MOST_FILES:
                self._clear()
            new = {path: hash_ for path, hash_ in files.items() if (path, hash_) not in self._known}
            names = read(list(new)) if new else {}
            self._known |= {(path, new[path]): self._number(own) for path, own in names.items()}
            arrays = [self._known.get(key) or self._number(()) for key in files.items()]
            marks = np.zeros(len(self._words), np.uint64)  # which words of the question each means
            for at in chain.from_iterable(map(self._starting.__getitem__, matches.starts)):
                marks[at] = matches[self._words[at]]
        return [_compare(marks[words], firsts, tells, matches) for words, firsts, tells in arrays]

    def _number(self, names: Sequence[tuple[str, str]]) -> _Arrays:
        """The words of the last part of each name, where those of each begin, and whether it says
        what the file is for: members that hold values, and keys, say little."""
        import numpy as np

        split = split_names([name.rpartition(".")[2] for name, _ in names])
        words = np.fromiter(map(self._numbers.__getitem__, split), np.int32)
        firsts = np.concatenate([[0], np.flatnonzero(words == 0)[:-1] + 1]).astype(np.int32)
        tells = [k in ("type", "function") or (k == "value" and "." not in n) for n, k in names]
        return words, firsts[: len(names)], np.array(tells, np.bool_)


def _compare(
    bits: NDArray[np.uint64], firsts: NDArray[np.int32], tells: NDArray[np.bool_], matches: Matches
) -> tuple[dict[int, tuple[float, float]], dict[str, float]]:
    import numpy as np

    said = np.bitwise_or.reduceat(bits, firsts) if len(firsts) else bits
    places = np.flatnonzero(said)
    if not len(places):
        return {}, dict.fromkeys(OF_NAMES, 0.0)
    said, tells = said[places], tells[places]
    sizes = np.diff(firsts, append=len(bits))[places] - 1
    precision = np.add.reduceat(bits > 0, firsts, dtype=np.int64)[places] / sizes
    recall = np.bitwise_count(said) / float(len(matches.query))
    rates = 2 * precision * recall / (precision + recall)
    share = int(np.bitwise_or.reduce(said[tells])).bit_count() / len(matches.query)
    values = (share, float(rates[tells].max(initial=0.0)))
    pairs = zip(precision.tolist(), rates.tolist(), strict=True)
    named = dict(zip(places.tolist(), pairs, strict=True))
    return named, dict(zip(OF_NAMES, values, strict=True))


@dataclass(slots=True)
class Candidate:
    """A file that may answer: its retrieved chunks, the evidence about it, and its score."""

    state: FileState
    chunks: dict[int, Chunk] = field(default_factory=dict)
    """By the store's key."""
    scores: dict[Evidence, dict[int, float]] = field(
        default_factory=lambda: {kind: {} for kind in EVIDENCE}
    )
    """Per kind of evidence, the raw score of each chunk that has one."""
    dense_near: int = 0
    """How many of the nearest chunks are its own."""
    deep_near: int = 0
    importers: int = 0
    bears_name: bool = False  # or defines it: a name that the question spells or writes together
    holds_name: bool = False
    has_implementation: bool = False
    """For a header: a source file of the same stem lies in the index."""
    features: dict[str, float] = field(default_factory=dict)
    """What `training/fit_ranking.py` fits on."""
    named: Mapping[int, tuple[float, float]] | None = None
    """Precision and F1 of its definitions' names that share a word with the question, by place."""
    is_settled: bool = False
    """Whether the features include those of its definitions."""
    parts: dict[str, float] = field(default_factory=dict)
    """What each feature adds to the score: its value times its weight."""
    score: float = 0.0
    """The sum of the parts, about -10 to 10."""

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Set the parts of the score."""
        self.add_up({n: weights[n] * v for n, v in self.features.items() if v and n in weights})

    def add_up(self, parts: dict[str, float]) -> None:
        """Set the parts of the score, and the score."""
        self.parts, self.score = parts, sum(parts.values())

    @property
    def why(self) -> tuple[tuple[str, float], ...]:
        """The parts worth mentioning, strongest first."""
        return sort_parts(self.parts.items())


def sort_parts(parts: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """The parts of a score that are worth mentioning, strongest first."""
    kept = [(name, round(part, 3)) for name, part in parts if abs(part) >= _LEAST_PART]
    return tuple(sorted(kept, key=lambda pair: -abs(pair[1])))[:_MOST_PARTS]
