"""Disk storage in SQLite: a file per scanned tree, and one for saved handles."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import apsw

from sonde.errors import DataDamaged
from sonde.stores.database import Database, Format, bind_row, bind_text, read_number, read_row
from sonde.stores.disk import base
from sonde.stores.disk.base import ROOT_ID, Batch, Key, Node, Saved, Scan, Sort
from sonde.stores.disk.reports import COLUMNS, ReportReader, get_node, list_scans, to_node, to_row
from sonde.stores.disk.selections import SelectionTable
from sonde.types import Json

_MAX_SCANS = 100  # kept for `growth` and `history`: a quarter of daily scans
_MAX_SESSIONS = 1_000  # of all users; a client leaves one behind whenever it reconnects
_MAX_UNNAMED = 1_000  # queries: a day of an agent that never names its filters
_KEYS: Mapping[Sort, str] = {"name": "n.name", "size": "-n.size", "modified": "-n.mtime"}
"""Sort expression of a listing; ties are ordered by id."""
_TREE = """
        CREATE TABLE nodes (
            id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name NOT NULL, kind INTEGER NOT NULL,
            depth INTEGER NOT NULL, size INTEGER NOT NULL, disk INTEGER NOT NULL,
            mtime INTEGER NOT NULL, mode INTEGER NOT NULL, links INTEGER NOT NULL,
            state INTEGER NOT NULL, files INTEGER NOT NULL, folders INTEGER NOT NULL,
            children INTEGER NOT NULL, target, born INTEGER NOT NULL, ext TEXT NOT NULL
        );
        CREATE UNIQUE INDEX nodes_by_name ON nodes(parent, name);
        CREATE TABLE gone (
            id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, name NOT NULL, kind INTEGER NOT NULL,
            size INTEGER NOT NULL, born INTEGER NOT NULL, scan INTEGER NOT NULL
        );
        CREATE TABLE scans (
            id INTEGER PRIMARY KEY, started INTEGER NOT NULL, finished INTEGER,
            nodes INTEGER NOT NULL DEFAULT 0, size INTEGER NOT NULL DEFAULT 0
        );
        CREATE TABLE past (
            node INTEGER NOT NULL, scan INTEGER NOT NULL, size INTEGER NOT NULL,
            disk INTEGER NOT NULL, PRIMARY KEY (node, scan)
        ) WITHOUT ROWID;
        CREATE TABLE digests (
            node INTEGER PRIMARY KEY, size INTEGER NOT NULL, mtime INTEGER NOT NULL,
            digest BLOB NOT NULL
        );
        CREATE INDEX digests_by_content ON digests(digest);
        CREATE TABLE members (
            selection TEXT NOT NULL, node INTEGER NOT NULL, size INTEGER NOT NULL,
            mtime INTEGER NOT NULL, PRIMARY KEY (selection, node)
        ) WITHOUT ROWID;
        CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
        INSERT INTO facts VALUES ('last_id', 1);
"""
_ORDERS = """
        CREATE INDEX nodes_by_size ON nodes(parent, -size, id);
        CREATE INDEX nodes_by_time ON nodes(parent, -mtime, id);
