"""The tables of a chunk index in SQLite: schema, and rows of files, chunks and names."""

from __future__ import annotations

import itertools
import json
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import apsw

from sonde.stores.chunks import lexicon
from sonde.stores.database import Format, Value, bind_text, read_number, read_stored_text
from sonde.types import Chunk, ParsedFile, Span, Symbol

_place_of = attrgetter("start_line", "end_line", "start_byte", "end_byte")
_NAME_AND_KIND = re.compile(r'\["([^"]*)","([a-z]+)",')
_make_symbol = partial(tuple.__new__, Symbol)  # `Symbol._make` counts the fields of each
LOGGED = 1_000  # generations for which removed chunks are logged

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

_CHECKSUMS = "ALTER TABLE files ADD COLUMN seal INTEGER; ALTER TABLE vectors ADD COLUMN sum INTEGER"
"""Older rows have none; they are checked in every other way."""
_TAGS = "ALTER TABLE files ADD COLUMN tags TEXT NOT NULL DEFAULT ''"
_STAMPS = "ALTER TABLE files ADD COLUMN stamp INTEGER NOT NULL DEFAULT 0"
"""Older rows have none: their files are read once more, and kept if their hash is the same."""
_PAGE_BYTES = 8_192  # a chunk wastes half as much of it as of 4,096: a tenth of an index
CHUNK_FORMAT = Format(0x534F4E44, (_SCHEMA, _CHECKSUMS, _TAGS, _STAMPS), _PAGE_BYTES)


def read_state(connection: apsw.Connection, key: str) -> int:
    """A counter of the database."""
    return read_number(connection, "SELECT value FROM state WHERE key = ?", (key,))


def advance_state(connection: apsw.Connection, key: str, by: int = 1) -> int:
    """Advance a counter. Returns its previous value."""
    query = "UPDATE state SET value = value + ? WHERE key = ? RETURNING value"
    return read_number(connection, query, (by, key)) - by


class StoredFile(NamedTuple):
    """A file's key and the ids of its chunks, which are consecutive."""

    id: int
    first: int
    size: int


def select_among(
    connection: apsw.Connection, columns: str, paths: Iterable[str], joined: str = ""
) -> Iterator[tuple[Any, ...]]:
    """Columns of the stored files (`f`) among these paths, and of what is joined to them."""
    bound = list(map(bind_text, paths))
    query = f"SELECT {columns} FROM {{}} {joined}"  # noqa: S608 - our own names
    valid = json.dumps([path for path in bound if isinstance(path, str)])
    # one statement for all: each costs more than the row it finds
    listed = query.format("json_each(?) CROSS JOIN files AS f ON f.path = value")
    yield from connection.execute(listed, (valid,))
    for path in bound:
        if not isinstance(path, str):
            alone = query.format("(SELECT * FROM files WHERE path = ?) AS f")
            yield from connection.execute(alone, (path,))


def select_under(
    connection: apsw.Connection, columns: str, folder: str
) -> Iterator[tuple[Any, ...]]:
    """Columns of the stored files (`f`) in a folder, or of the file of this name; without a name,
    of all files."""
    if not folder:
        yield from connection.execute(f"SELECT {columns} FROM files AS f")  # noqa: S608
        return
    query = f"SELECT {columns} FROM files AS f WHERE f.path = ? OR f.path > ? AND f.path < ?"  # noqa: S608
    ends = folder, f"{folder}/", f"{folder}0"  # the character after the slash
    yield from connection.execute(query, list(map(bind_text, ends)))
    # paths that are not valid Unicode are stored as bytes, which come after all text
    yield from connection.execute(query, [end.encode("utf-8", "surrogatepass") for end in ends])


def select_files(connection: apsw.Connection, paths: Iterable[str]) -> Iterator[StoredFile]:
    """The stored files among these paths."""
    columns = "f.id, f.first_chunk, f.chunk_count"
    return itertools.starmap(StoredFile, select_among(connection, columns, paths))


