"""Reports on a scanned tree, in pages, and the comparison of contents behind `duplicates`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from sonde.disk.trees import Disk, Page, list_node_names, show_tree_path
from sonde.errors import Cancelled, InvalidRequest, SondeError
from sonde.policy.read import digest_file
from sonde.runtime.jobs import Job
from sonde.runtime.system import now_ms
from sonde.runtime.work import Work
from sonde.stores.disk import base
from sonde.stores.disk.base import DiskIndex, Node, Plan, ReportKind, ReportRow, Scan
from sonde.stores.disk.filters import read_moment
from sonde.stores.disk.sqlite import TreeStore
from sonde.types import Progress

REPORTS: Mapping[ReportKind, str] = {
    "largest": "the largest files",
    "oldest": "the files that were changed longest ago",
    "newest": "the files that were changed last",
    "by-extension": "files and bytes of each extension",
    "by-age": "files and bytes of each span of age",
    "duplicates": "files with equal contents, the most wasteful first",
    "growth": "what grew most since an earlier scan",
    "empty-folders": "folders with nothing in them",
}
_DEFAULT_SINCE = "7d"
_COMPARISON_WAIT_S = 1.0
"""How long to wait for the comparison; most finish in time for a complete report."""
_MIN_DIGEST_BYTES = 1  # empty files are all equal and waste nothing
_DIGESTS_PER_WRITE = 200  # few transactions, and little to repeat after a crash


@dataclass(frozen=True, slots=True)
class DiskReport:
    """One page of a report."""

    kind: ReportKind
    index: DiskIndex
    page: Page[ReportRow]
    paths: Mapping[int, str]
    """Node -> its path in the tree."""
    limit: int
    since: str | None = None
    """Growth: the moment as the caller gave it."""
    since_scan: Scan | None = None
    """Growth: the scan compared with; None if there is no earlier one."""
    complete: bool | None = None
    """Duplicates: whether all contents were compared."""
    comparison: str | None = None
    """Duplicates: the job that is still comparing."""


def read_disk_report(
    disk: Disk,
    index: DiskIndex,
    kind: str,
    *,
    limit: int,
    cursor: str | None = None,
    since: str | None = None,
) -> DiskReport:
    """One page of a report."""
    kind = check_report_kind(kind)
    scope = f"report:{index.id}:{kind}:{since or ''}"
    after = disk.read_cursor(cursor, scope)
    tree = disk.tree(index.id)
    earlier: Scan | None = None
    complete: bool | None = None
    comparison: str | None = None
    if kind == "duplicates":
        # contents are compared in the background; until then the report holds what is known
        job = compare_copies(disk, index)
        ended = job.wait(timeout_s=_COMPARISON_WAIT_S)
        complete, comparison = ended and job.status == "done", None if ended else job.id
    elif kind == "growth":
        earlier = _find_base_scan(tree, since)
    rows: list[ReportRow] = []
    if kind != "growth" or earlier:
        rows += tree.report(
            kind, limit + 1, after, now_ms=now_ms(), since_scan=earlier.id if earlier else 0
        )
    page = disk.cut_page(rows, limit, scope, lambda row: row.key)
    paths = {node.id: show_tree_path(tree, node) for node in _list_nodes(page.rows)}
    return DiskReport(kind, index, page, paths, limit, since, earlier, complete, comparison)


def check_report_kind(kind: str) -> ReportKind:
    """The kind of a report, or `InvalidRequest`."""
    for known in REPORTS:
        if kind == known:
            return known
    raise InvalidRequest(
        f"no report {kind!r}",
        user_message=f"There is no report '{kind}'.",
        next_action=f"Take one of {', '.join(REPORTS)}.",
    )


def explain_report(
    disk: Disk, index: DiskIndex, kind: str, limit: int, since: str | None = None
) -> Plan:
    """The query plan of a report."""
    kind = check_report_kind(kind)
    tree = disk.tree(index.id)
    earlier = _find_base_scan(tree, since) if kind == "growth" else None
    return tree.explain_report(
        kind, limit + 1, now_ms=now_ms(), since_scan=earlier.id if earlier else 0
    )


def _find_base_scan(tree: TreeStore, since: str | None) -> Scan | None:
    """The last scan before a moment, else the first of all."""
    scans = [scan for scan in tree.scans() if scan.finished_ms]
    moment = read_moment(since or _DEFAULT_SINCE, now_ms())
    older = [scan for scan in scans[1:] if scan.started_ms <= moment] or scans[1:][-1:]
    return older[0] if older else None


def _list_nodes(rows: Iterable[ReportRow]) -> Iterable[Node]:
    for row in rows:
        if isinstance(row, base.Copies):
            yield from row.nodes
        elif isinstance(row, base.RankedNode | base.Growth) and row.node:
            yield row.node


def compare_copies(disk: Disk, index: DiskIndex) -> Job:
    """Start the job that digests possible duplicates in an index, or join it."""
    return disk.workspace.jobs.submit(
        f"duplicates:{index.id}",
        "duplicates",
        lambda work: _digest_candidates(disk.tree(index.id), Path(index.root), work),
        owner=index.owner,
        subject=index.id,
    )


def _digest_candidates(store: TreeStore, root: Path, work: Work) -> dict[str, int]:
    """Digest the files that may be copies and have no current digest. Secrets are not opened."""
    candidates = list(store.undigested(_MIN_DIGEST_BYTES))
    total = sum(node.size for node in candidates)
    done = compared = refused = 0
    found: list[tuple[int, int, int, bytes]] = []
    for node in candidates:
        work.report(Progress("comparing", done, total))
        path = "/".join(list_node_names(store, node))
        try:
            digest, size, mtime_ms = digest_file(root, path, work.check)
        except Cancelled:
            store.keep_digests(found)
            raise
        except (SondeError, OSError):
            refused += 1
        else:
            if (size, mtime_ms) == (node.size, node.mtime_ms):
                found.append((node.id, size, mtime_ms, digest))
                compared += 1
        done += node.size
        if len(found) >= _DIGESTS_PER_WRITE:
            store.keep_digests(found)
            found = []
    store.keep_digests(found)
    work.report(Progress("comparing", total, total))
    return {"compared": compared, "notOpened": refused, "bytes": total}
