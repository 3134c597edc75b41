"""Reports on a disk tree: one statement each, starting after the key of the last row read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apsw

from sonde.stores.database import Database, bind_text, read_stored_text
from sonde.stores.disk import base
from sonde.stores.disk.base import FILE, FOLDER, LINKED, OK, Key, Node, Plan, ReportRow, Scan

_MAX_EXTENSION_CHARS = 16  # longer endings are parts of names, such as dates or hashes
_DIGEST_BATCH = 500  # nodes per read transaction, so that files are digested outside of it
_MAX_COPIES_SHOWN = 10  # nodes in a row of `duplicates`; others are counted

COLUMNS = (
    "n.id, n.parent, n.name, n.kind, n.depth, n.size, n.disk, n.mtime, n.mode, n.links, n.state, "
    "n.files, n.folders, n.children, ifnull(n.target, ''), n.born"
)
WIDTH = len(Node._fields)
DIGESTED = "digests d JOIN nodes n ON n.id = d.node AND n.size = d.size AND n.mtime = d.mtime"
"""Files with a current digest."""
_COUNTED = f"n.kind = {FILE} AND n.state <> {LINKED}"


def to_node(row: Sequence[Any]) -> Node:
    """The node of a row of `COLUMNS`."""
    if isinstance(row[2], str) and isinstance(row[14], str):
        return Node._make(row)
    name, target = read_stored_text(row[2]), read_stored_text(row[14])
    return Node._make((*row[:2], name, *row[3:14], target, row[15]))


def to_row(node: Node) -> tuple[Any, ...]:
    """The row of a node, its extension last."""
    if node.name.isascii() and not node.target:
        return (*node[:14], None, node.born, _ending(node))
    name = bind_text(node.name)
    return (*node[:2], name, *node[3:14], bind_text(node.target) or None, node.born, _ending(node))


def _ending(node: Node) -> str:
    """The extension under which a file is counted, in lower case; empty for other endings."""
    if node.kind:
        return ""
    stem, _, ending = node.name.rpartition(".")
    if not stem or len(ending) > _MAX_EXTENSION_CHARS or not ending.isalnum():
        return ""
    return ending.lower()


def get_node(db: apsw.Connection, id_: int) -> Node | None:
    """One node."""
    row = db.execute(f"SELECT {COLUMNS} FROM nodes n WHERE n.id = ?", (id_,)).fetchone()  # noqa: S608
    return to_node(row) if row else None


def list_scans(db: apsw.Connection) -> list[Scan]:
    """Every kept scan, newest first."""
    found = "SELECT id, started, finished, nodes, size FROM scans ORDER BY id DESC"
    return [Scan(*row) for row in db.execute(found)]


_DAY_MS = 86_400_000  # the spans of ages are counted in days
_AGES = (
    ("under a day", 1),
    ("under a week", 7),
    ("under a month", 30),
    ("under a quarter", 91),
    ("under a year", 365),
    ("under three years", 1_096),
    ("older", None),
)
_RANKED: Mapping[base.ReportKind, tuple[str, str]] = {
    "largest": ("-n.size", _COUNTED),
    "oldest": ("n.mtime", f"n.kind = {FILE}"),
    "newest": ("-n.mtime", f"n.kind = {FILE}"),
    "empty-folders": ("n.depth", f"n.kind = {FOLDER} AND n.children = 0 AND n.state = {OK}"),
}
"""Sort expression and condition by report."""


class ReportReader:
    """The reports, histories and duplicate candidates of a tree store."""

    _database: Database

    def report(
        self,
        kind: base.ReportKind,
        limit: int,
        after: Key | None = None,
        *,
        now_ms: int = 0,
        since_scan: int = 0,
    ) -> Sequence[ReportRow]:
        """Rows of a report, starting after a key.

        `by-age` measures ages from `now_ms`; `growth` compares with the scan `since_scan`.
        """
        with self._database.read() as db:
            return _read_report(db, kind, limit, after, now_ms, since_scan)

    def explain_report(
        self, kind: base.ReportKind, limit: int, *, now_ms: int = 0, since_scan: int = 0
    ) -> Plan:
        """The query plan of a report."""
        ran: list[tuple[str, Any]] = []

        def record(_cursor: apsw.Cursor, text: str, values: Any) -> bool:
            ran.append((text, values or ()))
            return True  # go on

        with self._database.read() as db:
            db.exec_trace = record
            try:
                _read_report(db, kind, limit, None, now_ms, since_scan)
            finally:
                db.exec_trace = None
            text, values = next(one for one in ran if "nodes n" in one[0])
            steps = [str(row[3]) for row in db.execute(f"EXPLAIN QUERY PLAN {text}", values)]
        shown = [value.hex() if isinstance(value, bytes) else value for value in values]
        return Plan(" ".join(text.split()), shown, steps)

    def history(self, id_: int) -> list[tuple[Scan, int]]:
        """A node's size at each kept scan since it was first seen, newest first."""
        with self._database.read() as db:
            node = get_node(db, id_)
            if node is None:
                return []
            found: Any = db.execute("SELECT scan, size FROM past WHERE node = ?", (id_,))
            past, size, rows = dict(found), node.size, []
            for scan in list_scans(db):
                if scan.id < node.born:
                    break
                if scan.finished_ms:
                    rows.append((scan, size))
                size = past.get(scan.id, size)
            return rows

    def undigested(self, min_bytes: int) -> Iterator[Node]:
        """Files of equal size without a current digest."""
        with self._database.read() as db:
            found = db.execute(
                "SELECT n.id FROM nodes n LEFT JOIN digests d "  # noqa: S608
                "ON d.node = n.id AND d.size = n.size AND d.mtime = n.mtime "
                f"WHERE d.node IS NULL AND {_COUNTED} AND n.size IN (SELECT n.size FROM nodes n "
                f"WHERE {_COUNTED} AND n.size >= ? GROUP BY n.size HAVING count(*) > 1) "
                "ORDER BY n.size DESC, n.id",
                (min_bytes,),
            )
            wanted = [int(row[0]) for row in found]
        for start in range(0, len(wanted), _DIGEST_BATCH):
            with self._database.read() as db:
                nodes = [get_node(db, id_) for id_ in wanted[start : start + _DIGEST_BATCH]]
            yield from filter(None, nodes)


