"""Retrieval in PostgreSQL: pieces by words (BM25 out of `ts_rank`) and by vectors.

For one term at n positions of equal weight `ts_rank` is the sum of 1/1 + 1/4 … 1/n², divided by
the infinite sum. The rest of the series is close to 1/(n + 1/2), so n can be computed from it.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

from sonde.stores.chunks.base import Vectors
from sonde.stores.chunks.lexicon import K1, B, bound_term
from sonde.stores.knowledge.base import Conditions, Source
from sonde.stores.knowledge.postgres.packed import NO_VECTORS, MemoryVectors, pack_rows
from sonde.stores.knowledge.rows import WEIGHTS, fold_tags, pack_text, spell_conditions
from sonde.stores.knowledge.words import LAST, MAX_FORMS, Match, rank_narrowed
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
    return _read_ids(cursor.execute(query, [owner, *values]))


def _read_ids(rows: Iterable[tuple[int]]) -> Ids:
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


class OwnerVectors:
    """The vectors of one source of one owner, of all models."""

    def __init__(self, owner: str, source: Source) -> None:
        self._owner = owner
        self._source = source
        self._lock = threading.Lock()
        self._known: dict[str, tuple[int, MemoryVectors]] = {}
        """By model: generation and vectors."""
        self._counted: dict[str, tuple[int, tuple[int, int]]] = {}

    def nearest(
        self, cursor: Any, model: str, vector: Vectors, limit: int, where: Conditions
    ) -> list[Scored]:
        """The pieces with the nearest vectors, nearest first."""
        find = partial(self._refresh(cursor, model)[0].nearest, vector)
        select = partial(select_pieces, cursor, self._owner, self._source, where)
        return rank_narrowed(find, select, limit, where)

    def compare(
        self, cursor: Any, model: str, vector: Vectors, numbers: Sequence[int]
    ) -> Mapping[int, float]:
        """The similarity of these pieces; those without a vector are left out."""
        return self._refresh(cursor, model)[0].compare(vector, np.array(numbers, np.int64))

    def find_damaged(self, cursor: Any, model: str) -> list[int]:
        """Pieces with damaged vectors; only new vectors are verified."""
        return self._refresh(cursor, model)[1]

    def drop(self, cursor: Any, model: str, numbers: Sequence[int]) -> None:
        """Delete the vectors of these pieces, to be made again."""
        query = (
            f"DELETE FROM {self._source}_vectors"
            " WHERE owner = %s AND model = %s AND number = ANY(%s)"
        )
        cursor.execute(query, [self._owner, model, list(numbers)])

    def count(self, cursor: Any, model: str) -> tuple[int, int]:
        """The number of pieces with a vector of this model, and of all."""
        generation = self._read_counters(cursor)[0]
        known = self._counted.get(model)
        if known is None or known[0] != generation:
            query = (
                f"SELECT (SELECT count(*) FROM {self._source}_vectors WHERE owner = %s"
                f" AND model = %s), (SELECT count(*) FROM {self._source}_pieces WHERE owner = %s)"
            )
            have, total = cursor.execute(query, [self._owner, model, self._owner]).fetchone()
            known = generation, (int(have), int(total))
            self._counted[model] = known
        return known[1]

    def forget(self, cursor: Any, kept: Collection[str]) -> bool:
        """Delete the vectors of all other models. Returns whether there were any."""
        query = f"DELETE FROM {self._source}_vectors WHERE owner = %s AND NOT model = ANY(%s)"
        return bool(cursor.execute(query, [self._owner, list(kept)]).rowcount)

    def list_bare(self, cursor: Any, model: str, limit: int, before: int | None) -> list[int]:
        """The newest pieces without a vector of this model, with keys below `before`."""
        query = (
            f"SELECT p.number FROM {self._source}_pieces AS p WHERE p.owner = %s AND p.number < %s"
            f" AND NOT EXISTS (SELECT 1 FROM {self._source}_vectors AS v WHERE v.number = p.number"
            " AND v.model = %s) ORDER BY p.number DESC LIMIT %s"
        )
        below = 1 << 62 if before is None else before
        return [row[0] for row in cursor.execute(query, [self._owner, below, model, limit])]

    def write(
        self, cursor: Any, model: str, stamp: int, numbers: Sequence[int], rows: Vectors
    ) -> None:
        """Store vectors; skips pieces that are gone."""
        packed = pack_rows(rows)
        query = (
            f"INSERT INTO {self._source}_vectors (number, owner, model, stamp, vector, sum)"
            " SELECT p.number, p.owner, %s, %s, given.vector, given.sum"
            " FROM unnest(%s::bigint[], %s::bytea[], %s::bigint[]) AS given (number, vector, sum)"
            f" JOIN {self._source}_pieces AS p ON p.number = given.number AND p.owner = %s"
            " ON CONFLICT (number, model) DO UPDATE SET stamp = excluded.stamp,"
            " vector = excluded.vector, sum = excluded.sum"
        )
        values = [model, stamp, list(numbers), packed, [crc32(row) for row in packed], self._owner]
        cursor.execute(query, values)

    def _read_counters(self, cursor: Any) -> tuple[int, int]:
        query = "SELECT generation, removed FROM counters WHERE owner = %s AND source = %s"
        row = cursor.execute(query, [self._owner, self._source]).fetchone()
        return row or (0, 0)

    def _refresh(self, cursor: Any, model: str) -> tuple[MemoryVectors, list[int]]:
        """The verified vectors as of this transaction, and the pieces with damaged vectors.

        Reads only changes since the last call. Damaged vectors are reported until they are dropped.
        """
        with self._lock:
            generation, removed = self._read_counters(cursor)
            since, rows = self._known.get(model, (0, NO_VECTORS))
            # a generation that went back belongs to another database
            if generation < since:
                since, rows = 0, NO_VECTORS
            if generation == since:
                return rows, []
            query = (
                f"SELECT number, vector, sum FROM {self._source}_vectors"
                " WHERE owner = %s AND stamp > %s AND model = %s ORDER BY number"
            )
            changed = cursor.execute(query, [self._owner, since, model], binary=True).fetchall()
            if removed > since and len(rows):
                query = f"SELECT number FROM {self._source}_vectors WHERE owner = %s AND model = %s"
                live = cursor.execute(query, [self._owner, model], binary=True)
                rows = rows.keep(_read_ids(live))
            damaged = [at for at, data, sum_ in changed if sum_ != crc32(data)]
            bad = frozenset(damaged)
            rows = rows.add([(at, data) for at, data, _ in changed if at not in bad])
            if not damaged:
                self._known[model] = (generation, rows)
            return rows, damaged
