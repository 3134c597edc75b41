"""The chunk store on LanceDB: chunk rows and vectors in Lance, what finds them beside it.

SQLite holds the truth about which chunks exist, and the files, names, words and trigrams;
Lance holds the rows that any LanceDB client can open. New rows are in Lance before SQLite
commits, old ones leave after it: a crash leaves rows that no id refers to, never the reverse.
Whoever writes to Lance holds SQLite's write lock, so that a merge never meets another writer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from sonde.errors import IndexCorrupt
from sonde.stores.chunks import lexicon, tables
from sonde.stores.chunks import tables as schema
from sonde.stores.chunks.base import Vectors
from sonde.stores.chunks.lance_tables import (
    RFC_DIMENSIONS,
    ChunkRows,
    LanceVectors,
    connect,
    list_tables,
    optimize_table,
    translate_lance,
)
from sonde.stores.chunks.lexical import LexicalIndex
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.stores.chunks.vectors import VectorIndex
from sonde.stores.database import Database
from sonde.types import Chunk, Drift, Kind, ParsedFile

_MANY_PIECES = 50
"""From so many pieces of a table on, queries get slower."""
_REST_S, _RESTS = 12.0, 2
"""So long after the last write, what it replaced is older than what is kept for readers; and once
more, for what that merge replaced."""


class LanceChunkStore(SqliteChunkStore):
    """A `ChunkStore` whose rows and vectors any LanceDB client can read."""

    def __init__(self, folder: Path, kind: Kind, postings: float = lexicon.POSTINGS) -> None:
        stem, table = (
            ("index", "project_docs") if kind == "code" else ("docs", "project_docs_prose")
        )
        path = folder / f"{stem}.lancedb"
        lance = connect(path)
        self._folder = path
        self._database = Database(folder / f"{stem}.lance.db", schema.CHUNK_FORMAT)
        self._rows = ChunkRows(lance, table, path)
        self._lance = lance
        self._words = LexicalIndex(postings)
        self._dropping = threading.Lock()
        self._vectors = VectorIndex(lambda name, size: LanceVectors(lance, name, size, path))
        self._wrote_at, self._merges_due = 0.0, 0
        self._clean = False

    def replace(self, files: Sequence[ParsedFile]) -> None:
        """Put these files in place of their predecessors."""
        with self._change() as connection:
            self._sweep(connection)
            old = list(tables.select_files(connection, [f.state.path for f in files]))
            tables.write_files(connection, files, keep_text=False)
            added = self._number_chunks(connection, files)
            if added:
                self._rows.add(added, self._recall_vectors(connection, [c for c, _ in added]))
        self._delete_rows(old)
        self._clean = True
        self._note_write()

    def remove(self, paths: Collection[str]) -> None:
        """Forget these files."""
        with self._change() as connection:
            old = list(tables.select_files(connection, paths))
            tables.delete_files(connection, paths)
        self._delete_rows(old)
        self._note_write()

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        with self._database.write():
            self._rows.delete("true")

    def put_vectors(self, model: str, digests: Sequence[bytes], vectors: Vectors) -> None:
        """Keep one vector per digest; of the RFC's size they show in its column as well."""
        super().put_vectors(model, digests, vectors)
        rows = np.asarray(vectors, np.float32)
        if len(rows) and rows.shape[1] == RFC_DIMENSIONS:
            with self._database.write():
                self._rows.put_vectors(dict(zip(digests, rows, strict=True)))
        self._note_write()

    def compact(self) -> None:
        """Give back the space of what was replaced, without blocking a reader."""
        with self._change() as connection:
            self._sweep(connection, thoroughly=True)
            unused = self._vectors.compact(connection)
            tables.merge_words(connection)
        for rows in unused:
            rows.delete()
        self._merge()
        self._database.shrink()
        self._note_write()

    def tidy(self) -> None:
        """Compact when enough is wasted, or merge many small pieces."""
        super().tidy()
        if self._merges_due and time.monotonic() - self._wrote_at >= _REST_S:
            self._merge()
            self._wrote_at, self._merges_due = time.monotonic(), self._merges_due - 1
        elif self._count_pieces() >= _MANY_PIECES:
            self._merge()

    def verify(self) -> list[str]:
        """What is broken inside the store."""
        broken = super().verify()
        with self._database.read() as connection:
            lost = len(self._find_lost(connection))
        return [*broken, f"chunks without a row in LanceDB: {lost}"] if lost else broken

    def find_drift(self, check: Callable[[], None], *, thorough: bool) -> Drift:
        """What does not fit together inside the store, or between SQLite and Lance."""
        drift = super().find_drift(check, thorough=thorough)
        with self._database.read() as connection:
            strays = len(self._rows.list_ids() - self._list_needed(connection))
        return replace(drift, strays=drift.strays + strays)

    def drop_broken(self) -> None:
        """Remove rows that belong to nothing, and damaged vectors."""
        super().drop_broken()
        with self._database.write() as connection:
            self._sweep(connection, thoroughly=True)

    def _list_needed(self, connection: apsw.Connection) -> set[int]:
        return {key for (key,) in connection.execute("SELECT id FROM chunks")}

    def _find_lost(self, connection: apsw.Connection) -> set[int]:
        return self._list_needed(connection) - self._rows.list_ids()

    def _complete(self, chunks: list[Chunk]) -> list[Chunk]:
        found = self._complete_known(chunks)
        if len(found) < len(chunks):
            # rows leave after the commit that drops them: whoever still names one now has lost it
            gone = {chunk.id for chunk in chunks} - {chunk.id for chunk in found}
            with self._database.read() as connection:
                if gone & self._list_needed(connection):
                    raise IndexCorrupt(f"LanceDB read error - {self._folder} has lost rows")
        return found

    def _complete_known(self, chunks: list[Chunk]) -> list[Chunk]:
        lacking = [chunk.id for chunk in chunks if not chunk.text]
        texts = self._rows.read(lacking)
        return [
            chunk
            if chunk.text
            else replace(chunk, header=texts[chunk.id][0], text=texts[chunk.id][1])
            for chunk in chunks
            if chunk.text or chunk.id in texts
        ]

    def _number_chunks(
        self, connection: apsw.Connection, files: Sequence[ParsedFile]
    ) -> list[tuple[Chunk, str]]:
        """The chunks as they were stored, each with the hash of its file."""
        latest = {file.state.path: file for file in files}
        numbered = []
        for path, file in latest.items():
            for stored in tables.select_files(connection, [path]):
                ordered = sorted(file.chunks, key=lambda chunk: chunk.span.start_byte)
                numbered += [
                    (replace(chunk, id=stored.first + place), file.state.hash)
                    for place, chunk in enumerate(ordered)
                ]
        return numbered

    def _recall_vectors(
        self, connection: apsw.Connection, chunks: Sequence[Chunk]
    ) -> dict[bytes, Vectors]:
        """Vectors of the RFC's size that are already known for these chunks."""
        query = "SELECT name FROM models WHERE dimensions = ? ORDER BY id"
        names = [str(name) for (name,) in connection.execute(query, (RFC_DIMENSIONS,))]
        digest_of = {chunk.id: chunk.digest for chunk in chunks}
        return {
            digest_of[key]: vector
            for name in names
            for key, vector in self._vectors.read(connection, name, list(digest_of)).items()
        }

    def _delete_rows(self, files: Sequence[tables.StoredFile]) -> None:
        ranges = [
            f"(chunk >= {file.first} AND chunk < {file.first + file.size})"
            for file in files
            if file.size
        ]
        if ranges:
            with self._database.write():
                self._rows.delete(" OR ".join(ranges))

    def _sweep(self, connection: apsw.Connection, *, thoroughly: bool = False) -> None:
        """Remove rows that a crash left, before their ids are given out again."""
        if not self._clean:
            self._rows.delete(f"chunk >= {schema.read_state(connection, 'next_chunk')}")
        self._clean = False
        if thoroughly:
            stray = self._rows.list_ids() - self._list_needed(connection)
            if stray:
                self._rows.delete(f"chunk IN ({', '.join(map(str, stray))})")
            with translate_lance(self._folder):
                for name in list_tables(self._lance) - self._vectors.list_named(connection):
                    if name.startswith("vectors-"):
                        self._lance.drop_table(name)

    def _note_write(self) -> None:
        self._wrote_at, self._merges_due = time.monotonic(), _RESTS

    def _count_pieces(self) -> int:
        with translate_lance(self._folder):
            found = [table.stats()["fragment_stats"]["num_fragments"] for table in self._tables()]
        return int(max(found))

    def _merge(self) -> None:
        """Merge small pieces; writers wait for it, readers do not."""
        with self._database.write(), translate_lance(self._folder):
            for table in self._tables():
                optimize_table(table)

    def _tables(self) -> list[Any]:
        with self._database.read() as connection:
            # a model whose vectors are all gone has a name but no table
            named = self._vectors.list_named(connection) & list_tables(self._lance)
        return [self._rows.table, *map(self._lance.open_table, named)]
