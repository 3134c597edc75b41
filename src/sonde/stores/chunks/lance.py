"""The chunk store on LanceDB: chunk rows and vectors in Lance, their index in SQLite beside it.

SQLite holds the truth about which chunks exist, and the files, names, words and trigrams;
Lance holds the rows that any LanceDB client can open. New rows are in Lance before SQLite
commits, old ones leave after it: a crash leaves rows that no id refers to, never the reverse.
Writers to Lance hold SQLite's write lock, so that a merge never meets another writer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from sonde.errors import IndexCorrupt
from sonde.stores.chunks import lance_tables, tables
from sonde.stores.chunks.base import LIMITS, ChunkLimits, Drift, Vectors
from sonde.stores.chunks.lance_tables import RFC_DIMENSIONS, list_tables, translate_lance
from sonde.stores.chunks.sqlite import ChunkIndex
from sonde.types import Chunk, Kind, ParsedFile

_NAMES = {"code": ("index", "project_docs"), "docs": ("docs", "project_docs_prose")}
"""The stem of the files, and the table of chunks."""
_MERGES_AFTER_WRITE = 2  # one for what it replaced, one for what that merge replaced


class LanceChunkStore(ChunkIndex):
    """A `ChunkStore` whose rows and vectors any LanceDB client can read."""

    def __init__(
        self,
        folder: Path,
        kind: Kind,
        limits: ChunkLimits = LIMITS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        stem, table = _NAMES[kind]
        path = folder / f"{stem}.lancedb"
        lance = lance_tables.connect(path)
        open_rows = partial(lance_tables.LanceVectors, lance, path)
        super().__init__(folder / f"{stem}.lance.db", path, open_rows, limits)
        self._lance, self._limits, self._clock = lance, limits, clock
        self._rows = lance_tables.ChunkRows(lance, table, path)
        self._wrote_at, self._merges_due = 0.0, 0
        self._clean = False

    def replace(self, files: Sequence[ParsedFile], *, more: bool = False) -> None:
        with self._change() as connection:
            self._drop_unnumbered(connection)
            old = list(tables.select_files(connection, [f.state.path for f in files]))
            if added := tables.write_files(connection, files, keep_text=False, more=more):
                known = self._recall_vectors(connection, {id_: c.digest for id_, c, _ in added})
                self._rows.add(added, known)
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
            return
        with translate_lance(self._folder):
            found = [table.stats()["fragment_stats"]["num_fragments"] for table in self._tables()]
        if max(found) >= self._limits.max_fragments:
            self._reclaim()

    def verify(self) -> list[str]:
        broken = super().verify()
        with self._database.read() as connection:
            lost = len(_list_needed(connection) - self._rows.list_ids())
        return [*broken, f"chunks without a row in LanceDB: {lost}"] if lost else broken

    def find_drift(self, check: Callable[[], None], *, thorough: bool) -> Drift:
        drift = super().find_drift(check, thorough=thorough)
        with self._database.read() as connection:
            strays = len(self._rows.list_ids() - _list_needed(connection))
        return replace(drift, strays=drift.strays + strays)

    def drop_broken(self) -> None:
        super().drop_broken()
        with self._database.write() as connection:
            self._sweep(connection)

    def _complete(self, chunks: list[Chunk]) -> list[Chunk]:
        found = self._complete_known(chunks)
        if len(found) < len(chunks):
            # rows go after the commit that drops their chunks: one that is still needed is lost
            gone = {chunk.id for chunk in chunks} - {chunk.id for chunk in found}
            with self._database.read() as connection:
                if gone & _list_needed(connection):
                    raise IndexCorrupt(f"LanceDB read error - {self._folder} has lost rows")
        return found

    def _complete_known(self, chunks: list[Chunk]) -> list[Chunk]:
        stored = self._rows.read([chunk.id for chunk in chunks if not chunk.text])
        known = [chunk for chunk in chunks if chunk.text or chunk.id in stored]
        return [replace(chunk, **stored.get(chunk.id, {})) for chunk in known]

    def _recall_vectors(
        self, connection: apsw.Connection, digest_of: Mapping[int, bytes]
    ) -> dict[bytes, Vectors]:
        """Vectors of the RFC's size that are already known for these chunks."""
        query = "SELECT name FROM models WHERE dimensions = ? ORDER BY id"
        names = [str(name) for (name,) in connection.execute(query, (RFC_DIMENSIONS,))]
        return {
            digest_of[key]: vector
            for name in names
            for key, vector in self._vectors.read(connection, name, list(digest_of)).items()
        }

    def _delete_rows(self, files: Sequence[tables.StoredFile]) -> None:
        if ends := [(file.first, file.first + file.size) for file in files if file.size]:
            with self._database.write():
                ranges = (f"(chunk >= {first} AND chunk < {end})" for first, end in ends)
                self._rows.delete(" OR ".join(ranges))

    def _drop_unnumbered(self, connection: apsw.Connection) -> None:
        """Remove rows that a crash left, before their ids are given out again."""
        if not self._clean:
            self._rows.delete(f"chunk >= {tables.read_state(connection, 'next_chunk')}")
        self._clean = False

    def _sweep(self, connection: apsw.Connection) -> None:
        self._drop_unnumbered(connection)
        if stray := self._rows.list_ids() - _list_needed(connection):
            self._rows.delete(lance_tables.name_among("chunk", stray))
        with translate_lance(self._folder):
            for name in list_tables(self._lance) - self._vectors.list_named(connection):
                if name.startswith("vectors-"):
                    self._lance.drop_table(name)

    def _note_write(self) -> None:
        self._wrote_at, self._merges_due = self._clock(), _MERGES_AFTER_WRITE

    def _reclaim(self) -> None:
        """Merge small fragments and drop old versions; writers wait for it, readers do not."""
        kept = timedelta(seconds=self._limits.kept_versions_s)
        with self._database.write():
            for table in self._tables():
                with lance_tables.changing(table, self._folder):
                    table.optimize(cleanup_older_than=kept, delete_unverified=True)

    def _tables(self) -> list[Any]:
        with self._database.read() as connection:
            # a model whose vectors are all gone has a name but no table
            named = self._vectors.list_named(connection) & list_tables(self._lance)
        return [self._rows.table, *map(self._lance.open_table, named)]


def _list_needed(connection: apsw.Connection) -> set[int]:
    return {key for (key,) in connection.execute("SELECT id FROM chunks")}
