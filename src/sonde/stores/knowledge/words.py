"""How the words of a question are looked up, whichever backend counts and scores them.

Every piece that holds one of the rarer words is scored by all words. Pieces that hold only common
words are looked at when they could still win, or when too few were found: first those that hold
many of the words, at last those that hold the rarest of them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import apsw

from sonde.stores.chunks import lexicon
from sonde.stores.chunks.tables import read_number
from sonde.stores.database import Value, bind_text
from sonde.stores.knowledge.base import Conditions, Source
from sonde.stores.knowledge.rows import WEIGHTS, fold_tags
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


POSTINGS = 60_000
MOST_SCORED = 200_000
"""Of what more pieces hold, the newest are scored: so many, shared among the words."""
MOST_COUNTED = 1_500_000
"""FTS5 counts anew who holds a word; the commonest stand back when that is too much together."""
_LONGER_KNOWLEDGE_LEXICAL = 2
_BEST = "ORDER BY score DESC, w.rowid LIMIT ?"


def count_words(connection: apsw.Connection, source: Source, change: Counter[str]) -> None:
    """Write down how many more (or fewer) pieces hold each term."""
    rows = [(term, count) for term, count in change.items() if count]
    connection.executemany(
        f"INSERT INTO {source}_lexicon VALUES (?, ?)"
        " ON CONFLICT (term) DO UPDATE SET holders = holders + excluded.holders",
        rows,
    )
    fewer = [(term,) for term, count in rows if count < 0]
    connection.executemany(f"DELETE FROM {source}_lexicon WHERE term = ? AND holders <= 0", fewer)


def sqlite_condition(source: Source, where: Conditions) -> tuple[str, list[Value]]:
    """What a row p of the pieces and a row e of the entries must fulfil; empty for nothing."""
    parts: list[str] = []
    values: list[Value] = []

    def need(sql: str, *given: Value) -> None:
        parts.append(sql)
        values.extend(given)

    if where.media_types:
        kinds = [kind.casefold() for kind in where.media_types]
        need("e.media_type IN (SELECT value FROM json_each(?))", json.dumps(kinds))
    if where.since is not None:
        need("e.created_at >= ?", where.since)
    if where.until is not None:
        need("e.created_at <= ?", where.until)
    for tag in fold_tags(where.tags):
        need(f"e.number IN (SELECT item FROM {source}_tags WHERE tag = ?)", tag)
    if where.fields:
        need("p.field IN (SELECT value FROM json_each(?))", json.dumps(list(where.fields)))
    if where.sender:
        need("p.sender = ? COLLATE NOCASE", bind_text(where.sender))
    if where.character:
        need("e.character = ?", bind_text(where.character))
    return " AND ".join(parts), values


def select_allowed_sqlite(
    connection: apsw.Connection, source: Source, where: Conditions, numbers: Sequence[int]
) -> set[int]:
    """Which of these pieces fulfil the conditions."""
    condition, values = sqlite_condition(source, where)
    query = (
        f"SELECT p.number FROM json_each(?) CROSS JOIN {source}_pieces AS p ON p.number = value"
        f" CROSS JOIN {source} AS e ON e.number = p.item WHERE {condition}"
    )
    rows = connection.execute(query, (json.dumps(list(numbers)), *values))
    return {row[0] for row in rows}


class SqliteWords:
    """The words of one source under some conditions, read by one connection."""

    def __init__(self, connection: apsw.Connection, source: Source, where: Conditions) -> None:
        self.postings = POSTINGS
        self._connection = connection
        self._source = source
        self._where = where
        self._counts: dict[str, int] = {}

    def count_terms(self, terms: Sequence[str]) -> dict[str, int]:
        """How many pieces hold each of these terms; unknown ones are left out."""
        query = (
            f"SELECT term, holders FROM json_each(?) CROSS JOIN {self._source}_lexicon"
            " ON term = value"
        )
        return self._keep(self._connection.execute(query, (json.dumps(list(terms)),)))

    def list_forms(self, start: str) -> dict[str, int]:
        """The commonest terms that begin so, and how many pieces hold each."""
        return self._list_terms("term >= ? AND term < ?", start, start + LAST)

    def list_holders(self, part: str) -> dict[str, int]:
        """The commonest terms that hold this inside, and how many pieces hold each."""
        return self._list_terms("instr(term, ?)", part)

    def count_all(self) -> int:
        """About how many pieces there are."""
        return read_number(self._connection, f"SELECT max(number) FROM {self._source}_pieces")

    def allow(self, numbers: Sequence[int]) -> Collection[int]:
        """Which of these pieces fulfil the conditions."""
        return select_allowed_sqlite(self._connection, self._source, self._where, numbers)

    def score(self, match: Match, limit: int, *, inside: bool) -> list[Scored]:
        """The best pieces by BM25, best first; `inside`: of those that fulfil the conditions."""
        lead = _join(match.terms, " AND " if match.every else " OR ")
        others = self._choose_counted(match.others)
        if others:
            return self._score_both(lead, [*match.terms, *others], limit, inside=inside)
        oldest = self._find_oldest(lead, MOST_SCORED // len(match.terms)) if match.every else 0
        rows = self._select(lead, f"w.rowid > ? {_BEST}", oldest, limit, inside=inside)
        return [Scored(number, value) for number, value in rows]

    def _score_both(
        self, lead: str, terms: Sequence[str], limit: int, *, inside: bool
    ) -> list[Scored]:
        """FTS5 scores all it looks for: words that lead and rank count twice, once too much."""
        every = f"({lead}) AND ({_join(terms, ' OR ')})"
        twice = self._select(every, f"1 {_BEST}", _LONGER_KNOWLEDGE_LEXICAL * limit, inside=inside)
        numbers = json.dumps([number for number, _ in twice])
        # the sign keeps SQLite from looking each of them up by itself
        among = "+w.rowid IN (SELECT value FROM json_each(?))"
        once = dict(self._select(lead, among, numbers))
        best = sorted((once[number] - value, number) for number, value in twice)
        return [Scored(number, -value) for value, number in best[:limit]]

    def _choose_counted(self, terms: Sequence[str]) -> list[str]:
        sums = accumulate(self._counts.get(term, 0) for term in terms)
        return [term for term, counted in zip(terms, sums, strict=True) if counted <= MOST_COUNTED]

    def _find_oldest(self, match: str, most: int) -> int:
        query = (
            f"SELECT rowid FROM {self._source}_words WHERE {self._source}_words MATCH ?"
            " ORDER BY rowid DESC LIMIT 1 OFFSET ?"
        )
        return read_number(self._connection, query, (match, most))

    def _select(
        self, match: str, behind: str, *given: Value, inside: bool = False
    ) -> list[tuple[Any, ...]]:
        source = self._source
        score = f"-bm25({source}_words, {WEIGHTS[0]}, {WEIGHTS[1]}, {WEIGHTS[2]})"
        condition, values = sqlite_condition(source, self._where) if inside else ("", [])
        join = ""
        if condition:
            # the order of the joins is given: FTS5 leads, rows are looked up by their keys
            join = (
                f" CROSS JOIN {source}_pieces AS p ON p.number = w.rowid"
                f" CROSS JOIN {source} AS e ON e.number = p.item"
            )
            condition = f" AND {condition}"
        query = (
            f"SELECT w.rowid, {score} AS score FROM {source}_words AS w{join}"
            f" WHERE {source}_words MATCH ?{condition} AND {behind}"
        )
        return self._connection.execute(query, (match, *values, *given)).fetchall()

    def _list_terms(self, condition: str, *given: Value) -> dict[str, int]:
        query = (
            f"SELECT term, holders FROM {self._source}_lexicon WHERE {condition}"
            " ORDER BY holders DESC, term LIMIT ?"
        )
        return self._keep(self._connection.execute(query, (*given, MOST_FORMS)))

    def _keep(self, rows: Iterable[tuple[Any, ...]]) -> dict[str, int]:
        found = dict(rows)
        self._counts |= found
        return found


def _join(terms: Sequence[str], operator: str) -> str:
    return operator.join(f'"{term}"' for term in terms)
