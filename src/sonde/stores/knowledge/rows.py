"""Entries and pieces as rows, and the terms under which a piece is found; every backend agrees."""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import apsw

from sonde.stores.database import Value, bind_text, read_stored_text
from sonde.stores.formats import Format
from sonde.stores.knowledge.base import TITLE, TITLED, Entry, Piece, Source
from sonde.stores.vectors import pack_text
from sonde.text.words import fold_text, index_text

HEAD = (
    "number, id, title, created_at, last_modified, version, tags, media_type, url, character,"
    " facts, origin, path, hash"
)
PIECE = "number, place, start, field, uuid, sender, created_at, begins, ends, text"
HEADS = ", ".join(f"e.{name.strip()}" for name in HEAD.split(","))
PIECES = ", ".join(f"p.{name.strip()}" for name in PIECE.split(","))
"""The same columns where entries are called e and pieces p."""
WEIGHTS = (2.0, 2.0, 1.0)
"""How much a term counts in a title, in a tag and in the text."""


def bind_head(entry: Entry) -> tuple[Value, ...]:
    """The columns of `HEAD` behind the number, with the folded title behind the title."""
    return (
        bind_text(entry.id),
        bind_text(entry.title),
        bind_text(fold_text(entry.title)),
        entry.created_at,
        entry.last_modified,
        entry.version,
        json.dumps(list(entry.tags)),
        bind_text(entry.media_type),
        bind_text(entry.url),
        bind_text(entry.character),
        json.dumps(dict(entry.facts)),
        bind_text(entry.origin),
        bind_text(entry.path),
        entry.hash,
    )


def read_entry_head(source: Source, row: Sequence[Any]) -> Entry:
    """An entry without its pieces."""
    return Entry(
        source,
        read_stored_text(row[2]),
        id=read_stored_text(row[1]),
        created_at=row[3],
        last_modified=row[4],
        version=row[5],
        tags=tuple(json.loads(row[6])) if row[6] != "[]" else (),
        media_type=read_stored_text(row[7]),
        url=read_stored_text(row[8]),
        character=read_stored_text(row[9]),
        facts=json.loads(row[10]) if row[10] != "{}" else {},
        origin=read_stored_text(row[11]),
        path=read_stored_text(row[12]),
        hash=read_stored_text(row[13]),
        number=row[0],
    )


def bind_piece(piece: Piece) -> tuple[Value, ...]:
    """The columns of `PIECE` behind the number."""
    return (
        piece.place,
        piece.start,
        bind_text(piece.field),
        bind_text(piece.uuid),
        bind_text(piece.sender),
        piece.created_at,
        piece.begins,
        piece.ends,
        bind_text(piece.text),
    )


def read_piece(row: Sequence[Any]) -> Piece:
    """A piece as it was stored."""
    return Piece(
        read_stored_text(row[9]),
        place=row[1],
        start=row[2],
        field=read_stored_text(row[3]),
        uuid=read_stored_text(row[4]),
        sender=read_stored_text(row[5]),
        created_at=row[6],
        begins=row[7],
        ends=row[8],
        number=row[0],
    )


def list_stored(entry: Entry) -> Iterator[Piece]:
    """The pieces to store: those of the entry, named, and its title where that stands alone."""
    if entry.source not in TITLED and entry.title:
        yield Piece(entry.title, place=-1, field=TITLE, uuid="")
    for piece in entry.pieces:
        yield piece if piece.uuid else replace(piece, uuid=str(uuid.uuid4()))
    if not entry.pieces and entry.source in TITLED:
        yield Piece("", uuid=str(uuid.uuid4()))  # an empty note is still found by its title


def list_terms(entry: Entry, piece: Piece) -> tuple[list[str], list[str], list[str]]:
    """The terms of a piece: of its title, of its tags, of its text."""
    if piece.field == TITLE:
        return index_text(piece.text), _tag_terms(entry), []
    if entry.source in TITLED:
        return index_text(entry.title), _tag_terms(entry), index_text(piece.text)
    return [], [], index_text(piece.text)


class Tally:
    """What a write changes: how many pieces hold each term, how many there are, how long."""

    def __init__(self) -> None:
        self.terms: Counter[str] = Counter()
        self.pieces = 0
        self.length = 0

    def add(self, entry: Entry, piece: Piece) -> tuple[list[str], list[str], list[str]]:
        """Count a piece that comes; its terms."""
        terms = list_terms(entry, piece)
        self._count(terms, 1)
        return terms

    def drop(self, entry: Entry, piece: Piece) -> None:
        """Count a piece that goes."""
        self._count(list_terms(entry, piece), -1)

    def _count(self, terms: tuple[list[str], ...], sign: int) -> None:
        for term in set().union(*terms):
            self.terms[term] += sign
        self.pieces += sign
        self.length += sign * sum(map(len, terms))


