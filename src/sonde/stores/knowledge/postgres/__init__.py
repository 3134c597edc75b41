"""Knowledge of all users in one PostgreSQL database, for teams and several servers.

Every query names the owner; row-level security is the second line of defence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sonde.stores.chunks.base import Vectors
from sonde.stores.knowledge.base import (
    ANYTHING,
    SOURCES,
    Conditions,
    Entry,
    Place,
    RankedPiece,
    Source,
)
from sonde.stores.knowledge.postgres import writing
from sonde.stores.knowledge.postgres.database import PostgresDatabase
from sonde.stores.knowledge.postgres.vectors import OwnerVectors
from sonde.stores.knowledge.postgres.words import POSTINGS, PostgresWords, select_pieces
from sonde.stores.knowledge.rows import (
    HEADS,
    MOST_LISTED,
    PIECES,
    EntryReader,
    Select,
    keep_newest,
    pack_text,
    read_ranked,
    unpack_text,
)
from sonde.stores.knowledge.words import rank_words, weigh_words
from sonde.types import Scored

_OWN = re.compile(r":([ep])\b")  # the mark of an owner in queries of `EntryReader`


class PostgresKnowledge(EntryReader):
    """A `KnowledgeStore` of one user in a shared database."""

    shared = True
    scale = "max"
    equals = "md5({0}) = md5(?) AND {0} = ?"  # texts may be too long for an index

    def __init__(self, database: PostgresDatabase, owner: str, postings: int = POSTINGS) -> None:
        self._database = database
        self._owner = owner
        self._postings = postings
        self._number = 0
        self._vectors = {source: OwnerVectors(owner, source) for source in SOURCES}

    @contextmanager
    def _reading(self, source: Source) -> Iterator[Select]:  # noqa: ARG002
        with self._read() as cursor:

            def select(query: str, *values: str | int) -> list[list[Any]]:
                own = _OWN.sub(r"\1.owner = ?", query).replace("?", "%s")
                rows = cursor.execute(own, [self._owner, *writing.pack_row(values)])
                return [writing.unpack_row(row) for row in rows.fetchall()]

            yield select

    def _read(self) -> AbstractContextManager[Any]:
        return self._database.transact(self._owner, read_only=True)

    def put(self, source: Source, entries: Sequence[Entry]) -> list[str]:
        owner = self._identify()
        with self._database.transact(self._owner) as cursor:
            return writing.put_entries(cursor, owner, source, entries)

    def restamp(self, source: Source, rows: Mapping[str, tuple[str, str]]) -> None:
        query = f"UPDATE {source} SET path = %s, hash = %s WHERE owner = %s AND id = %s"
        values = [(pack_text(path), text, self._owner, pack_text(id))
                  for id, (path, text) in rows.items()]  # noqa: A001  # fmt: skip
        with self._database.transact(self._owner) as cursor:
            cursor.executemany(query, values)

    def remove(self, source: Source, ids: Collection[str]) -> int:
        owner = self._identify()
        with self._database.transact(self._owner) as cursor:
            return writing.remove_entries(cursor, owner, source, list(ids))

    def bury(self, source: Source, places: Mapping[Place, str]) -> None:
        query = "INSERT INTO buried VALUES (%s, %s, %s, %s, %s)"
        rows = [[self._owner, source, *map(pack_text, at), text] for at, text in places.items()]
        with self._database.transact(self._owner) as cursor:
            self._unbury(cursor, source, places)
            cursor.executemany(query, rows)

    def unbury(self, source: Source, places: Collection[Place]) -> None:
        with self._database.transact(self._owner) as cursor:
            self._unbury(cursor, source, places)

    def rank(
        self, source: Source, terms: Sequence[str], limit: int, where: Conditions = ANYTHING
    ) -> list[Scored]:
        owner = self._identify()
        with self._read() as cursor:
            index = PostgresWords(cursor, owner, source, where, self._postings)
            return rank_words(index, terms, limit, narrowed=where != ANYTHING)

    def nearest(
        self, source: Source, model: str, vector: Vectors, limit: int, where: Conditions = ANYTHING
    ) -> list[Scored]:
        with self._read() as cursor:
            return self._vectors[source].nearest(cursor, model, vector, limit, where)

    def weigh_terms(self, source: Source, terms: Sequence[str]) -> Mapping[str, float]:
        owner = self._identify()
        with self._read() as cursor:
            index = PostgresWords(cursor, owner, source, ANYTHING, self._postings)
            return weigh_words(index, terms)

    def compare(
        self, source: Source, model: str, vector: Vectors, numbers: Sequence[int]
    ) -> Mapping[int, float]:
        with self._read() as cursor:
            return self._vectors[source].compare(cursor, model, vector, numbers)

    def drop_damaged(self, source: Source, model: str) -> int:
        with self._read() as cursor:
            damaged = self._vectors[source].find_damaged(cursor, model)
        if damaged:
            with self._database.transact(self._owner) as cursor:
                writing.advance(cursor, self._owner, source)
                self._vectors[source].drop(cursor, model, damaged)
        return len(damaged)

    def coverage(self, source: Source, model: str) -> tuple[int, int]:
        with self._read() as cursor:
            return self._vectors[source].count(cursor, model)

    def forget_models(self, source: Source, kept: Collection[str]) -> None:
        with self._database.transact(self._owner) as cursor:
            if self._vectors[source].forget(cursor, kept):
                writing.advance(cursor, self._owner, source)

    def list_recent(self, source: Source, where: Conditions, limit: int) -> list[RankedPiece]:
        with self._read() as cursor:
            numbers = select_pieces(cursor, self._owner, source, where).tolist()
        return keep_newest(self.locate(source, sorted(numbers)[-MOST_LISTED:]).values(), limit)

    def locate(self, source: Source, numbers: Sequence[int]) -> Mapping[int, RankedPiece]:
        query = (
            f"SELECT {PIECES}, {HEADS} FROM {source}_pieces AS p JOIN {source} AS e"
            " ON e.number = p.item WHERE p.owner = %s AND p.number = ANY(%s) ORDER BY p.number"
        )
        with self._read() as cursor:
            rows = cursor.execute(query, [self._owner, list(numbers)]).fetchall()
        found = [read_ranked(source, writing.unpack_row(row)) for row in rows]
        return {each.piece.number: each for each in found}

    def list_bare(
        self, source: Source, model: str, limit: int, before: int | None = None
    ) -> list[RankedPiece]:
        with self._read() as cursor:
            numbers = self._vectors[source].list_bare(cursor, model, limit, before)
        found = self.locate(source, numbers) if numbers else {}
        return [found[number] for number in numbers if number in found]

    def put_vectors(
        self, source: Source, model: str, numbers: Sequence[int], rows: Vectors
    ) -> None:
        with self._database.transact(self._owner) as cursor:
            stamp = writing.advance(cursor, self._owner, source)
            self._vectors[source].write(cursor, model, stamp, numbers, rows)

    def remember(self, key: str, value: str, seconds: float) -> None:
        query = (
            "INSERT INTO memory VALUES (%s, %s, %s, now() + make_interval(secs => %s))"
            " ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value,"
            " expires = excluded.expires"
        )
        with self._database.transact(self._owner) as cursor:
            cursor.execute("DELETE FROM memory WHERE owner = %s AND expires < now()", [self._owner])
            cursor.execute(query, [self._owner, key, pack_text(value), seconds])

    def recall(self, key: str) -> str | None:
        query = "SELECT value FROM memory WHERE owner = %s AND key = %s AND expires >= now()"
        with self._read() as cursor:
            row = cursor.execute(query, [self._owner, key]).fetchone()
        return unpack_text(row[0]) if row else None

    def measure_bytes(self) -> int:
        parts = " + ".join(
            f"(SELECT coalesce(sum(pg_column_size(p.*)), 0) FROM {source}_pieces AS p"
            " WHERE owner = %s)"
            for source in SOURCES
        )
        with self._read() as cursor:
            row = cursor.execute(f"SELECT {parts}", [self._owner] * len(SOURCES)).fetchone()
        return int(row[0])

    def close(self) -> None:
        self._vectors = {source: OwnerVectors(self._owner, source) for source in SOURCES}

    def _identify(self) -> writing.Owner:
        if not self._number:
            # kept only once it is committed: another server must get the same
            with self._database.transact(self._owner) as cursor:
                number = writing.find_owner(cursor, self._owner)
            self._number = number
        return self._number, self._owner

    def _unbury(self, cursor: Any, source: Source, places: Collection[Place]) -> None:
        query = "DELETE FROM buried WHERE owner = %s AND source = %s AND origin = %s AND path = %s"
        cursor.executemany(query, [[self._owner, source, *map(pack_text, at)] for at in places])
