"""The pages of a disk: scanned folders, a folder as a listing and a map, a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute

from sonde.app import App
from sonde.disk.indexes import IndexState, list_index_states, read_index_state
from sonde.disk.listing import (
    FolderEntry,
    FolderListing,
    NodeDetail,
    inspect_node,
    list_folder,
    preview_file,
)
from sonde.disk.reports import REPORTS
from sonde.disk.scope import find_folder, find_index, find_node
from sonde.disk.trees import join_node
from sonde.errors import SondeError
from sonde.policy.roots import show_path
from sonde.runtime.work import Work
from sonde.stores.disk.base import STATES, Scan
from sonde.stores.disk.filters import KINDS
from sonde.tools.disk import IndexParam, NodeParam, delete_scan, start_index
from sonde.tools.index import read_job
from sonde.tools.route import Content
from sonde.tools.schema import ConfirmParam, CursorParam, Param
from sonde.tools.shapes.nodes import show_crumbs
from sonde.tools.shapes.shell import show_epoch, show_name, show_permissions
from sonde.types import Json
from sonde.web.application import Parts
from sonde.web.pages.disk_map import link_node, read_map, show_map
from sonde.web.pages.endpoints import lead_to, serve_form, serve_page, show_button
from sonde.web.pages.html import Markup, frame, link_to, show_age, show_note, tag
from sonde.web.pages.sets import list_choices
from sonde.web.pages.widgets import (
    count,
    name_folder,
    shorten_home,
    show_cards,
    show_jobs,
    show_name_field,
    show_next,
    show_rows,
    show_size,
    show_tick,
)

_ROWS = 100
_SORTS = {"name": "Name", "size": "Size", "modified": "Changed"}


def add_disk_pages(parts: Parts) -> Sequence[BaseRoute]:
    """The pages, and the form that scans."""
    return [
        serve_page("/disk", show_disk, parts),
        serve_form("/disk", start_scan_form, parts),
        serve_page("/disk/{index_id}", show_folder, parts),
        serve_page("/disk/{index_id}/nodes/{node_id}", show_node_page, parts),
        serve_form("/disk/{index_id}/forget", forget_scan, parts),
    ]


def start_scan_form(
    app: App,
    root: Annotated[str, Param("Folder to scan", min_length=1, max_length=4096)],
    *,
    work: Work,
) -> RedirectResponse:
    """Scan a folder in the background, and show it meanwhile."""
    return lead_to(f"/disk/{start_index(app, root.strip(), work=work)['indexId']}")


def forget_scan(
    app: App, index_id: IndexParam, confirm: ConfirmParam = None, *, work: Work
) -> RedirectResponse:
    """Delete a scan, once confirmed; the files stay."""
    delete_scan(app, index_id, confirm, work=work)
    return lead_to("/disk")


def show_disk(app: App, *, work: Work) -> Content:
    """Every scanned folder."""
    cards = [_show_card(state) for state in list_index_states(app.disk, work.caller)]
    form = tag(
        "form",
        tag("label", "Folder to scan", for_="root", class_="hidden"),
        tag("input", name="root", id="root", required=True, placeholder="~/Downloads",
            class_="field", autocapitalize="none", spellcheck="false"),
        tag("button", "Scan"),
        method="post", action="/disk", class_="inline",
    )  # fmt: skip
    nothing = show_note(
        "No folder is scanned yet",
        tag("p", "A scan reads names, sizes and times, and opens no file. Then you see what takes "
            "the space, what is old, and what is there twice."),
    )  # fmt: skip
    heading = tag("div", tag("h1", "Disk"), form, class_="head split")
    return frame("Disk", "/disk", heading, show_cards(cards, nothing), kind="disk")


def _show_card(state: IndexState) -> Markup:
    path, root = show_path(state.index.root), state.root
    counts = "waiting"
    if root:
        counts = f"{count(root.files, 'file')} · {count(root.folders, 'folder')}"
    return tag(
        "li",
        tag("h2",
            tag("a", name_folder(path), href=f"/disk/{state.index.id}", class_="open"),
            tag("span", "scanning", class_="badge busy") if state.scanning
            else tag("span", show_size(root.size if root else None), class_="badge")),
        tag("p", tag("code", path)),
        tag("p", counts, class_="faint"),
    )  # fmt: skip


def show_folder(
    app: App,
    index_id: IndexParam,
    node: Annotated[str | None, Param("nodeId of the folder", max_length=64)] = None,
    path: Annotated[str | None, Param("Or its path", max_length=8192)] = None,
    sort: Annotated[Literal["name", "size", "modified"], Param("Order")] = "size",
    cursor: CursorParam = None,
    *,
    work: Work,
) -> Content:
    """A folder: its listing beside its map."""
    disk, caller, address = app.disk, work.caller, f"/disk/{index_id}"
    index = find_index(disk, caller, index_id)
    state, scans = read_index_state(disk, index), disk.tree(index.id).scans()
    place, found = find_folder(disk, caller, index_id, node, path)
    listing = list_folder(disk, place, found, limit=_ROWS, sort=sort, cursor=cursor)
    here = join_node(index.id, found.id) if found else None
    kept = {"node": here, "path": None if here else path}
    job = read_job(app, index.job, work=work) if state.scanning else None
    crumbs = show_crumbs(listing)
    tabs = [
        tag("a", report.replace("-", " "), href=f"{address}/reports/{report}", title=about)
        for report, about in REPORTS.items()
    ]
    return frame(
        crumbs[-1]["name"],
        "/disk",
        tag("div",
            tag("div", _show_trail(address, crumbs), _show_summary(state, scans, job),
                class_="grow"),
            None if job else tag("div", _show_rescan(show_path(index.root)),
                                 show_button(f"{address}/forget", "Forget"), class_="below"),
            class_="head split"),
        show_jobs([job], reload=True) if job else None,
        tag("nav", tabs,
            tag("a", "find…", href=link_to("/queries", index=index_id), title="by a filter"),
            class_="tabs", aria_label="Reports"),
        tag("div",
            tag("section",
                tag("form", _show_listing(listing, kept),
                    _show_keep_form(app, index_id, work) if here else None,
                    method="post", action="/sets"),
                show_next(listing.page.cursor, address, **kept, sort=sort),
                aria_label="Listing"),
            show_map(index_id, read_map(disk, index, found)) if found else None,
            class_="beside"),
        kind="disk",
    )  # fmt: skip


def _show_summary(state: IndexState, scans: Sequence[Scan], job: Json | None) -> Markup:
    """How much was found, and when."""
    path, root = show_path(state.index.root), state.root
    facts: list[str | Markup] = [tag("code", shorten_home(path), title=path)]
    if root:
        facts += [show_size(root.size), count(root.files, "file"), count(root.folders, "folder")]
    finished = next((scan.finished_ms for scan in scans if scan.finished_ms), None)
    if finished and not job:
        facts.append(tag("span", "scanned ", show_age(show_epoch(finished))))
    return tag("p", [tag("span", each) for each in facts], class_="facts")


def _show_rescan(root: str) -> Markup:
    return tag("form", tag("input", type="hidden", name="root", value=root),
               tag("button", "Scan again", class_="quiet"), method="post", action="/disk",
               class_="one")  # fmt: skip


def _show_keep_form(app: App, index: str, work: Work) -> Markup:
    """What to do with the rows that are ticked."""
    return tag(
        "p",
        tag("label", tag("span", "Keep what is ticked in"), tag(
            "select", tag("option", "a new set", value=""), list_choices(app, index, work),
            name="into")),
        show_name_field("Name of a new set"),
        tag("button", "Keep", class_="quiet"),
        class_="below",
    )  # fmt: skip


def _show_trail(address: str, crumbs: Sequence[Json]) -> Markup:
    steps = [
        tag("a", crumb["name"], href=link_to(address, node=crumb["nodeId"]))
        if crumb.get("nodeId") else tag("span", crumb["name"], class_="folder")
        for crumb in crumbs[:-1]
    ]  # fmt: skip
    last = tag("span", crumbs[-1]["name"], class_="name", aria_current="page")
    return tag("h1", [[step, tag("span", " / ", class_="folder")] for step in steps], last)


def _show_listing(listing: FolderListing, kept: dict[str, str | None]) -> Markup:
    rows = listing.page.rows
    if not rows:
        return show_note("This folder is empty")
    address, sort = f"/disk/{listing.place.index.id}", listing.sort
    most = max(row.size or 0 for row in rows) or 1
    heads = [
        tag("th", tag("a", name, href=link_to(address, **kept, sort=key)),
            scope="col", class_="number" if key != "name" else None,
            aria_sort=("ascending" if key == "name" else "descending") if key == sort else None)
        for key, name in _SORTS.items()
    ]  # fmt: skip
    ticks = tag("th", "Tick", class_="tick", scope="col")
    return show_rows([ticks, *heads], [_show_entry(listing, row, most) for row in rows])


def _show_entry(listing: FolderListing, row: FolderEntry, most: int) -> Markup:
    index, name, node = listing.place.index.id, show_name(row.name), row.node
    handle = join_node(index, node.id) if node else None
    inside = show_path("/".join((*listing.place.names, row.name)))
    if handle:
        href = link_node(index, handle, listable=row.listable)
        shown = tag("a", name, href=href, class_="open")
    elif row.listable:
        shown = tag("a", name, href=link_to(f"/disk/{index}", path=inside), class_="open")
    else:
        shown = tag("span", name)
    return tag(
        "tr",
        tag("td", show_tick(handle, name) if handle else None, class_="tick"),
        tag("td", tag("i", class_=f"kind {'folder-icon' if row.listable else row.kind}",
                      aria_hidden="true"), shown, "/" if row.listable else None,
            tag("span", row.state.replace("_", " "), class_="badge warn")
            if row.state != STATES[0] else None),
        tag("td", tag("i", style=f"--share:{(row.size or 0) / most:.3f}"), show_size(row.size),
            class_="number"),
        tag("td", show_age(show_epoch(row.mtime_ms)), class_="number faint"),
    )  # fmt: skip


def show_node_page(app: App, index_id: IndexParam, node_id: NodeParam, *, work: Work) -> Content:
    """A file: its metadata, and its beginning."""
    detail = inspect_node(app.disk, *find_node(app.disk, work.caller, node_id, index_id))
    index, node = detail.index, detail.node
    kind, name = KINDS[node.kind], show_path(node.name)
    facts: list[tuple[str, str | Markup]] = [
        ("Size", show_size(node.size)),
        ("On disk", show_size(node.disk)),
        ("Changed", show_age(show_epoch(node.mtime_ms))),
        ("Permissions", tag("code", show_permissions(kind, node.mode))),
        ("Kind", kind),
    ]
    if node.target:
        facts.append(("Leads to", tag("code", show_path(node.target))))
    above = join_node(index.id, node.parent) if node.parent else None
    address, api = f"/disk/{index_id}", f"/api/indexes/{index_id}/nodes/{node_id}"
    return frame(
        name,
        "/disk",
        tag("div", tag("h1", name),
            tag("p", tag("code", show_path(detail.path)),
                tag("a", "Its folder", href=link_to(address, node=above)) if above else None,
                tag("a", "Look inside", href=link_to(address, node=node_id))
                if node.listable else None,
                tag("a", "Download", href=f"{api}/download") if detail.shown else None,
                class_="facts"), class_="head"),
        tag("dl", [tag("div", tag("dt", label), tag("dd", fact)) for label, fact in facts],
            class_="facts-grid"),
        None if node.listable else [tag("h2", "Beginning"), _show_beginning(app, detail, api)],
        kind="disk",
    )  # fmt: skip


def _show_beginning(app: App, detail: NodeDetail, api: str) -> Markup:
    if not detail.shown:
        return show_note("The contents of this are not shown")
    try:
        preview = preview_file(app.disk, detail.index, detail.node)
    except SondeError as error:
        return show_note(error.user_message, tag("p", error.next_action))
    if isinstance(preview.body, bytes):
        return tag("img", src=f"{api}/preview", alt=show_path(detail.node.name))
    if not preview.body:
        return show_note("This file is empty")
    return tag("pre", tag("code", preview.body), class_="prose", tabindex="0")
