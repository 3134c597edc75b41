"""LanceDB tables as the stores use them: chunk rows in the RFC's columns, vectors by slot."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from sonde.errors import IndexCorrupt, MissingExtra
from sonde.stores.chunks.base import Vectors
from sonde.stores.database import translate_errors
from sonde.stores.vectors import Mask, Slots
from sonde.types import Chunk

RFC_DIMENSIONS = 384  # the size of the vector column that the RFC documents
_COLUMNS = (
    *("id", "path", "text", "vector", "start_line", "end_line", "content_hash"),
    *("chunk", "header", "symbol", "digest"),
)
"""The RFC's columns of a chunk, and ours after them."""
_ENDS = {".lance": b"LANC", ".arrow": b"ARROW1"}  # of rows, and of the numbers of deleted ones
_MOST_END = max(map(len, _ENDS.values()))
_SPARE_RESULTS = 64  # fetched beyond the limit, because the last ones may tie
_MIN_THREADS = 4  # so that a query runs beside a merge
_OS_ERROR = re.compile(r"os error (\d+)")


def load_lance() -> Any:
    """The module `lancedb`; raises `MissingExtra` where it is not installed."""
    # it warns on stderr about queries without a score, which is intended here
    os.environ.setdefault("LANCEDB_LOG", "error")
    # with two processors it has one thread for all work: a query would wait for a merge
    os.environ.setdefault("LANCE_CPU_THREADS", str(max(_MIN_THREADS, os.cpu_count() or 1)))
    try:
        import lancedb
    except ImportError as error:
        raise MissingExtra("lancedb is not installed", extra="lance") from error
    return lancedb


def connect(path: Path) -> Any:
    """Open a LanceDB folder; readers see every commit."""
    lancedb = load_lance()
    with translate_lance(path):
        return lancedb.connect(str(path), read_consistency_interval=timedelta(0))


@contextlib.contextmanager
def translate_lance(path: Path) -> Iterator[None]:
    """Turn errors of LanceDB about `path` into ours."""
    with translate_errors(path):
        try:
            yield
        except (RuntimeError, ValueError) as error:
            found = _OS_ERROR.search(str(error))
            if found and int(found[1]) != errno.ENOENT:  # a file that is gone is damage
                raise OSError(int(found[1]), str(error)) from error
            raise IndexCorrupt(f"LanceDB read error - {path}: {error}") from error


@contextlib.contextmanager
def changing(table: Any, path: Path) -> Iterator[None]:
    """Undo a change of a table in the folder `path` if it has left a file that is cut off.

    LanceDB commits such a file: it overlooks that the last write to it has failed.
    """
    with translate_lance(path):
        folder, version = path / f"{table.name}.lance", table.version
        known = _list_files(folder)
        yield
        for each in _list_files(folder) - known:
            if not _is_whole(each):
                table.restore(version)
                raise OSError(errno.EIO, "a file is cut off", str(each))


def _list_files(folder: Path) -> set[Path]:
    places = (folder / "data", folder / "_deletions")
    return {path for place in places for path in place.glob("*.*") if path.suffix}


def _is_whole(path: Path) -> bool:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _MOST_END))
        return size > 0 and file.read().endswith(_ENDS.get(path.suffix, b""))


def list_tables(database: Any) -> set[str]:
    """The names of all tables."""
    return set(database.list_tables().tables)


