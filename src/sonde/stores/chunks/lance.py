"""The chunk store on LanceDB: chunk rows and vectors in Lance, their index in SQLite beside it.

SQLite holds the truth about which chunks exist, and the files, names, words and trigrams;
Lance holds the rows that any LanceDB client can open. New rows are in Lance before SQLite
commits, old ones leave after it: a crash leaves rows that no id refers to, never the reverse.
Writers to Lance hold SQLite's write lock, so that a merge never meets another writer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from sonde.errors import IndexCorrupt
from sonde.stores.chunks import tables
from sonde.stores.chunks.base import LIMITS, ChunkLimits, Drift, Vectors
from sonde.stores.chunks.lance_tables import (
    RFC_DIMENSIONS,
    ChunkRows,
    LanceVectors,
    connect,
    list_tables,
    optimize_table,
    translate_lance,
)
from sonde.stores.chunks.sqlite import ChunkIndex
from sonde.types import Chunk, Kind, ParsedFile

_MERGES_AFTER_WRITE = 2
"""Merges after the last write: one for what it replaced, one for what that merge replaced."""


class LanceChunkStore(ChunkIndex):
    """A `ChunkStore` whose rows and vectors any LanceDB client can read."""

    def __init__(
        self,
        folder: Path,
        kind: Kind,
        limits: ChunkLimits = LIMITS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        stem, table = (
            ("index", "project_docs") if kind == "code" else ("docs", "project_docs_prose")
        )
        path = folder / f"{stem}.lancedb"
        lance = connect(path)
        super().__init__(
            folder / f"{stem}.lance.db",
            path,
            lambda name, size: LanceVectors(lance, name, size, path),
            limits,
        )
        self._lance, self._limits, self._clock = lance, limits, clock
        self._rows = ChunkRows(lance, table, path)
        self._wrote_at, self._merges_due = 0.0, 0
        self._clean = False

    def replace(self, files: Sequence[ParsedFile]) -> None:
        with self._change() as connection:
            self._drop_unnumbered(connection)
            old = list(tables.select_files(connection, [f.state.path for f in files]))
            tables.write_files(connection, files, keep_text=False)
            added = self._number_chunks(connection, files)
            if added:
                self._rows.add(added, self._recall_vectors(connection, [c for c, _ in added]))
        self._delete_rows(old)
        self._clean = True
        self._note_write()

    def remove(self, paths: Collection[str]) -> None:
        with self._change() as connection:
            old = list(tables.select_files(connection, paths))
            tables.delete_files(connection, paths)
        self._delete_rows(old)
        self._note_write()

    def clear(self) -> None:
        super().clear()
        with self._database.write():
            self._rows.delete("true")

    def put_vectors(self, model: str, digests: Sequence[bytes], vectors: Vectors) -> None:
        super().put_vectors(model, digests, vectors)
        rows = np.asarray(vectors, np.float32)
        if len(rows) and rows.shape[1] == RFC_DIMENSIONS:
            with self._database.write():
                self._rows.put_vectors(dict(zip(digests, rows, strict=True)))
        self._note_write()

    def compact(self) -> None:
        super().compact()
        self._note_write()

    def tidy(self) -> None:
        super().tidy()
        if self._merges_due and self._clock() - self._wrote_at >= self._limits.quiet_s:
            self._reclaim()
            self._wrote_at, self._merges_due = self._clock(), self._merges_due - 1
        elif self._count_fragments() >= self._limits.max_fragments:
            self._reclaim()

    def verify(self) -> list[str]:
        broken = super().verify()
        with self._database.read() as connection:
            lost = len(self._find_lost(connection))
        return [*broken, f"chunks without a row in LanceDB: {lost}"] if lost else broken

    def find_drift(self, check: Callable[[], None], *, thorough: bool) -> Drift:
        drift = super().find_drift(check, thorough=thorough)
        with self._database.read() as connection:
            strays = len(self._rows.list_ids() - self._list_needed(connection))
        return replace(drift, strays=drift.strays + strays)

    def drop_broken(self) -> None:
        super().drop_broken()
        with self._database.write() as connection:
            self._sweep(connection)

    def _list_needed(self, connection: apsw.Connection) -> set[int]:
        return {key for (key,) in connection.execute("SELECT id FROM chunks")}

    def _find_lost(self, connection: apsw.Connection) -> set[int]:
        return self._list_needed(connection) - self._rows.list_ids()

    def _complete(self, chunks: list[Chunk]) -> list[Chunk]:
        found = self._complete_known(chunks)
        if len(found) < len(chunks):
            # rows go after the commit that drops their chunks: one that is still needed is lost
            gone = {chunk.id for chunk in chunks} - {chunk.id for chunk in found}
            with self._database.read() as connection:
                if gone & self._list_needed(connection):
                    raise IndexCorrupt(f"LanceDB read error - {self._folder} has lost rows")
        return found

    def _complete_known(self, chunks: list[Chunk]) -> list[Chunk]:
        textless = [chunk.id for chunk in chunks if not chunk.text]
        texts = self._rows.read(textless)
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

    def _drop_unnumbered(self, connection: apsw.Connection) -> None:
        """Remove rows that a crash left, before their ids are given out again."""
        if not self._clean:
            self._rows.delete(f"chunk >= {tables.read_state(connection, 'next_chunk')}")
        self._clean = False

    def _sweep(self, connection: apsw.Connection) -> None:
        self._drop_unnumbered(connection)
        stray = self._rows.list_ids() - self._list_needed(connection)
        if stray:
            self._rows.delete(f"chunk IN ({', '.join(map(str, stray))})")
        with translate_lance(self._folder):
            for name in list_tables(self._lance) - self._vectors.list_named(connection):
                if name.startswith("vectors-"):
                    self._lance.drop_table(name)

    def _note_write(self) -> None:
        self._wrote_at, self._merges_due = self._clock(), _MERGES_AFTER_WRITE

    def _count_fragments(self) -> int:
        with translate_lance(self._folder):
            found = [table.stats()["fragment_stats"]["num_fragments"] for table in self._tables()]
        return int(max(found))

    def _reclaim(self) -> None:
        """Merge small fragments; writers wait for it, readers do not."""
        with self._database.write(), translate_lance(self._folder):
            for table in self._tables():
                optimize_table(table, self._limits.kept_versions_s)

    def _tables(self) -> list[Any]:
        with self._database.read() as connection:
            # a model whose vectors are all gone has a name but no table
            named = self._vectors.list_named(connection) & list_tables(self._lance)
        return [self._rows.table, *map(self._lance.open_table, named)]