def _read_report(
    db: apsw.Connection, kind: base.ReportKind, limit: int, after: Key | None, now_ms: int,
    since_scan: int,
) -> Sequence[ReportRow]:  # fmt: skip
    match kind:
        case "by-extension":
            return _read_extensions(db, limit, after)
        case "by-age":
            return _read_ages(db, limit, after, now_ms)
        case "duplicates":
            return _read_copies(db, limit, after)
        case "growth":
            return _read_growth(db, limit, after, since_scan)
    return _rank_nodes(db, kind, limit, after)


def _rank_nodes(
    db: apsw.Connection, kind: base.ReportKind, limit: int, after: Key | None
) -> list[ReportRow]:
    key, where = _RANKED[kind]
    later = f" AND ({key}, n.id) > (?, ?)" if after else ""
    found = db.execute(
        f"SELECT {COLUMNS}, {key} FROM nodes n WHERE {where}{later} "  # noqa: S608
        f"ORDER BY {key}, n.id LIMIT ?",
        (*(after or ()), limit),
    )
    return [base.RankedNode([row[WIDTH], row[0]], to_node(row[:WIDTH])) for row in found]


def _read_extensions(db: apsw.Connection, limit: int, after: Key | None) -> list[ReportRow]:
    later = "HAVING (-sum(n.size), n.ext) > (?, ?)" if after else ""
    found = db.execute(
        "SELECT n.ext, count(*), sum(n.size), sum(n.disk) FROM nodes n "  # noqa: S608
        f"WHERE {_COUNTED} GROUP BY n.ext {later} ORDER BY -sum(n.size), n.ext LIMIT ?",
        (*(after or ()), limit),
    )
    return [base.ExtensionTotal([-row[2], row[0]], *row) for row in found]


