"""The PostgreSQL database of all users' knowledge: its tables, and a pool of connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sonde.errors import IndexTooNew, MissingExtra, SondeError, StorageUnusable
from sonde.stores.knowledge.base import SOURCES
from sonde.stores.knowledge.postgres.writing import fill_words

_SHARED = """
CREATE SCHEMA IF NOT EXISTS sonde;
SET LOCAL search_path TO sonde, public;
CREATE TABLE format (version bigint NOT NULL);
INSERT INTO format VALUES (0);
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
_ENTRIES = """
CREATE TABLE {0} (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text NOT NULL, id text NOT NULL,
    title text NOT NULL, folded text NOT NULL,
    created_at bigint NOT NULL, last_modified bigint NOT NULL, version bigint NOT NULL,
    tags text NOT NULL, folded_tags text[] NOT NULL, media_type text NOT NULL, url text NOT NULL,
    character text NOT NULL, facts text NOT NULL,
    origin text NOT NULL, path text NOT NULL, hash text NOT NULL,
    UNIQUE (owner, id)
);
CREATE INDEX ON {0} (owner, md5(folded));
CREATE INDEX ON {0} (owner, md5(origin)) WHERE origin <> '';
CREATE TABLE {0}_pieces (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner text NOT NULL,
    item bigint NOT NULL REFERENCES {0} (number) ON DELETE CASCADE,
    place bigint NOT NULL, start bigint NOT NULL, field text NOT NULL,
    uuid text NOT NULL, sender text NOT NULL,
    created_at bigint, begins bigint, ends bigint,
    text text NOT NULL, model text, vector bytea
);
CREATE INDEX ON {0}_pieces (item, place);
CREATE INDEX ON {0}_pieces (owner);
CREATE TABLE {0}_words (
    number bigint PRIMARY KEY REFERENCES {0}_pieces (number) ON DELETE CASCADE,
    owner text NOT NULL, folded text NOT NULL, words tsvector NOT NULL
);
"""
_BURIED = """
CREATE TABLE buried (
    owner text NOT NULL, source text NOT NULL, origin text NOT NULL, path text NOT NULL,
    hash text NOT NULL
);
CREATE INDEX ON buried (owner, source);
"""
_OWNERS = """
CREATE TABLE owners (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE
);
ALTER TABLE counters ADD COLUMN pieces bigint NOT NULL DEFAULT 0,
    ADD COLUMN length bigint NOT NULL DEFAULT 0, ADD COLUMN removed bigint NOT NULL DEFAULT 0;
"""
_WORDS = """
-- the policy holds for the table's owner, too: it is lifted to see all users' rows
ALTER TABLE {0} NO FORCE ROW LEVEL SECURITY;
ALTER TABLE {0}_pieces NO FORCE ROW LEVEL SECURITY;
DROP TABLE {0}_words;
CREATE TABLE {0}_words (
    number bigint PRIMARY KEY REFERENCES {0}_pieces (number) ON DELETE CASCADE,
    length bigint NOT NULL, words tsvector NOT NULL
);
ALTER TABLE {0}_words ALTER COLUMN words SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160);
CREATE TABLE {0}_terms (
    owner integer NOT NULL, term text COLLATE "C" NOT NULL, holders bigint NOT NULL,
    PRIMARY KEY (owner, term)
) WITH (fillfactor = 70);
CREATE TABLE {0}_vectors (
    number bigint PRIMARY KEY REFERENCES {0}_pieces (number) ON DELETE CASCADE,
    owner text NOT NULL, model text NOT NULL, stamp bigint NOT NULL, vector bytea
);
INSERT INTO {0}_vectors
    SELECT number, owner, coalesce(model, ''), CASE WHEN model IS NULL THEN 0 ELSE 1 END, vector
    FROM {0}_pieces;
ALTER TABLE {0}_pieces DROP COLUMN model, DROP COLUMN vector;
ALTER TABLE {0} FORCE ROW LEVEL SECURITY;
ALTER TABLE {0}_pieces FORCE ROW LEVEL SECURITY;
"""
_INDEXES = """
CREATE INDEX ON {0}_words USING gin (words);
CREATE INDEX ON {0}_vectors (owner, model, number);
CREATE INDEX ON {0}_vectors (owner, stamp);
"""
_TRIGRAMS = "CREATE INDEX ON {0}_terms USING gin (term gin_trgm_ops)"
_GUARD = """
ALTER TABLE {0} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {0} FORCE ROW LEVEL SECURITY;
CREATE POLICY own ON {0}
    USING ({1} = current_setting('sonde.owner', true))
    WITH CHECK ({1} = current_setting('sonde.owner', true));
"""


def _create_tables(cursor: Any) -> None:
    cursor.execute(_SHARED)
    for source in SOURCES:
        cursor.execute(_ENTRIES.format(source))
    for table in ("counters", "memory", *SOURCES, *(f"{source}_pieces" for source in SOURCES)):
        cursor.execute(_GUARD.format(table, "owner"))


def _create_buried(cursor: Any) -> None:
    cursor.execute("SET LOCAL search_path TO sonde, public")
    cursor.execute(_BURIED)
    cursor.execute(_GUARD.format("buried", "owner"))


