"""The tables of everybody's knowledge in PostgreSQL, each row guarded by whose it is.

PostgreSQL uses no text index on a guarded table: to it, matching might leak what it looks at. So
words stand in tables of their own without a guard, and whatever is found there by its number is
read from the guarded ones.
"""

from __future__ import annotations

from sonde.stores.knowledge_base import SOURCES

VERSION = 2
_LOCK = 0x534F4E44

_SHARED = """
CREATE TABLE counters (
    owner text NOT NULL, source text NOT NULL,
    generation bigint NOT NULL DEFAULT 0, next_id bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (owner, source)
);
CREATE UNLOGGED TABLE memory (
    owner text NOT NULL, key text NOT NULL, value text NOT NULL, expires timestamptz NOT NULL,
    PRIMARY KEY (owner, key)
);
"""
_TABLES = """
CREATE TABLE {0} (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text NOT NULL,
    id text NOT NULL,
    title text NOT NULL,
    folded text NOT NULL,
    created_at bigint NOT NULL,
    last_modified bigint NOT NULL,
    version bigint NOT NULL,
    tags text NOT NULL,
    folded_tags text[] NOT NULL,
    media_type text NOT NULL,
    url text NOT NULL,
    character text NOT NULL,
    facts text NOT NULL,
    origin text NOT NULL,
    path text NOT NULL,
    hash text NOT NULL,
    UNIQUE (owner, id)
);
CREATE INDEX ON {0} (owner, md5(folded));
CREATE INDEX ON {0} (owner, md5(origin)) WHERE origin <> '';
CREATE TABLE {0}_pieces (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text NOT NULL,
    item bigint NOT NULL REFERENCES {0} (number) ON DELETE CASCADE,
    place bigint NOT NULL,
    start bigint NOT NULL,
    field text NOT NULL,
    uuid text NOT NULL,
    sender text NOT NULL,
    created_at bigint,
    begins bigint,
    ends bigint,
    text text NOT NULL,
    model text,
    vector bytea
);
CREATE INDEX ON {0}_pieces (item, place);
CREATE INDEX ON {0}_pieces (owner);
CREATE TABLE {0}_words (
    number bigint PRIMARY KEY REFERENCES {0}_pieces (number) ON DELETE CASCADE,
    owner text NOT NULL,
    folded text NOT NULL,
    words tsvector NOT NULL
);
CREATE INDEX ON {0}_words (owner);
CREATE INDEX ON {0}_words USING gin (words);
"""
_TRIGRAMS = "CREATE INDEX ON {0}_words USING gin (folded gin_trgm_ops)"
_GUARD = """
ALTER TABLE {0} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {0} FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON {0}
    USING (owner = current_setting('sonde.owner', true))
    WITH CHECK (owner = current_setting('sonde.owner', true));
"""
_BURIED = """
CREATE TABLE buried (
    owner text NOT NULL, source text NOT NULL, origin text NOT NULL, path text NOT NULL,
    hash text NOT NULL
);
CREATE INDEX ON buried (owner, source);
"""
UPGRADES = (("SET LOCAL search_path TO sonde, public", _BURIED, _GUARD.format("buried")),)
"""What brings format 1 to 2, 2 to 3 and so on."""
WRITE_VERSION = f"UPDATE sonde.format SET version = {VERSION}"
LOCK = f"SELECT pg_advisory_xact_lock({_LOCK})"
FIND_VERSION = "SELECT to_regclass('sonde.format')"
READ_VERSION = "SELECT version FROM sonde.format"
FIND_TRIGRAMS = "SELECT 1 FROM pg_extension WHERE extname = 'pg_trgm'"
MAKE_TRIGRAMS = "CREATE EXTENSION IF NOT EXISTS pg_trgm"


def list_statements(*, trigrams: bool) -> list[str]:
    """What makes an empty database ours."""
    tables = [name for source in SOURCES for name in (source, f"{source}_pieces")]
    return [
        "CREATE SCHEMA IF NOT EXISTS sonde",
        "SET LOCAL search_path TO sonde, public",
        "CREATE TABLE format (version bigint NOT NULL)",
        f"INSERT INTO format VALUES ({VERSION})",
        _SHARED,
        _BURIED,
        *(_TABLES.format(source) for source in SOURCES),
        *(_TRIGRAMS.format(source) for source in SOURCES if trigrams),
        *(_GUARD.format(table) for table in ("counters", "memory", "buried", *tables)),
    ]
