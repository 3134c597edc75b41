"""A user's knowledge in SQLite: `media.db`, `chacha.db` and `prompts.db` in one folder."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import apsw

from sonde.errors import IndexCorrupt
from sonde.stores.chunks.base import Vectors
from sonde.stores.database import Database, Value, bind_row, bind_text, read_number, read_row
from sonde.stores.files import measure_folder
from sonde.stores.knowledge.base import (
    ANYTHING,
    NUMBERED,
    Conditions,
    Entry,
    Piece,
    Place,
    RankedPiece,
    Source,
)
from sonde.stores.knowledge.rows import (
    HEAD,
    HEADS,
    MOST_LISTED,
    PIECE,
    PIECES,
    EntryReader,
    Select,
    Tally,
    find_number,
    fold_tags,
    keep_newest,
    list_head,
    list_piece,
    list_stored,
    read_entry_head,
    read_ranked,
)
from sonde.stores.knowledge.sqlite_schema import DATABASES, make_format
from sonde.stores.knowledge.sqlite_vectors import PieceVectors
from sonde.stores.knowledge.sqlite_words import POSTINGS, SqliteWords, count_words, select_allowed
from sonde.stores.knowledge.words import rank_words, weigh_words
from sonde.stores.vectors import VectorFile
from sonde.types import Scored

T = TypeVar("T")
_log = logging.getLogger(__name__)
_EVERYTHING = re.compile(":[ep]\\b")
"""The condition on the owner in queries of `EntryReader`; here all rows have the same one."""


class SqliteKnowledge(EntryReader):
    """A `KnowledgeStore` of one user in three files; vectors are opened on demand."""

    shared = False
    scale = "range"

    def __init__(self, folder: Path, postings: int = POSTINGS) -> None:
        self.folder = folder
        self._postings = postings
        self._databases: dict[str, Database] = {}
        self._of: dict[Source, Database] = {}
        self._vectors: dict[Source, PieceVectors] = {}
        self._memory: dict[str, tuple[float, str]] = {}
        try:
            for name, sources in DATABASES.items():
                database = Database(folder / f"{name}.db", make_format(name))
                self._databases[name] = database
                for source in sources:
                    self._of[source] = database
                    self._vectors[source] = PieceVectors(folder / f"{name}.vectors", source)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def _reading(self, source: Source) -> Iterator[Select]:
        with self._of[source].read() as connection:

            def select(query: str, *values: Value) -> list[list[Any]]:
                rows = connection.execute(_EVERYTHING.sub("1", query), bind_row(values))
                return [read_row(row) for row in rows]

            yield select

    @contextmanager
    def _changing(self, source: Source) -> Iterator[tuple[apsw.Connection, list[VectorFile]]]:
        """A change of a source, and the files to delete once it is committed."""
        files: list[VectorFile] = []
        with self._of[source].write() as connection:
            yield connection, files
            connection.execute("UPDATE state SET value = value + 1 WHERE key = ?", (source,))
        for file in files:
            file.delete()

    def put(self, source: Source, entries: Sequence[Entry]) -> list[str]:
        with self._changing(source) as (connection, _):
            tally = Tally()
            ids = [_put(connection, source, entry, tally) for entry in entries]
            count_words(connection, source, tally.terms)
        return ids

    def restamp(self, source: Source, rows: Mapping[str, tuple[str, str]]) -> None:
        query = f"UPDATE {source} SET path = ?, hash = ? WHERE id = ?"
        values = [(bind_text(path), text, bind_text(id)) for id, (path, text) in rows.items()]  # noqa: A001
        with self._of[source].write() as connection:
            connection.executemany(query, values)

    def remove(self, source: Source, ids: Collection[str]) -> int:
        with self._changing(source) as (connection, files):
            tally = Tally()
            gone = sum(_remove(connection, source, each, tally) is not None for each in ids)
            if gone:
                count_words(connection, source, tally.terms)
                files += self._vectors[source].tidy(connection)
        return gone

    def bury(self, source: Source, places: Mapping[Place, str]) -> None:
        rows = [(source, *map(bind_text, place), text) for place, text in places.items()]
        with self._of[source].write() as connection:
            connection.executemany("INSERT OR REPLACE INTO buried VALUES (?, ?, ?, ?)", rows)

    def unbury(self, source: Source, places: Collection[Place]) -> None:
        query = "DELETE FROM buried WHERE source = ? AND origin = ? AND path = ?"
        with self._of[source].write() as connection:
            connection.executemany(query, [(source, *map(bind_text, place)) for place in places])

    def rank(
        self, source: Source, terms: Sequence[str], limit: int, where: Conditions = ANYTHING
    ) -> list[Scored]:
        with self._of[source].read() as connection:
            index = SqliteWords(connection, source, where, self._postings)
            return rank_words(index, terms, limit, narrowed=where != ANYTHING)

    def weigh_terms(self, source: Source, terms: Sequence[str]) -> Mapping[str, float]:
        with self._of[source].read() as connection:
            index = SqliteWords(connection, source, ANYTHING, self._postings)
            return weigh_words(index, terms)

    def nearest(
        self, source: Source, model: str, vector: Vectors, limit: int, where: Conditions = ANYTHING
    ) -> list[Scored]:
        nearest = self._vectors[source].nearest
        return self._try_vectors(source, lambda it: nearest(it, model, vector, limit, where)) or []

    def compare(
        self, source: Source, model: str, vector: Vectors, numbers: Sequence[int]
    ) -> Mapping[int, float]:
        compare = self._vectors[source].compare
        return self._try_vectors(source, lambda it: compare(it, model, vector, numbers)) or {}

    def _try_vectors(self, source: Source, read: Callable[[apsw.Connection], T]) -> T | None:
        """Read from the vectors; if they are damaged, delete them and return None."""
        for _ in range(2):  # another process may rewrite the file during the first attempt
            with contextlib.suppress(IndexCorrupt), self._of[source].read() as connection:
                return read(connection)
        with self._changing(source) as (connection, files):
            files += self._vectors[source].forget(connection)
        _log.warning("the vectors of %s in %s are damaged and will be rebuilt", source, self.folder)
        return None

    def drop_damaged(self, source: Source, model: str) -> int:
        vectors = self._vectors[source]
        find = vectors.find_damaged
        damaged = self._try_vectors(source, lambda connection: find(connection, model))
        if damaged:
            with self._changing(source) as (connection, _):
                vectors.drop(connection, model, damaged)
        return len(damaged or ())

    def coverage(self, source: Source, model: str) -> tuple[int, int]:
        with self._of[source].read() as connection:
            return self._vectors[source].count(connection, model)

    def forget_models(self, source: Source, kept: Collection[str]) -> None:
        vectors = self._vectors[source]
        with self._of[source].read() as connection:
            old = set(vectors.list_names(connection)) - set(kept)
        if old:
            with self._changing(source) as (connection, files):
                files += vectors.forget(connection, old)

    def list_recent(self, source: Source, where: Conditions, limit: int) -> list[RankedPiece]:
        with self._of[source].read() as connection:
            numbers = select_allowed(connection, source, where).tolist()
        return keep_newest(self.locate(source, sorted(numbers)[-MOST_LISTED:]).values(), limit)

    def locate(self, source: Source, numbers: Sequence[int]) -> Mapping[int, RankedPiece]:
        query = (
            f"SELECT {PIECES}, {HEADS} FROM json_each(?)"
            f" CROSS JOIN {source}_pieces AS p ON p.number = value"
            f" CROSS JOIN {source} AS e ON e.number = p.item"
        )
        rows = self._of[source].select(query, (json.dumps(list(numbers)),))
        found = [read_ranked(source, read_row(row)) for row in rows]
        return {each.piece.number: each for each in found}

    def list_bare(
        self, source: Source, model: str, limit: int, before: int | None = None
    ) -> list[RankedPiece]:
        with self._of[source].read() as connection:
            numbers = self._vectors[source].list_bare(connection, model, limit, before)
        return list(self.locate(source, numbers).values())

    def put_vectors(
        self, source: Source, model: str, numbers: Sequence[int], rows: Vectors
    ) -> None:
        with self._changing(source) as (connection, _):
            self._vectors[source].write(connection, model, numbers, rows)

    def remember(self, key: str, value: str, seconds: float) -> None:
        now = time.monotonic()
        kept = {name: each for name, each in self._memory.items() if each[0] > now}
        self._memory = kept | {key: (now + seconds, value)}

    def recall(self, key: str) -> str | None:
        expires, value = self._memory.get(key, (0.0, ""))
        return value if expires > time.monotonic() else None

    def measure_bytes(self) -> int:
        size = sum(database.measure_bytes() for database in self._databases.values())
        folders = (self.folder / f"{name}.vectors" for name in DATABASES)
        return size + sum(measure_folder(each) for each in folders if each.is_dir())

    def close(self) -> None:
        for database in self._databases.values():
            database.close()


def _put(connection: apsw.Connection, source: Source, entry: Entry, tally: Tally) -> str:
    number: int | None = None
    if entry.id:
        number = _remove(connection, source, entry.id, tally)
        if number is None and source in NUMBERED:
            number = find_number(entry.id)
            query = f"SELECT count(*) FROM {source} WHERE number = ?"
            if read_number(connection, query, (number,)):
                number = None  # an entry with another id has it
    elif source not in NUMBERED:
        entry = replace(entry, id=str(uuid.uuid4()))
    connection.execute(
        f"INSERT INTO {source} (number, {HEAD}, folded) VALUES ({', '.join('?' * 15)})",
        (number, *bind_row(list_head(entry))),
    )
    if number is None:
        number = connection.last_insert_rowid()
    if not entry.id:
        entry = replace(entry, id=str(number))
        connection.execute(f"UPDATE {source} SET id = ? WHERE number = ?", (entry.id, number))
    tags = [(tag, number) for tag in fold_tags(entry.tags)]
    connection.executemany(f"INSERT INTO {source}_tags VALUES (?, ?)", tags)
    for piece in list_stored(entry):
        connection.execute(
            f"INSERT INTO {source}_pieces (item, {PIECE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, *bind_row(list_piece(piece))),
        )
        terms = tally.count(entry, piece)
        connection.execute(
            f"INSERT INTO {source}_words (rowid, title, tags, body) VALUES (?, ?, ?, ?)",
            (connection.last_insert_rowid(), *map(" ".join, terms)),
        )
    return entry.id


def _remove(connection: apsw.Connection, source: Source, key: str, tally: Tally) -> int | None:
    """Remove an entry. Returns its number, for its replacement."""
    query = f"SELECT {HEADS} FROM {source} AS e WHERE id = ?"
    row = connection.execute(query, (bind_text(key),)).fetchone()
    if row is None:
        return None
    head = read_entry_head(source, read_row(row))
    pieces = f"SELECT {PIECES} FROM {source}_pieces AS p WHERE item = ?"
    for row in connection.execute(pieces, (head.number,)):
        tally.count(head, Piece(*read_row(row)), -1)
    for those in (
        f"{source}_words WHERE rowid IN (SELECT number FROM {source}_pieces WHERE item = ?)",
        f"{source}_vectors WHERE number IN (SELECT number FROM {source}_pieces WHERE item = ?)",
        f"{source}_pieces WHERE item = ?",
        f"{source}_tags WHERE item = ?",
        f"{source} WHERE number = ?",
    ):
        connection.execute(f"DELETE FROM {those}", (head.number,))
    return head.number