def _read_ages(db: apsw.Connection, limit: int, after: Key | None, now_ms: int) -> list[ReportRow]:
    bounds = [now_ms - days * _DAY_MS for _, days in _AGES if days]
    arms = " ".join(f"WHEN n.mtime >= ? THEN {number}" for number in range(len(bounds)))
    found = db.execute(
        f"SELECT CASE {arms} ELSE {len(bounds)} END AS span, count(*), sum(n.size) "  # noqa: S608
        f"FROM nodes n WHERE {_COUNTED} GROUP BY span",
        bounds,
    )
    counted = {span: (files, size) for span, files, size in found}
    rows: list[ReportRow] = [
        base.AgeTotal([number], name, days, *counted.get(number, (0, 0)))
        for number, (name, days) in enumerate(_AGES)
    ]
    first = after[0] + 1 if after else 0
    return rows[first : first + limit]


def _read_growth(
    db: apsw.Connection, limit: int, after: Key | None, since_scan: int
) -> list[ReportRow]:
    """Nodes whose size changed since a scan, the largest growth first.

    The earlier size is the one recorded by the first later scan that changed it. New nodes had size
    0, removed ones have it now.
    """
    columns = COLUMNS.replace("n.", "m.")
    later = "WHERE (before - now, id) > (?, ?)" if after else ""
    found = db.execute(
        f"""
        WITH first(node, scan) AS (SELECT node, min(scan) FROM past WHERE scan > ?1 GROUP BY node),
        changed(id, before, now, name) AS (
            SELECT n.id, p.size, n.size, n.name FROM first f
            JOIN past p ON p.node = f.node AND p.scan = f.scan JOIN nodes n ON n.id = f.node
            WHERE n.born <= ?1 AND p.size <> n.size
            UNION ALL
            SELECT n.id, 0, n.size, n.name FROM nodes n WHERE n.born > ?1 AND n.size > 0
            UNION ALL
            SELECT g.id, coalesce(p.size, g.size), 0, g.name FROM gone g
            LEFT JOIN first f ON f.node = g.id LEFT JOIN past p ON p.node = g.id AND p.scan = f.scan
            WHERE g.scan > ?1 AND g.born <= ?1 AND coalesce(p.size, g.size) > 0
        )
        SELECT c.before, c.now, c.name, c.id, {columns} FROM (
            SELECT * FROM changed {later} ORDER BY before - now, id LIMIT ?
        ) c LEFT JOIN nodes m ON m.id = c.id ORDER BY c.before - c.now, c.id
        """,  # noqa: S608
        (since_scan, *(after or ()), limit),
    )
    rows: list[ReportRow] = []
    for before, now, name, id_, *row in found:
        node = to_node(row) if row[0] is not None else None
        key, shown = [before - now, id_], read_stored_text(name)
        rows.append(base.Growth(key, id_, node, shown, before, now))
    return rows


def _read_copies(db: apsw.Connection, limit: int, after: Key | None) -> list[ReportRow]:
    later = "AND (-(count(*) - 1) * n.size, d.digest) > (?, ?)" if after else ""
    found: Any = db.execute(
        f"SELECT d.digest, n.size, count(*) FROM {DIGESTED} "  # noqa: S608
        f"GROUP BY d.digest HAVING count(*) > 1 {later} "
        "ORDER BY -(count(*) - 1) * n.size, d.digest LIMIT ?",
        (*((after[0], bytes.fromhex(after[1])) if after else ()), limit),
    ).fetchall()
    rows: list[ReportRow] = []
    for digest, size, copies in found:
        first = db.execute(
            f"SELECT {COLUMNS} FROM {DIGESTED} "  # noqa: S608
            "WHERE d.digest = ? AND n.size = ? ORDER BY n.id LIMIT ?",
            (digest, size, _MAX_COPIES_SHOWN),
        )
        key, nodes = [-(copies - 1) * size, digest.hex()], list(map(to_node, first))
        rows.append(base.Copies(key, bytes(digest), size, copies, nodes))
    return rows
