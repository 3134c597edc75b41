"""How the words of a query are looked up, whichever backend counts and scores them.

Every piece that holds one of the rarer words is scored by all words. Pieces that hold only common
words are scored when they could still win, or when too few were found: first those that hold
many of the words, last those that hold the rarest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sonde.stores.chunks.lexicon import MAX_COUNTED_TERMS, bound_term, order_terms, take_within
from sonde.stores.knowledge.base import ANYTHING, Conditions
from sonde.stores.vectors import Ids
from sonde.types import Scored

MAX_FORMS = 24  # how many words one prefix, or one infix, may stand for
LAST = "\U0010ffff"
_ENOUGH = 50  # with this many pieces found by the rare words, the common ones need not be looked up
_EXACT_RESULTS = 10
"""The first results that stay right even where common words alone make better ones."""
_DEPTH_TIMES = 4  # how much deeper a ranking goes so that enough of it fulfils the conditions
_MIN_INFIX = 4  # characters from which a word is looked for inside longer ones


@dataclass(frozen=True, slots=True)
class Match:
    """Which pieces are scored, and by which terms."""

    terms: Sequence[str]
    """A piece must hold one of these."""
    every: bool = False
    """Or all of them."""
    others: Sequence[str] = ()
    """Terms that count where a piece holds them, too."""


class WordIndex(Protocol):
    """The words of one source of one user, under the conditions of one query."""

    postings: int
    """Matches a query may touch before its commonest words are only used to score."""

    def count_terms(self, terms: Sequence[str]) -> dict[str, int]:
        """How many pieces hold each of these terms; unknown ones are left out."""

    def list_forms(self, start: str) -> dict[str, int]:
        """The commonest terms with this prefix, and how many pieces hold each."""

    def list_holders(self, part: str) -> dict[str, int]:
        """The commonest terms that contain this, and how many pieces hold each."""

    def count_all(self) -> int:
        """About how many pieces there are."""

    def score(self, match: Match, limit: int, *, inside: bool) -> list[Scored]:
        """The best pieces by BM25, best first; `inside`: of those that fulfil the conditions."""

    def allow(self, numbers: Sequence[int]) -> Ids:
        """Which of these pieces fulfil the conditions."""


def rank_words(
    index: WordIndex, terms: Iterable[str], limit: int, *, narrowed: bool
) -> list[Scored]:
    """The best pieces for these terms; `narrowed`: there are conditions to fulfil."""
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
    """What each of these terms adds to a score at most; unknown ones count most."""
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
    """The best that are allowed, out of a deeper ranking; None when that was not deep enough.

    Cheaper than to check the conditions of everything, with the same result: what is left of a
    ranking keeps its order. `complete`: a ranking shorter than its depth holds everything.
    """
    depth = _DEPTH_TIMES * limit
    found = rank(depth)
    allowed = set(allow([one.id for one in found]).tolist())
    kept = [one for one in found if one.id in allowed][:limit]
    return kept if len(kept) == limit or (complete and len(found) < depth) else None


def rank_narrowed(
    find: Callable[..., list[Scored]], select: Callable[..., Ids], limit: int, where: Conditions
) -> list[Scored]:
    """The best of `find(limit, allowed)` under conditions; `select(ids)` gives those allowed."""
    if where == ANYTHING:
        return find(limit)
    found = narrow(find, select, limit)
    return find(limit, select()) if found is None else found


def expand_terms(index: WordIndex, terms: Iterable[str]) -> dict[str, int]:
    """Every term to look up and its holders; an unknown word stands for longer ones."""
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
