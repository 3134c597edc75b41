"""The tables of a chunk index in SQLite: schema, and rows of files, chunks and names."""

from __future__ import annotations

import itertools
import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from operator import attrgetter
from typing import Any, NamedTuple

import apsw

from sonde.stores.chunks import lexicon
from sonde.stores.database import Format, Value, bind_text, read_number, read_stored_text
from sonde.types import Chunk, ParsedFile, Span, Symbol

_place_of = attrgetter("start_line", "end_line", "start_byte", "end_byte")
LOGGED = 1_000  # generations for which removed chunks are logged
_MERGING = {"automerge": (4, 0), "crisismerge": (16, 64)}  # FTS5's: as it is by default, and later

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
EMPTY = (
    "DELETE FROM files; DELETE FROM chunks; DELETE FROM lex; DELETE FROM names;"
    " DELETE FROM grams; UPDATE state SET value = 0 WHERE key = 'chunks'; DELETE FROM removed;"
    # one range in place of all others: they are disjoint
    " INSERT INTO removed SELECT g.value, 0, c.value FROM state AS g JOIN state AS c"
    " ON g.key = 'generation' AND c.key = 'next_chunk'"
)
"""Removes all files; ids and generations go on."""
_TEXT_FIRST = """
DROP TABLE lex_terms; DROP TABLE lex;
CREATE VIRTUAL TABLE lex USING fts5 (
    body, path, name, content='', contentless_delete=1, tokenize='ascii'
);
CREATE VIRTUAL TABLE lex_terms USING fts5vocab (lex, 'row');
UPDATE state SET value = value + 1 WHERE key = 'generation'"""
"""FTS5 stores the column of every word but those of the first: a quarter of the words of an index.
Files of older indexes are indexed again; their vectors stay."""
_PAGE_BYTES = 16_384  # a chunk wastes a quarter as much of it as of 4,096: a tenth of an index
_STEPS = (_SCHEMA, _CHECKSUMS, _TAGS, _STAMPS, EMPTY, _TEXT_FIRST)
CHUNK_FORMAT = Format(0x534F4E44, _STEPS, _PAGE_BYTES)


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
    connection: apsw.Connection, files: Sequence[ParsedFile], *, keep_text: bool, more: bool
) -> list[tuple[int, Chunk, str]]:
    """Store files with their words, names and trigrams, replacing their predecessors.

    Returns the chunks, each with its id and the hash of its file.
    Without `keep_text`, texts are stored elsewhere, except those that are not valid Unicode.
    """
    _merge_later(connection, later=more)
    latest = {file.state.path: file for file in files}
    delete_files(connection, latest)
    count = sum(len(file.chunks) for file in latest.values())
    next_chunk = advance_state(connection, "next_chunk", count)
    advance_state(connection, "chunks", count)
    next_file = read_number(connection, "SELECT ifnull(max(id), 0) + 1 FROM files")
    rows: dict[str, list[tuple[Value, ...]]] = {table: [] for table in _COLUMNS}
    of_files, of_chunks, of_words, of_names, of_grams = rows.values()
    written: list[tuple[int, Chunk, str]] = []
    for file_id, file in enumerate(latest.values(), next_file):
        chunks = sorted(file.chunks, key=lambda chunk: chunk.span.start_byte)
        words = file.words or lexicon.list_file_terms(file)
        of_files.append((file_id, *_bind_file(file, chunks, next_chunk)))
        of_names.append((file_id, words.names, words.imports))
        of_grams.append((file_id, words.grams))
        for chunk, terms in zip(chunks, words.chunks, strict=True):
            header, text = _bind_header(chunk), bind_text(chunk.text)
            if not keep_text and isinstance(header, str) and isinstance(text, str):
                header = text = ""
            bound = (chunk.digest, bind_text(chunk.symbol), header, text)
            of_chunks.append((next_chunk, file_id, *_place_of(chunk.span), *bound))
            of_words.append((next_chunk, *terms))
            written.append((next_chunk, chunk, file.state.hash))
            next_chunk += 1
    for table, values in rows.items():
        names = _COLUMNS[table].split()
        query = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' for _ in names)})"  # noqa: S608
        connection.executemany(query, values)
    return written


_COLUMNS = {
    "files": "id path hash size mtime_ns language kind stamp first_chunk chunk_count symbols seal"
    " tags",
    "chunks": "id file_id start_line end_line start_byte end_byte digest symbol header text",
    "lex": "rowid path name body",
    "names": "rowid known imports",
    "grams": "rowid held",
}


def _merge_later(connection: apsw.Connection, *, later: bool) -> None:
    """Leave new words unmerged, until the index is compacted, or merge them bit by bit again."""
    held = connection.execute("SELECT v FROM lex_config WHERE k = 'automerge'").fetchone()
    if later != (held == (0,)):
        for table, (name, values) in itertools.product(("lex", "names", "grams"), _MERGING.items()):
            query = f"INSERT INTO {table} ({table}, rank) VALUES (?, ?)"  # noqa: S608
            connection.execute(query, (name, values[later]))


def _bind_header(chunk: Chunk) -> Value:
    """A header as it is stored: with a line break in place of the path that most begin with."""
    bound = bind_text(chunk.header)
    if isinstance(bound, str) and bound.startswith(chunk.path):
        return f"\n{bound.removeprefix(chunk.path)}"
    # in bytes, a line break stands for itself
    return bound.encode() if isinstance(bound, str) and bound[:1] == "\n" else bound


def _bind_file(file: ParsedFile, chunks: Sequence[Chunk], first: int) -> tuple[Value, ...]:
    symbols, state = spell_symbols(file.symbols), astuple(file.state)
    defined = bind_text(symbols), seal_file(symbols, chunks)
    tags = json.dumps(file.tags) if file.tags else ""
    return bind_text(state[0]), *state[1:], first, len(chunks), *defined, tags


def spell_symbols(symbols: Sequence[Symbol]) -> str:
    """A file's definitions as stored: a line of their kinds, one of their lines, then the names."""
    kinds = "".join(one.kind[0] for one in symbols)
    lines = " ".join(f"{n} {n - first} {last - n}" for _, _, n, first, last in symbols)
    names = (one.name.replace("\n", " ") for one in symbols)
    return "\n".join([kinds, lines, *names]) if kinds else ""


def seal_file(symbols: str, chunks: Iterable[Chunk]) -> int:
    """A checksum of a file's rows, with digests in place of texts."""
    seal = zlib.crc32(symbols.encode("utf-8", "surrogatepass"))
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
        if header[:1] == "\n":  # see `_bind_header`
            header = read_stored_text(path) + header[1:]
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
