"""Retrieval by words in PostgreSQL: BM25 computed from `ts_rank`.

For one term at n positions of equal weight `ts_rank` is the sum of 1/1 + 1/4 … 1/n², divided by
the infinite sum. The rest of the series is close to 1/(n + 1/2), so n can be computed from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sonde.stores.chunks.lexicon import K1, B, bound_term
from sonde.stores.knowledge.base import Conditions, Source
from sonde.stores.knowledge.rows import WEIGHTS, fold_tags, pack_text, spell_conditions
from sonde.stores.knowledge.words import LAST, MAX_FORMS, Match
from sonde.stores.vectors import Ids
from sonde.types import Scored

POSTINGS = 15_000  # matches of a query, beyond which its commonest terms only add to scores
_MAX_POSITIONS = 255  # PostgreSQL keeps no more positions of one term
_MAX_VECTOR_BYTES = 700_000  # of a text-search vector, which PostgreSQL limits to a megabyte
_COUNT = "round(0.6079271018540267 / (1 - ts_rank('{{1,1,1,1}}', w.words, {0})::float8) - 0.5)"
_MAX_SCORED = 20_000  # pieces scored for several common terms


def write_vector(owner: int, parts: Sequence[Sequence[str]]) -> str:
    """The terms of a piece as a text-search vector, each with as many positions as its weight."""
    counts: Counter[str] = Counter()
    for weight, terms in zip(WEIGHTS, parts, strict=True):
        for term in terms:
            counts[term] += int(weight)
    written: list[str] = []
    room = _MAX_VECTOR_BYTES
    for term, count in counts.items():
        places = ",".join(map(str, range(1, min(count, _MAX_POSITIONS) + 1)))
        written.append(f"{quote_term(owner, term)}:{places}")
        room -= len(written[-1].encode()) + 1
        if room < 0:
            break
    return " ".join(written)


def quote_term(owner: int, term: str) -> str:
    """A term of an owner, quoted for a vector or a query."""
    return f"'{owner}/" + term.replace("\\", "\\\\").replace("'", "''") + "'"


_SAME_SENDER = "starts_with(lower(p.sender) || ' ', lower(?) || ' ')"  # by first name, too


def postgres_condition(where: Conditions) -> tuple[str, list[Any]]:
    """The conditions as SQL on a piece p and its entry e, with their values; may be empty."""

    def pack(value: str | list[str]) -> str | list[str]:
        return pack_text(value) if isinstance(value, str) else list(map(pack_text, value))

    parts, values = spell_conditions(where, "{} = ANY(?)", _SAME_SENDER, pack)
    if where.tags:
        parts, values = [*parts, "e.folded_tags @> ?"], [*values, fold_tags(where.tags)]
    return "".join(f" AND {part}" for part in parts).replace("?", "%s"), values


def select_pieces(
    cursor: Any, owner: str, source: Source, where: Conditions, numbers: Sequence[int] | None = None
) -> Ids:
    """The pieces that fulfil the conditions, of the given ones or of all."""
    condition, values = postgres_condition(where)
    if numbers is not None:
        condition, values = f" AND p.number = ANY(%s){condition}", [list(numbers), *values]
    query = (
        f"SELECT p.number FROM {source}_pieces AS p JOIN {source} AS e ON e.number = p.item"
        f" WHERE p.owner = %s{condition}"
    )
    return read_ids(cursor.execute(query, [owner, *values]))


def read_ids(rows: Iterable[tuple[int]]) -> Ids:
    """The ids in the rows of a query."""
    return np.fromiter((number for (number,) in rows), np.int64)


class PostgresWords:
    """A `WordIndex` on one source of one owner."""

    def __init__(
        self, cursor: Any, owner: tuple[int, str], source: Source, where: Conditions, postings: int
    ) -> None:
        self.postings = postings
        self._cursor = cursor
        self._number, self._owner = owner
        self._source = source
        self._where = where
        self._counts: dict[str, int] = {}
        query = "SELECT pieces, length FROM counters WHERE owner = %s AND source = %s"
        row = cursor.execute(query, [self._owner, source]).fetchone()
        self._pieces, self._length = map(int, row or (0, 0))

    def count_terms(self, terms: Sequence[str]) -> dict[str, int]:
        return self._list_terms("term = ANY(%s)", [list(terms)], len(terms))

    def list_forms(self, start: str) -> dict[str, int]:
        return self._list_terms("term >= %s AND term < %s", [start, start + LAST], MAX_FORMS)

    def list_holders(self, part: str) -> dict[str, int]:
        return self._list_terms("term LIKE %s", [f"%{part}%"], MAX_FORMS)

    def count_all(self) -> int:
        return self._pieces

    def allow(self, numbers: Sequence[int]) -> Ids:
        return select_pieces(self._cursor, self._owner, self._source, self._where, numbers)

    def score(self, match: Match, limit: int, *, inside: bool) -> list[Scored]:
        join, condition = "", ""
        given: list[Any] = []
        if inside:
            join = (
                f" JOIN {self._source}_pieces AS p ON p.number = w.number"
                f" JOIN {self._source} AS e ON e.number = p.item"
            )
            condition, given = postgres_condition(self._where)
            condition, given = f" AND p.owner = %s{condition}", [self._owner, *given]
        scored = (*match.terms, *match.others)
        terms = [quote_term(self._number, term) for term in scored]
        weights = [bound_term(self._counts[term], self._pieces) for term in scored]
        counts = ", ".join(f"{_COUNT.format('%s::tsquery')} AS n{at}" for at in range(len(terms)))
        score = " + ".join(f"%s * n{at} / (n{at} + damping)" for at in range(len(terms)))
        lead = (" & " if match.every else " | ").join(terms[: len(match.terms)])
        cut = f" LIMIT {_MAX_SCORED}" if match.every else ""
        query = (
            f"SELECT number, ({score})::float8 AS score FROM (SELECT w.number,"
            f" {K1} * (1 - {B} + {B} * w.length / %s) AS damping, {counts}"
            f" FROM {self._source}_words AS w{join} WHERE w.words @@ %s::tsquery{condition}{cut}"
            " OFFSET 0) AS counted ORDER BY score DESC, number LIMIT %s"
        )
        mean = max(self._length, 1) / max(self._pieces, 1)
        rows = self._cursor.execute(query, [*weights, mean, *terms, lead, *given, limit])
        return [Scored(number, value) for number, value in rows]

    def _list_terms(self, condition: str, given: list[Any], most: int) -> dict[str, int]:
        query = (
            f"SELECT term, holders FROM {self._source}_terms WHERE owner = %s AND {condition}"
            " ORDER BY holders DESC, term LIMIT %s"
        )
        found = dict(self._cursor.execute(query, [self._number, *given, most]))
        self._counts |= found
        return found
