"""LanceDB tables as the stores use them: chunk rows in the RFC's columns, vectors by slot."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from sonde.errors import IndexCorrupt, MissingExtra
from sonde.stores.chunks.base import Vectors
from sonde.stores.database import translate_errors
from sonde.stores.vectors import Slots
from sonde.types import Chunk

RFC_DIMENSIONS = 384
"""The size of the vector column that the RFC documents."""
_SPARE_RESULTS = 64
"""Results fetched beyond the limit, because the last ones may tie."""
_MIN_THREADS = 4
_NO_SPACE = ("No space left", "os error 28")


def connect(path: Path) -> Any:
    """Open a LanceDB folder; readers see every commit."""
    # it warns on stderr about queries without a score, which is intended here
    os.environ.setdefault("LANCEDB_LOG", "error")
    # with two processors it has one thread for all work: a query would wait for a merge
    os.environ.setdefault("LANCE_CPU_THREADS", str(max(_MIN_THREADS, os.cpu_count() or 1)))
    try:
        import lancedb
    except ImportError as error:
        raise MissingExtra("lancedb is not installed", extra="lance") from error
    with translate_lance(path):
        return lancedb.connect(str(path), read_consistency_interval=timedelta(0))


@contextlib.contextmanager
def translate_lance(path: Path) -> Iterator[None]:
    """Turn errors of LanceDB about `path` into ours."""
    with translate_errors(path):
        try:
            yield
        except (RuntimeError, ValueError) as error:
            if any(sign in str(error) for sign in _NO_SPACE):
                raise OSError(28, str(error)) from error
            raise IndexCorrupt(f"LanceDB read error - {path}: {error}") from error


def list_tables(database: Any) -> set[str]:
    """The names of all tables."""
    return set(database.list_tables().tables)


def optimize_table(table: Any, kept_s: float) -> None:
    """Merge fragments and drop old versions; queries may run meanwhile, writers must not."""
    table.optimize(cleanup_older_than=timedelta(seconds=kept_s), delete_unverified=True)


class ChunkRows:
    """The table of chunks: the RFC's columns, and ours after them."""

    def __init__(self, database: Any, name: str, path: Path) -> None:
        import pyarrow as pa

        self._path = path
        self._schema = pa.schema(
            [
                ("id", pa.string()),
                ("path", pa.string()),
                ("text", pa.string()),
                ("vector", pa.list_(pa.float32(), RFC_DIMENSIONS)),
                ("start_line", pa.int32()),
                ("end_line", pa.int32()),
                ("content_hash", pa.string()),
                ("chunk", pa.int64()),
                ("header", pa.string()),
                ("symbol", pa.string()),
                ("digest", pa.string()),
            ]
        )
        with translate_lance(path):
            self.table = database.create_table(name, schema=self._schema, exist_ok=True)

    def add(self, chunks: Sequence[tuple[Chunk, str]], vectors: Mapping[bytes, Vectors]) -> None:
        """Append chunks, each with the hash of its file, and the vectors that are known."""
        import pyarrow as pa

        rows = np.zeros((len(chunks), RFC_DIMENSIONS), np.float32)
        for place, (chunk, _) in enumerate(chunks):
            rows[place] = vectors.get(chunk.digest, 0.0)
        columns = {
            "id": [str(uuid.uuid4()) for _ in chunks],
            "path": [replace_invalid(chunk.path) for chunk, _ in chunks],
            "text": [replace_invalid(chunk.text) for chunk, _ in chunks],
            "vector": pack_vectors(rows),
            "start_line": [chunk.span.start_line for chunk, _ in chunks],
            "end_line": [chunk.span.end_line for chunk, _ in chunks],
            "content_hash": [file_hash for _, file_hash in chunks],
            "chunk": [chunk.id for chunk, _ in chunks],
            "header": [replace_invalid(chunk.header) for chunk, _ in chunks],
            "symbol": [replace_invalid(chunk.symbol) for chunk, _ in chunks],
            "digest": [chunk.digest.hex() for chunk, _ in chunks],
        }
        with translate_lance(self._path):
            self.table.add(pa.table(columns, schema=self._schema))

    def put_vectors(self, vectors: Mapping[bytes, Vectors]) -> None:
        """Fill the RFC's vector column of the chunks with these digests, in one commit."""
        wanted = ", ".join(f"'{digest.hex()}'" for digest in vectors)
        with translate_lance(self._path):
            found = self.table.search().where(f"digest IN ({wanted})").limit(None).to_arrow()
            if not found.num_rows:
                return
            rows = np.stack([vectors[bytes.fromhex(d)] for d in found["digest"].to_pylist()])
            place = found.schema.get_field_index("vector")
            filled = found.set_column(place, self._schema.field("vector"), pack_vectors(rows))
            self.table.merge_insert("id").when_matched_update_all().execute(filled)

    def read(self, ids: Sequence[int]) -> dict[int, tuple[str, str]]:
        """The header and text of each of these chunks."""
        if not ids:
            return {}
        wanted = ", ".join(map(str, ids))
        with translate_lance(self._path):
            query = self.table.search().where(f"chunk IN ({wanted})")
            found = query.select(["chunk", "header", "text"]).limit(None).to_arrow().to_pydict()
        texts = zip(found["header"], found["text"], strict=True)
        return dict(zip(found["chunk"], texts, strict=True))

    def list_ids(self) -> set[int]:
        """The ids of all chunks that have a row."""
        with translate_lance(self._path):
            found = self.table.search().select(["chunk"]).limit(None).to_arrow()
        return set(found["chunk"].to_pylist())

    def delete(self, condition: str) -> None:
        """Remove rows."""
        with translate_lance(self._path):
            self.table.delete(condition)


