"""What the SQLite files of an index hold, as digests that do not depend on how they came there.

They are read by plain SQL, so that nothing of the source has to stay where it is.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apsw

Rows = dict[str, list[Any]]
"""path -> rows, in any order."""

_CHUNKS = """
    SELECT f.path, c.start_line, c.end_line, c.start_byte, c.end_byte, c.symbol, c.header, c.text,
           hex(c.digest)
    FROM chunks AS c JOIN files AS f ON f.id = c.file_id
"""
_FILES = (
    "SELECT path, hash, size, mtime_ns, language, kind, chunk_count, symbols, seal, tags FROM files"
)
_WORDS = """
    SELECT f.path, c.start_byte, v.term, v.col, v.offset
    FROM temp.lex_words AS v JOIN chunks AS c ON c.id = v.doc JOIN files AS f ON f.id = c.file_id
"""
_NAMES = "SELECT f.path, v.term, v.col FROM temp.names_words AS v JOIN files AS f ON f.id = v.doc"
_GRAMS = "SELECT f.path, v.term FROM temp.grams_words AS v JOIN files AS f ON f.id = v.doc"
_VECTORS = """
    SELECT f.path, hex(c.digest), c.digest
    FROM chunks AS c JOIN files AS f ON f.id = c.file_id
"""


def digest_index(folder: Path) -> dict[str, Any]:
    """For each store, each path and each kind of row: how many there are, and their digest."""
    return {path.name: _digest_store(path) for path in sorted(folder.glob("*.db"))}


def digest_views(folder: Path) -> dict[str, Any]:
    """Each exported file: what it says of itself, and the digest of each view in it."""
    told = {path.name: json.loads(path.read_text("utf-8")) for path in sorted(folder.iterdir())}
    return {
        name: {
            "_metadata": {**file["_metadata"], "generated": "<time>", "version": "<version>"},
            "chunks": {view["id"]: _digest([view]) for view in file["chunks"]},
        }
        for name, file in told.items()
    }


def _digest_store(path: Path) -> dict[str, dict[str, str]]:
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        for table in ("lex", "names", "grams"):
            connection.execute(
                f"CREATE VIRTUAL TABLE temp.{table}_words USING fts5vocab(main, {table}, instance)"
            )
        kinds = {
            "file": _group(connection.execute(_FILES)),
            "chunks": _group(connection.execute(_CHUNKS)),
            "words": _group(connection.execute(_WORDS)),
            "names": _group(connection.execute(_NAMES)),
            "trigrams": _group(connection.execute(_GRAMS)),
            "vectors": _group(_read_vectors(connection, path.with_suffix(".vectors"))),
        }
    finally:
        connection.close()
    return {
        one: {kind: _digest(rows[one]) for kind, rows in kinds.items() if rows.get(one)}
        for one in sorted(kinds["file"])
    }


def _read_vectors(connection: apsw.Connection, folder: Path) -> Iterator[tuple[Any, ...]]:
    """path, digest of the chunk's contents, model, the bytes of its vector in both files."""
    stored: dict[bytes, list[Any]] = defaultdict(list)
    models = list(connection.execute("SELECT id, name, dimensions, file FROM models"))
    for model, name, dimensions, file in models:
        # a byte for each number and a scale; a bit for each number
        widths = {"i8": dimensions + 4, "bits": dimensions // 8}
        data = {kind: (folder / f"{Path(file).name}.{kind}").read_bytes() for kind in widths}
        slots = "SELECT digest, slot, speaks FROM vectors WHERE model_id = ?"
        for digest, slot, speaks in connection.execute(slots, (model,)):
            rows = [data[kind][slot * w : (slot + 1) * w].hex() for kind, w in widths.items()]
            assert all(rows), "every vector is there"
            stored[digest].append([name, dimensions, speaks, *rows])
    for path, shown, digest in connection.execute(_VECTORS):
        for row in stored[digest]:
            yield (path, shown, *row)


def _group(rows: Iterable[tuple[Any, ...]]) -> Rows:
    grouped: Rows = defaultdict(list)
    for path, *rest in rows:
        grouped[path].append(rest)
    return grouped


def _digest(rows: list[Any]) -> str:
    lines = sorted(json.dumps(row, ensure_ascii=False) for row in rows)
    return f"{len(rows)} {hashlib.sha256(chr(10).join(lines).encode()).hexdigest()[:16]}"
