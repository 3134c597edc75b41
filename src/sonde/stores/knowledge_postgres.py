"""Everybody's knowledge in one PostgreSQL database: for teams, and for several servers at once.

Whose a row is stands in each query; row-level security is the second wall behind it.
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sonde.prose import fold_text
from sonde.stores.base import Vectors
from sonde.stores.knowledge_base import (
    ANYTHING,
    NUMBERED,
    SOURCES,
    TITLE,
    Conditions,
    Entry,
    Found,
    Piece,
    Place,
    Source,
)
from sonde.stores.knowledge_postgres_pool import PostgresDatabase
from sonde.stores.knowledge_postgres_ranking import condition_sql, rank_pieces, write_vector
from sonde.stores.knowledge_rows import (
    HEAD,
    PIECE,
    bind_head,
    bind_piece,
    fold_tags,
    list_stored,
    list_terms,
    read_head,
    read_piece,
)
from sonde.stores.packed import PackedRows, pack_rows, pack_text, unpack_text
from sonde.types import Scored

_HEADS = ", ".join(f"e.{name.strip()}" for name in HEAD.split(","))
_PIECES = ", ".join(f"p.{name.strip()}" for name in PIECE.split(","))


class PostgresKnowledge:
    """What one user has in a shared database."""

    shared = True
    scale = "max"

    def __init__(self, database: PostgresDatabase, owner: str) -> None:
        self._database = database
        self._owner = owner
        self._vectors: dict[Source, tuple[int, str, PackedRows]] = {}

    def generation(self, source: Source) -> int:
        """A number that grows with every committed change of a source."""
        query = "SELECT generation FROM counters WHERE owner = %s AND source = %s"
        with self._database.transact(self._owner) as cursor:
            row = cursor.execute(query, [self._owner, source]).fetchone()
        return int(row[0]) if row else 0

    def count(self, source: Source) -> tuple[int, int]:
        """How many entries, how many pieces."""
        query = (
            f"SELECT (SELECT count(*) FROM {source} WHERE owner = %s),"
            f" (SELECT count(*) FROM {source}_pieces WHERE owner = %s)"
        )
        with self._database.transact(self._owner) as cursor:
            entries, pieces = cursor.execute(query, [self._owner] * 2).fetchone()
        return entries, pieces

    def put(self, source: Source, entries: Sequence[Entry]) -> list[str]:
        """Store these just as they are, each in place of the one with its id; the ids."""
        with self._database.transact(self._owner) as cursor:
            self._advance(cursor, source)
            return [self._put(cursor, source, entry) for entry in entries]

    def remove(self, source: Source, ids: Collection[str]) -> int:
        """Forget these; how many there were."""
        query = f"DELETE FROM {source} WHERE owner = %s AND id = ANY(%s)"
        with self._database.transact(self._owner) as cursor:
            gone = cursor.execute(query, [self._owner, [pack_text(each) for each in ids]]).rowcount
            if gone:
                self._advance(cursor, source)
        return int(gone)

    def get(self, source: Source, id: str, *, pieces: bool = True) -> Entry | None:  # noqa: A002
        """An entry by its id, whole or only its head."""
        query = f"SELECT {HEAD} FROM {source} WHERE owner = %s AND id = %s"
        with self._database.transact(self._owner) as cursor:
            row = cursor.execute(query, [self._owner, pack_text(id)]).fetchone()
            if row is None:
                return None
            head = _read_head(source, row)
            return self._complete(cursor, head) if pieces else head

    def find_title(self, source: Source, title: str) -> Entry | None:
        """The head of the newest entry with this title, letter case and accents apart."""
        query = (
            f"SELECT {HEAD} FROM {source} WHERE owner = %s AND md5(folded) = md5(%s)"
            " AND folded = %s ORDER BY last_modified DESC, number DESC LIMIT 1"
        )
        folded = pack_text(fold_text(title))
        with self._database.transact(self._owner) as cursor:
            row = cursor.execute(query, [self._owner, folded, folded]).fetchone()
        return _read_head(source, row) if row else None

    def read_pieces(self, source: Source, id: str, first: int, count: int) -> list[Piece]:  # noqa: A002
        """So many pieces of an entry from a place on, without its title."""
        condition = "p.place >= %s ORDER BY p.place LIMIT %s"
        return self._select_pieces(source, id, condition, [max(first, 0), count])

    def count_pieces(self, source: Source, id: str) -> int:  # noqa: A002
        """How many pieces an entry has, without its title."""
        query = (
            f"SELECT count(*) FROM {source}_pieces AS p JOIN {source} AS e ON e.number = p.item"
            " WHERE e.owner = %s AND e.id = %s AND p.place >= 0"
        )
        with self._database.transact(self._owner) as cursor:
            return int(cursor.execute(query, [self._owner, pack_text(id)]).fetchone()[0])

    def find_piece(self, source: Source, id: str, uuid: str) -> Piece | None:  # noqa: A002
        """The piece of an entry with this uuid."""
        condition = "p.uuid = %s AND p.place >= 0"
        return next(iter(self._select_pieces(source, id, condition, [pack_text(uuid)])), None)

    def list_entries(self, source: Source, after: str = "", limit: int = 1000) -> list[Entry]:
        """Whole entries in the order of their keys, from behind this id on."""
        query = (
            f"SELECT {HEAD} FROM {source} WHERE owner = %s AND number > coalesce("
            f"(SELECT number FROM {source} WHERE owner = %s AND id = %s), 0)"
            " ORDER BY number LIMIT %s"
        )
        with self._database.transact(self._owner) as cursor:
            rows = cursor.execute(query, [self._owner, self._owner, pack_text(after), limit])
            heads = [_read_head(source, row) for row in rows.fetchall()]
            return [self._complete(cursor, head) for head in heads]

    def list_origin(self, source: Source, origin: str) -> Mapping[str, Entry]:
        """The heads of what was imported from an origin, by path."""
        query = (
            f"SELECT {HEAD} FROM {source} WHERE owner = %s AND md5(origin) = md5(%s)"
            " AND origin = %s AND origin <> ''"
        )
        packed = pack_text(origin)
        with self._database.transact(self._owner) as cursor:
            rows = cursor.execute(query, [self._owner, packed, packed])
            heads = [_read_head(source, row) for row in rows]
        return {head.path: head for head in heads}

    def bury(self, source: Source, places: Mapping[Place, str]) -> None:
        """Remember that what came from these places was deleted, and the hash it had there."""
        query = "INSERT INTO buried VALUES (%s, %s, %s, %s, %s)"
        rows = [[self._owner, source, *map(pack_text, at), text] for at, text in places.items()]
        self.unbury(source, places)
        with self._database.transact(self._owner) as cursor:
            cursor.executemany(query, rows)

    def unbury(self, source: Source, places: Collection[Place]) -> None:
        """Forget that."""
        query = "DELETE FROM buried WHERE owner = %s AND source = %s AND origin = %s AND path = %s"
        rows = [[self._owner, source, *map(pack_text, at)] for at in places]
        with self._database.transact(self._owner) as cursor:
            cursor.executemany(query, rows)

    def list_buried(self, source: Source) -> Mapping[Place, str]:
        """The places of what was deleted, with its hashes."""
        query = (
            "SELECT origin, path, hash FROM buried WHERE owner = %s AND source = %s ORDER BY 1, 2"
        )
        with self._database.transact(self._owner) as cursor:
            rows = cursor.execute(query, [self._owner, source]).fetchall()
        return {(unpack_text(origin), unpack_text(path)): text for origin, path, text in rows}

    def list_media_types(self) -> list[str]:
        """Every kind of medium there is."""
        query = (
            "SELECT DISTINCT media_type FROM media WHERE owner = %s AND media_type <> '' ORDER BY 1"
        )
        with self._database.transact(self._owner) as cursor:
            return [row[0] for row in cursor.execute(query, [self._owner])]

    def rank(
        self, source: Source, terms: Sequence[str], limit: int, where: Conditions = ANYTHING
    ) -> list[Scored]:
        """The best pieces for these terms."""
        with self._database.transact(self._owner) as cursor:
            return rank_pieces(cursor, self._owner, source, terms, limit, where)

    def nearest(
        self,
        source: Source,
        model: str,
        vector: Vectors,
        limit: int,
        where: Conditions = ANYTHING,
    ) -> list[Scored]:
        """The pieces nearest to a vector."""
        rows = self._load_vectors(source, model)
        condition, values = condition_sql(where)
        allowed: list[int] | None = None
        if condition:
            query = (
                f"SELECT p.number FROM {source}_pieces AS p JOIN {source} AS e"
                f" ON e.number = p.item WHERE p.owner = %s{condition}"
            )
            with self._database.transact(self._owner) as cursor:
                found = cursor.execute(query, [self._owner, *values])
                allowed = [row[0] for row in found]
        return rows.find(vector, limit, allowed)

    def locate(self, source: Source, numbers: Sequence[int]) -> Mapping[int, Found]:
        """Pieces by their keys, each with the head of its entry; those that are gone are not."""
        query = (
            f"SELECT {_PIECES}, {_HEADS} FROM {source}_pieces AS p JOIN {source} AS e"
            " ON e.number = p.item WHERE p.owner = %s AND p.number = ANY(%s) ORDER BY p.number"
        )
        with self._database.transact(self._owner) as cursor:
            rows = cursor.execute(query, [self._owner, list(numbers)]).fetchall()
        width = PIECE.count(",") + 1
        found = [Found(_read_head(source, row[width:]), _read_piece(row)) for row in rows]
        return {each.piece.number: each for each in found}

    def list_bare(self, source: Source, model: str, limit: int) -> list[Found]:
        """Pieces that have no vector of this model yet."""
        query = (
            f"SELECT number FROM {source}_pieces WHERE owner = %s AND model IS DISTINCT FROM %s"
            " ORDER BY number LIMIT %s"
        )
        with self._database.transact(self._owner) as cursor:
            numbers = [row[0] for row in cursor.execute(query, [self._owner, model, limit])]
        return list(self.locate(source, numbers).values())

    def put_vectors(
        self, source: Source, model: str, numbers: Sequence[int], rows: Vectors
    ) -> None:
        """Keep a vector for each of these pieces; those that are gone are passed over."""
        query = (
            f"UPDATE {source}_pieces SET model = %s, vector = %s WHERE owner = %s AND number = %s"
        )
        packed = pack_rows(rows)
        with self._database.transact(self._owner) as cursor:
            cursor.executemany(
                query,
                [
                    (model, data, self._owner, number)
                    for number, data in zip(numbers, packed, strict=True)
                ],
            )
            self._advance(cursor, source)

    def remember(self, key: str, value: str, seconds: float) -> None:
        """Keep something small for a while, for whichever server is asked next."""
        query = (
            "INSERT INTO memory VALUES (%s, %s, %s, now() + make_interval(secs => %s))"
            " ON CONFLICT (owner, key) DO UPDATE SET value = excluded.value,"
            " expires = excluded.expires"
        )
        with self._database.transact(self._owner) as cursor:
            cursor.execute("DELETE FROM memory WHERE owner = %s AND expires < now()", [self._owner])
            cursor.execute(query, [self._owner, key, pack_text(value), seconds])

    def recall(self, key: str) -> str | None:
        """What was kept under a key, unless it is too long ago."""
        query = "SELECT value FROM memory WHERE owner = %s AND key = %s AND expires >= now()"
        with self._database.transact(self._owner) as cursor:
            row = cursor.execute(query, [self._owner, key]).fetchone()
        return unpack_text(row[0]) if row else None

    def measure_bytes(self) -> int:
        """How much room everything takes; of a shared table only this user's share is counted."""
        parts = " + ".join(
            f"(SELECT coalesce(sum(pg_column_size(p.*)), 0) FROM {source}_pieces AS p"
            " WHERE owner = %s)"
            for source in SOURCES
        )
        with self._database.transact(self._owner) as cursor:
            return int(
                cursor.execute(f"SELECT {parts}", [self._owner] * len(SOURCES)).fetchone()[0]
            )

    def close(self) -> None:
        """Forget what was loaded; the connections are everybody's."""
        self._vectors = {}

    def _put(self, cursor: Any, source: Source, entry: Entry) -> str:
        if entry.id:
            query = f"DELETE FROM {source} WHERE owner = %s AND id = %s"
            cursor.execute(query, [self._owner, pack_text(entry.id)])
            if source in NUMBERED and entry.id.isdecimal():
                self._reserve(cursor, source, int(entry.id))
        elif source in NUMBERED:
            entry = replace(entry, id=str(self._take_id(cursor, source)))
        else:
            entry = replace(entry, id=str(uuids.uuid4()))
        columns = HEAD.removeprefix("number, ").replace("title,", "title, folded,")
        row = cursor.execute(
            f"INSERT INTO {source} (owner, folded_tags, {columns})"
            f" VALUES ({', '.join(['%s'] * 16)}) RETURNING number",
            [self._owner, fold_tags(entry.tags), *_pack(bind_head(entry))],
        ).fetchone()
        columns = PIECE.removeprefix("number, ")
        for piece in list_stored(entry):
            number = cursor.execute(
                f"INSERT INTO {source}_pieces (owner, item, {columns})"
                f" VALUES (%s, %s{', %s' * 9}) RETURNING number",
                [self._owner, row[0], *_pack(bind_piece(piece))],
            ).fetchone()[0]
            folded = pack_text(fold_text(f"{entry.title} {piece.text}"))
            vector = write_vector(*list_terms(entry, piece))
            cursor.execute(
                f"INSERT INTO {source}_words VALUES (%s, %s, %s, %s::tsvector)",
                [number, self._owner, folded, vector],
            )
        return entry.id

    def _advance(self, cursor: Any, source: Source) -> None:
        cursor.execute(
            "INSERT INTO counters (owner, source, generation) VALUES (%s, %s, 1)"
            " ON CONFLICT (owner, source) DO UPDATE SET generation = counters.generation + 1",
            [self._owner, source],
        )

    def _take_id(self, cursor: Any, source: Source) -> int:
        query = (
            "UPDATE counters SET next_id = next_id + 1 WHERE owner = %s AND source = %s"
            " RETURNING next_id - 1"
        )
        return int(cursor.execute(query, [self._owner, source]).fetchone()[0])

    def _reserve(self, cursor: Any, source: Source, number: int) -> None:
        query = (
            "UPDATE counters SET next_id = greatest(next_id, %s) WHERE owner = %s AND source = %s"
        )
        cursor.execute(query, [number + 1, self._owner, source])

    def _complete(self, cursor: Any, head: Entry) -> Entry:
        query = (
            f"SELECT {_PIECES} FROM {head.source}_pieces AS p"
            " WHERE p.owner = %s AND p.item = %s AND p.field <> %s ORDER BY p.place"
        )
        rows = cursor.execute(query, [self._owner, head.number, TITLE])
        return replace(head, pieces=tuple(_read_piece(row) for row in rows))

    def _select_pieces(
        self,
        source: Source,
        id: str,  # noqa: A002
        condition: str,
        values: list[Any],
    ) -> list[Piece]:
        query = (
            f"SELECT {_PIECES} FROM {source}_pieces AS p JOIN {source} AS e ON e.number = p.item"
            f" WHERE e.owner = %s AND e.id = %s AND {condition}"
        )
        with self._database.transact(self._owner) as cursor:
            rows = cursor.execute(query, [self._owner, pack_text(id), *values])
            return [_read_piece(row) for row in rows]

    def _load_vectors(self, source: Source, model: str) -> PackedRows:
        generation = self.generation(source)
        known = self._vectors.get(source)
        if known and known[:2] == (generation, model):
            return known[2]
        query = (
            f"SELECT number, vector FROM {source}_pieces WHERE owner = %s AND model = %s"
            " ORDER BY number"
        )
        with self._database.transact(self._owner) as cursor:
            rows = PackedRows(cursor.execute(query, [self._owner, model]).fetchall())
        self._vectors[source] = (generation, model, rows)
        return rows


def _pack(values: Sequence[Any]) -> list[Any]:
    return [
        pack_text(value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value)
        if isinstance(value, str | bytes)
        else value
        for value in values
    ]


def _read_head(source: Source, row: Sequence[Any]) -> Entry:
    return read_head(source, [unpack_text(v) if isinstance(v, str) else v for v in row])


def _read_piece(row: Sequence[Any]) -> Piece:
    return read_piece([unpack_text(v) if isinstance(v, str) else v for v in row])
