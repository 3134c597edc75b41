"""Folders, files, indexes and reports of a disk as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from sonde.disk.indexes import IndexState
from sonde.disk.listing import FolderEntry, FolderListing, LiveDetail, NodeDetail
from sonde.disk.reports import DiskReport
from sonde.disk.scope import Place, measure_json, shorten_path, shorten_text
from sonde.disk.trees import NodeMatches, join_node
from sonde.policy.roots import show_path
from sonde.stores.disk.base import (
    OK,
    ROOT_ID,
    STATES,
    AgeTotal,
    Copies,
    ExtensionTotal,
    Growth,
    Node,
    ReportRow,
    Scan,
    Sort,
)
from sonde.stores.disk.filters import KINDS
from sonde.tools.shapes import shell
from sonde.types import Caller, Json

_CD_FRAME_BYTES = 150
"""The fields of cd beside its page and its path."""
_MAX_CRUMB_BYTES = 80  # eight of them take a sixth of MAX_ANSWER_BYTES
_MAX_TARGET_BYTES = 400  # a tenth of MAX_ANSWER_BYTES
_MAX_CRUMBS = 8  # as many as are left of a long way: two, a gap, five
_MAX_SCANS_SHOWN = 20  # the newest, a fifth of those kept; a node's history has all


def _show_counts(node: Node) -> Json:
    return {"children": node.children, "files": node.files, "folders": node.folders}


def _link_folder(index: str, node: int, sort: Sort = "name") -> str:
    order = "" if sort == "name" else f"&sort={sort}"
    return f"indexes/{index}/tree?parent={join_node(index, node)}{order}"


def _link_place(index: str, kind: str, path: str) -> str:
    return f"indexes/{index}/{kind}?path={quote(show_path(path), safe='/')}"


def show_node_row(
    index: str, node: Node, caller: Caller, units: str = "bytes", state: str = ""
) -> Json:
    """A ListingEntry of a scanned node; `state` replaces that of the scan."""
    handle = join_node(index, node.id)
    row: Json = {
        "nodeId": handle,
        "name": shell.show_name(node.name),
        "kind": KINDS[node.kind],
        "size": shell.show_bytes(node.size, units),
    }
    if node.listable:
        row["counts"] = _show_counts(node)
    row["modifiedAt"] = shell.show_epoch(node.mtime_ms)
    state = state or STATES[node.state]
    if state != STATES[OK]:
        row["state"] = state
    row["link"] = caller.link(f"indexes/{index}/nodes/{handle}")
    return row


def _show_entry(place: Place, entry: FolderEntry, caller: Caller, units: str) -> Json:
    if entry.node:
        return show_node_row(place.index.id, entry.node, caller, units, entry.state)
    path = f"{place.inner_path}/{entry.name}" if place.names else entry.name
    kind = "tree" if entry.listable else "detail"
    return {
        "nodeId": None,
        "name": shell.show_name(entry.name),
        "kind": entry.kind,
        "size": None if entry.size is None else shell.show_bytes(entry.size, units),
        "modifiedAt": shell.show_epoch(entry.mtime_ms),
        "state": entry.state,
        "link": caller.link(_link_place(place.index.id, kind, path)),
    }


def show_crumbs(place: Place, trail: Sequence[Node]) -> list[Json]:
    """The path from the root, shortened in the middle if long; without nodes it has no ids."""
    index, names = place.index, [Path(place.index.root).name or "/", *place.names]
    if trail:
        names = [names[0], *(node.name for node in trail[1:])]
    ids: list[str | None] = [join_node(index.id, node.id) for node in trail]
    crumbs: list[Json] = [
        {"nodeId": id_, "name": shorten_text(name, _MAX_CRUMB_BYTES)}
        for id_, name in zip(ids or [None] * len(names), names, strict=True)
    ]
    return crumbs if len(crumbs) <= _MAX_CRUMBS else [*crumbs[:2], {"name": "…"}, *crumbs[-5:]]


def show_folder_page(
    listing: FolderListing, caller: Caller, units: str = "bytes", max_bytes: int | None = None
) -> Json:
    """One page of a folder."""
    place, crumbs = listing.place, show_crumbs(listing.place, listing.trail)
    if listing.trail and listing.node:
        address = _link_folder(place.index.id, listing.node.id, listing.sort)
    else:
        address = _link_place(place.index.id, "tree", place.inner_path)

    def whole(rows: list[Json]) -> Json:
        cursor = listing.page.take(len(rows)).cursor
        answer: Json = {
            "breadcrumb": crumbs,
            "entries": rows,
            "nextPageUrl": caller.link(f"{address}&limit=50&cursor={cursor}") if cursor else None,
        }
        if listing.state != STATES[OK]:
            answer["state"] = listing.state
        if listing.scanned_ms is not None:
            answer["scannedAt"] = shell.show_epoch(listing.scanned_ms)
        if listing.stale:
            answer["stale"] = True
        return answer

    rows = listing.page.rows
    return shell.fit_bytes(
        rows, lambda row: _show_entry(place, row, caller, units), whole, max_bytes
    )


def show_cd(session: str, listing: FolderListing, caller: Caller, units: str) -> shell.CdAnswer:
    """The answer of cd."""
    cwd, link = shorten_path(listing.place.path), caller.link(f"sessions/{session}")
    room = shell.MAX_ANSWER_BYTES - _CD_FRAME_BYTES - measure_json(cwd) - measure_json(link)
    page = show_folder_page(listing, caller, units, room)
    answer: shell.CdAnswer = {
        "sessionId": session,
        "cwd": cwd,
        "breadcrumb": page["breadcrumb"],
        "indexId": listing.place.index.id,
        "entries": page["entries"],
        "nextPageUrl": page["nextPageUrl"],
        "link": link,
    }
    return answer | {name: page[name] for name in ("state", "scannedAt", "stale") if name in page}  # type: ignore[return-value]


def show_tree(listing: FolderListing, caller: Caller) -> shell.Answer:
    """One page of a folder, with its place."""
    index = listing.place.index.id
    return {
        "indexId": index,
        "parent": join_node(index, listing.node.id) if listing.node else None,
        "path": show_path(listing.place.inner_path),
        **show_folder_page(listing, caller),
    }


def show_node(
    detail: NodeDetail, caller: Caller, units: str = "bytes", *, whole: bool = False
) -> shell.NodeAnswer:
    """A NodeDetail; `whole` leaves nothing out of long paths."""
    index, node = detail.index, detail.node
    show = show_path if whole else shorten_path
    handle = join_node(index.id, node.id)
    address = f"indexes/{index.id}/nodes/{handle}"
    answer: shell.NodeAnswer = {
        "nodeId": handle,
        "path": show(detail.path),
        "kind": KINDS[node.kind],
        "size": shell.show_bytes(node.size, units),
        "modifiedAt": shell.show_epoch(node.mtime_ms),
        "permissions": shell.show_permissions(KINDS[node.kind], node.mode),
        "sizeOnDisk": shell.show_bytes(node.disk, units),
        "link": caller.link(f"{address}/detail"),
        "historyUrl": caller.link(f"{address}/history"),
    }
    if detail.scanned_ms is not None:
        answer["scannedAt"] = shell.show_epoch(detail.scanned_ms)
    if detail.digest:
        answer["digest"] = f"sha256:{detail.digest.hex()}"
    if node.target:
        target = node.target
        answer["symlink"] = show_path(target) if whole else shorten_text(target, _MAX_TARGET_BYTES)
    if detail.state != STATES[OK]:
        answer["state"] = detail.state
    if node.listable:
        answer["counts"] = _show_counts(node)
        answer["childrenUrl"] = caller.link(_link_folder(index.id, node.id))
    if detail.shown:
        answer["previewUrl"] = caller.link(f"{address}/preview")
        if caller.base_url:
            answer["downloadUrl"] = caller.link(f"{address}/download")
    return answer


def show_node_detail(detail: NodeDetail, caller: Caller) -> shell.Answer:
    """A NodeDetail with everything that the REST API tells."""
    node = detail.node
    answer: Json = {
        **show_node(detail, caller, whole=True),
        "name": show_path(node.name),
        "names": node.links,
        "depth": node.depth,
    }
    if node.parent:
        above = f"indexes/{detail.index.id}/nodes/{join_node(detail.index.id, node.parent)}"
        answer["parentUrl"] = caller.link(above)
    return answer


def show_live_node(detail: LiveDetail, caller: Caller, units: str = "bytes") -> shell.NodeAnswer:
    """A NodeDetail of a name that the scan has not reached."""
    place, facts = detail.place, detail.facts
    index, path = place.index.id, place.inner_path
    answer: shell.NodeAnswer = {
        "nodeId": None,
        "path": shorten_path(place.path),
        "kind": facts.kind,
        "size": None if facts.kind == "directory" else shell.show_bytes(facts.size, units),
        "modifiedAt": shell.show_epoch(facts.mtime_ms),
        "permissions": shell.show_permissions(facts.kind, facts.mode),
        "state": "pending",
        "link": caller.link(_link_place(index, "detail", path)),
    }
    if facts.kind == "directory":
        answer["childrenUrl"] = caller.link(_link_place(index, "tree", path))
    return answer


def show_index(state: IndexState, caller: Caller) -> Json:
    """A scanned folder."""
    index, root = state.index, state.root
    tree = _link_folder(index.id, ROOT_ID) if root else f"indexes/{index.id}/tree"
    answer: Json = {
        "indexId": index.id,
        "root": show_path(index.root),
        "link": caller.link(f"indexes/{index.id}"),
        "treeUrl": caller.link(tree),
        "reportsUrl": caller.link(f"indexes/{index.id}/reports"),
    }
    if root:
        answer |= {
            "nodeId": join_node(index.id, ROOT_ID),
            "files": root.files,
            "folders": root.folders,
            "size": root.size,
            "sizeOnDisk": root.disk,
        }
    return answer | ({"job": shell.show_job(state.job, caller)} if state.job else {})


def show_index_detail(state: IndexState, scans: Sequence[Scan], caller: Caller) -> shell.Answer:
    """A scanned folder with its newest scans."""
    index = state.index
    return show_index(state, caller) | {
        "depthLimit": index.depth_limit,
        "followSymlinks": index.follow_symlinks,
        "createdAt": shell.show_epoch(index.created_ms),
        "scans": [
            {
                "startedAt": shell.show_epoch(scan.started_ms),
                "finishedAt": shell.show_epoch(scan.finished_ms) if scan.finished_ms else None,
                "nodes": scan.nodes,
                "size": scan.size,
            }
            for scan in scans[:_MAX_SCANS_SHOWN]
        ],
    }


def show_disk_report(report: DiskReport, caller: Caller) -> shell.Answer:
    """One page of a report."""
    index, page = report.index.id, report.page
    extra: Json = {}
    if report.kind == "growth":
        base = report.since_scan
        extra["sinceScan"] = base.id if base else None
        extra["since"] = shell.show_epoch(base.started_ms) if base else None
    if report.complete is not None:
        extra["complete"] = report.complete
    if report.comparison:
        extra["statusUrl"] = caller.link(f"jobs/{report.comparison}")
    following = None
    if page.cursor:
        moment = f"&since={quote(report.since)}" if report.since else ""
        address = f"indexes/{index}/reports/{report.kind}?limit={report.limit}{moment}"
        following = caller.link(f"{address}&cursor={page.cursor}")
    return {
        "report": report.kind,
        "indexId": index,
        "rows": [_show_report_row(report, row, caller) for row in page.rows],
        "nextPageUrl": following,
        **extra,
    }


def _show_report_row(report: DiskReport, row: ReportRow, caller: Caller) -> shell.Answer:
    index = report.index.id

    def show(node: Node) -> shell.Answer:
        return {**show_node_row(index, node, caller), "path": report.paths[node.id]}

    match row:
        case ExtensionTotal():
            return {
                "extension": row.extension,
                "files": row.files,
                "size": row.size,
                "sizeOnDisk": row.disk,
            }
        case AgeTotal():
            return {"age": row.age, "maxDays": row.max_days, "files": row.files, "size": row.size}
        case Copies():
            return {
                "digest": f"sha256:{row.digest.hex()}",
                "size": row.size,
                "copies": row.copies,
                "wasted": row.size * (row.copies - 1),
                "entries": [show(node) for node in row.nodes],
            }
        case Growth():
            change = {"before": row.before, "now": row.now, "growth": row.now - row.before}
            if row.node is None:
                gone = {"nodeId": join_node(index, row.id), "name": show_path(row.name)}
                return {**gone, "state": "gone", **change}
            return {**show(row.node), **change}
    return show(row.node)


def show_matches(found: NodeMatches, caller: Caller) -> Json:
    """The largest nodes that match a filter."""
    rows = [
        {**show_node_row(found.index.id, node, caller), "path": found.paths[node.id]}
        for node in found.nodes
    ]
    return {"matches": found.totals.entries, "totalSize": found.totals.size, "entries": rows}
