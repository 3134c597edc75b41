"""Reports on a scanned tree, in pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sonde.app import App
from sonde.disk.contents import compare_copies
from sonde.disk.scope import now_ms
from sonde.errors import InvalidRequest
from sonde.paging.cursor import decode_key, encode_key
from sonde.policy.roots import show_path
from sonde.runtime.jobs import join_node
from sonde.stores.disk.base import DiskIndex, Node, Past, TreeStore
from sonde.stores.disk.filters import read_moment
from sonde.tools.shapes.shell import show_epoch, show_listing_entry
from sonde.types import Caller

REPORTS = {
    "largest": "the largest files",
    "oldest": "the files that were changed longest ago",
    "newest": "the files that were changed last",
    "by-extension": "files and bytes of each extension",
    "by-age": "files and bytes of each span of age",
    "duplicates": "files with equal contents, the most wasteful first",
    "growth": "what grew most since an earlier scan",
    "empty-folders": "folders with nothing in them",
}
_RANKED = {
    "largest": "largest",
    "oldest": "oldest",
    "newest": "newest",
    "empty-folders": "empty",
}
_SHOWN_COPIES = 10
_WEEK = "7d"

Rows = list[tuple[dict[str, Any], list[Any]]]
"""A row and its key."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Which rows of which report are wanted."""

    app: App
    index: DiskIndex
    report: str
    caller: Caller
    limit: int
    after: Sequence[Any] | None
    since_scan: int | None = None

    @property
    def tree(self) -> TreeStore:
        """What the report is on."""
        return self.app.disk.tree(self.index.id)

    def show(self, node: Node) -> dict[str, Any]:
        """A node as a row."""
        return show_row(self.app, self.index, node, self.caller)


Reader = Callable[[_Asked], Rows]


def read_disk_report(
    app: App,
    index: DiskIndex,
    report: str,
    caller: Caller,
    *,
    limit: int,
    cursor: str | None = None,
    since: str | None = None,
    explain: bool = False,
) -> dict[str, Any]:
    """One page of a report, or how it is made."""
    if report not in REPORTS:
        raise InvalidRequest(
            f"no report {report!r}",
            user_message="There is no report '{report}'.",
            next_action=f"Take one of {', '.join(REPORTS)}.",
            report=report,
        )
    scope = f"report:{index.id}:{report}:{since or ''}"
    after = decode_key(cursor, scope, app.workspace.key) if cursor else None
    extra: dict[str, Any] = {}
    if report == "duplicates" and not explain:
        extra = _note_comparison(app, index, caller)
    if report == "growth":
        extra = _find_since(app, index, since or _WEEK)
        if extra["sinceScan"] is None:
            return {"report": report, "rows": [], "nextPageUrl": None, **extra}
    reader: Reader = _READERS.get(report) or _read_ranked

    asked = _Asked(app, index, report, caller, limit + 1, after, extra.get("sinceScan"))

    def read() -> Rows:
        return reader(asked)

    if explain:
        told = app.disk.tree(index.id).explain_reading(read)
        return {"report": report, "about": REPORTS[report], **told}
    found = read()
    rows = found[:limit]
    following = None
    if len(found) > limit:
        key = encode_key(rows[-1][1], scope, app.workspace.key)
        moment = f"&since={quote(since)}" if since else ""
        address = f"indexes/{index.id}/reports/{report}?limit={limit}{moment}&cursor={key}"
        following = caller.link(address)
    return {
        "report": report,
        "indexId": index.id,
        "rows": [row for row, _ in rows],
        "nextPageUrl": following,
        **extra,
    }


def _note_comparison(app: App, index: DiskIndex, caller: Caller) -> dict[str, Any]:
    """Contents are compared in the background; until then the report holds what is known."""
    job = compare_copies(app, index)
    if job.wait(timeout_s=1.0):
        return {"complete": job.status == "done"}
    return {"complete": False, "statusUrl": caller.link(f"jobs/{job.id}")}


def _find_since(app: App, index: DiskIndex, since: str) -> dict[str, Any]:
    """The last scan that ended before a moment, else the first one of all."""
    scans = [scan for scan in app.disk.tree(index.id).scans() if scan.finished_ms]
    wanted = read_moment(since, now_ms())
    older = [scan for scan in scans[1:] if scan.started_ms <= wanted] or scans[1:][-1:]
    if not older:
        return {"sinceScan": None, "since": None}
    return {"sinceScan": older[0].id, "since": show_epoch(older[0].started_ms)}


def _read_ranked(asked: _Asked) -> Rows:
    found = asked.tree.rank(_RANKED[asked.report], asked.limit, asked.after)
    return [(asked.show(node), key) for node, key in found]


def _read_extensions(asked: _Asked) -> Rows:
    rows = asked.tree.by_extension(asked.limit, asked.after)
    return [(row, [-row["size"], row["extension"]]) for row in rows]


def _read_ages(asked: _Asked) -> Rows:
    rows = list(enumerate(asked.tree.by_age(now_ms())))
    first = asked.after[0] + 1 if asked.after else 0
    return [(row, [number]) for number, row in rows[first : first + asked.limit]]


def _read_copies(asked: _Asked) -> Rows:
    tree, after = asked.tree, asked.after
    key = [after[0], bytes.fromhex(after[1])] if after else None
    rows: Rows = []
    for digest, size, count in tree.duplicates(asked.limit, key):
        row = {
            "digest": f"sha256:{digest.hex()}",
            "size": size,
            "copies": count,
            "wasted": size * (count - 1),
            "entries": [asked.show(node) for node in tree.twins(digest, size, _SHOWN_COPIES)],
        }
        rows.append((row, [-(count - 1) * size, digest.hex()]))
    return rows


def _read_growth(asked: _Asked) -> Rows:
    assert asked.since_scan is not None
    found = asked.tree.growth(asked.since_scan, asked.limit, asked.after)
    return [(_show_growth(asked, past), [past.before - past.now, past.id]) for past in found]


def _show_growth(asked: _Asked, past: Past) -> dict[str, Any]:
    change = {"before": past.before, "now": past.now, "growth": past.now - past.before}
    if past.node is None:
        gone = {"nodeId": join_node(asked.index.id, past.id), "name": show_path(past.name)}
        return gone | {"state": "gone"} | change
    return asked.show(past.node) | change


def show_row(app: App, index: DiskIndex, node: Node, caller: Caller) -> dict[str, Any]:
    """A ListingEntry with its path in the tree."""
    path = show_tree_path(app, index.id, node)
    return {**show_listing_entry(index.id, node, caller), "path": path}


def show_tree_path(app: App, index: str, node: Node) -> str:
    """Where a node is in its tree."""
    trail = app.disk.tree(index).trail(node.id)[1:]
    return show_path(str(Path(*(step.name for step in trail))) if trail else ".")


_READERS: dict[str, Reader] = {
    "by-extension": _read_extensions,
    "by-age": _read_ages,
    "duplicates": _read_copies,
    "growth": _read_growth,
}
