"""Candidates: the files that may answer a question, each with all evidence about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from sonde.types import Chunk, FileState

Evidence = Literal["lexical", "dense", "deep", "report_lexical", "report_dense"]
"""BM25 of the question's words, similarity to it by the static and by the deeper model, and the
first two for the whole text of a report."""
_MOST_PARTS = 10  # of a score that are worth reading
_LEAST_PART = 0.05  # of a score that is worth mentioning: scores differ by more
EVIDENCE: tuple[Evidence, ...] = get_args(Evidence)


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
    named: Mapping[int, float] | None = None  # rates of its definitions' names, by their places
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
