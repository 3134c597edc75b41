"""The tables of a chunk index in SQLite, and its counters."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from sonde.stores.migrations import Format
from sonde.stores.sqlite import Value

LOGGED = 1_000
"""For how many generations it is remembered which chunks went."""

_SCHEMA = """
CREATE TABLE state (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO state VALUES
    ('generation', 0), ('chunks', 0), ('next_chunk', 1), ('next_vector_file', 1);
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    hash TEXT NOT NULL,
    size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL,
    language TEXT NOT NULL,
    kind TEXT NOT NULL,
    first_chunk INTEGER NOT NULL,
    chunk_count INTEGER NOT NULL,
    symbols TEXT NOT NULL
);
CREATE INDEX files_by_time ON files (mtime_ns DESC, path);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY,
    uuid BLOB NOT NULL DEFAULT (randomblob(16)),
    file_id INTEGER NOT NULL,
    start_line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    start_byte INTEGER NOT NULL,
    end_byte INTEGER NOT NULL,
    digest BLOB NOT NULL,
    symbol TEXT NOT NULL,
    header TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX chunks_by_digest ON chunks (digest);
CREATE TABLE removed (
    generation INTEGER NOT NULL, first INTEGER NOT NULL, count INTEGER NOT NULL
);
CREATE INDEX removed_by_generation ON removed (generation);
CREATE TABLE models (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
    dimensions INTEGER NOT NULL, file TEXT NOT NULL
);
CREATE TABLE vectors (
    model_id INTEGER NOT NULL, digest BLOB NOT NULL, slot INTEGER NOT NULL,
    speaks INTEGER NOT NULL, PRIMARY KEY (model_id, digest)
) WITHOUT ROWID;
CREATE UNIQUE INDEX vectors_by_slot ON vectors (model_id, slot);
CREATE VIRTUAL TABLE lex USING fts5 (
    path, name, body, content='', contentless_delete=1, tokenize='ascii'
);
CREATE VIRTUAL TABLE lex_terms USING fts5vocab (lex, 'row');
CREATE VIRTUAL TABLE names USING fts5 (
    known, imports, content='', contentless_delete=1, tokenize='ascii', detail='column'
);
CREATE VIRTUAL TABLE grams USING fts5 (
    held, content='', contentless_delete=1, tokenize='ascii', detail='none'
);
CREATE VIEW project_docs AS
SELECT
    lower(
        substr(hex(c.uuid), 1, 8) || '-' || substr(hex(c.uuid), 9, 4) || '-4'
        || substr(hex(c.uuid), 14, 3) || '-a' || substr(hex(c.uuid), 18, 3) || '-'
        || substr(hex(c.uuid), 21)
    ) AS id,
    f.path, c.text, c.start_line, c.end_line, f.hash AS content_hash
FROM chunks AS c JOIN files AS f ON f.id = c.file_id;
"""


def _create_tables(connection: apsw.Connection) -> None:
    connection.execute(_SCHEMA)


def _add_checksums(connection: apsw.Connection) -> None:
    """What was written before has none; it is checked in every other way."""
    connection.execute(
        "ALTER TABLE files ADD COLUMN seal INTEGER; ALTER TABLE vectors ADD COLUMN sum INTEGER"
    )


def _add_tags(connection: apsw.Connection) -> None:
    connection.execute("ALTER TABLE files ADD COLUMN tags TEXT NOT NULL DEFAULT ''")


CHUNK_FORMAT = Format(application_id=0x534F4E44, steps=(_create_tables, _add_checksums, _add_tags))


def read_number(connection: apsw.Connection, query: str, values: Sequence[Value] = ()) -> int:
    """The one number a query gives; 0 when it gives nothing."""
    row = connection.execute(query, values).fetchone()
    return int(row[0] or 0) if row else 0


def read_state(connection: apsw.Connection, key: str) -> int:
    """One of the database's counters."""
    return read_number(connection, "SELECT value FROM state WHERE key = ?", (key,))


def advance_state(connection: apsw.Connection, key: str, by: int = 1) -> int:
    """Move a counter on and return what it was before."""
    query = "UPDATE state SET value = value + ? WHERE key = ? RETURNING value"
    return read_number(connection, query, (by, key)) - by


def count_chunks(connection: apsw.Connection) -> int:
    """How many chunks there are."""
    return read_state(connection, "chunks")
