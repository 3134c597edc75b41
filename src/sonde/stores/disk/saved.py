"""Sessions, indexes, resource sets and saved queries in one SQLite file."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import apsw

from sonde.stores.database import Database, Format, bind_text, read_stored_text
from sonde.stores.disk.base import DiskIndex, ResourceSet, SavedQuery, ShellSession

_APPLICATION_ID = 0x736E6473
_KEPT_SESSIONS = 1_000

T = TypeVar("T", ShellSession, DiskIndex, ResourceSet, SavedQuery)


def _create(connection: apsw.Connection) -> None:
    connection.execute("""
        CREATE TABLE sessions (
            id TEXT PRIMARY KEY, owner NOT NULL, cwd NOT NULL, "index" TEXT NOT NULL,
            previous NOT NULL, preferences TEXT NOT NULL, updated_ms INTEGER NOT NULL
        );
        CREATE TABLE indexes (
            id TEXT PRIMARY KEY, owner NOT NULL, root NOT NULL, depth_limit INTEGER,
            follow_symlinks INTEGER NOT NULL, created_ms INTEGER NOT NULL, job TEXT NOT NULL
        );
        CREATE TABLE sets (
            id TEXT PRIMARY KEY, owner NOT NULL, "index" TEXT NOT NULL, name NOT NULL,
            created_ms INTEGER NOT NULL
        );
        CREATE TABLE queries (
            id TEXT PRIMARY KEY, owner NOT NULL, "index" TEXT NOT NULL, name NOT NULL,
            filter NOT NULL, created_ms INTEGER NOT NULL, executed_ms INTEGER NOT NULL,
            selection TEXT NOT NULL
        );
        CREATE INDEX sets_by_owner ON sets(owner, created_ms);
        CREATE INDEX queries_by_owner ON queries(owner, created_ms);
    """)


FORMAT = Format(_APPLICATION_ID, (_create,))
_TABLES = {
    ShellSession: "sessions",
    DiskIndex: "indexes",
    ResourceSet: "sets",
    SavedQuery: "queries",
}


class SqliteSavedStore:
    """Handles of one installation; see `SavedStore`."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path, FORMAT)

    def put_session(self, session: ShellSession) -> None:
        """Keep a session as it is now; of very many, the ones not used for longest go."""
        self._put(session)
        with self._database.write() as db:
            db.execute(
                "DELETE FROM sessions WHERE id IN "
                "(SELECT id FROM sessions ORDER BY updated_ms DESC LIMIT -1 OFFSET ?)",
                (_KEPT_SESSIONS,),
            )

    def session(self, id_: str, owner: str) -> ShellSession | None:
        """A session of this owner."""
        return self._get(ShellSession, id_, owner)

    def put_index(self, index: DiskIndex) -> None:
        """Keep an index as it is now."""
        self._put(index)

    def index(self, id_: str, owner: str) -> DiskIndex | None:
        """An index of this owner."""
        return self._get(DiskIndex, id_, owner)

    def indexes(self, owner: str) -> list[DiskIndex]:
        """Every index of this owner, the newest first."""
        return self._list(DiskIndex, owner, -1, None)

    def delete_index(self, id_: str, owner: str) -> bool:
        """Forget an index and what refers to it."""
        with self._database.write() as db:
            for table in ("sets", "queries"):
                db.execute(
                    f'DELETE FROM {table} WHERE "index" = ? AND owner = ?',  # noqa: S608
                    (bind_text(id_), bind_text(owner)),
                )
        return self._delete("indexes", id_, owner)

    def put_set(self, made: ResourceSet) -> None:
        """Keep a resource set as it is now."""
        self._put(made)

    def set(self, id_: str, owner: str) -> ResourceSet | None:
        """A resource set of this owner."""
        return self._get(ResourceSet, id_, owner)

    def sets(
        self, owner: str, limit: int, after: tuple[int, str] | None = None
    ) -> list[ResourceSet]:
        """Resource sets of this owner, the newest first."""
        return self._list(ResourceSet, owner, limit, after)

    def delete_set(self, id_: str, owner: str) -> bool:
        """Forget a resource set; whether it was there."""
        return self._delete("sets", id_, owner)

    def put_query(self, query: SavedQuery) -> None:
        """Keep a query as it is now."""
        self._put(query)

    def query(self, id_: str, owner: str) -> SavedQuery | None:
        """A query of this owner."""
        return self._get(SavedQuery, id_, owner)

    def queries(
        self, owner: str, limit: int, after: tuple[int, str] | None = None
    ) -> list[SavedQuery]:
        """Queries of this owner, the newest first."""
        return self._list(SavedQuery, owner, limit, after)

    def delete_query(self, id_: str, owner: str) -> bool:
        """Forget a query; whether it was there."""
        return self._delete("queries", id_, owner)

    def close(self) -> None:
        """Release the file."""
        self._database.close()

    def _put(self, value: ShellSession | DiskIndex | ResourceSet | SavedQuery) -> None:
        names = [each.name for each in fields(value)]
        row = [_to_column(getattr(value, name)) for name in names]
        columns = ", ".join(f'"{name}"' for name in names)
        marks = ", ".join("?" for _ in names)
        table = _TABLES[type(value)]
        with self._database.write() as db:
            db.execute(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({marks})", row)  # noqa: S608

    def _get(self, kind: type[T], id_: str, owner: str) -> T | None:
        columns = ", ".join(f'"{each.name}"' for each in fields(kind))
        with self._database.read() as db:
            row = db.execute(
                f"SELECT {columns} FROM {_TABLES[kind]} WHERE id = ? AND owner = ?",  # noqa: S608
                (bind_text(id_), bind_text(owner)),
            ).fetchone()
        return _to_value(kind, row) if row else None

    def _list(
        self, kind: type[T], owner: str, limit: int, after: tuple[int, str] | None
    ) -> list[T]:
        columns = ", ".join(f'"{each.name}"' for each in fields(kind))
        later = "AND (-created_ms, id) > (?, ?)" if after else ""
        with self._database.read() as db:
            found = db.execute(
                f"SELECT {columns} FROM {_TABLES[kind]} WHERE owner = ? {later} "  # noqa: S608
                "ORDER BY -created_ms, id LIMIT ?",
                (bind_text(owner), *(after or ()), limit),
            ).fetchall()
        return [_to_value(kind, row) for row in found]

    def _delete(self, table: str, id_: str, owner: str) -> bool:
        with self._database.write() as db:
            db.execute(
                f"DELETE FROM {table} WHERE id = ? AND owner = ?",  # noqa: S608
                (bind_text(id_), bind_text(owner)),
            )
            return db.changes() > 0


def _to_column(value: Any) -> Any:
    if isinstance(value, str):
        return bind_text(value)
    if isinstance(value, bool):
        return int(value)
    return value if value is None or isinstance(value, int) else json.dumps(dict(value))


def _to_value(kind: type[T], row: tuple[Any, ...]) -> T:
    values: dict[str, Any] = {}
    for each, value in zip(fields(kind), row, strict=True):
        if each.name == "preferences":
            values[each.name] = json.loads(value)
        elif each.name == "follow_symlinks":
            values[each.name] = bool(value)
        else:
            values[each.name] = read_stored_text(value) if isinstance(value, str | bytes) else value
    return kind(**values)