def _split_words(cursor: Any) -> None:
    """Count terms, prefix words with the owner's number, and move vectors to their own tables."""
    cursor.execute("SET LOCAL search_path TO sonde, public")
    query = " UNION ".join(f"SELECT owner FROM {source}_words" for source in SOURCES)
    owners = [row[0] for row in cursor.execute(query).fetchall()]
    cursor.execute(_OWNERS)
    for source in SOURCES:
        cursor.execute(_WORDS.format(source))
    try:
        with cursor.connection.transaction():
            cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except Exception:  # noqa: BLE001, S110 - without the right to it, partial words are slower
        pass
    else:
        for source in SOURCES:
            cursor.execute(_TRIGRAMS.format(source))
    cursor.execute(_GUARD.format("owners", "name"))
    for source in SOURCES:
        cursor.execute(_GUARD.format(f"{source}_vectors", "owner"))
    for owner in owners:
        cursor.execute("SELECT set_config('sonde.owner', %s, true)", [owner])
        for source in SOURCES:
            fill_words(cursor, owner, source)
    for source in SOURCES:
        cursor.execute(_INDEXES.format(source))


_MODELS = """
-- as above: the policy is lifted to see all users' rows
ALTER TABLE {0}_vectors NO FORCE ROW LEVEL SECURITY;
DELETE FROM {0}_vectors WHERE model = '';
ALTER TABLE {0}_vectors DROP CONSTRAINT {0}_vectors_pkey,
    ADD COLUMN sum bigint NOT NULL DEFAULT -1, ADD PRIMARY KEY (number, model);
ALTER TABLE {0}_vectors FORCE ROW LEVEL SECURITY;
CREATE INDEX ON {0}_pieces (owner, number);
"""
"""Vectors of several models; those of older versions have no checksum, which is -1."""


def _keep_models(cursor: Any) -> None:
    cursor.execute("SET LOCAL search_path TO sonde, public")
    for source in SOURCES:
        cursor.execute(_MODELS.format(source))


STEPS = (_create_tables, _create_buried, _split_words, _keep_models)
"""From an empty database to the newest version; a released step never changes."""
_MAX_CONNECTIONS = 10  # of one server: a tenth of what PostgreSQL takes by default
_WAIT_S = 20.0  # how long a request waits for a free connection
_BEGIN = (
    "SELECT set_config('sonde.owner', %s, true), set_config('search_path', 'sonde, public', true),"
    # JIT compilation and parallel workers cost more than any of these queries
    " set_config('jit', 'off', true), set_config('max_parallel_workers_per_gather', '0', true)"
)
_PROBLEMS = {
    "PoolTimeout": (
        "The database with the knowledge has no free connection.",
        "Try again in a moment, or check that PostgreSQL runs and takes enough connections.",
    ),
    "TooManyConnections": (
        "The database with the knowledge takes no more connections.",
        "Try again in a moment, or raise max_connections of PostgreSQL.",
    ),
    **dict.fromkeys(
        ("AdminShutdown", "CrashShutdown", "CannotConnectNow"),
        (
            "The database with the knowledge is being restarted.",
            "Try again; nothing that was stored is lost.",
        ),
    ),
    "DiskFull": (
        "The database with the knowledge has no room left.",
        "Free space on the disk of PostgreSQL; nothing that was stored is lost.",
    ),
    "": (
        "The database with the knowledge cannot be used.",
        "Check that PostgreSQL runs and that SONDE_KNOWLEDGE_STORE is right.",
    ),
}
"""Name of an error, or empty for any other -> user message and next action."""


class PostgresDatabase:
    """A pool of connections to one database; creates or upgrades its tables."""

    def __init__(
        self, url: str, *, most_connections: int = _MAX_CONNECTIONS, wait_s: float = _WAIT_S
    ) -> None:
        try:
            import psycopg
            from psycopg_pool import ConnectionPool
        except ImportError as error:
            raise MissingExtra(str(error), extra="postgres") from error
        self._failure: Any = psycopg.Error
        self._snapshot = psycopg.IsolationLevel.REPEATABLE_READ
        try:
            with (
                psycopg.connect(url, connect_timeout=max(int(wait_s), 2)) as connection,
                connection.cursor() as cursor,
            ):
                _upgrade(cursor)
        except psycopg.Error as error:
            raise self._translate(error) from error
        self._pool = ConnectionPool(
            url,
            # a generic plan is a bad one where a word may be rare or common
            kwargs={"prepare_threshold": None},
            min_size=0,
            max_size=most_connections,
            open=True,
            timeout=wait_s,
            check=ConnectionPool.check_connection,
        )

    @contextmanager
    def transact(self, owner: str, *, read_only: bool = False) -> Iterator[Any]:
        """A cursor on only this owner's rows; a reading one sees a single committed state."""
        try:
            with self._pool.connection() as connection, connection.cursor() as cursor:
                connection.read_only = read_only
                connection.isolation_level = self._snapshot if read_only else None
                cursor.execute(_BEGIN, [owner])
                yield cursor
        except self._failure as error:
            raise self._translate(error) from error

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    def _translate(self, error: Exception) -> SondeError:
        # the driver's message may quote the address with its password: only its type is reported
        kind = type(error).__name__
        message, action = _PROBLEMS.get(kind, _PROBLEMS[""])
        return StorageUnusable(f"PostgreSQL: {kind}", user_message=message, next_action=action)


def _upgrade(cursor: Any) -> None:
    cursor.execute("SELECT pg_advisory_xact_lock(1397706308)")  # one server at a time
    found = 0
    if cursor.execute("SELECT to_regclass('sonde.format')").fetchone()[0] is not None:
        found = int(cursor.execute("SELECT version FROM sonde.format").fetchone()[0])
    if found > len(STEPS):
        raise IndexTooNew(f"the database has format {found}")
    for step in STEPS[found:]:
        step(cursor)
    if found < len(STEPS):
        cursor.execute("UPDATE sonde.format SET version = %s", [len(STEPS)])