"""
"""Indexes for listing large folders in every order."""
_TREE_FORMAT = Format(0x736E6474, (_TREE, _ORDERS))


class TreeStore(ReportReader, SelectionTable):
    """The nodes of one index.

    Every write is atomic. Any number of threads and processes may read while one writes.
    """

    def __init__(self, path: Path, *, max_scans: int = _MAX_SCANS) -> None:
        self._database = Database(path, _TREE_FORMAT)
        self._max_scans = max_scans

    def begin_scan(self, started_ms: int) -> tuple[int, int]:
        """Open a scan. Returns its number and the first free id."""
        with self._database.write() as db:
            db.execute("INSERT INTO scans (started) VALUES (?)", (started_ms,))
            scan = db.last_insert_rowid()
            return scan, read_number(db, "SELECT value FROM facts WHERE name = 'last_id'") + 1

    def finish_scan(self, scan: int, finished_ms: int, *, nodes: int, size: int) -> None:
        """Close a scan and drop the oldest history."""
        with self._database.write() as db:
            db.execute(
                "UPDATE scans SET finished = ?, nodes = ?, size = ? WHERE id = ?",
                (finished_ms, nodes, size, scan),
            )
            oldest = db.execute(
                "SELECT id FROM scans WHERE finished IS NOT NULL ORDER BY id DESC LIMIT 1 OFFSET ?",
                (self._max_scans,),
            ).fetchone()
            if oldest:
                db.execute("DELETE FROM scans WHERE id <= ?", oldest)
                db.execute("DELETE FROM past WHERE scan <= ?", oldest)
                db.execute(
                    "DELETE FROM gone WHERE scan <= ? AND id NOT IN (SELECT node FROM members)",
                    oldest,
                )
        self._database.shrink()

    def scans(self) -> list[Scan]:
        """The kept scans, newest first."""
        with self._database.read() as db:
            return list_scans(db)

    def apply(self, scan: int, batch: Batch) -> None:
        """Write a batch."""
        with self._database.write() as db:
            _remove(db, scan, batch.removed, whole=True)
            _remove(db, scan, batch.emptied, whole=False)
            db.executemany(
                "INSERT INTO nodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                map(to_row, batch.inserted.values()),
            )
            db.executemany(
                "UPDATE nodes SET kind = ?, size = ?, disk = ?, mtime = ?, mode = ?, links = ?, "
                "state = ?, files = ?, folders = ?, children = ?, target = ? WHERE id = ?",
                (
                    (node.kind, *node[5:14], bind_text(node.target) or None, node.id)
                    for node in batch.updated
                ),
            )
            db.executemany(
                "INSERT OR IGNORE INTO past VALUES (?, ?, ?, ?)",
                ((node, scan, size, disk) for node, size, disk in batch.past),
            )
            last = (max(batch.inserted, default=0),)
            db.execute("UPDATE facts SET value = max(value, ?) WHERE name = 'last_id'", last)

    def between(self, parent: int, low: str | None, high: str | None) -> Mapping[str, Node]:
        """Children by name with low <= name < high, in the order of `sort_names`."""
        end = [] if high is None else [bind_text(high)]
        found = self._database.select(
            f"SELECT {COLUMNS} FROM nodes n WHERE n.parent = ? AND n.name >= ?"  # noqa: S608
            + (" AND n.name < ?" if end else ""),
            (parent, bind_text(low or ""), *end),
        )
        return {node.name: node for node in map(to_node, found)}

    def get(self, id_: int) -> Node | None:
        """One node."""
        with self._database.read() as db:
            return get_node(db, id_)

    def find(self, names: Sequence[str]) -> Node | None:
        """The node at these names from the root down."""
        with self._database.read() as db:
            node = get_node(db, ROOT_ID)
            for name in names:
                if node is None:
                    return None
                row = db.execute(
                    f"SELECT {COLUMNS} FROM nodes n WHERE n.parent = ? AND n.name = ?",  # noqa: S608
                    (node.id, bind_text(name)),
                ).fetchone()
                node = to_node(row) if row else None
            return node

    def trail(self, id_: int) -> list[Node]:
        """The nodes from the root to this one; empty if it is gone."""
        nodes: list[Node] = []
        with self._database.read() as db:
            while id_:
                node = get_node(db, id_)
                if node is None:
                    return []
                nodes.append(node)
                id_ = node.parent
        return nodes[::-1]

    def children(
        self, parent: int, limit: int, sort: Sort = "name", after: Key | None = None
    ) -> list[Node]:
        """Children in that order, starting after a key."""
        key = _KEYS[sort]
        steps: list[tuple[str, list[Any]]] = [(f"ORDER BY {key}, n.id", [])]
        if after and sort == "name":
            steps = [(f"AND {key} > ? ORDER BY {key}", [bind_text(after[0])])]
        elif after:
            # two seeks: a single comparison would read all rows with an equal key
            steps = [
                (f"AND {key} = ? AND n.id > ? ORDER BY n.id", [*after]),
                (f"AND {key} > ? ORDER BY {key}, n.id", [after[0]]),
            ]
        found: list[Node] = []
        with self._database.read() as db:
            for step, values in steps:
                rows = db.execute(
                    f"SELECT {COLUMNS} FROM nodes n WHERE n.parent = ? {step} LIMIT ?",  # noqa: S608
                    (parent, *values, limit - len(found)),
                )
                found += [to_node(row) for row in rows]
        return found

    def keep_digests(self, digests: Iterable[tuple[int, int, int, bytes]]) -> None:
        """Store digests: node, size, time and digest."""
        with self._database.write() as db:
            db.executemany("INSERT OR REPLACE INTO digests VALUES (?, ?, ?, ?)", digests)

    def digest(self, node: Node) -> bytes | None:
        """The digest of a file's current contents; None if it is unknown."""
        query = "SELECT digest FROM digests WHERE node = ? AND size = ? AND mtime = ?"
        rows = self._database.select(query, (node.id, node.size, node.mtime_ms))
        return bytes(rows[0][0]) if rows else None

    def close(self) -> None:
        """Release the file."""
        self._database.close()