def write_files(
    connection: apsw.Connection, files: Sequence[ParsedFile], *, keep_text: bool = True
) -> list[tuple[int, Chunk, str]]:
    """Store files with their words, names and trigrams, replacing their predecessors.

    Returns the chunks, each with its id and the hash of its file.
    Without `keep_text`, texts are stored elsewhere, except those that are not valid Unicode.
    """
    latest = {file.state.path: file for file in files}
    delete_files(connection, latest)
    count = sum(len(file.chunks) for file in latest.values())
    next_chunk = advance_state(connection, "next_chunk", count)
    advance_state(connection, "chunks", count)
    chunk_rows: list[tuple[Value, ...]] = []
    term_rows: list[tuple[Value, ...]] = []
    name_rows: list[tuple[Value, ...]] = []
    gram_rows: list[tuple[Value, ...]] = []
    written: list[tuple[int, Chunk, str]] = []
    for file in latest.values():
        chunks = sorted(file.chunks, key=lambda chunk: chunk.span.start_byte)
        file_id = _insert_file(connection, file, chunks, next_chunk)
        words = file.words or lexicon.list_file_terms(file)
        for chunk, terms in zip(chunks, words.chunks, strict=True):
            header, text = bind_text(chunk.header), bind_text(chunk.text)
            if not keep_text and isinstance(header, str) and isinstance(text, str):
                header = text = ""
            bound = (chunk.digest, bind_text(chunk.symbol), header, text)
            chunk_rows.append((next_chunk, file_id, *_place_of(chunk.span), *bound))
            term_rows.append((next_chunk, *terms))
            written.append((next_chunk, chunk, file.state.hash))
            next_chunk += 1
        name_rows.append((file_id, words.names, words.imports))
        gram_rows.append((file_id, words.grams))
    connection.executemany(
        "INSERT INTO chunks (id, file_id, start_line, end_line, start_byte, end_byte, digest,"
        " symbol, header, text) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        chunk_rows,
    )
    connection.executemany(
        "INSERT INTO lex (rowid, path, name, body) VALUES (?, ?, ?, ?)", term_rows
    )
    connection.executemany("INSERT INTO names (rowid, known, imports) VALUES (?, ?, ?)", name_rows)
    connection.executemany("INSERT INTO grams (rowid, held) VALUES (?, ?)", gram_rows)
    return written


def _insert_file(
    connection: apsw.Connection, file: ParsedFile, chunks: Sequence[Chunk], first_chunk: int
) -> int:
    state = file.state
    symbols = json.dumps(file.symbols, separators=(",", ":"))
    connection.execute(
        "INSERT INTO files (path, hash, size, mtime_ns, language, kind, stamp, first_chunk,"
        " chunk_count, symbols, seal, tags) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            bind_text(state.path),
            *astuple(state)[1:],
            first_chunk,
            len(chunks),
            symbols,
            seal_file(symbols, chunks),
            json.dumps(file.tags) if file.tags else "",
        ),
    )
    return connection.last_insert_rowid()


def parse_symbols(text: str) -> list[Symbol]:
    """A file's definitions as stored; older rows have no spans, and count as one line each."""
    rows = json.loads(text)
    if rows and len(rows[0]) < len(Symbol._fields):
        rows = [(name, kind, line, line, line) for name, kind, line in rows]
    return list(map(_make_symbol, rows))


def parse_names(text: str) -> list[tuple[str, str]]:
    """Name and kind of a file's definitions as stored; see `ChunkStore.names_of`."""
    if "\\" in text:  # a name that JSON escapes
        return [(symbol.name, symbol.kind) for symbol in parse_symbols(text)]
    return _NAME_AND_KIND.findall(text)


def seal_file(symbols: str, chunks: Iterable[Chunk]) -> int:
    """A checksum of a file's rows, with digests in place of texts."""
    seal = zlib.crc32(symbols.encode())
    for chunk in chunks:
        numbers = struct.pack("<4q", *_place_of(chunk.span))
        symbol = chunk.symbol.encode("utf-8", "surrogatepass")
        seal = zlib.crc32(b"".join((numbers, chunk.digest, symbol)), seal)
    return seal


