"""The tables of a user's knowledge in SQLite, and the formats of its three files."""

from __future__ import annotations

from collections.abc import Mapping

from sonde.errors import DataDamaged
from sonde.stores.database import Format
from sonde.stores.knowledge.base import SOURCES, Source
from sonde.stores.knowledge.sqlite_vectors import VECTOR_MODELS, VECTOR_TABLES

DATABASES: Mapping[str, tuple[Source, ...]] = {
    "media": ("media",),
    "chacha": ("notes", "chats", "characters"),
    "prompts": ("prompts",),
}
"""The sources in each file."""
assert set(SOURCES) == {source for sources in DATABASES.values() for source in sources}

_TABLES = """
CREATE TABLE {0} (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL, folded TEXT NOT NULL,
    created_at INTEGER NOT NULL, last_modified INTEGER NOT NULL, version INTEGER NOT NULL,
    tags TEXT NOT NULL, media_type TEXT NOT NULL, url TEXT NOT NULL,
    character TEXT NOT NULL, facts TEXT NOT NULL,
    origin TEXT NOT NULL, path TEXT NOT NULL, hash TEXT NOT NULL
);
CREATE INDEX {0}_by_title ON {0} (folded);
CREATE INDEX {0}_by_origin ON {0} (origin, path) WHERE origin != '';
CREATE TABLE {0}_pieces (
    number INTEGER PRIMARY KEY AUTOINCREMENT, item INTEGER NOT NULL,
    place INTEGER NOT NULL, start INTEGER NOT NULL, field TEXT NOT NULL,
    uuid TEXT NOT NULL, sender TEXT NOT NULL,
    created_at INTEGER, begins INTEGER, ends INTEGER,
    slot INTEGER, text TEXT NOT NULL
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
_CHUNKS_VIEW = """
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
"""The number of holders by term: FTS5's own vocabulary reads every position to count them."""
_APPLICATION_IDS = {"media": 0x534F4B4D, "chacha": 0x534F4B43, "prompts": 0x534F4B50}


def make_format(database: str) -> Format:
    """The format of one of a user's files."""
    sources = DATABASES[database]
    tables = _STATE + "".join(map(_TABLES.format, sources))
    tables += _CHUNKS_VIEW if database == "media" else ""
    vectors = VECTOR_MODELS + "".join(map(VECTOR_TABLES.format, sources))
    steps = (tables, _BURIED, "".join(map(_LEXICON.format, sources)), vectors)
    return Format(_APPLICATION_IDS[database], steps, damage=DataDamaged)
