"""What speaks for a text as the answer to a question, and how likely that makes it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import mul

from sonde.embedding.base import DEEP_NAME, Embedder

UNRELATED = (
    "The kettle boils in four minutes.", "Parse the header before reading the body.",
    "Her train to the coast was late again.", "Interest is paid at the end of each quarter.",
    "Cut the branch just above the bud.", "A violin has four strings.",
    "The patient was given a lower dose.", "Glaciers carry stones for miles.",
    "Retry the upload when the connection drops.", "The committee meets on Thursdays.",
    "He scored twice in the second half.", "Add salt only when the beans are soft.",
    "The lease may be ended by either side.", "Sort the list by date, newest first.",
    "My sister collects old postcards.", "The bridge was opened in 1932.",
    "Bees find the way back by the sun.", "Tighten the screw by a quarter turn.",
    "The novel has three narrators.", "Prices rose faster than wages.",
    "Wear gloves when you clean the filter.", "A cache keeps what was computed before.",
    "The museum is closed on Mondays.", "Two dogs slept under the table.",
)  # fmt: skip
"""Plain sentences that have nothing to do with each other: how similar a model finds them tells
what its similarities mean."""
_SPREADS: dict[str, tuple[float, float]] = {
    "sonde-static-1": (0.030, 0.073),
    DEEP_NAME: (0.497, 0.053),
}
"""Mean and spread over `UNRELATED`: of the bundled models, and of those measured since."""


def measure_nearness(model: Embedder, similarity: float) -> float:
    """A similarity in spreads above that of unrelated texts, the same in every model."""
    if model.name not in _SPREADS:
        asked = model.embed(UNRELATED[::2], "query")
        similar = asked @ model.embed(UNRELATED[1::2], "passage").T
        _SPREADS[model.name] = float(similar.mean()), float(similar.std()) or 1.0
    mean, spread = _SPREADS[model.name]
    return (similarity - mean) / spread


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence about one candidate."""

    words: float = 0.0
    """Its score by words, as a share of the best candidate's."""
    covered: float = 0.0
    """The share of the question's words that the best candidates hold: near 1 for a question in
    words of the text, near 0 for one in other words."""
    static: float | None = None
    deep: float | None = None
    """How near it is by each model, in spreads above unrelated texts; None: not embedded."""

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


@dataclass(frozen=True, slots=True)
class _Weights:
    """How one stage weighs evidence; fitted by `training/fit_knowledge.py` and rounded."""

    words: tuple[float, float]
    """Of `words` times `covered`, and times its square: the less of the question's words a source
    knows, the less they say."""
    near: tuple[float, float]
    """Of the nearness by this stage's model, and that times `covered`."""
    static: tuple[float, float]
    """The same of the static model beside the deep one."""
    top: tuple[float, float, float, float, float, float]
    """How likely the best candidate is an answer: a constant, then per spread of nearness, for
    `covered`, their product, `words` times `covered`, and the lead before the second."""


_WEIGHTS: Mapping[str, _Weights] = {
    "words": _Weights((1.0, 3.0), (0.0, 0.0), (0.0, 0.0), (-2.5, 0.0, -2.5, 0.0, 3.6, 0.5)),
    "static": _Weights((-0.5, 4.0), (1.6, -1.0), (0.0, 0.0), (-2.5, 0.1, -2.7, 0.1, 3.4, 0.5)),
    "deep": _Weights((-0.1, 3.2), (3.0, -2.65), (0.25, 0.3), (-4.2, 0.8, 0.2, -0.8, 2.3, 0.9)),
}
_MOST_LEAD = 3.0  # a larger lead says no more
NEAR_ENOUGH = 1.2
"""Spreads above unrelated texts from which a text without any of the words may be an answer: of the
right ones in other words 19 of 20 are so near by the deep model, of unrelated ones one of nine."""
LIKELY_ENOUGH = 0.08
"""How likely the best of them must be, or none is shown; of those below it one in 30 is right."""
_LEAST_LIKELY = 0.005  # of the others without any of the words: of 200 of them one is right


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
    for stage, places in stages.items():
        weights = _WEIGHTS[stage]
        ranked = sorted(((_rank(weights, candidates[at]), at) for at in places), reverse=True)
        (best, at), lead = ranked[0], _MOST_LEAD
        if len(ranked) > 1:
            lead = min(best - ranked[1][0], _MOST_LEAD)
        top = candidates[at]
        known = top.covered
        terms = (1.0, top.nearness, known, top.nearness * known, top.words * known, lead)
        level = sum(map(mul, weights.top, terms))
        shown = 1.0 / (1.0 + math.exp(-level)) >= LIKELY_ENOUGH
        for score, at in ranked:
            likely = 1.0 / (1.0 + math.exp(best - score - level))
            if candidates[at].words or (shown and likely >= _LEAST_LIKELY):
                scores[at] = likely
    return scores


def _rank(weights: _Weights, each: Evidence) -> float:
    """The order within one source; between sources it means nothing."""
    covered, static = each.covered, each.static or 0.0
    by_words = weights.words[0] * covered + weights.words[1] * covered**2
    by_model = weights.near[0] + weights.near[1] * covered
    beside = weights.static[0] + weights.static[1] * covered
    return by_words * each.words + by_model * each.nearness + beside * static
