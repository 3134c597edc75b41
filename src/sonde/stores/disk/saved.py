"""SavedStore in one SQLite file: sessions, indexes, resource sets and saved queries."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import apsw

from sonde.stores.database import Database, Format, bind_text, read_stored_text
from sonde.stores.disk.base import DiskIndex, ResourceSet, Saved, SavedQuery, ShellSession
from sonde.types import Json

_APPLICATION_ID = 0x736E6473
_MAX_SESSIONS = 1_000
"""Sessions of all users; a client that reconnects leaves one behind each time."""


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
_TABLES_OF_INDEX = ("sets", "queries")
"""Deleted together with their index."""


class SqliteSavedStore:
    """Handles of one installation; see `SavedStore`."""

    def __init__(self, path: Path, *, max_sessions: int = _MAX_SESSIONS) -> None:
        self._database = Database(path, FORMAT)
        self._max_sessions = max_sessions

    def put(self, value: ShellSession | DiskIndex | ResourceSet | SavedQuery) -> None:
        """Insert or replace a value. The least recently used sessions are dropped."""
        names = [each.name for each in fields(value)]
        row = [_to_column(getattr(value, name)) for name in names]
        columns = ", ".join(f'"{name}"' for name in names)
        marks = ", ".join("?" for _ in names)
        table = _TABLES[type(value)]
        with self._database.write() as db:
            db.execute(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({marks})", row)  # noqa: S608
            if isinstance(value, ShellSession):
                db.execute(
                    "DELETE FROM sessions WHERE id IN "
                    "(SELECT id FROM sessions ORDER BY updated_ms DESC LIMIT -1 OFFSET ?)",
                    (self._max_sessions,),
                )

    def get(self, kind: type[Saved], id_: str, owner: str) -> Saved | None:
        """A value of this owner."""
        columns = ", ".join(f'"{each.name}"' for each in fields(kind))
        with self._database.read() as db:
            row = db.execute(
                f"SELECT {columns} FROM {_TABLES[kind]} WHERE id = ? AND owner = ?",  # noqa: S608
                (bind_text(id_), bind_text(owner)),
            ).fetchone()
        return _to_value(kind, row) if row else None

    def newest(
        self,
        kind: type[Saved],
        owner: str,
        limit: int | None = None,
        after: tuple[int, str] | None = None,
    ) -> list[Saved]:
        """Values of this owner, newest first, starting after a key."""
        columns = ", ".join(f'"{each.name}"' for each in fields(kind))
        later = "AND (-created_ms, id) > (?, ?)" if after else ""
        with self._database.read() as db:
            found = db.execute(
                f"SELECT {columns} FROM {_TABLES[kind]} WHERE owner = ? {later} "  # noqa: S608
                "ORDER BY -created_ms, id LIMIT ?",
                (bind_text(owner), *(after or ()), -1 if limit is None else limit),
            ).fetchall()
        return [_to_value(kind, row) for row in found]

    def delete(self, kind: type[Saved], id_: str, owner: str) -> bool:
        """Delete a value, and with an index its sets and queries. Returns whether it existed."""
        table, key = _TABLES[kind], (bind_text(id_), bind_text(owner))
        with self._database.write() as db:
            for inner in _TABLES_OF_INDEX if table == "indexes" else ():
                db.execute(f'DELETE FROM {inner} WHERE "index" = ? AND owner = ?', key)  # noqa: S608
            db.execute(f"DELETE FROM {table} WHERE id = ? AND owner = ?", key)  # noqa: S608
            return db.changes() > 0

    def close(self) -> None:
        """Release the file."""
        self._database.close()


def _to_column(value: Any) -> Any:
    if isinstance(value, str):
        return bind_text(value)
    if isinstance(value, bool):
        return int(value)
    return value if value is None or isinstance(value, int) else json.dumps(dict(value))


def _to_value(kind: type[Saved], row: tuple[Any, ...]) -> Saved:
    values: Json = {}
    for each, value in zip(fields(kind), row, strict=True):
        if each.name == "preferences":
            values[each.name] = json.loads(value)
        elif each.name == "follow_symlinks":
            values[each.name] = bool(value)
        else:
            values[each.name] = read_stored_text(value) if isinstance(value, str | bytes) else value
    return kind(**values)
