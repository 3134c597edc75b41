"""Connections to the PostgreSQL database that holds everybody's knowledge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sonde.errors import IndexTooNew, MissingExtra, StorageUnusable
from sonde.stores import knowledge_postgres_schema as schema

_MOST_CONNECTIONS = 10
_WAIT_S = 20.0


class PostgresDatabase:
    """A pool of connections to one database; makes its tables when they are not there."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg
            from psycopg_pool import ConnectionPool
        except ImportError as error:
            raise MissingExtra(str(error), extra="postgres") from error
        self._failure: Any = psycopg.Error
        try:
            with psycopg.connect(url, connect_timeout=int(_WAIT_S)) as connection:
                _prepare(connection)
        except psycopg.Error as error:
            raise self._translate(error) from error
        self._pool = ConnectionPool(
            url, min_size=0, max_size=_MOST_CONNECTIONS, open=True, timeout=_WAIT_S
        )

    @contextmanager
    def transact(self, owner: str) -> Iterator[Any]:
        """A cursor inside a transaction that sees only what this owner has."""
        try:
            with self._pool.connection() as connection, connection.cursor() as cursor:
                cursor.execute("SET LOCAL search_path TO sonde, public")
                cursor.execute("SELECT set_config('sonde.owner', %s, true)", [owner])
                yield cursor
        except self._failure as error:
            raise self._translate(error) from error

    def close(self) -> None:
        """Close every connection."""
        self._pool.close()

    def _translate(self, error: Exception) -> StorageUnusable:
        # what the driver says may quote the address with its password: only its kind is told
        return StorageUnusable(
            f"PostgreSQL: {type(error).__name__}",
            user_message="The database with the knowledge cannot be used.",
            next_action="Check that PostgreSQL runs and that SONDE_KNOWLEDGE_STORE is right.",
        )


def _prepare(connection: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(schema.LOCK)
        if cursor.execute(schema.FIND_VERSION).fetchone()[0] is not None:
            found = int(cursor.execute(schema.READ_VERSION).fetchone()[0])
            if found > schema.VERSION:
                raise IndexTooNew(f"the database has format {found}")
            for statements in schema.UPGRADES[found - 1 :]:
                for statement in statements:
                    cursor.execute(statement)
            if found < schema.VERSION:
                cursor.execute(schema.WRITE_VERSION)
            return
        trigrams = cursor.execute(schema.FIND_TRIGRAMS).fetchone() is not None
        if not trigrams:
            cursor.execute("SAVEPOINT before")
            try:
                cursor.execute(schema.MAKE_TRIGRAMS)
                trigrams = True
            except Exception:  # noqa: BLE001 - without the right to it, partial words are slower
                cursor.execute("ROLLBACK TO SAVEPOINT before")
        for statement in schema.list_statements(trigrams=trigrams):
            cursor.execute(statement)
