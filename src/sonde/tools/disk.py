"""Verbs on a disk: scan a folder, go there, inspect nodes, read reports."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Annotated, Literal

from sonde.app import App
from sonde.disk import indexes, listing, reports, scope
from sonde.disk.trees import join_node
from sonde.errors import InvalidRequest
from sonde.policy.roots import show_path
from sonde.projects.find import find_job
from sonde.runtime.work import Work
from sonde.tools.route import Route
from sonde.tools.schema import ConfirmParam, CursorParam, IndexParam, LimitParam, NodeParam, Param
from sonde.tools.shapes import nodes, shell
from sonde.tools.tool import Tool, declare_tool
from sonde.types import Content

SortParam = Annotated[Literal["name", "size", "modified"], Param("Order of entries")]
DepthParam = Annotated[
    int | None, Param("Enter no folders deeper than this", minimum=1, maximum=10_000)
]
FollowParam = Annotated[bool, Param("Count what links lead to")]


def cd(
    app: App,
    path: Annotated[str, Param("Absolute or relative; .. ~ -", max_length=4096)] = ".",
    limit: Annotated[int | None, Param("Entries", minimum=1, maximum=shell.MAX_ENTRIES)] = None,
    cursor: Annotated[str | None, Param("nextPageUrl of an answer", max_length=8192)] = None,
    session_id: shell.SessionParam = None,
    *,
    work: Work,
) -> shell.CdAnswer:
    """Go to a folder of a scanned tree and list it."""
    session = scope.find_shell_session(app.disk, work.caller, session_id)
    place, node = scope.resolve_folder(app.disk, scope.find_place(app.disk, session, path or "."))
    wanted = scope.read_preferences(session)
    rows = limit or wanted.limit
    page = listing.list_folder(app.disk, place, node, limit=rows, sort=wanted.sort, cursor=cursor)
    scope.move_session(app.disk, session, place)
    return nodes.show_cd(session.id, page, work.caller, wanted.units)


def scan_folder(
    app: App,
    root: Annotated[str, Param("Folder to scan", max_length=4096)] = ".",
    depth_limit: DepthParam = None,
    follow_symlinks: FollowParam = False,
    cancel: Annotated[str | None, Param("Stop this jobId instead", max_length=64)] = None,
    session_id: shell.SessionParam = None,
    *,
    work: Work,
) -> shell.ScanAnswer:
    """Scan names, sizes and times below a folder, in the background."""
    caller = work.caller
    if cancel is not None:
        record = find_job(app.workspace, cancel, to_stop=True)
        app.workspace.jobs.stop(record.id)
        return shell.show_scan(record.subject, record.id, "", caller)
    cwd = scope.find_shell_session(app.disk, caller, session_id).cwd
    place = indexes.read_root(app.disk, root, cwd)
    job = indexes.start_scan(
        app.disk, caller, place, depth_limit=depth_limit, follow=follow_symlinks
    )
    return shell.show_scan(job.subject, job.id, str(place), caller)


def start_index(
    app: App,
    root: Annotated[str, Param("Folder to scan", min_length=1, max_length=4096)],
    depth_limit: DepthParam = None,
    follow_symlinks: FollowParam = False,
    *,
    work: Work,
) -> shell.ScanAnswer:
    """Scan a folder in the background."""
    return scan_folder(app, root, depth_limit, follow_symlinks, work=work)


def inspect(
    app: App,
    node_id: Annotated[str | None, Param("nodeId of an answer", max_length=64)] = None,
    path: Annotated[str | None, Param("Or a path, as in cd", max_length=4096)] = None,
    session_id: shell.SessionParam = None,
    *,
    work: Work,
) -> shell.NodeAnswer:
    """Everything known of one file or folder."""
    disk, caller = app.disk, work.caller
    if (node_id is None) == (path is None):
        raise InvalidRequest("either `node_id` or `path`", user_message="Give a nodeId or a path.")
    if node_id is not None:
        index, node = scope.find_node(disk, caller, node_id)
        session = scope.find_shell_session(disk, caller, session_id) if session_id else None
        units = scope.read_preferences(session).units
        return nodes.show_node(listing.inspect_node(disk, index, node), caller, units)
    session = scope.find_shell_session(disk, caller, session_id)
    units = scope.read_preferences(session).units
    place = scope.find_place(disk, session, path or ".")
    found = scope.walk_to(disk, place)
    if found is None:
        return nodes.show_live_node(listing.read_live_detail(place), caller, units)
    return nodes.show_node(listing.inspect_node(disk, place.index, found), caller, units)


def session_preferences(
    app: App,
    units: Annotated[Literal["bytes", "iec", "si"] | None, Param("How sizes are written")] = None,
    limit: Annotated[
        int | None, Param("Entries of cd", minimum=1, maximum=shell.MAX_ENTRIES)
    ] = None,
    sort: Annotated[Literal["name", "size", "modified"] | None, Param("Order of cd")] = None,
    session_id: shell.SessionParam = None,
    *,
    work: Work,
) -> shell.PreferencesAnswer:
    """Show or change the preferences of a session."""
    session = scope.find_shell_session(app.disk, work.caller, session_id)
    found = scope.change_preferences(app.disk, session, units=units, limit=limit, sort=sort)
    return {"sessionId": session.id, "units": found.units, "limit": found.limit, "sort": found.sort}


def read_session(
    app: App,
    session_id: Annotated[str, Param("sessionId", min_length=1, max_length=64)],
    *,
    work: Work,
) -> shell.Answer:
    """Where a session is."""
    disk, caller = app.disk, work.caller
    session = scope.find_shell_session(disk, caller, session_id)
    answer: dict[str, object] = {
        "sessionId": session.id,
        "cwd": show_path(session.cwd),
        "indexId": None,
        "breadcrumb": [],
        "preferences": asdict(scope.read_preferences(session)),
        "link": caller.link(f"sessions/{session.id}"),
    }
    place = scope.place_session(disk, session)
    if place is None:
        return answer
    tree = disk.tree(place.index.id)
    node = tree.find(place.names)
    return answer | {
        "indexId": place.index.id,
        "breadcrumb": nodes.show_crumbs(place, tree.trail(node.id) if node else ()),
        "indexUrl": caller.link(f"indexes/{place.index.id}"),
    }


def list_indexes(app: App, *, work: Work) -> shell.Answer:
    """Every scanned folder of the caller, newest first."""
    states = indexes.list_index_states(app.disk, work.caller)
    return {"indexes": [nodes.show_index(state, work.caller) for state in states]}


def read_index(app: App, index_id: IndexParam, *, work: Work) -> shell.Answer:
    """A scanned folder with its newest scans."""
    index = scope.find_index(app.disk, work.caller, index_id)
    scans = app.disk.tree(index.id).scans()
    return nodes.show_index_detail(indexes.read_index_state(app.disk, index), scans, work.caller)


def delete_scan(
    app: App, index_id: IndexParam, confirm: ConfirmParam = None, *, work: Work
) -> shell.Answer:
    """Delete a scanned folder, its sets and queries; files are not touched."""
    index = scope.find_index(app.disk, work.caller, index_id)
    indexes.delete_scan_index(app.disk, index, work, confirm)
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
) -> shell.Answer:
    """The entries of a folder, in pages."""
    place, node = scope.find_folder(app.disk, work.caller, index_id, parent, path)
    page = listing.list_folder(app.disk, place, node, limit=limit, cursor=cursor, sort=sort)
    return nodes.show_tree(page, work.caller)


def read_node(
    app: App,
    index_id: IndexParam,
    node_id: NodeParam,
    limit: LimitParam = 50,
    cursor: CursorParam = None,
    sort: SortParam = "name",
    *,
    work: Work,
) -> shell.Answer:
    """A node, and the entries of a folder."""
    disk, caller = app.disk, work.caller
    index, node = scope.find_node(disk, caller, node_id, index_id)
    detail = nodes.show_node(listing.inspect_node(disk, index, node), caller, whole=True)
    if not node.listable:
        return dict(detail)
    place = scope.place_node(disk, index, node)
    page = listing.list_folder(disk, place, node, limit=limit, cursor=cursor, sort=sort)
    return {**detail, **nodes.show_folder_page(page, caller)}


def read_detail(app: App, index_id: IndexParam, node_id: NodeParam, *, work: Work) -> shell.Answer:
    """Everything known of a node."""
    index, node = scope.find_node(app.disk, work.caller, node_id, index_id)
    return nodes.show_node_detail(listing.inspect_node(app.disk, index, node), work.caller)


def read_detail_of_path(
    app: App,
    index_id: IndexParam,
    path: Annotated[str, Param("Path in the tree", max_length=8192)] = "",
    *,
    work: Work,
) -> shell.Answer:
    """The same by path, also for what the scan has not reached."""
    disk, caller = app.disk, work.caller
    place = scope.find_inner_place(disk, scope.find_index(disk, caller, index_id), path)
    node = scope.walk_to(disk, place)
    if node is None:
        return dict(nodes.show_live_node(listing.read_live_detail(place), caller))
    return dict(nodes.show_node(listing.inspect_node(disk, place.index, node), caller, whole=True))


def read_history(app: App, index_id: IndexParam, node_id: NodeParam, *, work: Work) -> shell.Answer:
    """The size of a node at each kept scan, newest first."""
    index, node = scope.find_node(app.disk, work.caller, node_id, index_id)
    rows = [
        {"scannedAt": shell.show_epoch(scan.started_ms), "size": size}
        for scan, size in app.disk.tree(index.id).history(node.id)
    ]
    return {"nodeId": join_node(index.id, node.id), "history": rows}


def read_preview(app: App, index_id: IndexParam, node_id: NodeParam, *, work: Work) -> Content:
    """The beginning of a file: text, a picture, or a dump of its first bytes."""
    index, node = scope.find_node(app.disk, work.caller, node_id, index_id)
    return listing.preview_file(app.disk, index, node)


def list_reports(app: App, index_id: IndexParam, *, work: Work) -> shell.Answer:
    """The reports there are."""
    index = scope.find_index(app.disk, work.caller, index_id)
    address = f"indexes/{index.id}/reports"
    rows = [
        {"report": name, "about": about, "link": work.caller.link(f"{address}/{name}")}
        for name, about in reports.REPORTS.items()
    ]
    return {"indexId": index.id, "reports": rows}


def read_report_page(
    app: App,
    index_id: IndexParam,
    report: Annotated[str, Param("Its name", max_length=64, choices=tuple(reports.REPORTS))],
    limit: LimitParam = 50,
    cursor: CursorParam = None,
    since: Annotated[
        str | None, Param("growth: since this date, or so long ago (7d)", max_length=40)
    ] = None,
    format: shell.FormatParam = "json",  # noqa: A002 - the document's word
    *,
    work: Work,
) -> shell.Answer:
    """One page of a report."""
    index = scope.find_index(app.disk, work.caller, index_id)
    kind = reports.check_report_kind(report)
    if format == "explain":
        plan = reports.explain_report(app.disk, index, kind, limit, since)
        return {"report": kind, "about": reports.REPORTS[kind], **shell.show_plan(plan)}
    found = reports.read_disk_report(app.disk, index, kind, limit=limit, cursor=cursor, since=since)
    return nodes.show_disk_report(found, work.caller)


_declare = partial(declare_tool, "files")

TOOLS: tuple[Tool, ...] = (
    _declare(
        cd,
        "Change directory",
        "Go to a folder of a scanned disk tree and list it with sizes and counts. "
        "Prefer inspect for one file; call index first.",
    ),
    Tool(
        "index",
        scan_folder,
        "files",
        "Scan a folder",
        "Scan names, sizes and times of a folder in the background, not contents. "
        "Prefer create_index to make contents searchable.",
        read_only=False,
    ),
)
"""Tools listed before `job_progress`."""
NODE_TOOLS = (
    _declare(
        inspect, "Inspect a node", "Show all metadata of one file or folder, and links to more."
    ),
)
SESSION_TOOLS = (
    _declare(
        session_preferences,
        "Session preferences",
        "Show or set units, order and length of listings.",
        read_only=False,
    ),
)
_INDEX = "indexes/{indexId}"
_NODE = "indexes/{indexId}/nodes/{nodeId}"
ROUTES: tuple[Route, ...] = (
    Route("sessions/{sessionId}", read_session, "Where a session is"),
    Route("indexes", list_indexes, "Every scanned folder"),
    Route("indexes", start_index, "Scan a folder", method="POST", status=202),
    Route(_INDEX, read_index, "How a scanned folder stands"),
    Route(_INDEX, delete_scan, "Forget a scanned folder", method="DELETE"),
    Route(f"{_INDEX}/tree", read_tree, "What is in a folder, in pages"),
    Route(f"{_INDEX}/detail", read_detail_of_path, "Everything known of a path"),
    Route(_NODE, read_node, "A node, and what is in it"),
    Route(f"{_NODE}/detail", read_detail, "Everything known of a node"),
    Route(f"{_NODE}/history", read_history, "How large a node was at each scan"),
    Route(f"{_NODE}/preview", read_preview, "The beginning of a file", mime="text/plain"),
    Route(f"{_INDEX}/reports", list_reports, "The reports there are"),
    Route(f"{_INDEX}/reports/{{report}}", read_report_page, "One page of a report"),
)
