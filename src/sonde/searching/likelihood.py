"""How likely the hits of one project answer a question, on the scale that every source has.

The order within a project is learned from what tells its files apart; it says nothing about another
project. Between projects and sources, the best hits are weighed by the evidence that knowledge is
weighed by: how much of the question they contain, and how near they are by the models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from sonde.embedding.base import Embedder
from sonde.embedding.nearness import measure_nearness
from sonde.ranking.evidence import Evidence, count_covered, weigh_best
from sonde.ranking.question import Question
from sonde.searching.search import QueryVectors
from sonde.stores.chunks.base import ChunkStore
from sonde.stores.chunks.lexicon import weigh_term
from sonde.text.words import index_terms
from sonde.types import Hit

_CONSTANT, _SLOPE, _LEAST = -4.7, 1.1, 1e-6
"""From the score within a project to a likelihood: fitted on 70 questions on ten projects, each
asked in all of them; the least keeps logarithms finite."""
_WEIGHED = 3  # hits, the best: the first may name what the second explains


def rate_hits(
    store: ChunkStore | None, question: Question, vectors: QueryVectors, hits: Sequence[Hit]
) -> list[Hit]:
    """The hits of one store, best first, with scores that say how likely each is an answer.

    Without a store, before the first index, they are weighed by their words.
    """
    if not hits:
        return []
    weights = _weigh_terms(store, question)
    best = max(weigh_best(_gather(store, weights, vectors, hit)) for hit in hits[:_WEIGHED])
    top = min(max(hits[0].score, _LEAST), 1 - _LEAST)
    # a file that defines the name, or is called so, ranks far above what is only near
    level = _CONSTANT + _SLOPE * math.log(top / (1 - top))
    best = max(best, 1.0 / (1.0 + math.exp(-level)))
    return [replace(hit, score=best * min(hit.score / top, 1.0)) for hit in hits]


def _weigh_terms(store: ChunkStore | None, question: Question) -> dict[str, float]:
    if store is None:
        return dict.fromkeys(question.terms, 1.0)
    counts, total = store.term_counts(question.terms), store.coverage("")[1]
    return {term: weigh_term(counts.get(term, 0), total) for term in question.terms}


def _gather(
    store: ChunkStore | None, weights: dict[str, float], vectors: QueryVectors, hit: Hit
) -> Evidence:
    held = frozenset(index_terms(f"{hit.path} {hit.symbol} {hit.text}"))
    total = sum(weights.values())
    covered = sum(weight for term, weight in weights.items() if term in held)
    share = covered / total if total else 0.0
    known = count_covered(share, len(weights))
    if store is None:
        return Evidence(1.0, known)
    lines = store.chunk_lines([hit.path]).get(hit.path, [])
    shown = range(hit.start_line, hit.end_line + 1)
    ids = [key for key, first, last in lines if first < shown.stop and last >= shown.start]

    def measure(model: Embedder | None) -> float | None:
        if model is None:
            return None
        have, total = store.coverage(model.name)
        found = store.vectors(model.name, ids) if have == total or model.is_loaded else {}
        vector = vectors.read(model) if found else None
        if vector is None:
            return None
        return max(measure_nearness(model, float(row @ vector)) for row in found.values())

    static, deep = (measure(model) for model in vectors.models)
    return Evidence(1.0, known, static, deep)
