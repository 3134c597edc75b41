"""What follows a ranking that weighs only its best files: the rest, as it was retrieved."""

from __future__ import annotations

from itertools import zip_longest

from sonde.ranking.words import Question
from sonde.searching.found import Found, Search, merge_neighbours
from sonde.types import Chunk


def go_further(search: Search, question: Question, found: list[Found]) -> list[Found]:
    """The ranking, filled up to its limit with what words and meaning find beyond it."""
    if not found or len(found) >= search.limit:
        return found
    store, probe, pool = search.store, search.probe, search.pool
    lexical = store.lexical(question.terms, pool, search.where)
    dense = store.dense(probe.model, probe.vector, pool, search.where) if probe else []
    ranked = (item.id for pair in zip_longest(lexical, dense) for item in pair if item)
    covered: dict[str, list[Chunk]] = {}
    for one in found:
        covered.setdefault(one.chunk.path, []).append(one.chunk)
    rest = [
        Found(chunk, 0.0, found[-1].score_type)
        for chunk in store.chunks(list(dict.fromkeys(ranked)))
        if not any(_overlap(chunk, other) for other in covered.get(chunk.path, ()))
    ]
    more = merge_neighbours(rest)[: search.limit - len(found)]
    # each a little less than the one before, and all less than what was weighed
    step = min(one.score for one in found) / (len(more) + 1)
    return found + [
        Found(one.chunk, step * (len(more) - place), one.score_type)
        for place, one in enumerate(more)
    ]


def _overlap(one: Chunk, other: Chunk) -> bool:
    return (
        one.span.start_byte < other.span.end_byte and other.span.start_byte < one.span.end_byte
    ) or one.span == other.span