def delete_files(connection: apsw.Connection, paths: Iterable[str]) -> None:
    """Remove files with their words, names and trigrams."""
    found = list(select_files(connection, paths))
    if not found:
        return
    generation = read_state(connection, "generation")
    ranges = [(file.first, file.first + file.size) for file in found]
    connection.executemany("DELETE FROM chunks WHERE id >= ? AND id < ?", ranges)
    every = ((chunk,) for first, end in ranges for chunk in range(first, end))
    connection.executemany("DELETE FROM lex WHERE rowid = ?", every)
    advance_state(connection, "chunks", -sum(file.size for file in found))
    ids = [(file.id,) for file in found]
    connection.executemany("DELETE FROM names WHERE rowid = ?", ids)
    connection.executemany("DELETE FROM grams WHERE rowid = ?", ids)
    connection.executemany("DELETE FROM files WHERE id = ?", ids)
    connection.executemany(
        "INSERT INTO removed VALUES (?, ?, ?)",
        [(generation, file.first, file.size) for file in found if file.size],
    )
    connection.execute("DELETE FROM removed WHERE generation < ?", (generation - LOGGED,))


def delete_everything(connection: apsw.Connection) -> None:
    """Remove all files; ids and generations are not reset."""
    connection.execute(
        "DELETE FROM files; DELETE FROM chunks; DELETE FROM lex; DELETE FROM names;"
        " DELETE FROM grams; UPDATE state SET value = 0 WHERE key = 'chunks'"
    )
    generation, end = read_state(connection, "generation"), read_state(connection, "next_chunk")
    # one range in place of all others: they are disjoint
    connection.execute("DELETE FROM removed")
    connection.execute("INSERT INTO removed VALUES (?, 0, ?)", (generation, end))


_CHUNK = (
    "SELECT f.path, c.text, c.start_line, c.end_line, c.start_byte, c.end_byte, c.header,"
    " c.symbol, c.id"
)
OF_CHUNKS = f"{_CHUNK} FROM chunks AS c JOIN files AS f ON f.id = c.file_id"
THEIR_CHUNKS = (
    "CROSS JOIN chunks AS c ON c.id >= f.first_chunk AND c.id < f.first_chunk + f.chunk_count"
)
OF_FILES = f"{_CHUNK} FROM files AS f {THEIR_CHUNKS}"
NAMES_BY_LENGTH = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS temp.name_terms USING fts5vocab(main, names, row);"
    " SELECT term FROM name_terms WHERE length(term) BETWEEN ? AND ?"
)


def select_chunks(
    connection: apsw.Connection, query: str, values: Sequence[Value]
) -> Iterator[Chunk]:
    """The chunks that a query of the form `OF_CHUNKS` or `OF_FILES` finds."""
    for path, text, l1, l2, b1, b2, header, symbol, key in connection.execute(query, values):
        words = (path, text, header, symbol)
        if bytes in map(type, words):  # not valid Unicode
            path, text, header, symbol = map(read_stored_text, words)
        yield Chunk(path, text, Span(l1, l2, b1, b2), header, symbol, key)


_TEXTS = (
    "SELECT f.path, size, (SELECT CASE WHEN sum(c.start_byte = coalesce(b.end_byte, 0)) = count(*)"
    " THEN CAST(group_concat(c.text, '') AS BLOB) END FROM chunks AS c LEFT JOIN chunks AS b"
    " ON b.id = c.id - 1 AND b.id >= first_chunk"
    " WHERE c.id >= first_chunk AND c.id < first_chunk + chunk_count)"
    " FROM json_each(?) AS wanted JOIN files AS f ON f.path = wanted.value"
)  # nothing between two chunks, and nothing twice


def read_whole_texts(connection: apsw.Connection, paths: Iterable[str]) -> dict[str, bytes]:
    """The texts of those of these files whose chunks make up the whole file."""
    valid = json.dumps([path for path in paths if isinstance(bind_text(path), str)])
    rows = connection.execute(_TEXTS, (valid,))
    return {path: text or b"" for path, size, text in rows if len(text or b"") == size}
