"""Selections of a disk tree's nodes, by filters translated to SQL.

Statements consist of constants of this file; all input is bound as parameters. Globs and regular
expressions run on RE2, in SQL functions registered with the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import apsw

from sonde.errors import InvalidPattern
from sonde.policy.roots import show_path
from sonde.stores.database import Database, Value, bind_text, read_number, read_stored_text
from sonde.stores.disk import base
from sonde.stores.disk.base import FILE, FOLDER, LINKED, OK, PENDING, ROOT_ID, Context, Plan
from sonde.stores.disk.filters import KINDS, And, Condition, Filter, Not, list_conditions
from sonde.stores.disk.reports import COLUMNS, DIGESTED, WIDTH, to_node
from sonde.text.globs import compile_glob

_COMPARED: Mapping[str, str] = {"size": "n.size", "depth": "n.depth", "modified": "n.mtime"}
_OPERATORS: Mapping[str, str] = {op: op for op in ("<", "<=", ">", ">=", "=")}
_FLIPPED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_TRAITS: Mapping[str, str] = {
    "duplicate": "n.id IN (SELECT node FROM temp.copies)",
    "empty": f"((n.kind = {FOLDER} AND n.children = 0 AND n.state = {OK}) "
    f"OR (n.kind = {FILE} AND n.size = 0))",
    "hidden": "substr(n.name, 1, 1) = '.'",
    "unreadable": f"n.state NOT IN ({OK}, {PENDING}, {LINKED})",
}
_FITS = {
    ("name", ":"): "fits_glob(?, 0, n.name)",
    ("name", "~"): "fits_regex(?, 0, n.name)",
    ("path", ":"): "fits_glob(?, n.parent, n.name)",
    ("path", "~"): "fits_regex(?, n.parent, n.name)",
}
_UNDER = (
    "n.id IN (WITH RECURSIVE below(id) AS (SELECT x.id FROM nodes x WHERE x.parent = ? "
    "UNION SELECT x.id FROM nodes x JOIN below ON x.parent = below.id) SELECT id FROM below)"
)
_FOUND = "n.id IN (SELECT node FROM temp.found WHERE test = ?)"


class _Statement:
    """A filter as an SQL condition with its parameters."""

    def __init__(self, db: apsw.Connection, where: Filter, context: Context) -> None:
        self._db = db
        self._context = context
        self._tests = list(dict.fromkeys(list_conditions(where)))
        self.values: list[Value] = []
        self.text = self._render(where)
        self._prepare()

    def _render(self, tree: Filter) -> str:
        if isinstance(tree, Condition):
            return self._render_test(tree)
        if isinstance(tree, Not):
            return f"NOT ({self._render(tree.item)})"
        if not tree.items:
            return "1"
        word = " AND " if isinstance(tree, And) else " OR "
        return "(" + word.join(self._render(item) for item in tree.items) + ")"

    def _render_test(self, test: Condition) -> str:
        field, op, value = test.field, test.op, test.value
        if field in _COMPARED:
            self.values.append(value)
            return f"{_COMPARED[field]} {_OPERATORS[op]} ?"
        if field == "age" and isinstance(value, int):
            self.values.append(self._context.now_ms - value * 1000)
            return f"n.mtime {_FLIPPED[op]} ?"
        if field == "is":
            return _TRAITS[str(value)]
        if field == "kind":
            self.values.append(KINDS.index(str(value)))
            return "n.kind = ?"
        if field == "ext":
            self.values.append(bind_text(str(value)))
            return f"(n.kind = {FILE} AND n.ext = ?)"
        if field == "under":
            self.values.append(self._find_folder(str(value)))
            return _UNDER
        if (field, op) in _FITS:
            # compiled here so that an invalid pattern fails even if no row is tested
            compile_glob(str(value)) if op == ":" else _compile(str(value))
            self.values.append(bind_text(str(value)))
            return _FITS[field, op]
        self.values.append(self._tests.index(test))
        return _FOUND

    def _find_folder(self, path: str) -> int:
        """The id of a folder, or -1 if there is none."""
        node, query = ROOT_ID, "SELECT id FROM nodes WHERE parent = ? AND name = ?"
        for name in path.strip("/").split("/"):
            if name in ("", "."):
                continue
            row = self._db.execute(query, (node, bind_text(name))).fetchone()
            if row is None:
                return -1
            node = int(row[0])
        return node

    def _prepare(self) -> None:
        """Create the functions and temporary tables of the statement."""
        _register(self._db)
        self._db.execute(
            "CREATE TEMP TABLE IF NOT EXISTS found (test INTEGER, node INTEGER, "
            "PRIMARY KEY (test, node)) WITHOUT ROWID;"
            "CREATE TEMP TABLE IF NOT EXISTS copies (node INTEGER PRIMARY KEY);"
            "DELETE FROM temp.found; DELETE FROM temp.copies"
        )
        for number, test in enumerate(self._tests):
            rows = ((number, node) for node in self._context.found.get(test, ()))
            self._db.executemany("INSERT OR IGNORE INTO temp.found VALUES (?, ?)", rows)
        if Condition("is", ":", "duplicate") in self._tests:
            self._db.execute(
                f"INSERT INTO temp.copies SELECT n.id FROM {DIGESTED} WHERE d.digest IN "  # noqa: S608
                f"(SELECT d.digest FROM {DIGESTED} GROUP BY d.digest HAVING count(*) > 1)"
            )


_COMBINED: Mapping[str, str] = {
    "union": "INSERT OR IGNORE INTO members SELECT ?1, node, size, mtime FROM members "
    "WHERE selection = ?2",
    "intersection": "DELETE FROM members WHERE selection = ?1 AND node NOT IN "
    "(SELECT node FROM members WHERE selection = ?2)",
    "difference": "DELETE FROM members WHERE selection = ?1 AND node IN "
    "(SELECT node FROM members WHERE selection = ?2)",
}


class SelectionTable:
    """The selections of a tree store."""

    _database: Database

    def select(self, selection: str, where: Filter, context: Context) -> int:
        """Replace a selection by the nodes that match. Returns how many."""
        with self._database.write() as db:
            statement = _Statement(db, where, context)
            db.execute("DELETE FROM members WHERE selection = ?", (selection,))
            db.execute(
                "INSERT INTO members SELECT ?, n.id, n.size, n.mtime FROM nodes n "  # noqa: S608
                f"WHERE n.id <> {ROOT_ID} AND {statement.text}",
                (selection, *statement.values),
            )
            return db.changes()

    def explain(self, where: Filter, context: Context) -> Plan:
        """The query plan of a filter."""
        with self._database.write() as db:
            statement = _Statement(db, where, context)
            text = f"SELECT n.id FROM nodes n WHERE n.id <> {ROOT_ID} AND {statement.text}"  # noqa: S608
            steps = db.execute(f"EXPLAIN QUERY PLAN {text}", statement.values)
            shown = [read_stored_text(v) if isinstance(v, bytes) else v for v in statement.values]
            return Plan(text, shown, [str(row[3]) for row in steps])

    def add(self, selection: str, nodes: Iterable[int]) -> None:
        """Add nodes to a selection; those that do not exist are left out."""
        with self._database.write() as db:
            db.executemany(
                "INSERT OR REPLACE INTO members SELECT ?, id, size, mtime FROM nodes WHERE id = ?",
                ((selection, node) for node in nodes),
            )

    def discard(self, selection: str, nodes: Iterable[int] | None = None) -> None:
        """Remove some or all nodes from a selection."""
        query = "DELETE FROM members WHERE selection = ?"
        with self._database.write() as db:
            if nodes is None:
                db.execute(query, (selection,))
            else:
                db.executemany(f"{query} AND node = ?", ((selection, node) for node in nodes))

    def combine(self, selection: str, how: base.Combination, other: str) -> None:
        """Replace a selection by its combination with another."""
        with self._database.write() as db:
            db.execute(_COMBINED[how], (selection, other))

    def members(self, selection: str, limit: int, after: int = 0) -> list[base.Member]:
        """Entries of a selection by id."""
        found = self._database.select(
            f"SELECT {COLUMNS}, s.node, s.size, s.mtime, g.name FROM members s "  # noqa: S608
            "LEFT JOIN nodes n ON n.id = s.node LEFT JOIN gone g ON g.id = s.node "
            "WHERE s.selection = ? AND s.node > ? ORDER BY s.node LIMIT ?",
            (selection, after, limit),
        )
        return list(map(_to_member, found))

    def totals(self, selection: str) -> base.Totals:
        """The totals of a selection."""
        with self._database.read() as db:
            row = db.execute(
                f"""
                SELECT count(*), total(n.kind = {FILE}), total(n.kind = {FOLDER}),
                    total(n.id IS NULL OR n.size <> s.size OR n.mtime <> s.mtime)
                FROM members s LEFT JOIN nodes n ON n.id = s.node WHERE s.selection = ?
                """,  # noqa: S608
                (selection,),
            ).fetchone()
            assert row
            size = _measure(db, selection, folders=bool(row[2]))
            return base.Totals(int(row[0]), int(row[1]), int(row[2]), size, int(row[3]))


def _to_member(row: tuple[Any, ...]) -> base.Member:
    id_, size, mtime, gone = row[WIDTH:]
    if row[0] is None:
        return base.Member(id_, None, read_stored_text(gone or ""), size, "gone")
    node = to_node(row[:WIDTH])
    same = (node.size, node.mtime_ms) == (size, mtime)
    return base.Member(id_, node, node.name, node.size, "" if same else "changed")


def _measure(db: apsw.Connection, selection: str, *, folders: bool) -> int:
    counted = (
        "FROM members s JOIN nodes n ON n.id = s.node "
        f"WHERE s.selection = ? AND n.state <> {LINKED} AND n.kind IN ({FILE}, {FOLDER})"
    )
    if not folders:
        return read_number(db, f"SELECT sum(n.size) {counted}", (selection,))
    found = db.execute("SELECT node FROM members WHERE selection = ?", (selection,))
    chosen = {int(row[0]) for row in found}
    covered: dict[int, bool] = {0: False}

    def is_covered(id_: int) -> bool:
        """Whether a folder or one of its ancestors is selected."""
        way: list[int] = []
        while id_ not in covered and id_ not in chosen:
            way.append(id_)
            row = db.execute("SELECT parent FROM nodes WHERE id = ?", (id_,)).fetchone()
            id_ = int(row[0]) if row else 0
        answer = id_ in chosen or covered[id_]
        covered.update(dict.fromkeys(way, answer))
        return answer

    rows: list[Any] = db.execute(f"SELECT n.parent, n.size {counted}", (selection,)).fetchall()
    return sum(own for parent, own in rows if not is_covered(parent))


def _register(db: apsw.Connection) -> None:
    """Register the functions of filters; each pattern is compiled once per statement."""
    folders: dict[int, str] = {ROOT_ID: "", 0: ""}

    def read_folder(id_: int) -> str:
        way: list[tuple[int, str]] = []
        while id_ not in folders:
            row = db.execute("SELECT parent, name FROM nodes WHERE id = ?", (id_,)).fetchone()
            if row is None:
                return ""
            way.append((id_, read_stored_text(row[1])))
            id_ = int(row[0])
        path = folders[id_]
        for number, name in reversed(way):
            path = folders[number] = f"{path}{name}/"
        return path

    @cache
    def glob(pattern: Value) -> Any:
        return compile_glob(read_stored_text(pattern)).matches

    @cache
    def regex(pattern: Value) -> Any:
        return _compile(read_stored_text(pattern)).search

    def path_of(parent: int, name: Value) -> str:
        """The path with bytes that are not Unicode escaped, as RE2 requires."""
        return show_path(read_folder(parent) + read_stored_text(name))

    functions: dict[str, Callable[..., bool]] = {
        "fits_glob": lambda text, above, name: bool(glob(text)(path_of(above, name))),
        "fits_regex": lambda text, above, name: bool(regex(text)(path_of(above, name))),
    }
    for name, function in functions.items():
        db.create_scalar_function(name, function, 3, deterministic=True)


def _compile(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise InvalidPattern(f"regex {pattern!r}: {error}", pattern=pattern) from error
