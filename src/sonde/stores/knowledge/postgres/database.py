"""The PostgreSQL database of knowledge: its tables and a pool of connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sonde.errors import IndexTooNew, MissingExtra, SondeError, StorageUnusable
from sonde.stores.knowledge.base import SOURCES

_SHARED = """
CREATE SCHEMA IF NOT EXISTS sonde;
SET LOCAL search_path TO sonde, public;
CREATE TABLE format (version bigint NOT NULL);
INSERT INTO format VALUES (1);
CREATE TABLE owners (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE
);
CREATE TABLE counters (
    owner text NOT NULL, source text NOT NULL,
    generation bigint NOT NULL DEFAULT 0, next_id bigint NOT NULL DEFAULT 1,
    pieces bigint NOT NULL DEFAULT 0, length bigint NOT NULL DEFAULT 0,
    removed bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (owner, source)
);
CREATE UNLOGGED TABLE memory (
    owner text NOT NULL, key text NOT NULL, value text NOT NULL, expires timestamptz NOT NULL,
    PRIMARY KEY (owner, key)
);
CREATE TABLE buried (
    owner text NOT NULL, source text NOT NULL, origin text NOT NULL, path text NOT NULL,
    hash text NOT NULL
);
CREATE INDEX ON buried (owner, source);
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
    created_at bigint, begins bigint, ends bigint, text text NOT NULL
);
CREATE INDEX ON {0}_pieces (item, place);
CREATE INDEX ON {0}_pieces (owner, number);
CREATE TABLE {0}_words (
    number bigint PRIMARY KEY REFERENCES {0}_pieces (number) ON DELETE CASCADE,
    length bigint NOT NULL, words tsvector NOT NULL
);
ALTER TABLE {0}_words ALTER COLUMN words SET STORAGE EXTERNAL, SET (toast_tuple_target = 8160);
CREATE INDEX ON {0}_words USING gin (words);
CREATE TABLE {0}_terms (
    owner integer NOT NULL, term text COLLATE "C" NOT NULL, holders bigint NOT NULL,
    PRIMARY KEY (owner, term)
) WITH (fillfactor = 70);
CREATE TABLE {0}_vectors (
    number bigint REFERENCES {0}_pieces (number) ON DELETE CASCADE,
    owner text NOT NULL, model text NOT NULL, stamp bigint NOT NULL, vector bytea,
    sum bigint NOT NULL, PRIMARY KEY (number, model)
);
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
_FORMAT = 1  # of the tables; a later version may change them


def _create_tables(cursor: Any) -> None:
    cursor.execute(_SHARED)
    cursor.execute(_GUARD.format("owners", "name"))
    for table in ("counters", "memory", "buried"):
        cursor.execute(_GUARD.format(table, "owner"))
    for source in SOURCES:
        cursor.execute(_ENTRIES.format(source))
        for table in (source, f"{source}_pieces", f"{source}_vectors"):
            cursor.execute(_GUARD.format(table, "owner"))
    try:
        with cursor.connection.transaction():
            cursor.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    except Exception:  # noqa: BLE001, S110 - without the right to it, partial words are slower
        pass
    else:
        for source in SOURCES:
            cursor.execute(_TRIGRAMS.format(source))


_MAX_CONNECTIONS = 10  # of one server: a tenth of PostgreSQL's default limit
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
"""User message and next action by class of the driver's error; empty for any other."""


class PostgresDatabase:
    """A pool of connections to one database, whose tables it creates."""

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
                _open(cursor)
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
        """A cursor limited to one owner's rows; with `read_only`, on a single committed state."""
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


def _open(cursor: Any) -> None:
    """Create missing tables. Raises `IndexTooNew` for those of a later version."""
    cursor.execute("SELECT pg_advisory_xact_lock(1397706308)")  # one server at a time
    if cursor.execute("SELECT to_regclass('sonde.format')").fetchone()[0] is None:
        _create_tables(cursor)
    elif (found := cursor.execute("SELECT version FROM sonde.format").fetchone()[0]) > _FORMAT:
        raise IndexTooNew(f"the database has format {found}")
