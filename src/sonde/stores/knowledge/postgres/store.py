"""The knowledge of all users in one PostgreSQL database: for teams, and for several servers.

Every query names the owner; row-level security is the second line of defence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sonde.stores.chunks.base import Vectors
from sonde.stores.knowledge.base import (
    ANYTHING,
    SOURCES,
    TITLE,
    Conditions,
    Entry,
    Piece,
    Place,
    RankedPiece,
    Source,
)
from sonde.stores.knowledge.postgres.database import PostgresDatabase
from sonde.stores.knowledge.postgres.retrieval import POSTINGS, OwnerVectors, PostgresWords
from sonde.stores.knowledge.postgres.writing import (
    Owner,
    advance,
    find_owner,
    put_entries,
    remove_entries,
    unpack_row,
)
from sonde.stores.knowledge.rows import (
    HEAD,
    HEADS,
    PIECES,
    pack_text,
    read_entry_head,
    read_piece,
    read_ranked,
    unpack_text,
)
from sonde.stores.knowledge.words import rank_words
from sonde.text.words import fold_text
from sonde.types import Scored


class PostgresKnowledge:
    """A `KnowledgeStore` of one user in a shared database."""

    shared = True
    scale = "max"

    def __init__(self, database: PostgresDatabase, owner: str, postings: int = POSTINGS) -> None:
        self._database = database
        self._owner = owner
        self._postings = postings
        self._number = 0
        self._vectors = {source: OwnerVectors(owner, source) for source in SOURCES}

    def generation(self, source: Source) -> int:
        query = "SELECT generation FROM counters WHERE owner = %s AND source = %s"
        with self._database.read(self._owner) as cursor:
            row = cursor.execute(query, [self._owner, source]).fetchone()
        return int(row[0]) if row else 0

    def count(self, source: Source) -> tuple[int, int]:
        query = (
            f"SELECT (SELECT count(*) FROM {source} WHERE owner = %s),"
            f" (SELECT count(*) FROM {source}_pieces WHERE owner = %s)"
        )
        with self._database.read(self._owner) as cursor:
            entries, pieces = cursor.execute(query, [self._owner] * 2).fetchone()
        return entries, pieces

    def put(self, source: Source, entries: Sequence[Entry]) -> list[str]:
        owner = self._identify()
        with self._database.transact(self._owner) as cursor:
            return put_entries(cursor, owner, source, entries)

    def remove(self, source: Source, ids: Collection[str]) -> int:
        owner = self._identify()
        with self._database.transact(self._owner) as cursor:
            return remove_entries(cursor, owner, source, list(ids))

    def get(self, source: Source, id: str, *, pieces: bool = True) -> Entry | None:  # noqa: A002
        query = f"SELECT {HEAD} FROM {source} WHERE owner = %s AND id = %s"
        with self._database.read(self._owner) as cursor:
            row = cursor.execute(query, [self._owner, pack_text(id)]).fetchone()
            if row is None:
                return None
            head = read_entry_head(source, unpack_row(row))
            return self._complete(cursor, head) if pieces else head

    def find_title(self, source: Source, title: str) -> Entry | None:
        query = (
            f"SELECT {HEAD} FROM {source} WHERE owner = %s AND md5(folded) = md5(%s)"
            " AND folded = %s ORDER BY last_modified DESC, number DESC LIMIT 1"
        )
        folded = pack_text(fold_text(title))
        with self._database.read(self._owner) as cursor:
            row = cursor.execute(query, [self._owner, folded, folded]).fetchone()
        return read_entry_head(source, unpack_row(row)) if row else None

    def read_pieces(self, source: Source, id: str, first: int, count: int) -> list[Piece]:  # noqa: A002
        condition = "p.place >= %s ORDER BY p.place LIMIT %s"
        return self._select_pieces(source, id, condition, [max(first, 0), count])

    def count_pieces(self, source: Source, id: str) -> int:  # noqa: A002
        query = (
            f"SELECT count(*) FROM {source}_pieces AS p JOIN {source} AS e ON e.number = p.item"
            " WHERE e.owner = %s AND e.id = %s AND p.place >= 0"
        )
        with self._database.read(self._owner) as cursor:
            return int(cursor.execute(query, [self._owner, pack_text(id)]).fetchone()[0])

    def find_piece(self, source: Source, id: str, uuid: str) -> Piece | None:  # noqa: A002
        condition = "p.uuid = %s AND p.place >= 0"
        return next(iter(self._select_pieces(source, id, condition, [pack_text(uuid)])), None)

    def list_entries(self, source: Source, after: str = "", limit: int = 1000) -> list[Entry]:
        query = (
            f"SELECT {HEAD} FROM {source} WHERE owner = %s AND number > coalesce("
            f"(SELECT number FROM {source} WHERE owner = %s AND id = %s), 0)"
            " ORDER BY number LIMIT %s"
        )
        with self._database.read(self._owner) as cursor:
            rows = cursor.execute(query, [self._owner, self._owner, pack_text(after), limit])
            heads = [read_entry_head(source, unpack_row(row)) for row in rows.fetchall()]
            return [self._complete(cursor, head) for head in heads]

    def list_origin(self, source: Source, origin: str) -> Mapping[str, Entry]:
        query = (
            f"SELECT {HEAD} FROM {source} WHERE owner = %s AND md5(origin) = md5(%s)"
            " AND origin = %s AND origin <> ''"
        )
        packed = pack_text(origin)
        with self._database.read(self._owner) as cursor:
            rows = cursor.execute(query, [self._owner, packed, packed])
            heads = [read_entry_head(source, unpack_row(row)) for row in rows]
        return {head.path: head for head in heads}

    def bury(self, source: Source, places: Mapping[Place, str]) -> None:
        query = "INSERT INTO buried VALUES (%s, %s, %s, %s, %s)"
        rows = [[self._owner, source, *map(pack_text, at), text] for at, text in places.items()]
        with self._database.transact(self._owner) as cursor:
            self._unbury(cursor, source, places)
            cursor.executemany(query, rows)

    def unbury(self, source: Source, places: Collection[Place]) -> None:
        with self._database.transact(self._owner) as cursor:
            self._unbury(cursor, source, places)

    def list_buried(self, source: Source) -> Mapping[Place, str]:
        query = (
            "SELECT origin, path, hash FROM buried WHERE owner = %s AND source = %s ORDER BY 1, 2"
        )
        with self._database.read(self._owner) as cursor:
            rows = cursor.execute(query, [self._owner, source]).fetchall()
        return {(unpack_text(origin), unpack_text(path)): text for origin, path, text in rows}

    def list_media_types(self) -> list[str]:
        query = (
            "SELECT DISTINCT media_type FROM media WHERE owner = %s AND media_type <> '' ORDER BY 1"
        )
        with self._database.read(self._owner) as cursor:
            return [row[0] for row in cursor.execute(query, [self._owner])]

    def rank(
        self, source: Source, terms: Sequence[str], limit: int, where: Conditions = ANYTHING
    ) -> list[Scored]:
        owner = self._identify()
        with self._database.read(self._owner) as cursor:
            index = PostgresWords(cursor, owner, source, where, self._postings)
            return rank_words(index, terms, limit, narrowed=where != ANYTHING)

    def nearest(
        self,
        source: Source,
        model: str,
        vector: Vectors,
        limit: int,
        where: Conditions = ANYTHING,
    ) -> list[Scored]:
        with self._database.read(self._owner) as cursor:
            return self._vectors[source].nearest(cursor, model, vector, limit, where)

    def locate(self, source: Source, numbers: Sequence[int]) -> Mapping[int, RankedPiece]:
        query = (
            f"SELECT {PIECES}, {HEADS} FROM {source}_pieces AS p JOIN {source} AS e"
            " ON e.number = p.item WHERE p.owner = %s AND p.number = ANY(%s) ORDER BY p.number"
        )
        with self._database.read(self._owner) as cursor:
            rows = cursor.execute(query, [self._owner, list(numbers)]).fetchall()
        found = [read_ranked(source, unpack_row(row)) for row in rows]
        return {each.piece.number: each for each in found}

    def list_bare(self, source: Source, model: str, limit: int) -> list[RankedPiece]:
        with self._database.read(self._owner) as cursor:
            numbers = self._vectors[source].list_bare(cursor, model, limit)
        return list(self.locate(source, numbers).values()) if numbers else []

    def put_vectors(
        self, source: Source, model: str, numbers: Sequence[int], rows: Vectors
    ) -> None:
        with self._database.transact(self._owner) as cursor:
            stamp = advance(cursor, self._owner, source)
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
        with self._database.read(self._owner) as cursor:
            row = cursor.execute(query, [self._owner, key]).fetchone()
        return unpack_text(row[0]) if row else None

    def measure_bytes(self) -> int:
        parts = " + ".join(
            f"(SELECT coalesce(sum(pg_column_size(p.*)), 0) FROM {source}_pieces AS p"
            " WHERE owner = %s)"
            for source in SOURCES
        )
        with self._database.read(self._owner) as cursor:
            return int(
                cursor.execute(f"SELECT {parts}", [self._owner] * len(SOURCES)).fetchone()[0]
            )

    def close(self) -> None:
        self._vectors = {source: OwnerVectors(self._owner, source) for source in SOURCES}

    def _identify(self) -> Owner:
        if not self._number:
            # kept only once it is committed: another server must get the same
            with self._database.transact(self._owner) as cursor:
                number = find_owner(cursor, self._owner)
            self._number = number
        return self._number, self._owner

    def _unbury(self, cursor: Any, source: Source, places: Collection[Place]) -> None:
        query = "DELETE FROM buried WHERE owner = %s AND source = %s AND origin = %s AND path = %s"
        cursor.executemany(query, [[self._owner, source, *map(pack_text, at)] for at in places])

    def _complete(self, cursor: Any, head: Entry) -> Entry:
        query = (
            f"SELECT {PIECES} FROM {head.source}_pieces AS p"
            " WHERE p.owner = %s AND p.item = %s AND p.field <> %s ORDER BY p.place"
        )
        rows = cursor.execute(query, [self._owner, head.number, TITLE])
        return replace(head, pieces=tuple(read_piece(unpack_row(row)) for row in rows))

    def _select_pieces(
        self,
        source: Source,
        id: str,  # noqa: A002
        condition: str,
        values: list[Any],
    ) -> list[Piece]:
        query = (
            f"SELECT {PIECES} FROM {source}_pieces AS p JOIN {source} AS e ON e.number = p.item"
            f" WHERE e.owner = %s AND e.id = %s AND {condition}"
        )
        with self._database.read(self._owner) as cursor:
            rows = cursor.execute(query, [self._owner, pack_text(id), *values])
            return [read_piece(unpack_row(row)) for row in rows]
