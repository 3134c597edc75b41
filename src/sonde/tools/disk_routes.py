"""Addresses of a scanned disk: sessions, indexes, nodes, reports, jobs."""

from __future__ import annotations

import mimetypes
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from sonde.app import App
from sonde.disk.listing import link_folder, list_folder
from sonde.disk.reports import REPORTS, read_disk_report
from sonde.disk.scope import (
    Place,
    find_index,
    find_node,
    find_shell_session,
    miss_node,
    read_preferences,
    settle_names,
    walk_to,
)
from sonde.errors import HandleUnknown, NodeMissing
from sonde.policy.content import open_shown
from sonde.policy.read import decode_text
from sonde.policy.roots import show_path, split_inside
from sonde.projects.find import require_consent
from sonde.runtime.jobs import join_node
from sonde.runtime.work import Work
from sonde.stores.disk.base import ROOT_ID, DiskIndex, Node, Sort
from sonde.tools.disk import scan_folder, show_node, show_unscanned
from sonde.tools.route import Content, Route
from sonde.tools.schema import CursorParam, LimitParam, Param
from sonde.tools.shapes.shell import ScanAnswer, has_children, show_epoch, show_job
from sonde.types import Caller

_PREVIEWED = 64 * 1024
_DUMPED = 1024
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_LARGEST_PICTURE = 4 << 20

IndexParam = Annotated[str, Param("indexId", min_length=1, max_length=64)]
NodeParam = Annotated[str, Param("nodeId", min_length=1, max_length=64)]
SortParam = Annotated[Literal["name", "size", "modified"], Param("Order of entries")]
FormatParam = Annotated[Literal["json", "explain"], Param("`explain` shows how it is made")]
ConfirmParam = Annotated[str | None, Param("Token of the answer that asked", max_length=100)]

Answer = dict[str, Any]


def read_session(
    app: App,
    session_id: Annotated[str, Param("sessionId", min_length=1, max_length=64)],
    *,
    work: Work,
) -> Answer:
    """Where a session is."""
    caller = work.caller
    session = find_shell_session(app, caller, session_id)
    known = app.disk.saved.index(session.index, caller.user) if session.index else None
    answer: Answer = {
        "sessionId": session.id,
        "cwd": show_path(session.cwd),
        "indexId": known.id if known else None,
        "preferences": read_preferences(session),
    }
    return answer | ({"indexUrl": caller.link(f"indexes/{known.id}")} if known else {})


def list_indexes(app: App, *, work: Work) -> Answer:
    """Every scanned folder of the caller, the newest first."""
    rows = [
        _show_index(app, index, work.caller) for index in app.disk.saved.indexes(work.caller.user)
    ]
    return {"indexes": rows}


def read_index(app: App, index_id: IndexParam, *, work: Work) -> Answer:
    """How a scanned folder stands."""
    caller = work.caller
    index = find_index(app, caller, index_id)
    scans = app.disk.tree(index.id).scans()
    return _show_index(app, index, caller) | {
        "depthLimit": index.depth_limit,
        "followSymlinks": index.follow_symlinks,
        "createdAt": show_epoch(index.created_ms),
        "scans": [
            {
                "startedAt": show_epoch(scan.started_ms),
                "finishedAt": show_epoch(scan.finished_ms) if scan.finished_ms else None,
                "nodes": scan.nodes,
                "size": scan.size,
            }
            for scan in scans[:20]
        ],
    }