def _tag_terms(entry: Entry) -> list[str]:
    return [term for tag in entry.tags for term in index_text(tag)]


def fold_tags(tags: Sequence[str]) -> list[str]:
    """Tags as they are compared, in any database."""
    return list(dict.fromkeys(pack_text(fold_text(tag.lstrip("#"))) for tag in tags))


def find_number(id: str) -> int | None:  # noqa: A002
    """The number that an id is; None where it is none, or written in another way than ours."""
    return int(id) if re.fullmatch("[1-9][0-9]{0,14}", id) else None


DATABASES: Mapping[str, tuple[Source, ...]] = {
    "media": ("media",),
    "chacha": ("notes", "chats", "characters"),
    "prompts": ("prompts",),
}
"""Which sources each file holds."""

_TABLES = """
CREATE TABLE {0} (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    folded TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_modified INTEGER NOT NULL,
    version INTEGER NOT NULL,
    tags TEXT NOT NULL,
    media_type TEXT NOT NULL,
    url TEXT NOT NULL,
    character TEXT NOT NULL,
    facts TEXT NOT NULL,
    origin TEXT NOT NULL,
    path TEXT NOT NULL,
    hash TEXT NOT NULL
);
CREATE INDEX {0}_by_title ON {0} (folded);
CREATE INDEX {0}_by_origin ON {0} (origin, path) WHERE origin != '';
CREATE TABLE {0}_pieces (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    item INTEGER NOT NULL,
    place INTEGER NOT NULL,
    start INTEGER NOT NULL,
    field TEXT NOT NULL,
    uuid TEXT NOT NULL,
    sender TEXT NOT NULL,
    created_at INTEGER,
    begins INTEGER,
    ends INTEGER,
    slot INTEGER,
    text TEXT NOT NULL
);
CREATE INDEX {0}_by_place ON {0}_pieces (item, place);
CREATE INDEX {0}_bare ON {0}_pieces (number) WHERE slot IS NULL;
CREATE INDEX {0}_slots ON {0}_pieces (number, slot) WHERE slot IS NOT NULL;
CREATE TABLE {0}_tags (tag TEXT NOT NULL, item INTEGER NOT NULL, PRIMARY KEY (tag, item))
    WITHOUT ROWID;
CREATE INDEX {0}_tags_of ON {0}_tags (item);
CREATE VIRTUAL TABLE {0}_words USING fts5 (
    title, tags, body, content='', contentless_delete=1, tokenize='ascii'
);
CREATE VIRTUAL TABLE {0}_terms USING fts5vocab ({0}_words, 'row');
INSERT INTO state VALUES ('{0}', 0);
"""
_STATE = """
CREATE TABLE state (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE models (
    source TEXT PRIMARY KEY, name TEXT NOT NULL, dimensions INTEGER NOT NULL, file TEXT NOT NULL
);
"""
_PRECHUNKED = """
CREATE VIEW UnvectorizedMediaChunks AS
SELECT
    p.number AS id, p.item AS media_id, p.text AS chunk_text, p.place AS chunk_index,
    p.start AS start_char, p.start + length(p.text) AS end_char, p.uuid AS uuid
FROM media_pieces AS p;
"""
_BURIED = """
CREATE TABLE buried (
    source TEXT NOT NULL, origin TEXT NOT NULL, path TEXT NOT NULL, hash TEXT NOT NULL,
    PRIMARY KEY (source, origin, path)
) WITHOUT ROWID;
"""
_LEXICON = """
CREATE TABLE {0}_lexicon (term TEXT PRIMARY KEY, holders INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO {0}_lexicon SELECT term, doc FROM {0}_terms;
DROP TABLE {0}_terms;
"""
"""Counting through FTS5's own list of terms reads every place where each of them stands."""
_MARKS = {"media": 0x534F4B4D, "chacha": 0x534F4B43, "prompts": 0x534F4B50}


def make_format(database: str) -> Format:
    """The format of one of a user's files."""

    def create_tables(connection: apsw.Connection) -> None:
        connection.execute(_STATE)
        for source in DATABASES[database]:
            connection.execute(_TABLES.format(source))
        if database == "media":
            connection.execute(_PRECHUNKED)

    def create_buried(connection: apsw.Connection) -> None:
        connection.execute(_BURIED)

    def count_terms(connection: apsw.Connection) -> None:
        for source in DATABASES[database]:
            connection.execute(_LEXICON.format(source))

    steps = (create_tables, create_buried, count_terms)
    return Format(application_id=_MARKS[database], steps=steps)
