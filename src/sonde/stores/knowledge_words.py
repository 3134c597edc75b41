"""How the words of a question are looked up, whichever backend counts and scores them.

Every piece that holds one of the rarer words is scored by all words. Pieces that hold only common
words are looked at when they could still win, or when too few were found: first those that hold
many of the words, at last those that hold the rarest of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sonde.stores import lexicon
from sonde.types import Scored

MOST_FORMS = 24
"""How many words one beginning, or one part, may stand for."""
LAST = "\U0010ffff"
_ENOUGH = 50
"""So many found by the rare words of a question spare the work for its common ones."""
_SURE = 10
"""The first so many answers are right even if common words alone make better ones."""
_LONGER = 4
"""How much longer a ranking is made so that enough of it fulfils the conditions."""
_LEAST_PART = 4


@dataclass(frozen=True, slots=True)
class Match:
    """Which pieces are scored, and by what."""

    terms: Sequence[str]
    """One of these must be there."""
    every: bool = False
    """Or all of them."""
    others: Sequence[str] = ()
    """These count besides where they are there."""


class WordIndex(Protocol):
    """The words of one source of one user, under the conditions of one question."""

    postings: int
    """How many matches a question may touch before its commonest words stand back."""

    def count_terms(self, terms: Sequence[str]) -> dict[str, int]:
        """How many pieces hold each of these terms; unknown ones are left out."""

    def list_forms(self, start: str) -> dict[str, int]:
        """The commonest terms that begin so, and how many pieces hold each."""

    def list_holders(self, part: str) -> dict[str, int]:
        """The commonest terms that hold this inside, and how many pieces hold each."""

    def count_all(self) -> int:
        """About how many pieces there are."""

    def score(self, match: Match, limit: int, *, inside: bool) -> list[Scored]:
        """The best pieces by BM25, best first; `inside`: of those that fulfil the conditions."""

    def allow(self, numbers: Sequence[int]) -> Collection[int]:
        """Which of these pieces fulfil the conditions."""


def rank_words(
    index: WordIndex, terms: Iterable[str], limit: int, *, narrowed: bool
) -> list[Scored]:
    """The best pieces for these terms; `narrowed` when there are conditions to fulfil."""
    counts = expand_terms(index, terms)
    if not counts or limit < 1:
        return []
    if not narrowed:
        return _rank(index, counts, limit, min(limit, _ENOUGH), inside=False)

    def rank_longer(depth: int) -> list[Scored]:
        return _rank(index, counts, depth, depth, inside=False)

    complete = sum(counts.values()) <= index.postings
    found = narrow(rank_longer, index.allow, limit, complete=complete)
    if found is None:
        found = _rank(index, counts, limit, limit, inside=True)
        if len(found) < limit and not complete:
            found = index.score(Match(_order(counts)), limit, inside=True)
    return found


def narrow(
    rank: Callable[[int], list[Scored]],
    allow: Callable[[Sequence[int]], Collection[int]],
    limit: int,
    *,
    complete: bool = True,
) -> list[Scored] | None:
    """The best that are allowed, out of a longer ranking; None when that was not long enough.

    Cheaper than to look at the conditions of everything, and the same: what is left of a ranking
    keeps its order. `complete` says that a ranking shorter than asked for holds all there is.
    """
    depth = _LONGER * limit
    found = rank(depth)
    allowed = allow([one.id for one in found])
    kept = [one for one in found if one.id in allowed][:limit]
    return kept if len(kept) == limit or (complete and len(found) < depth) else None


def expand_terms(index: WordIndex, terms: Iterable[str]) -> dict[str, int]:
    """Every term to look for and how many pieces hold it; unknown words stand for longer ones."""
    asked = list(dict.fromkeys(terms))[: lexicon.MOST_COUNTED]
    known = index.count_terms([term for term in asked if not term.endswith("*")])
    counts: dict[str, int] = {}
    for term in asked:
        if term.endswith("*"):
            counts |= index.list_forms(term[:-1])
        elif term in known:
            counts[term] = known[term]
        elif len(term) > 1:
            counts |= index.list_forms(term) or _list_holders(index, term)
    return counts


def _list_holders(index: WordIndex, term: str) -> dict[str, int]:
    """Words that hold this one inside (`synthese` in `photosyntheses`)."""
    searchable = len(term) >= _LEAST_PART and term.isalnum()
    return index.list_holders(term) if searchable else {}


def _rank(
    index: WordIndex, counts: Mapping[str, int], limit: int, enough: int, *, inside: bool
) -> list[Scored]:
    order = _order(counts)
    rare = _choose_rare(order, counts, index.postings)
    common = order[len(rare) :]
    found = index.score(Match(rare, others=common), limit, inside=inside) if rare else []
    if not common:
        return found
    if len(found) >= enough:
        total = index.count_all()
        reach = sum(lexicon.weigh_term(counts[term], total) for term in common)
        if found[min(_SURE, len(found)) - 1].score >= reach * (lexicon.K1 + 1.0):
            return found
    best = {one.id: one for one in found}
    together = len(common)
    while True:
        lead = common[:together]
        for one in index.score(Match(lead, every=True), limit, inside=inside):
            best.setdefault(one.id, one)
        if together == 1 or len(best) >= enough:
            break
        together //= 2
    return sorted(best.values(), key=lambda one: (-one.score, one.id))[:limit]


def _order(counts: Mapping[str, int]) -> list[str]:
    """The rarest terms first."""
    held = (term for term in counts if counts[term] > 0)
    return sorted(held, key=lambda term: (counts[term], term))[: lexicon.MOST_USED]


def _choose_rare(order: Sequence[str], counts: Mapping[str, int], postings: int) -> list[str]:
    touched = 0
    for at, term in enumerate(order):
        touched += counts[term]
        if touched > postings:
            return list(order[:at])
    return list(order)
