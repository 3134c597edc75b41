"""What speaks for a text as the answer to a question, and how likely that makes it; pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence about one candidate."""

    words: float = 0.0
    """Its score by words, as a share of the best candidate's."""
    covered: float = 0.0
    """How much of the question the best candidates hold in its words (`count_covered`): near 1 for
    a question in words of the text, near 0 for one in other words."""
    static: float | None = None
    deep: float | None = None
    """How near it is by each model, in spreads above unrelated texts; None: not embedded."""
    is_message: bool = False
    """Of a conversation: so short that even the answer holds few of the question's words."""

    @property
    def stage(self) -> str:
        """The deepest look that was taken at it."""
        if self.deep is not None:
            return "deep"
        return "words" if self.static is None else "static"

    @property
    def score_type(self) -> str:
        """What its score is made of."""
        return "fts" if self.stage == "words" else "fts+vector"

    @property
    def nearness(self) -> float:
        """By the deepest model that has read it."""
        return (self.static or 0.0) if self.deep is None else self.deep


def count_covered(share: float, count: int) -> float:
    """`covered` of a question with `count` words, of which a text holds a share by weight.

    Six words of twelve say much; a single word says nothing unless it is most of the question.
    """
    held = share * count
    return max(2.0 * share - 1.0, (held - 1.0) / (held + 1.0), 0.0)


@dataclass(frozen=True, slots=True)
class _Weights:
    """How one stage weighs evidence; fitted by `training/fit_knowledge.py`."""

    even: float
    """The square of `covered` at which words and the model count the same. Words count less below:
    a question that is not in words of the text is ranked as the model ranks it."""
    top: tuple[float, float, float, float, float]
    """How likely the best candidate is an answer: a constant, then per spread of nearness, for
    `covered`, their product, and `words` where all is covered."""


_WEIGHTS: Mapping[str, _Weights] = {
    "words": _Weights(0.0, (-5.0, 0.0, 1.0, 0.0, 3.5)),
    "static": _Weights(0.1, (-4.95, 0.85, 1.45, -0.4, 2.2)),
    "deep": _Weights(0.5, (-7.9, 2.0, 3.6, -1.7, 4.1)),
}
WORDS = 4.0  # how much the best candidate by words counts: as one four spreads nearer
_SAID = 0.6  # how much words count for a message, at least, once one or two are shared
_BESIDE = 0.2  # of the static model's nearness, beside the deep one's
NEAR_ENOUGH = 0.6
"""Spreads above unrelated texts from which a text without any of the words may be an answer. About
one unrelated text in four is so near: likelihoods, below, decide which candidates are shown."""
LIKELY_ENOUGH = 0.04
"""Results that are less likely are left out of lists of several sources."""
_BESIDE_BEST = 0.1  # and those that are less likely than so much of the best
_LIKELY_BEST = 0.02  # from here, texts without any of the words are shown: fitted notes all are
_LEAST_LIKELY = 0.0005  # and the others after it

READ_TEXTS, READ_CHARS = 16, 3_000
"""What a deeper model reads while a caller waits: so many texts at most, and no further one after
so many characters. That takes 60 to 100 ms of CPU."""
OPENING_CHARS = 350
"""Of a definition or a document that it then reads: as good as all, in a third of the time."""


def choose_read(texts: Sequence[str], share: int = 1) -> Sequence[str]:
    """The first of these texts, as many as may be read at once; of that a share."""
    lengths = list(accumulate(map(len, texts), initial=0))
    return texts[: min(bisect_left(lengths, READ_CHARS // share), READ_TEXTS // share)]


def weigh_evidence(candidates: Sequence[Evidence]) -> list[float]:
    """How likely each candidate is an answer, 0 to 1; 0 for what is none.

    Texts that the deep model has not read yet are weighed by the static one, and what neither has
    read by words; each stage has its own best, and its likelihoods mean the same.
    """
    scores = [0.0] * len(candidates)
    stages: dict[str, list[int]] = {}
    for at, each in enumerate(candidates):
        if each.words > 0 or each.nearness >= NEAR_ENOUGH:
            stages.setdefault(each.stage, []).append(at)
    for places in stages.values():
        ranked = sorted(((sum(split_evidence(candidates[at])), at) for at in places), reverse=True)
        best, first = ranked[0]
        level = _measure_level(candidates[first])
        shown = _squash(level) >= _LIKELY_BEST
        for score, at in ranked:
            likely = _squash(level + score - best)
            if candidates[at].words or (shown and likely >= _LEAST_LIKELY):
                scores[at] = likely
    return scores


def find_least_shown(best: float) -> float:
    """How likely a result must be for a list of several sources, of which the best is so likely."""
    return max(LIKELY_ENOUGH, _BESIDE_BEST * best)


def weigh_best(candidate: Evidence) -> float:
    """How likely the best candidate of a source is an answer."""
    return _squash(_measure_level(candidate))


def _measure_level(top: Evidence) -> float:
    near, held = top.nearness, top.covered
    evidence = (1.0, near, held, near * held, top.words * held**2)
    return math.fsum(map(mul, _WEIGHTS[top.stage].top, evidence))


def _squash(level: float) -> float:
    return 1.0 / (1.0 + math.exp(-level))


def split_evidence(each: Evidence) -> tuple[float, float, float]:
    """What words, the deepest model and the static one beside it add to the order in a source;
    between sources it means nothing."""
    even = _WEIGHTS[each.stage].even
    words = each.covered**2 / (each.covered**2 + even) if even else 1.0
    if each.is_message and each.covered:
        words = max(words, _SAID)
    near = 1.0 - words
    beside = 0.0 if each.deep is None else _BESIDE * (each.static or 0.0)
    return WORDS * words * each.words, near * each.nearness, near * beside