def _show_index(app: App, index: DiskIndex, caller: Caller) -> Answer:
    root = app.disk.tree(index.id).get(ROOT_ID)
    tree = link_folder(index.id, ROOT_ID) if root else f"indexes/{index.id}/tree"
    record = app.workspace.jobs.look_up(index.job) if index.job else None
    answer: Answer = {
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
    return answer | ({"job": show_job(record, caller)} if record else {})


def delete_scan(
    app: App, index_id: IndexParam, confirm: ConfirmParam = None, *, work: Work
) -> Answer:
    """Forget a scanned folder, its sets and queries; files are not touched."""
    index = find_index(app, work.caller, index_id)
    question = f"Forget the scan of {show_path(index.root)} with its sets and queries?"
    require_consent(app.workspace, work, "delete_disk_index", index.id, question, confirm)
    app.workspace.jobs.cancel(f"scan:{index.id}")
    app.workspace.jobs.cancel(f"duplicates:{index.id}")
    with app.disk.lock(index.id).held(work):
        app.disk.saved.delete_index(index.id, index.owner)
    app.disk.forget(index.id)
    return {"indexId": index.id, "status": "deleted"}


def read_tree(
    app: App,
    index_id: IndexParam,
    parent: Annotated[str | None, Param("nodeId of the folder", max_length=64)] = None,
    path: Annotated[str | None, Param("Or its path in the tree", max_length=8192)] = None,
    limit: LimitParam = 50,
    cursor: CursorParam = None,
    sort: SortParam = "name",
    *,
    work: Work,
) -> Answer:
    """What is in a folder, in pages."""
    caller = work.caller
    index = find_index(app, caller, index_id)
    if parent is not None:
        node: Node | None = _node_of(app, index, parent, caller)
        place = _place_of(app, index, node)
    else:
        place = _read_place(app, index, path or "")
        node = walk_to(app, place)
    if node is not None and not has_children(node):
        raise miss_node(place, "folder")
    return _list(app, place, node, caller, limit, cursor, sort)


def _list(
    app: App,
    place: Place,
    node: Node | None,
    caller: Caller,
    limit: int,
    cursor: str | None,
    sort: Sort,
) -> Answer:
    page = list_folder(app, place, node, caller, limit=limit, cursor=cursor, sort=sort)
    return {
        "indexId": place.index.id,
        "parent": join_node(place.index.id, node.id) if node else None,
        "path": show_path("/".join(place.names)),
        **page,
    }


def _node_of(app: App, index: DiskIndex, handle: str, caller: Caller) -> Node:
    found, node = find_node(app, caller, handle)
    if found.id != index.id:
        raise HandleUnknown(f"node {handle!r} is in another index", what="node", handle=handle)
    return node


def _read_place(app: App, index: DiskIndex, path: str) -> Place:
    names = split_inside(Path(index.root), path.strip("/"))
    return Place(index, settle_names(app, index, names))


def _place_of(app: App, index: DiskIndex, node: Node | None) -> Place:
    trail = app.disk.tree(index.id).trail(node.id) if node else []
    return Place(index, tuple(step.name for step in trail[1:]))


def read_node(
    app: App,
    index_id: IndexParam,
    node_id: NodeParam,
    limit: LimitParam = 50,
    cursor: CursorParam = None,
    sort: SortParam = "name",
    *,
    work: Work,
) -> Answer:
    """A node, and what is in it when it is a folder."""
    caller = work.caller
    index = find_index(app, caller, index_id)
    node = _node_of(app, index, node_id, caller)
    answer: Answer = dict(show_node(app, index, node, caller, "bytes", whole=True))
    if has_children(node):
        place = _place_of(app, index, node)
        answer |= list_folder(app, place, node, caller, limit=limit, cursor=cursor, sort=sort)
    return answer


def read_detail(app: App, index_id: IndexParam, node_id: NodeParam, *, work: Work) -> Answer:
    """Everything known of a node."""
    caller = work.caller
    index = find_index(app, caller, index_id)
    node = _node_of(app, index, node_id, caller)
    answer: Answer = dict(show_node(app, index, node, caller, "bytes", whole=True))
    answer |= {"name": show_path(node.name), "names": node.links, "depth": node.depth}
    if node.parent:
        above = f"indexes/{index.id}/nodes/{join_node(index.id, node.parent)}"
        answer["parentUrl"] = caller.link(above)
    return answer


def read_detail_of_path(
    app: App,
    index_id: IndexParam,
    path: Annotated[str, Param("Path in the tree", max_length=8192)] = "",
    *,
    work: Work,
) -> Answer:
    """The same by path, also of what the scan has not come to."""
    caller = work.caller
    index = find_index(app, caller, index_id)
    place = _read_place(app, index, path)
    node = walk_to(app, place)
    if node is None:
        return dict(show_unscanned(place, caller, "bytes"))
    return dict(show_node(app, index, node, caller, "bytes", whole=True))


def read_history(app: App, index_id: IndexParam, node_id: NodeParam, *, work: Work) -> Answer:
    """How large a node was at each kept scan, the newest first."""
    index = find_index(app, work.caller, index_id)
    node = _node_of(app, index, node_id, work.caller)
    rows = [
        {"scannedAt": show_epoch(scan.started_ms), "size": size}
        for scan, size in app.disk.tree(index.id).history(node.id)
    ]
    return {"nodeId": join_node(index.id, node.id), "history": rows}


def read_preview(app: App, index_id: IndexParam, node_id: NodeParam, *, work: Work) -> Content:
    """The beginning of a file: text, a picture, or a dump of its first bytes."""
    index = find_index(app, work.caller, index_id)
    node = _node_of(app, index, node_id, work.caller)
    place = _place_of(app, index, node)
    if not place.names:
        raise NodeMissing("a folder has no contents", what="file", path=show_path(place.path))
    file = open_shown(Path(index.root), "/".join(place.names))
    try:
        mime = mimetypes.guess_type(node.name)[0]
        if mime in _PICTURES and file.size <= _LARGEST_PICTURE:
            return Content(b"".join(file.read(0, file.size)), mime)
        data = b"".join(file.read(0, min(file.size, _PREVIEWED)))
    finally:
        file.close()
    text = _decode_beginning(data)
    return Content(_dump(data[:_DUMPED], file.size) if text is None else text)


def _decode_beginning(data: bytes) -> str | None:
    """The text of a file's beginning; a character that the end cuts in two is left out."""
    for cut in range(4 if len(data) == _PREVIEWED else 1):
        part = data[: len(data) - cut]
        with suppress(UnicodeDecodeError):
            part.decode()
            return decode_text(part)
    return decode_text(data)


def _dump(data: bytes, size: int) -> str:
    lines = [f"{size} bytes, not text"]
    for start in range(0, len(data), 16):
        row = data[start : start + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<47}  {shown}")
    return "\n".join(lines) + "\n"


def list_reports(app: App, index_id: IndexParam, *, work: Work) -> Answer:
    """The reports there are."""
    index = find_index(app, work.caller, index_id)
    address = f"indexes/{index.id}/reports"
    rows = [
        {"report": name, "about": about, "link": work.caller.link(f"{address}/{name}")}
        for name, about in REPORTS.items()
    ]
    return {"indexId": index.id, "reports": rows}


def read_report_page(
    app: App,
    index_id: IndexParam,
    report: Annotated[str, Param("Its name", max_length=64, choices=tuple(REPORTS))],
    limit: LimitParam = 50,
    cursor: CursorParam = None,
    since: Annotated[
        str | None, Param("growth: since this date, or so long ago (7d)", max_length=40)
    ] = None,
    format: FormatParam = "json",  # noqa: A002 - the document's word
    *,
    work: Work,
) -> Answer:
    """One page of a report."""
    index = find_index(app, work.caller, index_id)
    return read_disk_report(
        app,
        index,
        report,
        work.caller,
        limit=limit,
        cursor=cursor,
        since=since,
        explain=format == "explain",
    )


def start_index(
    app: App,
    root: Annotated[str, Param("Folder to scan", min_length=1, max_length=4096)],
    depth_limit: Annotated[
        int | None, Param("Enter no folders deeper than this", minimum=1, maximum=10_000)
    ] = None,
    follow_symlinks: Annotated[bool, Param("Count what links lead to")] = False,
    *,
    work: Work,
) -> ScanAnswer:
    """Scan a folder in the background."""
    return scan_folder(app, root, depth_limit, follow_symlinks, work=work)


_NODE = "indexes/{indexId}/nodes/{nodeId}"
ROUTES: tuple[Route, ...] = (
    Route("sessions/{sessionId}", read_session, "Where a session is"),
    Route("indexes", list_indexes, "Every scanned folder"),
    Route("indexes", start_index, "Scan a folder", method="POST", status=202),
    Route("indexes/{indexId}", read_index, "How a scanned folder stands"),
    Route("indexes/{indexId}", delete_scan, "Forget a scanned folder", method="DELETE"),
    Route("indexes/{indexId}/tree", read_tree, "What is in a folder, in pages"),
    Route("indexes/{indexId}/detail", read_detail_of_path, "Everything known of a path"),
    Route(_NODE, read_node, "A node, and what is in it"),
    Route(f"{_NODE}/detail", read_detail, "Everything known of a node"),
    Route(f"{_NODE}/history", read_history, "How large a node was at each scan"),
    Route(f"{_NODE}/preview", read_preview, "The beginning of a file", mime="text/plain"),
    Route("indexes/{indexId}/reports", list_reports, "The reports there are"),
    Route("indexes/{indexId}/reports/{report}", read_report_page, "One page of a report"),
)
