"""Search by everything: candidates from words, meaning and names, ordered by one model.

Files are ranked by the evidence about them; each then shows the chunk that answers: the one
that defines the symbol asked for, else the best by words and meaning together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from sonde.ranking.weights import DEEPENED, choose_weights
from sonde.ranking.words import Question
from sonde.searching.deepen import deepen
from sonde.searching.evidence import Candidate, RankedFile, defines_name, gather_evidence
from sonde.searching.found import Found, Search, merge_neighbours
from sonde.types import Chunk

_SCALE = 4.0
"""Model scores are about -10..+10; divided by this they spread well over 0..1."""


@dataclass(slots=True)
class _Weighed:
    file: RankedFile
    parts: dict[str, float]
    """What each feature adds to the score."""

    @property
    def score(self) -> float:
        return sum(self.parts.values())

    @property
    def why(self) -> tuple[tuple[str, float], ...]:
        kept = [(name, round(part, 3)) for name, part in self.parts.items() if abs(part) >= 0.05]
        return tuple(sorted(kept, key=lambda pair: -abs(pair[1])))


def rank_hybrid(search: Search, question: Question) -> list[Found]:
    """Best files first, each by its answering chunk; further chunks of good files follow."""
    found: list[Found] = []
    extra: list[Found] = []
    for weighed in _weigh_files(search, question):
        best, *others = order_chunks(question, weighed.file.candidate)
        relevance = (1 + math.tanh(weighed.score / _SCALE / 2)) / 2
        why = weighed.why
        found.append(Found(best, relevance, "relevance", why))
        extra.extend(Found(chunk, relevance, "relevance", why) for chunk in others[:2])
    tail = found[-1].score if found else 0.0
    # further chunks of a file come after every file's best, so that files are never crowded out
    found.extend(replace(more, score=tail * more.score) for more in extra)
    return merge_neighbours(found)[: search.limit]


def _weigh_files(search: Search, question: Question) -> list[_Weighed]:
    """Every candidate file with its score, best first."""
    weighed = []
    for file in gather_evidence(search, question):
        model = choose_weights(
            file.candidate.state.kind,
            is_report=question.report is not None,
            is_deep="deep_rel" in file.features,
        )
        parts = {name: model.get(name, 0.0) * value for name, value in file.features.items()}
        weighed.append(_Weighed(file, parts))
    weighed.sort(key=_place)
    order = partial(order_chunks, question)
    deep = deepen(search, question, [one.file.candidate for one in weighed], order)
    for one, value in zip(weighed, deep, strict=False):
        # above the least of them, so that nobody falls behind files it was not compared with
        one.parts["deep_rel"] = DEEPENED * (value - min(deep))
    return sorted(weighed, key=_place)


def _place(one: _Weighed) -> tuple[float, str]:
    return -one.score, one.file.candidate.state.path


def order_chunks(question: Question, candidate: Candidate) -> list[Chunk]:
    """A file's candidate chunks, the answering one first."""
    kinds = (
        candidate.lexical, candidate.dense, candidate.deep, candidate.told_lexical,
        candidate.told_dense,
    )  # fmt: skip
    most = [max(scores.values(), default=0.0) or 1.0 for scores in kinds]

    def strength(chunk: Chunk) -> float:
        share = sum(
            scores.get(chunk.id, 0.0) / top for scores, top in zip(kinds, most, strict=True)
        )
        return share + (3.0 if defines_name(question, chunk) else 0.0)

    return sorted(
        candidate.chunks.values(), key=lambda chunk: (-strength(chunk), chunk.span.start_line)
    )
