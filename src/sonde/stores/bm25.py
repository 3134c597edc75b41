"""BM25 as every store weighs words, and the order in which the words of a query are looked up.

Rare words say most about a chunk or piece and cost least to look up, so queries begin with them.
What a common word can add to a score is bounded: often its matches need not be ranked at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

K1, B = 1.2, 0.75
"""The parameters of FTS5's bm25(), which other backends reproduce."""
MIN_IDF = 1e-6
"""The weight of a word in more than half of all rows, as in FTS5."""
MAX_COUNTED_TERMS, MAX_RANKED_TERMS = 512, 64
"""How many different words of one query are looked up, and how many of these rank."""


def weigh_term(holders: int, total: int) -> float:
    """The inverse document frequency of a term that `holders` of `total` rows hold."""
    idf = math.log((max(total - holders, 0) + 0.5) / (holders + 0.5))
    return idf if idf > 0 else MIN_IDF


def bound_term(holders: int, total: int) -> float:
    """An upper bound of what such a term adds to any score, however often a row holds it."""
    return weigh_term(holders, total) * (K1 + 1.0)


def order_terms(counts: Mapping[str, int]) -> list[str]:
    """The terms that rank, rarest first; terms that nothing holds are left out."""
    held = (term for term in counts if counts[term] > 0)
    return sorted(held, key=lambda term: counts[term])[:MAX_RANKED_TERMS]


def take_within(order: Sequence[str], counts: Mapping[str, int], postings: float) -> list[str]:
    """The first of these terms whose matches together stay within `postings`."""
    touched = accumulate(counts.get(term, 0) for term in order)
    return [term for term, sum_ in zip(order, touched, strict=True) if sum_ <= postings]


def choose_terms(counts: Mapping[str, int], postings: float) -> list[str]:
    """The rarest known terms whose matches stay within `postings`, at least one."""
    order = order_terms(counts)
    return take_within(order, counts, postings) or order[:1]


def split_rarest(
    counts: Mapping[str, int], total: int, least: int, times: float
) -> tuple[list[str], list[str]]:
    """The fewest of the rarest terms that together find `least` rows and can score more than
    all others, which find `times` as many; no terms where there is no such split."""
    terms = sorted(counts, key=lambda term: counts[term])
    for size in range(1, len(terms)):
        rare, common = terms[:size], terms[size:]
        found = sum(counts[term] for term in rare)
        if found * times > sum(counts[term] for term in common):
            break
        most, others = (sum(bound_term(counts[t], total) for t in ts) for ts in (rare, common))
        if found >= least and most > others:
            return rare, common
    return [], terms


def spell_match(terms: Iterable[str], operator: str = "OR") -> str:
    """An FTS5 query for these terms."""
    return f" {operator} ".join(f'"{term}"' for term in terms)
