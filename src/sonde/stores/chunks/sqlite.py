"""The embedded chunk store: rows and words in SQLite, vectors in mapped files beside it."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import apsw
import numpy as np

from sonde.errors import IndexCorrupt, SondeError
from sonde.stores.chunks import integrity, lexicon, tables
from sonde.stores.chunks import tables as schema
from sonde.stores.chunks.base import EVERYTHING, Vectors
from sonde.stores.chunks.lexical import LexicalIndex, count_term, order_ties
from sonde.stores.chunks.vectors import VectorIndex
from sonde.stores.database import Database
from sonde.stores.records import measure_folder
from sonde.stores.vectors import VectorFile, delete_strays
from sonde.types import (
    Chunk,
    Drift,
    FileState,
    Filter,
    Kind,
    Needs,
    ParsedFile,
    Scored,
    StoreCounts,
    Symbol,
)

R = TypeVar("R")
_log = logging.getLogger(__name__)
_LACKING = (
    "WHERE NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.digest = c.digest"
    " AND v.model_id = (SELECT id FROM models WHERE name = ?) AND v.slot < ?)"
    " ORDER BY f.mtime_ns DESC, f.path, c.id LIMIT ?"
)


class SqliteChunkStore:
    """A `ChunkStore` in one SQLite file and a folder of vectors."""

    def __init__(self, folder: Path, kind: Kind, postings: float = lexicon.POSTINGS) -> None:
        path = folder / ("index.db" if kind == "code" else "docs.db")
        self._folder = path.with_name(f"{path.stem}.vectors")
        self._database = Database(path, schema.CHUNK_FORMAT)
        self._words = LexicalIndex(postings)
        self._dropping = threading.Lock()
        self._vectors = VectorIndex(lambda name, size: VectorFile(self._folder / name, size))

    def generation(self) -> int:
        """How many changes were committed."""
        with self._database.read() as connection:
            return schema.read_state(connection, "generation")

    def counts(self) -> StoreCounts:
        """Files, chunks, and bytes on disk."""
        with self._database.read() as connection:
            files = schema.read_number(connection, "SELECT count(*) FROM files")
            chunks = schema.count_chunks(connection)
        size = self._database.measure_bytes() + measure_folder(self._folder)
        return StoreCounts(files=files, chunks=chunks, bytes=size)

    def files(self) -> Mapping[str, FileState]:
        """Every indexed file by path."""
        with self._database.read() as connection:
            return tables.read_files(connection)

    def states(self, paths: Collection[str]) -> Mapping[str, FileState]:
        """The known ones of these files."""
        with self._database.read() as connection:
            return tables.read_files(connection, paths)

    def replace(self, files: Sequence[ParsedFile]) -> None:
        """Put these files in place of their predecessors."""
        with self._change() as connection:
            tables.write_files(connection, files)

    def touch(self, states: Sequence[FileState]) -> None:
        """Record new states of known files."""
        with self._change() as connection:
            tables.update_states(connection, states)

    def remove(self, paths: Collection[str]) -> None:
        """Forget these files."""
        with self._change() as connection:
            tables.delete_files(connection, paths)

    def clear(self) -> None:
        """Forget everything."""
        with self._change() as connection:
            tables.delete_everything(connection)
            unused = self._vectors.clear(connection)
        for file in unused:
            file.delete()

    def chunks(self, ids: Sequence[int]) -> list[Chunk]:
        """The chunks with these ids that exist, in this order."""
        condition = "WHERE c.id IN (SELECT value FROM json_each(?))"
        with self._database.read() as connection:
            query = f"{tables.OF_CHUNKS} {condition}"
            found = tables.select_chunks(connection, query, (json.dumps(list(ids)),))
            chunk_of = {chunk.id: chunk for chunk in self._complete(list(found))}
        return [chunk_of[key] for key in ids if key in chunk_of]

    def chunks_of(self, path: str) -> list[Chunk]:
        """A file's chunks in file order."""
        with self._database.read() as connection:
            for file in tables.select_files(connection, [path]):
                query = f"{tables.OF_FILES} WHERE f.id = ? ORDER BY c.id"
                return self._complete(list(tables.select_chunks(connection, query, (file.id,))))
        return []

    def symbols_of(self, paths: Collection[str]) -> Mapping[str, list[Symbol]]:
        """What each of these files defines."""
        with self._database.read() as connection:
            return tables.read_symbols(connection, paths)

    def tags(self) -> Mapping[str, tuple[str, ...]]:
        """The tags of each file whose content names some."""
        with self._database.read() as connection:
            return tables.read_tags(connection)

    def paths_named(self, names: Collection[str]) -> set[str]:
        """Files known by one of these names."""
        with self._database.read() as connection:
            return tables.find_named(connection, names)

    def importers(self, stems: Collection[str]) -> Mapping[str, int]:
        """How many files import each of these."""
        with self._database.read() as connection:
            return tables.count_importers(connection, stems)

    def lexical(self, terms: Sequence[str], limit: int, where: Filter = EVERYTHING) -> list[Scored]:
        """BM25 over path, defined names and text."""
        with self._database.read() as connection:
            return self._words.rank(connection, terms, limit, where)

    def term_counts(self, terms: Collection[str]) -> Mapping[str, int]:
        """How many chunks hold each term."""
        with self._database.read() as connection:
            return {term: count_term(connection, term) for term in terms}

    def trigram_candidates(self, needs: Needs, where: Filter = EVERYTHING) -> set[str]:
        """Files that can hold what is needed."""
        with self._database.read() as connection:
            found = set(tables.find_grams(connection, needs))
        return found if where.paths is None else found & where.paths

    def dense(
        self, model: str, vector: Vectors, limit: int, where: Filter = EVERYTHING
    ) -> list[Scored]:
        """Cosine similarity to the stored vectors of a model."""
        query = np.asarray(vector, np.float32).reshape(-1)

        def find(connection: apsw.Connection) -> list[Scored]:
            allowed = self._words.allow(connection, where)
            found = self._vectors.find(connection, model, query, limit, allowed)
            return order_ties(connection, found, limit)

        return self._read_vectors(find, [])

    def vectors(self, model: str, ids: Sequence[int]) -> Mapping[int, Vectors]:
        """The stored vectors of these chunks."""
        return self._read_vectors(lambda c: self._vectors.read(c, model, ids), {})

    def put_vectors(self, model: str, digests: Sequence[bytes], vectors: Vectors) -> None:
        """Keep one vector per digest."""
        with self._change() as connection:
            self._vectors.write(connection, model, digests, vectors)

    def known_digests(self, model: str, digests: Collection[bytes]) -> set[bytes]:
        """Those that have a vector."""
        with self._database.read() as connection:
            return self._vectors.find_known(connection, model, digests)

    def missing(self, model: str, limit: int) -> list[Chunk]:
        """Chunks without a vector, newest files first."""
        covered, total = self.coverage(model)
        if covered == total:
            return []
        with self._database.read() as connection:
            query = f"{tables.OF_FILES} {_LACKING}"
            complete = self._vectors.count_complete(connection, model)
            found = tables.select_chunks(connection, query, (model, complete, limit))
            return self._complete(list(found))

    def coverage(self, model: str) -> tuple[int, int]:
        """Chunks with a vector, and all chunks."""
        with self._database.read() as connection:
            return self._vectors.count(connection, model), schema.count_chunks(connection)

    def models(self) -> list[str]:
        """The models of which any vector is kept."""
        query = (
            "SELECT name FROM models AS m WHERE EXISTS"
            " (SELECT 1 FROM vectors AS v WHERE v.model_id = m.id) ORDER BY name"
        )
        with self._database.read() as connection:
            return [str(name) for (name,) in connection.execute(query)]

    def compact(self) -> None:
        """Give back the space of what was replaced."""
        with self._change() as connection:
            unused = self._vectors.compact(connection)
            tables.merge_words(connection)
        for file in unused:
            file.delete()
        with self._database.write() as connection:
            delete_strays(self._folder, self._vectors.list_named(connection))
        self._database.shrink()

    def tidy(self) -> None:
        """Compact when enough is wasted."""
        with self._database.read() as connection:
            wasteful = self._vectors.is_wasteful(connection)
        if wasteful or self._database.is_wasteful():
            self.compact()

    def rest(self) -> None:
        """Let go of connections, caches and maps."""
        self._vectors.rest()
        self._words.rest()
        lexicon.rest()
        self._database.rest()

    def verify(self) -> list[str]:
        """What is broken inside the store."""
        broken = self._database.check()
        if broken:
            return broken
        with self._database.read() as connection:
            damaged = self._vectors.count_damaged(connection)
            return integrity.list_contradictions(connection) + [
                f"damaged vectors of {name}: {count}" for name, count in damaged.items()
            ]

    def find_drift(self, check: Callable[[], None], *, thorough: bool) -> Drift:
        """What does not fit together inside the store."""
        broken = self._database.check()
        if broken:
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
        """Remove rows that belong to nothing, and damaged vectors."""
        with self._change() as connection:
            integrity.remove_strays(connection)
            unused = self._vectors.drop_damaged(connection)
        for file in unused:
            file.delete()

    def close(self) -> None:
        """Release files and connections."""
        self._database.close()

    def _read_vectors(self, read: Callable[[apsw.Connection], R], nothing: R) -> R:
        """Read vectors; again when they were moved by a compaction in between, or are lost."""
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
                schema.read_state(connection, "generation")  # or else all of it is corrupt
            _log.warning("searching without vectors: %s", error)
        return nothing

    def _drop_damaged(self) -> None:
        """Forget damaged vectors, so that they are made again; nobody waits for it."""
        with self._dropping, contextlib.suppress(SondeError):
            self.drop_broken()

    def _complete(self, chunks: list[Chunk]) -> list[Chunk]:
        """Add the texts where they are kept elsewhere."""
        return chunks

    def _complete_known(self, chunks: list[Chunk]) -> list[Chunk]:
        """The same; chunks whose texts are lost are left out."""
        return chunks

    @contextmanager
    def _change(self) -> Iterator[apsw.Connection]:
        with self._database.write() as connection:
            yield connection
            schema.advance_state(connection, "generation")
