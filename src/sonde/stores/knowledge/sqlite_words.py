"""The words of one source of one user in SQLite."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import apsw
import numpy as np

from sonde.stores.chunks.lexicon import spell_match, take_within
from sonde.stores.database import Value, bind_text, read_number
from sonde.stores.knowledge.base import Conditions, Source
from sonde.stores.knowledge.rows import WEIGHTS, fold_tags, spell_conditions
from sonde.stores.knowledge.words import LAST, MAX_FORMS, Match
from sonde.stores.vectors import Ids
from sonde.types import Scored

POSTINGS = 60_000  # matches of a query, beyond which its commonest terms only add to scores
_MAX_SCORED = 100_000  # newest pieces scored for common terms, divided by their number
_MAX_COUNTED = 1_500_000
"""Holders of common terms that may score: FTS5 counts the holders of a term in every query."""
_SCORED_TWICE = 2  # length of the ranking in which leading terms count twice, to `limit`
_BEST = "ORDER BY score DESC, w.rowid LIMIT ?"


def read_generation(connection: apsw.Connection, source: Source) -> int:
    """A counter of the changes of a source."""
    return read_number(connection, "SELECT value FROM state WHERE key = ?", (source,))


def count_words(connection: apsw.Connection, source: Source, change: Counter[str]) -> None:
    """Add to the number of pieces that hold each term."""
    rows = [(term, count) for term, count in change.items() if count]
    connection.executemany(
        f"INSERT INTO {source}_lexicon VALUES (?, ?)"
        " ON CONFLICT (term) DO UPDATE SET holders = holders + excluded.holders",
        rows,
    )
    fewer = [(term,) for term, count in rows if count < 0]
    connection.executemany(f"DELETE FROM {source}_lexicon WHERE term = ? AND holders <= 0", fewer)


def sqlite_condition(source: Source, where: Conditions) -> tuple[str, list[Value]]:
    """The conditions as SQL on a piece p and its entry e, with their values; may be empty."""

    def pack(value: str | list[str]) -> Value:
        return bind_text(value) if isinstance(value, str) else json.dumps(value)

    any_of = "{} IN (SELECT value FROM json_each(?))"
    same_sender = "instr(lower(p.sender) || ' ', lower(?) || ' ') = 1"  # by first name, too
    parts, values = spell_conditions(where, any_of, same_sender, pack)
    tags = fold_tags(where.tags)
    parts += [f"e.number IN (SELECT item FROM {source}_tags WHERE tag = ?)"] * len(tags)
    return " AND ".join(parts), [*values, *tags]


def select_allowed(
    connection: apsw.Connection,
    source: Source,
    where: Conditions,
    numbers: Sequence[int] | None = None,
) -> Ids:
    """The pieces that fulfil the conditions, of the given ones or of all."""
    condition, values = sqlite_condition(source, where)
    pieces, entries = f"{source}_pieces AS p", f"{source} AS e ON e.number = p.item"
    if numbers is None:
        tables = f"{pieces} JOIN {entries}"
    else:
        tables = f"json_each(?) CROSS JOIN {pieces} ON p.number = value CROSS JOIN {entries}"
        values = [json.dumps(list(numbers)), *values]
    query = f"SELECT json_group_array(p.number) FROM {tables} WHERE {condition}"
    return read_arrays(connection, query, *values)[0]


def read_arrays(connection: apsw.Connection, query: str, *values: Value) -> list[Ids]:
    """The columns of a query that returns a row of JSON arrays: faster than a row per number."""
    (columns,) = connection.execute(query, values).fetchall()
    return [np.array(json.loads(str(column)), np.int64) for column in columns]


class SqliteWords:
    """A `WordIndex` on one source, read by one connection."""

    def __init__(
        self, connection: apsw.Connection, source: Source, where: Conditions, postings: int
    ) -> None:
        self.postings = postings
        self._connection = connection
        self._source = source
        self._where = where
        self._counts: dict[str, int] = {}

    def count_terms(self, terms: Sequence[str]) -> dict[str, int]:
        condition = "term IN (SELECT value FROM json_each(?))"
        return self._list_terms(condition, json.dumps(list(terms)), limit=len(terms))

    def list_forms(self, start: str) -> dict[str, int]:
        return self._list_terms("term >= ? AND term < ?", start, start + LAST)

    def list_holders(self, part: str) -> dict[str, int]:
        return self._list_terms("instr(term, ?)", part)

    def count_all(self) -> int:
        return read_number(self._connection, f"SELECT max(number) FROM {self._source}_pieces")

    def allow(self, numbers: Sequence[int]) -> Ids:
        return select_allowed(self._connection, self._source, self._where, numbers)

    def score(self, match: Match, limit: int, *, inside: bool) -> list[Scored]:
        lead = spell_match(match.terms, "AND" if match.every else "OR")
        if others := take_within(match.others, self._counts, _MAX_COUNTED):
            return self._score_both(lead, [*match.terms, *others], limit, inside=inside)
        oldest = 0
        if match.every:
            query = (
                f"SELECT rowid FROM {self._source}_words WHERE {self._source}_words MATCH ?"
                " ORDER BY rowid DESC LIMIT 1 OFFSET ?"
            )
            most = _MAX_SCORED // len(match.terms)
            oldest = read_number(self._connection, query, (lead, most))
        rows = self._select(lead, f"w.rowid > ? {_BEST}", oldest, limit, inside=inside)
        return [Scored(number, value) for number, value in rows]

    def _score_both(
        self, lead: str, terms: Sequence[str], limit: int, *, inside: bool
    ) -> list[Scored]:
        """Score by all terms. FTS5 counts those that lead twice, so that part is subtracted."""
        every = f"({lead}) AND ({spell_match(terms)})"
        twice = self._select(every, f"1 {_BEST}", _SCORED_TWICE * limit, inside=inside)
        numbers = json.dumps([number for number, _ in twice])
        # the plus keeps SQLite from looking up each of them separately
        among = "+w.rowid IN (SELECT value FROM json_each(?))"
        once = dict(self._select(lead, among, numbers))
        best = sorted((once[number] - value, number) for number, value in twice)
        return [Scored(number, -value) for value, number in best[:limit]]

    def _select(
        self, match: str, behind: str, *given: Value, inside: bool = False
    ) -> list[tuple[Any, ...]]:
        source = self._source
        score = f"-bm25({source}_words, {WEIGHTS[0]}, {WEIGHTS[1]}, {WEIGHTS[2]})"
        condition, values = sqlite_condition(source, self._where) if inside else ("", [])
        join = ""
        if condition:
            # CROSS JOIN fixes the order: FTS5 leads, rows are looked up by their keys
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

    def _list_terms(self, condition: str, *given: Value, limit: int = MAX_FORMS) -> dict[str, int]:
        query = (
            f"SELECT term, holders FROM {self._source}_lexicon WHERE {condition}"
            " ORDER BY holders DESC, term LIMIT ?"
        )
        rows: Iterable[Any] = self._connection.execute(query, (*given, limit))
        found = dict(rows)
        self._counts |= found
        return found