class LanceVectors:
    """Vectors of one model in a table of their own: slot and vector."""

    def __init__(self, database: Any, name: str, dimensions: int, path: Path) -> None:
        self._database, self._name, self._path = database, name, path
        self.dimensions = dimensions
        self._lock = threading.Lock()
        self._opened: Any = None

    def append(self, vectors: Vectors) -> tuple[int, list[int]]:
        import pyarrow as pa

        with translate_lance(self._path):
            table = self._open(create=True)
            first = int(table.count_rows())
            slots = pa.array(range(first, first + len(vectors)), pa.int64())
            table.add(pa.table({"slot": slots, "vector": pack_vectors(vectors)}))
        return first, [zlib.crc32(row.data) for row in np.ascontiguousarray(vectors, np.float32)]

    def sums(self, slots: Slots) -> list[int | None]:
        try:
            rows = self._select(slots)
        except IndexCorrupt:
            rows = {}
        return [zlib.crc32(rows[slot].data) if slot in rows else None for slot in slots.tolist()]

    def count_rows(self) -> int:
        with translate_lance(self._path):
            table = self._open()
            return int(table.count_rows()) if table is not None else 0

    count_complete = count_rows

    def read(self, slots: Slots) -> Vectors:
        rows = self._select(slots)
        if len(rows) < len(set(slots.tolist())):
            raise IndexCorrupt(f"{self._path} lacks vectors that the database names")
        return np.array([rows[slot] for slot in slots.tolist()], np.float32).reshape(
            -1, self.dimensions
        )

    def _select(self, slots: Slots) -> dict[int, Vectors]:
        if not len(slots):
            return {}
        wanted = ", ".join(map(str, slots.tolist()))
        with translate_lance(self._path):
            table = self._open()
            if table is None:
                return {}
            query = table.search().where(f"slot IN ({wanted})")
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
                among = ", ".join(map(str, slots.tolist()))
                search = search.where(f"slot IN ({among})", prefilter=True)
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


def pack_vectors(rows: Vectors) -> Any:
    """Rows as a column of fixed-size lists."""
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(rows, np.float32).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])


def replace_invalid(text: str) -> str:
    """The text with invalid Unicode replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")
