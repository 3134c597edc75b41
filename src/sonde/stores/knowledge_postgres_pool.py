"""Connections to the PostgreSQL database that holds everybody's knowledge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sonde.errors import IndexTooNew, MissingExtra, SondeError, StorageUnusable
from sonde.stores import knowledge_postgres_schema as schema
from sonde.stores.knowledge_postgres_writing import fill_words

_MOST_CONNECTIONS = 10
_WAIT_S = 20.0
_BEGIN = (
    "SELECT set_config('sonde.owner', %s, true), set_config('search_path', 'sonde, public', true),"
    # to compile a query, or to share it among processes, costs more than any of ours
    " set_config('jit', 'off', true), set_config('max_parallel_workers_per_gather', '0', true)"
)
_AGAIN = "Try again; nothing that was stored is lost."
_PROBLEMS = {
    "PoolTimeout": (
        "The database with the knowledge has no free connection.",
        "Try again in a moment, or check that PostgreSQL runs and takes enough connections.",
    ),
    "TooManyConnections": (
        "The database with the knowledge takes no more connections.",
        "Try again in a moment, or raise max_connections of PostgreSQL.",
    ),
    "AdminShutdown": ("The database with the knowledge is being restarted.", _AGAIN),
    "CrashShutdown": ("The database with the knowledge is being restarted.", _AGAIN),
    "CannotConnectNow": ("The database with the knowledge is being restarted.", _AGAIN),
    "DiskFull": (
        "The database with the knowledge has no room left.",
        "Free space on the disk of PostgreSQL; nothing that was stored is lost.",
    ),
}
"""What a failure is called, and what people are told of it."""


class PostgresDatabase:
    """A pool of connections to one database; makes its tables when they are not there."""

    def __init__(
        self, url: str, *, most_connections: int = _MOST_CONNECTIONS, wait_s: float = _WAIT_S
    ) -> None:
        try:
            import psycopg
            from psycopg_pool import ConnectionPool
        except ImportError as error:
            raise MissingExtra(str(error), extra="postgres") from error
        self._failure: Any = psycopg.Error
        self._snapshot = psycopg.IsolationLevel.REPEATABLE_READ
        try:
            with psycopg.connect(url, connect_timeout=max(int(wait_s), 2)) as connection:
                _prepare(connection)
        except psycopg.Error as error:
            raise self._translate(error) from error
        self._pool = ConnectionPool(
            url,
            # a plan made once for any value is a bad one where a word may be rare or common
            kwargs={"prepare_threshold": None},
            min_size=0,
            max_size=most_connections,
            open=True,
            timeout=wait_s,
            check=ConnectionPool.check_connection,
        )

    def transact(self, owner: str) -> AbstractContextManager[Any]:
        """A cursor inside a transaction that sees and changes only what this owner has."""
        return self._begin(owner, changes=True)

    def read(self, owner: str) -> AbstractContextManager[Any]:
        """A cursor that sees one committed state of what this owner has."""
        return self._begin(owner, changes=False)

    @contextmanager
    def _begin(self, owner: str, *, changes: bool) -> Iterator[Any]:
        try:
            with self._pool.connection() as connection, connection.cursor() as cursor:
                connection.read_only = not changes
                connection.isolation_level = None if changes else self._snapshot
                cursor.execute(_BEGIN, [owner])
                yield cursor
        except self._failure as error:
            raise self._translate(error) from error

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    def _translate(self, error: Exception) -> SondeError:
        # what the driver says may quote the address with its password: only its kind is told
        kind = type(error).__name__
        message, action = _PROBLEMS.get(
            kind,
            (
                "The database with the knowledge cannot be used.",
                "Check that PostgreSQL runs and that SONDE_KNOWLEDGE_STORE is right.",
            ),
        )
        return StorageUnusable(f"PostgreSQL: {kind}", user_message=message, next_action=action)


def _prepare(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(schema.LOCK)
        found = 0
        if cursor.execute(schema.FIND_VERSION).fetchone()[0] is not None:
            found = int(cursor.execute(schema.READ_VERSION).fetchone()[0])
        if found > schema.VERSION:
            raise IndexTooNew(f"the database has format {found}")
        if found < schema.VERSION:
            schema.upgrade(cursor, found, fill_words)