class ChunkRows:
    """The table of chunks."""

    def __init__(self, database: Any, name: str, path: Path) -> None:
        import pyarrow as pa

        self._path = path
        kinds = {"start_line": pa.int32(), "end_line": pa.int32(), "chunk": pa.int64()}
        kinds["vector"] = pa.list_(pa.float32(), RFC_DIMENSIONS)
        self._schema = pa.schema([(each, kinds.get(each, pa.string())) for each in _COLUMNS])
        with translate_lance(path):
            self.table = database.create_table(name, schema=self._schema, exist_ok=True)

    def add(
        self, added: Sequence[tuple[int, Chunk, str]], vectors: Mapping[bytes, Vectors]
    ) -> None:
        """Append chunks, as `write_files` returns them, and the vectors that are known."""
        import pyarrow as pa

        ids, chunks, hashes = zip(*added, strict=True)
        rows = np.zeros((len(chunks), RFC_DIMENSIONS), np.float32)
        for place, chunk in enumerate(chunks):
            rows[place] = vectors.get(chunk.digest, 0.0)
        columns: dict[str, Any] = {"vector": pack_vectors(rows), "chunk": ids}
        columns |= {"id": [str(uuid.uuid4()) for _ in chunks], "content_hash": hashes}
        columns["digest"] = [chunk.digest.hex() for chunk in chunks]
        for name in ("start_line", "end_line"):
            columns[name] = [getattr(chunk.span, name) for chunk in chunks]
        for name in ("path", "text", "header", "symbol"):
            texts = (getattr(chunk, name) for chunk in chunks)
            columns[name] = [text.encode("utf-8", "replace").decode() for text in texts]
        with changing(self.table, self._path):
            self.table.add(pa.table(columns, schema=self._schema))

    def put_vectors(self, vectors: Mapping[bytes, Vectors]) -> None:
        """Fill the RFC's vector column of the chunks with these digests, in one commit."""
        wanted = name_among("digest", [f"'{digest.hex()}'" for digest in vectors])
        with changing(self.table, self._path):
            found = self.table.search().where(wanted).limit(None).to_arrow()
            if not found.num_rows:
                return
            rows = np.stack([vectors[bytes.fromhex(d)] for d in found["digest"].to_pylist()])
            place = found.schema.get_field_index("vector")
            filled = found.set_column(place, self._schema.field("vector"), pack_vectors(rows))
            self.table.merge_insert("id").when_matched_update_all().execute(filled)

    def read(self, ids: Sequence[int]) -> dict[int, dict[str, Any]]:
        """The header and text of each of these chunks."""
        if not ids:
            return {}
        with translate_lance(self._path):
            query = self.table.search().where(name_among("chunk", ids))
            found = query.select(["chunk", "header", "text"]).limit(None).to_arrow().to_pylist()
        return {row.pop("chunk"): row for row in found}

    def list_ids(self) -> set[int]:
        """The ids of all chunks that have a row."""
        with translate_lance(self._path):
            found = self.table.search().select(["chunk"]).limit(None).to_arrow()
        return set(found["chunk"].to_pylist())

    def delete(self, condition: str) -> None:
        """Remove rows."""
        with changing(self.table, self._path):
            self.table.delete(condition)


