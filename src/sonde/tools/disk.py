"""Verbs on a disk as on a shell: scan a folder, go there, look at things, follow the work."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Annotated, Any, Literal

from sonde.app import App
from sonde.disk.listing import link_folder, list_folder, quote_path
from sonde.disk.scan import scan_tree
from sonde.disk.scope import (
    Place,
    SessionParam,
    find_home_folder,
    find_node,
    find_place,
    find_shell_session,
    keep_session,
    miss_node,
    now_ms,
    read_cursor,
    read_path,
    read_preferences,
    resolve_folder,
    walk_to,
)
from sonde.errors import InvalidRequest, NodeMissing, OutsideRoots
from sonde.policy.content import may_show
from sonde.policy.metadata import Facts, look_live
from sonde.policy.roots import show_path
from sonde.runtime.jobs import Job, join_node, mint_handle
from sonde.runtime.work import Work
from sonde.stores.disk.base import FILE, FOLDER, KINDS, LINK, OK, STATES, DiskIndex, Node
from sonde.tools.schema import Param
from sonde.tools.shapes.shell import (
    MOST_BYTES,
    MOST_ENTRIES,
    CdAnswer,
    NodeAnswer,
    PreferencesAnswer,
    ScanAnswer,
    has_children,
    measure_answer,
    shorten_text,
    show_bytes,
    show_counts,
    show_epoch,
    show_path_of,
)
from sonde.types import Caller

_ENVELOPE = 150
"""Room for what cd says beside its page and the path."""
_FILE_TYPES = {FILE: stat.S_IFREG, FOLDER: stat.S_IFDIR, LINK: stat.S_IFLNK}


def cd(
    app: App,
    path: Annotated[str, Param("Absolute or relative; .. ~ -", max_length=4096)] = ".",
    limit: Annotated[int | None, Param("Entries", minimum=1, maximum=MOST_ENTRIES)] = None,
    cursor: Annotated[str | None, Param("nextPageUrl of an answer", max_length=8192)] = None,
    session_id: SessionParam = None,
    *,
    work: Work,
) -> CdAnswer:
    """Go to a folder of a scanned tree and list it."""
    caller = work.caller
    session = find_shell_session(app, caller, session_id)
    place, node = resolve_folder(app, find_place(app, session, path or "."))
    if node is not None and not has_children(node):
        raise miss_node(place, "folder")
    preferences = read_preferences(session)
    cwd = show_path_of(place.path)
    page = list_folder(
        app,
        place,
        node,
        caller,
        limit=limit or preferences["limit"],
        sort=preferences["sort"],
        cursor=read_cursor(cursor),
        units=preferences["units"],
        most_bytes=MOST_BYTES - _ENVELOPE - measure_answer(cwd),
    )
    if place.path != session.cwd or place.index.id != session.index:
        previous = session.cwd if place.path != session.cwd else session.previous
        keep_session(app, session, cwd=place.path, index=place.index.id, previous=previous)
    answer: CdAnswer = {
        "sessionId": session.id,
        "cwd": cwd,
        "breadcrumb": page["breadcrumb"],
        "indexId": place.index.id,
        "entries": page["entries"],
        "nextPageUrl": page["nextPageUrl"],
    }
    if "state" in page:
        answer["state"] = page["state"]
    return answer


def scan_folder(
    app: App,
    root: Annotated[str, Param("Folder to scan", max_length=4096)] = ".",
    depth_limit: Annotated[
        int | None, Param("Enter no folders deeper than this", minimum=1, maximum=10_000)
    ] = None,
    follow_symlinks: Annotated[bool, Param("Count what links lead to")] = False,
    cancel: Annotated[str | None, Param("Stop this jobId instead", max_length=64)] = None,
    session_id: SessionParam = None,
    *,
    work: Work,
) -> ScanAnswer:
    """Scan names, sizes and times below a folder, in the background."""
    caller = work.caller
    if cancel is not None:
        record = app.workspace.jobs.find_visible(cancel, caller.user)
        app.workspace.jobs.stop(record.id)
        return _show_scan(record.subject, record.id, "", caller)
    session = find_shell_session(app, caller, session_id)
    place = read_root(app, root, session.cwd)
    job = start_scan(app, caller, place, depth_limit=depth_limit, follow=follow_symlinks)
    return _show_scan(job.subject, job.id, str(place), caller)


def _show_scan(index_id: str, job: str, root: str, caller: Caller) -> ScanAnswer:
    return {
        "jobId": job,
        "indexId": index_id,
        "statusUrl": caller.link(f"jobs/{job}"),
        "progressUrl": caller.link(f"jobs/{job}/progress"),
        "cwdHint": show_path_of(root),
    }


def read_root(app: App, root: str, cwd: str) -> Path:
    """The folder to scan; what may not be scanned is refused alike whether it exists or not."""
    given = read_path(root, cwd, find_home_folder())
    try:
        place = given.resolve()
    except (OSError, RuntimeError):
        place = given
    if not any(place.is_relative_to(above) for above in app.disk.roots):
        raise OutsideRoots(
            "the folder is in none of the allowed ones",
            user_message="That folder may not be scanned.",
            next_action="Name a folder below your home or the place where sonde was started, or "
            "add it to `fileRoots` in the user's config.json.",
        )
    # unlike Path.is_dir, this says no where a name is too long
    facts = look_live(place, "") if os.path.isdir(place) else None  # noqa: PTH112
    if facts is None or facts.kind != "directory":
        raise NodeMissing("it is no folder", what="folder", path=show_path_of(str(place)))
    return place


def start_scan(
    app: App, caller: Caller, root: Path, *, depth_limit: int | None = None, follow: bool = False
) -> Job:
    """The job that scans a folder, again if it was scanned before; at most one for each index."""
    roots = tuple(app.disk.roots) if follow else ()

    def scan(inner: Work, index_id: str) -> Any:
        with app.disk.lock(index_id).held(inner):
            tree = app.disk.tree(index_id)
            return scan_tree(tree, root, inner, depth_limit=depth_limit, follow=roots)

    saved = app.disk.saved
    with app.disk.starting:
        known = next((i for i in saved.indexes(caller.user) if i.root == str(root)), None)
        handle = known.id if known else mint_handle(8)
        job = app.workspace.jobs.submit(
            f"scan:{handle}",
            "scan",
            lambda inner: scan(inner, handle),
            owner=caller.user,
            subject=handle,
            lasting=True,
        )
        created = known.created_ms if known else now_ms()
        saved.put_index(
            DiskIndex(handle, caller.user, str(root), depth_limit, follow, created, job.id)
        )
    return job


def inspect(
    app: App,
    node_id: Annotated[str | None, Param("nodeId of an answer", max_length=64)] = None,
    path: Annotated[str | None, Param("Or a path, as in cd", max_length=4096)] = None,
    session_id: SessionParam = None,
    *,
    work: Work,
) -> NodeAnswer:
    """Everything known of one file or folder."""
    caller = work.caller
    if (node_id is None) == (path is None):
        raise InvalidRequest("either `node_id` or `path`", user_message="Give a nodeId or a path.")
    if node_id is not None:
        found, node = find_node(app, caller, node_id)
        session = find_shell_session(app, caller, session_id) if session_id else None
        return show_node(app, found, node, caller, read_preferences(session)["units"])
    session = find_shell_session(app, caller, session_id)
    place = find_place(app, session, path or ".")
    units = read_preferences(session)["units"]
    reached = walk_to(app, place)
    if reached is not None:
        return show_node(app, place.index, reached, caller, units)
    return show_unscanned(place, caller, units)


def show_node(
    app: App, index: DiskIndex, node: Node, caller: Caller, units: str, *, whole: bool = False
) -> NodeAnswer:
    """A NodeDetail; `whole` leaves nothing out of long paths."""
    show = show_path if whole else show_path_of
    tree = app.disk.tree(index.id)
    names = [step.name for step in tree.trail(node.id)[1:]]
    handle = join_node(index.id, node.id)
    address = f"indexes/{index.id}/nodes/{handle}"
    answer: NodeAnswer = {
        "nodeId": handle,
        "path": show(str(Path(index.root, *names))),
        "kind": KINDS[node.kind],
        "size": show_bytes(node.size, units),
        "modifiedAt": show_epoch(node.mtime_ms),
        "permissions": stat.filemode(_FILE_TYPES.get(node.kind, 0) | node.mode),
        "sizeOnDisk": show_bytes(node.disk, units),
        "link": caller.link(f"{address}/detail"),
        "historyUrl": caller.link(f"{address}/history"),
    }
    digest = tree.digest(node) if node.kind == FILE else None
    if digest:
        answer["digest"] = f"sha256:{digest.hex()}"
    if node.target:
        answer["symlink"] = show_path(node.target) if whole else shorten_text(node.target, 400)
    if node.state != OK:
        answer["state"] = STATES[node.state]
    if has_children(node):
        answer["counts"] = show_counts(node)
        answer["childrenUrl"] = caller.link(link_folder(index.id, node.id))
    if node.kind == FILE and node.links == 1 and may_show(names):
        answer["previewUrl"] = caller.link(f"{address}/preview")
        if caller.base_url:
            answer["downloadUrl"] = caller.link(f"{address}/download")
    return answer


def show_unscanned(place: Place, caller: Caller, units: str) -> NodeAnswer:
    """A NodeDetail of what the scan has not come to, from the disk."""
    path = "/".join(place.names)
    facts = look_live(Path(place.index.root), path)
    if facts is None:
        raise miss_node(place, "path")
    answer = _show_facts(place, facts, units)
    answer["link"] = caller.link(f"indexes/{place.index.id}/detail?path={quote_path(path)}")
    if facts.kind == "directory":
        address = f"indexes/{place.index.id}/tree?path={quote_path(path)}"
        answer["childrenUrl"] = caller.link(address)
    return answer


def _show_facts(place: Place, facts: Facts, units: str) -> NodeAnswer:
    form = {"file": stat.S_IFREG, "directory": stat.S_IFDIR, "symlink": stat.S_IFLNK}
    return {
        "nodeId": None,
        "path": show_path_of(place.path),
        "kind": facts.kind,
        "size": None if facts.kind == "directory" else show_bytes(facts.size, units),
        "modifiedAt": show_epoch(facts.mtime_ms),
        "permissions": stat.filemode(form.get(facts.kind, 0) | facts.mode),
        "state": "pending",
        "link": "",
    }


def session_preferences(
    app: App,
    units: Annotated[Literal["bytes", "iec", "si"] | None, Param("How sizes are written")] = None,
    limit: Annotated[int | None, Param("Entries of cd", minimum=1, maximum=MOST_ENTRIES)] = None,
    sort: Annotated[Literal["name", "size", "modified"] | None, Param("Order of cd")] = None,
    session_id: SessionParam = None,
    *,
    work: Work,
) -> PreferencesAnswer:
    """Show or change what a session prefers."""
    session = find_shell_session(app, work.caller, session_id)
    given = {"units": units, "limit": limit, "sort": sort}
    changes = {name: value for name, value in given.items() if value is not None}
    if changes:
        kept = {**session.preferences, **changes}
        session = keep_session(app, session, preferences=kept)
    found = read_preferences(session)
    return {
        "sessionId": session.id,
        "units": found["units"],
        "limit": found["limit"],
        "sort": found["sort"],
    }
