"""Chunk stores indexed by SQLite; the embedded one keeps vectors in mapped files beside it."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import TypeVar

import apsw
import numpy as np

from sonde.errors import IndexCorrupt, SondeError
from sonde.stores.chunks import integrity, tables
from sonde.stores.chunks.base import EVERYTHING, LIMITS, ChunkLimits, Drift, Vectors
from sonde.stores.chunks.lexical import MERGE_WORDS, LexicalIndex, order_ties
from sonde.stores.chunks.lexicon import forget_terms, spell_gram_query, spell_match
from sonde.stores.chunks.tables import read_state
from sonde.stores.chunks.vectors import VectorIndex
from sonde.stores.database import Database, bind_text, read_number, read_stored_text
from sonde.stores.files import measure_folder
from sonde.stores.vectors import VectorFile, VectorRows
from sonde.text.words import fold_name
from sonde.types import (
    Chunk,
    FileState,
    Filter,
    Kind,
    Needs,
    Outline,
    ParsedFile,
    Scored,
    StoreCounts,
)

R = TypeVar("R")
_log = logging.getLogger(__name__)
_STATE = "f.path, f.hash, f.size, f.mtime_ns, f.language, f.kind, f.stamp"
_NAMED = "SELECT path FROM names JOIN files ON files.id = names.rowid WHERE names MATCH ?"
_WITHOUT_VECTOR = (
    "WHERE NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.digest = c.digest"
    " AND v.model_id = (SELECT id FROM models WHERE name = ?) AND v.slot < ?)"
    " ORDER BY f.mtime_ns DESC, f.path, c.id LIMIT ?"
)


class ChunkIndex:
    """A chunk store's files, names, words and trigrams in SQLite, and where its vectors are.

    Backends differ in where they keep vectors (`open_rows`) and texts (`_complete`).
    """

    def __init__(
        self,
        path: Path,
        folder: Path,
        open_rows: Callable[[str, int], VectorRows],
        limits: ChunkLimits,
    ) -> None:
        self._folder = folder
        self._database = Database(path, tables.CHUNK_FORMAT, limits.spare_pages)
        self._words = LexicalIndex(limits)
        self._vectors = VectorIndex(open_rows, limits)
        self._dropping = threading.Lock()
        self._dropped = 0  # damaged vectors that are not made again yet
        self._files = (-1, 0)  # how many there are, as of a generation

    def generation(self) -> int:
        with self._database.read() as connection:
            return read_state(connection, "generation")

    def counts(self) -> StoreCounts:
        with self._database.read() as connection:
            generation = read_state(connection, "generation")
            chunks = read_state(connection, "chunks")
            if self._files[0] != generation:  # counting looks at every file
                self._files = generation, read_number(connection, "SELECT count(*) FROM files")
            files = self._files[1]
        size = self._database.measure_bytes() + measure_folder(self._folder)
        return StoreCounts(files=files, chunks=chunks, bytes=size)

    def files(
        self, paths: Collection[str] | None = None, *, under: str = ""
    ) -> Mapping[str, FileState]:
        with self._database.read() as connection:
            if paths is None:
                rows = tables.select_under(connection, _STATE, under)
            else:
                rows = tables.select_among(connection, _STATE, paths)
            return {(path := read_stored_text(row[0])): FileState(path, *row[1:]) for row in rows}

    def replace(self, files: Sequence[ParsedFile], *, more: bool = False) -> None:
        with self._change() as connection:
            tables.write_files(connection, files, keep_text=True, more=more)

    def touch(self, states: Sequence[FileState]) -> None:
        columns = "hash = ?, size = ?, mtime_ns = ?, language = ?, kind = ?, stamp = ?"
        rows = [(*astuple(state)[1:], bind_text(state.path)) for state in states]
        with self._change() as connection:
            connection.executemany(f"UPDATE files SET {columns} WHERE path = ?", rows)  # noqa: S608

    def remove(self, paths: Collection[str]) -> None:
        with self._change() as connection:
            tables.delete_files(connection, paths)

    def clear(self) -> None:
        with self._freeing() as (connection, unused):
            connection.execute(tables.EMPTY)
            unused += self._vectors.clear(connection)

    def chunks(self, ids: Sequence[int]) -> list[Chunk]:
        condition = "WHERE c.id IN (SELECT value FROM json_each(?))"
        with self._database.read() as connection:
            query = f"{tables.OF_CHUNKS} {condition}"
            found = tables.select_chunks(connection, query, (json.dumps(list(ids)),))
            chunk_of = {chunk.id: chunk for chunk in self._complete(list(found))}
        return [chunk_of[key] for key in ids if key in chunk_of]

    def chunks_of(self, path: str) -> list[Chunk]:
        with self._database.read() as connection:
            for file in tables.select_files(connection, [path]):
                query = f"{tables.OF_FILES} WHERE f.id = ? ORDER BY c.id"
                return self._complete(list(tables.select_chunks(connection, query, (file.id,))))
        return []

    def chunk_lines(self, paths: Collection[str]) -> Mapping[str, list[tuple[int, int, int, str]]]:
        columns = "f.path, c.id, c.start_line, c.end_line, c.symbol"
        found: dict[str, list[tuple[int, int, int, str]]] = {}
        with self._database.read() as connection:
            rows = tables.select_among(connection, columns, paths, tables.THEIR_CHUNKS)
            for path, key, first, last, symbol in rows:
                row = key, first, last, read_stored_text(symbol)
                found.setdefault(read_stored_text(path), []).append(row)
        return found

    def symbols_of(self, paths: Collection[str]) -> Mapping[str, Outline]:
        with self._database.read() as connection:
            rows = tables.select_among(connection, "f.path, f.symbols, f.hash", paths)
            return {
                read_stored_text(p): Outline(read_stored_text(text), of) for p, text, of in rows
            }

    def tags(self) -> Mapping[str, tuple[str, ...]]:
        rows = self._database.select("SELECT path, tags FROM files WHERE tags <> ''")
        return {read_stored_text(path): tuple(json.loads(tags)) for path, tags in rows}

    def paths_named(self, names: Collection[str]) -> set[str]:
        folded = sorted({fold_name(name) for name in names} - {""})
        if not folded:
            return set()
        return set(self._database.select_texts(_NAMED, (f"known : ({spell_match(folded)})",)))

    def paths_beginning(self, prefix: str, limit: int) -> list[str]:
        query, wanted = f"{_NAMED} ORDER BY path LIMIT ?", fold_name(prefix)
        values = f'known : "{wanted}" *', limit
        return self._database.select_texts(query, values) if wanted else []

    def known_names(self, shortest: int, longest: int) -> list[str]:
        return self._database.select_texts(tables.NAMES_BY_LENGTH, (shortest, longest))

    def importers(self, stems: Collection[str]) -> Mapping[str, int]:
        query = "SELECT count(*) FROM names WHERE names MATCH ?"
        wanted = {fold_name(stem) for stem in stems} - {""}
        with self._database.read() as connection:
            counted = [(s, read_number(connection, query, (f'imports : "{s}"',))) for s in wanted]
        return {stem: count for stem, count in counted if count}

    def lexical(self, terms: Sequence[str], limit: int, where: Filter = EVERYTHING) -> list[Scored]:
        with self._database.read() as connection:
            return self._words.rank(connection, terms, limit, where)

    def term_counts(self, terms: Collection[str]) -> Mapping[str, int]:
        with self._database.read() as connection:
            return self._words.count(connection, terms)

    def trigram_candidates(self, needs: Needs, where: Filter = EVERYTHING) -> set[str]:
        wanted = spell_gram_query(needs)
        query = (
            "SELECT path FROM grams JOIN files ON files.id = grams.rowid WHERE grams MATCH ?"
            if wanted
            else "SELECT path FROM files"
        )
        found = set(self._database.select_texts(query, (wanted,) if wanted else ()))
        return found if where.paths is None else found & where.paths

    def whole_texts(self, paths: Collection[str]) -> Mapping[str, bytes]:
        with self._database.read() as connection:
            return tables.read_whole_texts(connection, paths)

    def dense(
        self, model: str, vector: Vectors, limit: int, where: Filter = EVERYTHING
    ) -> list[Scored]:
        query = np.asarray(vector, np.float32).reshape(-1)

        def find(connection: apsw.Connection) -> list[Scored]:
            allowed = self._words.allow(connection, where)
            found = self._vectors.find(connection, model, query, limit, allowed)
            return order_ties(connection, found, limit)

        return self._read_vectors(find, [])

    def vectors(self, model: str, ids: Sequence[int]) -> Mapping[int, Vectors]:
        return self._read_vectors(lambda c: self._vectors.read(c, model, ids), {})

    def definition_vectors(
        self, model: str, ids: Sequence[int]
    ) -> Mapping[tuple[int, int], Vectors]:
        return self._read_vectors(lambda c: self._vectors.read_definitions(c, model, ids), {})

    def put_vectors(self, model: str, digests: Sequence[bytes], vectors: Vectors) -> None:
        with self._database.write() as connection:
            self._vectors.write(connection, model, digests, vectors)

    def known_digests(self, model: str, digests: Collection[bytes]) -> set[bytes]:
        with self._database.read() as connection:
            return self._vectors.find_known(connection, model, digests)

    def missing(self, model: str, limit: int) -> list[Chunk]:
        covered, total = self.coverage(model)
        if covered == total:
            self._dropped = 0
            return []
        with self._database.read() as connection:
            query = f"{tables.OF_FILES} {_WITHOUT_VECTOR}"
            complete = self._vectors.count_complete(connection, model)
            found = list(tables.select_chunks(connection, query, (model, complete, limit)))
        if not found and (damaged := self._vectors.count_left_out()):
            self._dropped = damaged
            self.drop_broken()
            return self.missing(model, limit)
        return self._complete(found)

    def coverage(self, model: str) -> tuple[int, int]:
        with self._database.read() as connection:
            return self._vectors.count(connection, model), read_state(connection, "chunks")

    def count_damaged(self) -> int:
        return self._vectors.count_left_out() or self._dropped

    def models(self) -> list[str]:
        query = (
            "SELECT name FROM models AS m WHERE EXISTS"
            " (SELECT 1 FROM vectors AS v WHERE v.model_id = m.id) ORDER BY name"
        )
        return self._database.select_texts(query)

    def compact(self) -> None:
        with self._freeing() as (connection, unused):
            self._sweep(connection)
            unused += self._vectors.compact(connection)
            connection.execute(MERGE_WORDS)
        self._reclaim()
        self._database.shrink()

    def tidy(self) -> None:
        with self._database.read() as connection:
            wasteful = self._vectors.is_wasteful(connection)
            wasteful |= self._words.is_scattered(connection)
        if wasteful or self._database.is_wasteful():
            self.compact()

    def rest(self) -> None:
        self._vectors.rest()
        self._words.rest()
        forget_terms()
        self._database.rest()

    def verify(self) -> list[str]:
        if broken := self._database.check():
            return broken
        with self._database.read() as connection:
            damaged = self._vectors.count_damaged(connection)
            return integrity.list_contradictions(connection) + [
                f"damaged vectors of {name}: {count}" for name, count in damaged.items()
            ]

    def find_drift(self, check: Callable[[], None], *, thorough: bool) -> Drift:
        if broken := self._database.check():
            raise IndexCorrupt(f"{self._database.path}: {'; '.join(broken[:3])}")
        self._vectors.rest()
        read = self._database.read
        with read() as connection:
            strays = sum(map(len, integrity.find_strays(connection).values()))
            strays += len(integrity.find_miscounts(connection))
            files = integrity.find_incomplete(connection)
            check()
            damaged = sum(self._vectors.count_damaged(connection).values())
        files |= integrity.find_altered(read, self._complete_known, check, words=thorough)
        return Drift(files=frozenset(files), strays=strays, vectors=damaged)

    def drop_broken(self) -> None:
        with self._freeing() as (connection, unused):
            integrity.remove_strays(connection)
            unused += self._vectors.drop_damaged(connection)
        self._vectors.rest()  # it counts what was left out, too

    def close(self) -> None:
        self._database.close()

    def _read_vectors(self, read: Callable[[apsw.Connection], R], nothing: R) -> R:
        """Read vectors; retry once if a compaction moved them meanwhile, or some are lost."""
        try:
            with self._database.read() as connection:
                return read(connection)
        except IndexCorrupt:
            self._vectors.rest()
        if not self._dropping.locked():
            threading.Thread(target=self._drop_damaged, daemon=True).start()
        try:
            with self._database.read() as connection:
                return read(connection)
        except IndexCorrupt as error:
            with self._database.read() as connection:
                read_state(connection, "generation")  # raises if all of the index is corrupt
            _log.warning("searching without vectors: %s", error)
        return nothing

    def _drop_damaged(self) -> None:
        """Drop damaged vectors in the background, so that they are embedded again."""
        with self._dropping, contextlib.suppress(SondeError):
            self.drop_broken()

    def _complete(self, chunks: list[Chunk]) -> list[Chunk]:
        """Add the texts that are stored outside SQLite."""
        return chunks

    def _complete_known(self, chunks: list[Chunk]) -> list[Chunk]:
        """The same, without chunks whose texts are lost."""
        return chunks

    def _sweep(self, connection: apsw.Connection) -> None:
        """Remove what a crash left outside SQLite, inside a transaction."""

    def _reclaim(self) -> None:
        """Reclaim space outside SQLite after a compaction."""

    @contextlib.contextmanager
    def _change(self) -> Iterator[apsw.Connection]:
        with self._database.write() as connection:
            yield connection
            tables.advance_state(connection, "generation")

    @contextlib.contextmanager
    def _freeing(self) -> Iterator[tuple[apsw.Connection, list[VectorRows]]]:
        """A change; rows of vectors that are added to the list are deleted after its commit."""
        unused: list[VectorRows] = []
        with self._change() as connection:
            yield connection, unused
        for rows in unused:
            rows.delete()


class SqliteChunkStore(ChunkIndex):
    """A `ChunkStore` in one SQLite file and a folder of vectors."""

    def __init__(self, folder: Path, kind: Kind, limits: ChunkLimits = LIMITS) -> None:
        stem = "index" if kind == "code" else "docs"
        path = folder / f"{stem}.vectors"
        super().__init__(
            folder / f"{stem}.db", path, lambda name, size: VectorFile(path / name, size), limits
        )

    def _reclaim(self) -> None:
        """Remove vector files that a crash left, which the database does not name."""
        with self._database.write() as connection:
            named = self._vectors.list_named(connection)
            for path in self._folder.glob("*"):
                if path.stem not in named and path.suffix in (".i8", ".bits"):
                    path.unlink(missing_ok=True)