class LanceVectors:
    """Vectors of one model in a table of their own: slot and vector."""

    def __init__(self, database: Any, path: Path, name: str, dimensions: int) -> None:
        self._database, self._name, self._path = database, name, path
        self.dimensions = dimensions
        self._lock = threading.Lock()
        self._opened: Any = None

    def append(self, vectors: Vectors) -> tuple[int, list[int]]:
        import pyarrow as pa

        with translate_lance(self._path):
            table = self._open(create=True)
        with changing(table, self._path):
            first = int(table.count_rows())
            slots = pa.array(range(first, first + len(vectors)), pa.int64())
            table.add(pa.table({"slot": slots, "vector": pack_vectors(vectors)}))
        return first, [zlib.crc32(row.data) for row in np.ascontiguousarray(vectors, np.float32)]

    def find_damaged(self, slots: Slots, sums: Slots) -> Mask:
        try:
            rows = self._select(slots)
        except IndexCorrupt:
            rows = {}
        held = [zlib.crc32(rows[slot].data) if slot in rows else None for slot in slots.tolist()]
        damaged: Mask = (sums >= 0) & (np.array(held, np.float64) != sums)
        return damaged

    def stamp(self) -> tuple[int, int]:
        return 0, 0  # files of a table are never written again, only replaced

    def count_rows(self) -> int:
        with translate_lance(self._path):
            table = self._open()
            return int(table.count_rows()) if table is not None else 0

    count_complete = count_rows

    def read(self, slots: Slots) -> Vectors:
        rows = self._select(slots)
        if not rows.keys() >= set(slots.tolist()):
            raise IndexCorrupt(f"{self._path} lacks vectors that the database names")
        vectors = np.array([rows[slot] for slot in slots.tolist()], np.float32)
        return vectors.reshape(-1, self.dimensions)

    def _select(self, slots: Slots) -> dict[int, Vectors]:
        """The vectors of at least these slots, as far as there are."""
        if not len(slots):
            return {}
        with translate_lance(self._path):
            table = self._open()
            if table is None:
                return {}
            query = table.search()
            if len(slots) * 2 < table.count_rows():  # a long list costs more than to read all
                query = query.where(name_among("slot", slots.tolist()))
            found = query.select(["slot", "vector"]).limit(None).to_arrow()
        rows = found["vector"].combine_chunks().flatten().to_numpy().reshape(-1, self.dimensions)
        return dict(zip(found["slot"].to_pylist(), rows, strict=True))

    def find(self, query: Vectors, slots: Slots, limit: int) -> tuple[Slots, Vectors]:
        if not len(slots):
            return np.empty(0, np.int64), np.empty(0, np.float32)
        # arrays throughout: a list for each slot costs ten times as long as the search
        order = np.argsort(slots, kind="stable")
        ranked = slots[order]
        distinct = np.unique(ranked)
        few = len(distinct) * 2 < self.count_rows()
        wanted = limit + _SPARE_RESULTS
        while True:
            found, scores = self._search(query, wanted, distinct if few else None)
            kept = np.isin(found, distinct)
            known, near = found[kept], scores[kept]
            enough = len(known) > limit and near[-1] != near[limit - 1]
            if enough or len(found) < wanted:
                break
            wanted *= 4
        first, end = (np.searchsorted(ranked, known, side) for side in ("left", "right"))
        counts = end - first
        # chunks of the same text share a slot: all of them are returned, in the order of ids
        within = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
        return order[np.repeat(first, counts) + within], np.repeat(near, counts)

    def delete(self) -> None:
        with self._lock:
            self._opened = None
        with translate_lance(self._path):
            if self._name in list_tables(self._database):
                self._database.drop_table(self._name)

    def _search(self, query: Vectors, limit: int, slots: Slots | None) -> tuple[Slots, Vectors]:
        with translate_lance(self._path):
            table = self._open()
            if table is None:
                return np.empty(0, np.int64), np.empty(0, np.float32)
            search = table.search(query, vector_column_name="vector").distance_type("dot")
            if slots is not None:
                search = search.where(name_among("slot", slots.tolist()), prefilter=True)
            found = search.select(["slot", "_distance"]).limit(limit).to_arrow()
        # its distance by dot product is one minus the cosine of unit vectors
        return found["slot"].to_numpy(), np.float32(1.0) - found["_distance"].to_numpy()

    def _open(self, *, create: bool = False) -> Any:
        import pyarrow as pa

        with self._lock:
            if self._opened is None and (create or self._name in list_tables(self._database)):
                vector = pa.list_(pa.float32(), self.dimensions)
                schema = pa.schema([("slot", pa.int64()), ("vector", vector)])
                self._opened = self._database.create_table(self._name, schema=schema, exist_ok=True)
            return self._opened


def name_among(column: str, values: Iterable[object]) -> str:
    """The condition that a column holds one of these values."""
    return f"{column} IN ({', '.join(map(str, values))})"


def pack_vectors(rows: Vectors) -> Any:
    """Rows as a column of fixed-size lists."""
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(rows, np.float32).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])