def _remove(db: apsw.Connection, scan: int, nodes: Sequence[int], *, whole: bool) -> None:
    """Move nodes, or only their descendants, to the table of gone nodes."""
    if not nodes:
        return
    db.execute("CREATE TEMP TABLE IF NOT EXISTS doomed (id INTEGER PRIMARY KEY)")
    db.execute("DELETE FROM temp.doomed")
    db.execute(
        "WITH RECURSIVE below(id) AS (SELECT value FROM json_each(?) UNION SELECT n.id FROM nodes n"
        " JOIN below ON n.parent = below.id) INSERT INTO temp.doomed SELECT id FROM below",
        (json.dumps(nodes),),
    )
    if not whole:
        db.executemany("DELETE FROM temp.doomed WHERE id = ?", ((node,) for node in nodes))
    db.execute(
        "INSERT OR REPLACE INTO gone SELECT id, parent, name, kind, size, born, ? FROM nodes "
        "WHERE id IN (SELECT id FROM temp.doomed)",
        (scan,),
    )
    for table, column in (("nodes", "id"), ("digests", "node")):
        db.execute(f"DELETE FROM {table} WHERE {column} IN (SELECT id FROM temp.doomed)")  # noqa: S608


_SAVED = """
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
"""
_SAVED_FORMAT = Format(0x736E6473, (_SAVED,), damage=DataDamaged)
_TABLES = {
    base.ShellSession: "sessions",
    base.DiskIndex: "indexes",
    base.ResourceSet: "sets",
    base.SavedQuery: "queries",
}


class SavedStore:
    """The saved handles of an installation. Callers get only their own."""

    def __init__(
        self, path: Path, *, max_sessions: int = _MAX_SESSIONS, max_unnamed: int = _MAX_UNNAMED
    ) -> None:
        self._database = Database(path, _SAVED_FORMAT)
        self._max_sessions = max_sessions
        self._max_unnamed = max_unnamed

    def put(
        self, value: base.ShellSession | base.DiskIndex | base.ResourceSet | base.SavedQuery
    ) -> None:
        """Insert or replace a value, and drop the oldest sessions and unnamed queries."""
        row = {f'"{each.name}"': getattr(value, each.name) for each in fields(value)}
        if isinstance(value, base.ShellSession):
            row['"preferences"'] = json.dumps(dict(value.preferences))
        into = f"{_TABLES[type(value)]} ({', '.join(row)})"
        marks = ", ".join("?" for _ in row)
        with self._database.write() as db:
            db.execute(
                f"INSERT OR REPLACE INTO {into} VALUES ({marks})",  # noqa: S608
                bind_row(list(row.values())),
            )
            if isinstance(value, base.ShellSession):
                db.execute(
                    "DELETE FROM sessions WHERE id IN "
                    "(SELECT id FROM sessions ORDER BY updated_ms DESC LIMIT -1 OFFSET ?)",
                    (self._max_sessions,),
                )
            if isinstance(value, base.SavedQuery) and not value.name:
                db.execute(
                    "DELETE FROM queries WHERE id IN (SELECT id FROM queries WHERE name = '' "
                    "ORDER BY max(created_ms, executed_ms) DESC LIMIT -1 OFFSET ?)",
                    (self._max_unnamed,),
                )

    def get(self, kind: type[Saved], id_: str, owner: str) -> Saved | None:
        """A value of this owner."""
        key = (bind_text(owner), bind_text(id_))
        rows = self._database.select(f"{_select(kind)} AND id = ?", key)
        return _to_value(kind, rows[0]) if rows else None

    def newest(
        self,
        kind: type[Saved],
        owner: str,
        limit: int | None = None,
        after: Key | None = None,
        *,
        named: bool = False,
    ) -> list[Saved]:
        """Values of this owner other than sessions, newest first, starting after a key.

        With `named`, only those with a name.
        """
        later = "AND (-created_ms, id) > (?, ?)" if after else ""
        later += " AND name <> ''" if named else ""
        found = self._database.select(
            f"{_select(kind)} {later} ORDER BY -created_ms, id LIMIT ?",
            (bind_text(owner), *(after or ()), -1 if limit is None else limit),
        )
        return [_to_value(kind, row) for row in found]

    def delete(self, kind: type[Saved], id_: str, owner: str) -> bool:
        """Delete a value, and with an index its sets and queries. Returns whether it existed."""
        table, key = _TABLES[kind], (bind_text(id_), bind_text(owner))
        with self._database.write() as db:
            for inner in ("sets", "queries") if table == "indexes" else ():
                db.execute(f'DELETE FROM {inner} WHERE "index" = ? AND owner = ?', key)  # noqa: S608
            db.execute(f"DELETE FROM {table} WHERE id = ? AND owner = ?", key)  # noqa: S608
            return db.changes() > 0

    def close(self) -> None:
        """Release the file."""
        self._database.close()


def _select(kind: type[Saved]) -> str:
    columns = ", ".join(f'"{each.name}"' for each in fields(kind))
    return f"SELECT {columns} FROM {_TABLES[kind]} WHERE owner = ?"  # noqa: S608


def _to_value(kind: type[Saved], row: tuple[Any, ...]) -> Saved:
    names = [each.name for each in fields(kind)]
    values: Json = dict(zip(names, read_row(row), strict=True))
    if kind is base.ShellSession:
        values["preferences"] = json.loads(values["preferences"])
    elif kind is base.DiskIndex:
        values["follow_symlinks"] = bool(values["follow_symlinks"])
    return kind(**values)
