"""Ranking of pieces by words, on any backend that counts and scores terms.

Pieces with one of the rarer terms are scored by all terms. Pieces with common terms alone are
scored if they could rank high, or if too few were found: first those with many of the terms, last
those with the rarest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sonde.stores.chunks.lexicon import MAX_COUNTED_TERMS, bound_term, order_terms, take_within
from sonde.stores.knowledge.base import ANYTHING, Conditions
from sonde.stores.vectors import Ids
from sonde.types import Scored

MAX_FORMS = 24  # terms that a prefix or an infix may stand for
LAST = "\U0010ffff"
_ENOUGH = 50  # pieces found by rare terms, above which common ones need not be looked up
_EXACT_RESULTS = 10
"""First results that are exact even if pieces with common terms alone score higher."""
_DEPTH_TIMES = 4  # depth of a ranking to `limit`, so that enough of it fulfils the conditions
_MIN_INFIX = 4  # characters from which a word is looked up inside longer ones


@dataclass(frozen=True, slots=True)
class Match:
    """The pieces to score, and the terms to score them by."""

    terms: Sequence[str]
    """Terms of which a piece must hold one."""
    every: bool = False
    """Whether it must hold all of them."""
    others: Sequence[str] = ()
    """Terms that only add to the score."""


class WordIndex(Protocol):
    """The words of one source of one user, under the conditions of one query."""

    postings: int
    """Matches of a query, beyond which its commonest terms only add to scores."""

    def count_terms(self, terms: Sequence[str]) -> dict[str, int]:
        """The number of pieces with each of these terms; unknown terms are left out."""

    def list_forms(self, start: str) -> dict[str, int]:
        """The commonest terms with this prefix, and their numbers of pieces."""

    def list_holders(self, part: str) -> dict[str, int]:
        """The commonest terms that contain `part`, and their numbers of pieces."""

    def count_all(self) -> int:
        """The approximate number of pieces."""

    def score(self, match: Match, limit: int, *, inside: bool) -> list[Scored]:
        """The best pieces by BM25; with `inside`, among those that fulfil the conditions."""

    def allow(self, numbers: Sequence[int]) -> Ids:
        """The pieces among these that fulfil the conditions."""


def rank_words(
    index: WordIndex, terms: Iterable[str], limit: int, *, narrowed: bool
) -> list[Scored]:
    """The best pieces for these terms; `narrowed` if there are conditions."""
    counts = expand_terms(index, terms)
    if not counts or limit < 1:
        return []
    if not narrowed:
        return _rank(index, counts, limit, min(limit, _ENOUGH))
    complete = sum(counts.values()) <= index.postings
    found = narrow(
        lambda depth: _rank(index, counts, depth, depth), index.allow, limit, complete=complete
    )
    if found is None:
        found = _rank(index, counts, limit, limit, inside=True)
        if len(found) < limit and not complete:
            found = index.score(Match(_order(counts)), limit, inside=True)
    return found


def weigh_words(index: WordIndex, terms: Iterable[str]) -> dict[str, float]:
    """The most that each term can add to a score; unknown terms have the highest value."""
    asked = [term for term in dict.fromkeys(terms) if not term.endswith("*")][:MAX_COUNTED_TERMS]
    known, total = index.count_terms(asked), index.count_all()
    return {term: bound_term(known.get(term, 0), total) for term in asked}


def narrow(
    rank: Callable[[int], list[Scored]],
    allow: Callable[[Sequence[int]], Ids],
    limit: int,
    *,
    complete: bool = True,
) -> list[Scored] | None:
    """Filter a deeper ranking; None if too few of it are allowed.

    The result is the same as with conditions on all pieces, at less cost. With `complete`, a
    ranking shorter than its depth has all matches.
    """
    depth = _DEPTH_TIMES * limit
    found = rank(depth)
    allowed = set(allow([one.id for one in found]).tolist())
    kept = [one for one in found if one.id in allowed][:limit]
    return kept if len(kept) == limit or (complete and len(found) < depth) else None


def rank_narrowed(
    find: Callable[..., list[Scored]], select: Callable[..., Ids], limit: int, where: Conditions
) -> list[Scored]:
    """The best of `find(limit, allowed)` under conditions, which `select(ids)` applies."""
    if where == ANYTHING:
        return find(limit)
    found = narrow(find, select, limit)
    return find(limit, select()) if found is None else found


def expand_terms(index: WordIndex, terms: Iterable[str]) -> dict[str, int]:
    """The terms to look up and their numbers of pieces; unknown words stand for longer ones."""
    asked = list(dict.fromkeys(terms))[:MAX_COUNTED_TERMS]
    known = index.count_terms([term for term in asked if not term.endswith("*")])
    counts: dict[str, int] = {}
    for term in asked:
        if term.endswith("*"):
            counts |= index.list_forms(term[:-1])
        elif term in known:
            counts[term] = known[term]
        elif len(term) > 1:
            forms = index.list_forms(term)
            if not forms and len(term) >= _MIN_INFIX and term.isalnum():
                forms = index.list_holders(term)  # `synthese` in `photosyntheses`
            counts |= forms
    return counts


def _rank(
    index: WordIndex, counts: Mapping[str, int], limit: int, enough: int, *, inside: bool = False
) -> list[Scored]:
    order = _order(counts)
    rare = take_within(order, counts, index.postings)
    common = order[len(rare) :]
    found = index.score(Match(rare, others=common), limit, inside=inside) if rare else []
    if not common:
        return found
    if len(found) >= enough:
        total = index.count_all()
        reach = sum(bound_term(counts[term], total) for term in common)
        if found[min(_EXACT_RESULTS, len(found)) - 1].score >= reach:
            return found
    best = {one.id: one for one in found}
    together = len(common)
    while together and (together == len(common) or len(best) < enough):
        for one in index.score(Match(common[:together], every=True), limit, inside=inside):
            best.setdefault(one.id, one)
        together //= 2
    return sorted(best.values(), key=lambda one: (-one.score, one.id))[:limit]


def _order(counts: Mapping[str, int]) -> list[str]:
    """The rarest terms first, then by name, so that every backend agrees."""
    return order_terms(dict(sorted(counts.items())))
