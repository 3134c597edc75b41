"""One user's knowledge in SQLite: tables, conditions as SQL, and the words of one source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apsw
import numpy as np

from sonde.stores.chunks.lexicon import spell_match, take_within
from sonde.stores.database import Format, Value, bind_text, read_number
from sonde.stores.knowledge.base import Conditions, Source
from sonde.stores.knowledge.rows import WEIGHTS, fold_tags
from sonde.stores.knowledge.words import LAST, MAX_FORMS, Match
from sonde.stores.vectors import Ids
from sonde.types import Scored

DATABASES: Mapping[str, tuple[Source, ...]] = {
    "media": ("media",),
    "chacha": ("notes", "chats", "characters"),
    "prompts": ("prompts",),
}
"""Which sources each file holds."""

_TABLES = """
CREATE TABLE {0} (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    folded TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_modified INTEGER NOT NULL,
    version INTEGER NOT NULL,
    tags TEXT NOT NULL,
    media_type TEXT NOT NULL,
    url TEXT NOT NULL,
    character TEXT NOT NULL,
    facts TEXT NOT NULL,
    origin TEXT NOT NULL,
    path TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX {0}_by_title ON {0} (folded);
CREATE INDEX {0}_by_origin ON {0} (origin, path) WHERE origin != '';
CREATE TABLE {0}_pieces (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    item INTEGER NOT NULL,
    place INTEGER NOT NULL,
    start INTEGER NOT NULL,
    field TEXT NOT NULL,
    uuid TEXT NOT NULL,
    sender TEXT NOT NULL,
    created_at INTEGER,
    begins INTEGER,
    ends INTEGER,
    slot INTEGER,
    text TEXT NOT NULL
);
CREATE INDEX {0}_by_place ON {0}_pieces (item, place);
CREATE INDEX {0}_bare ON {0}_pieces (number) WHERE slot IS NULL;
CREATE INDEX {0}_slots ON {0}_pieces (number, slot) WHERE slot IS NOT NULL;
CREATE TABLE {0}_tags (tag TEXT NOT NULL, item INTEGER NOT NULL, PRIMARY KEY (tag, item))
    WITHOUT ROWID;
CREATE INDEX {0}_tags_of ON {0}_tags (item);
CREATE VIRTUAL TABLE {0}_words USING fts5 (
    title, tags, body, content='', contentless_delete=1, tokenize='ascii'
);
CREATE VIRTUAL TABLE {0}_terms USING fts5vocab ({0}_words, 'row');
INSERT INTO state VALUES ('{0}', 0);
"""
_STATE = """
CREATE TABLE state (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE models (
    source TEXT PRIMARY KEY, name TEXT NOT NULL, dimensions INTEGER NOT NULL, file TEXT NOT NULL
);
"""
_CHUNKS_VIEW = """
CREATE VIEW UnvectorizedMediaChunks AS
SELECT
    p.number AS id, p.item AS media_id, p.text AS chunk_text, p.place AS chunk_index,
    p.start AS start_char, p.start + length(p.text) AS end_char, p.uuid AS uuid
FROM media_pieces AS p;
"""
_BURIED = """
CREATE TABLE buried (
    source TEXT NOT NULL, origin TEXT NOT NULL, path TEXT NOT NULL, hash TEXT NOT NULL,
    PRIMARY KEY (source, origin, path)
) WITHOUT ROWID;
"""
_LEXICON = """
CREATE TABLE {0}_lexicon (term TEXT PRIMARY KEY, holders INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO {0}_lexicon SELECT term, doc FROM {0}_terms;
DROP TABLE {0}_terms;
"""
"""Counting through FTS5's own vocabulary reads every position of each term."""
_APPLICATION_IDS = {"media": 0x534F4B4D, "chacha": 0x534F4B43, "prompts": 0x534F4B50}


def make_format(database: str) -> Format:
    """The format of one of a user's files."""

    def create_tables(connection: apsw.Connection) -> None:
        connection.execute(_STATE)
        for source in DATABASES[database]:
            connection.execute(_TABLES.format(source))
        if database == "media":
            connection.execute(_CHUNKS_VIEW)

    def create_buried(connection: apsw.Connection) -> None:
        connection.execute(_BURIED)

    def count_terms(connection: apsw.Connection) -> None:
        for source in DATABASES[database]:
            connection.execute(_LEXICON.format(source))

    steps = (create_tables, create_buried, count_terms)
    return Format(application_id=_APPLICATION_IDS[database], steps=steps)


POSTINGS = 60_000
"""Matches a query may touch before its commonest words are only used to score."""
_MAX_SCORED = 200_000
"""Pieces scored for common words, shared among them: the newest ones."""
_MAX_COUNTED = 1_500_000
"""FTS5 counts the holders of a word in every query; beyond this, common words do not score."""
_SCORED_TWICE = 2
"""How much longer the ranking is in which leading words count twice."""
_BEST = "ORDER BY score DESC, w.rowid LIMIT ?"


def count_words(connection: apsw.Connection, source: Source, change: Counter[str]) -> None:
    """Record how many more (or fewer) pieces hold each term."""
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


def select_allowed(
    connection: apsw.Connection,
    source: Source,
    where: Conditions,
    numbers: Sequence[int] | None = None,
) -> Ids:
    """Which pieces fulfil the conditions: of these, or of all."""
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
    """The columns of a query that gives one row of JSON arrays: faster than a row per number."""
    (columns,) = connection.execute(query, values).fetchall()
    return [np.array(json.loads(str(column)), np.int64) for column in columns]


class SqliteWords:
    """The words of one source under some conditions, read by one connection."""

    def __init__(
        self, connection: apsw.Connection, source: Source, where: Conditions, postings: int
    ) -> None:
        self.postings = postings
        self._connection = connection
        self._source = source
        self._where = where
        self._counts: dict[str, int] = {}

    def count_terms(self, terms: Sequence[str]) -> dict[str, int]:
        query = (
            f"SELECT term, holders FROM json_each(?) CROSS JOIN {self._source}_lexicon"
            " ON term = value"
        )
        return self._keep(self._connection.execute(query, (json.dumps(list(terms)),)))

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
        others = take_within(match.others, self._counts, _MAX_COUNTED)
        if others:
            return self._score_both(lead, [*match.terms, *others], limit, inside=inside)
        oldest = self._find_oldest(lead, _MAX_SCORED // len(match.terms)) if match.every else 0
        rows = self._select(lead, f"w.rowid > ? {_BEST}", oldest, limit, inside=inside)
        return [Scored(number, value) for number, value in rows]

    def _score_both(
        self, lead: str, terms: Sequence[str], limit: int, *, inside: bool
    ) -> list[Scored]:
        """Score by all terms; FTS5 counts terms that lead and rank twice, once too often."""
        every = f"({lead}) AND ({spell_match(terms)})"
        twice = self._select(every, f"1 {_BEST}", _SCORED_TWICE * limit, inside=inside)
        numbers = json.dumps([number for number, _ in twice])
        # the plus keeps SQLite from looking up each of them separately
        among = "+w.rowid IN (SELECT value FROM json_each(?))"
        once = dict(self._select(lead, among, numbers))
        best = sorted((once[number] - value, number) for number, value in twice)
        return [Scored(number, -value) for value, number in best[:limit]]

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

    def _list_terms(self, condition: str, *given: Value) -> dict[str, int]:
        query = (
            f"SELECT term, holders FROM {self._source}_lexicon WHERE {condition}"
            " ORDER BY holders DESC, term LIMIT ?"
        )
        return self._keep(self._connection.execute(query, (*given, MAX_FORMS)))

    def _keep(self, rows: Iterable[tuple[Any, ...]]) -> dict[str, int]:
        found = dict(rows)
        self._counts |= found
        return found
