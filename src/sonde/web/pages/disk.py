"""The pages of a disk: scanned folders, a folder as a listing and a map, and its reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from starlette.responses import RedirectResponse

from sonde.app import App
from sonde.disk.indexes import IndexState, list_index_states, read_index_state
from sonde.disk.listing import FolderEntry, FolderListing, list_folder
from sonde.disk.reports import REPORTS, DiskReport, read_disk_report
from sonde.disk.scope import find_folder, find_index
from sonde.disk.trees import join_node
from sonde.policy.roots import show_path
from sonde.runtime.work import Work
from sonde.stores.disk import base
from sonde.text.formats import count_of
from sonde.tools.disk import start_index
from sonde.tools.index import read_job
from sonde.tools.schema import CursorParam, IndexParam, Param
from sonde.tools.shapes.nodes import show_crumbs
from sonde.tools.shapes.shell import show_epoch, show_name
from sonde.types import Content, Json
from sonde.web.pages import html, nodes
from sonde.web.pages.charts import show_chart
from sonde.web.pages.html import Markup, frame, join, link_to, name_folder, redirect_to, tag
from sonde.web.pages.projects import show_jobs

_ROWS = 100  # a few screens of names
_REPORT_ROWS = 50  # a chart that can still be compared by eye
_SPANS = {"7d": "a week", "30d": "a month", "365d": "a year"}
_SORTS = {"name": "Name", "size": "Size", "modified": "Changed"}


def start_scan_form(
    app: App,
    root: Annotated[str, Param("Folder to scan", min_length=1, max_length=4096)],
    *,
    work: Work,
) -> RedirectResponse:
    """Scan a folder in the background, and show it meanwhile."""
    return redirect_to(f"/disk/{start_index(app, root.strip(), work=work)['indexId']}")


def show_disk(app: App, *, work: Work) -> Content:
    """Every scanned folder."""
    cards = [_show_card(state) for state in list_index_states(app.disk, work.caller)]
    nothing = html.show_note(
        "No folder is scanned yet",
        tag("p", "A scan reads names, sizes and times, and opens no file. Then you see what takes "
            "the space, what is old, and what is there twice."),
    )  # fmt: skip
    form = html.show_folder_form("/disk", "root", "Scan", "~/Downloads")
    heading = tag("div", tag("h1", "Disk"), form, class_="head split")
    listed = tag("ul", cards, class_="cards") if cards else nothing
    return frame("Disk", "/disk", heading, listed, kind="disk")


def _show_card(state: IndexState) -> Markup:
    path, root = show_path(state.index.root), state.root
    counts = "waiting"
    if root:
        counts = f"{count_of(root.files, 'file')} · {count_of(root.folders, 'folder')}"
    return tag(
        "li",
        tag("h2",
            tag("a", name_folder(path), href=f"/disk/{state.index.id}", class_="open"),
            tag("span", "scanning", class_="badge busy") if state.scanning
            else tag("span", html.show_size(root.size if root else None), class_="badge")),
        tag("p", html.show_place(path)),
        tag("p", counts, class_="faint"),
    )  # fmt: skip


def show_folder(
    app: App,
    index_id: IndexParam,
    node: Annotated[str | None, Param("nodeId of the folder", max_length=64)] = None,
    path: Annotated[str | None, Param("Or its path", max_length=8192)] = None,
    sort: Annotated[Literal["name", "size", "modified"], Param("Order")] = "size",
    by: Annotated[Literal["kind", "age"], Param("Colours of the map")] = "kind",
    cursor: CursorParam = None,
    *,
    work: Work,
) -> Content:
    """A folder: its listing next to its map."""
    disk, caller, address = app.disk, work.caller, f"/disk/{index_id}"
    index = find_index(disk, caller, index_id)
    state, scans = read_index_state(disk, index), disk.tree(index.id).scans()
    place, found = find_folder(disk, caller, index_id, node, path)
    listing = list_folder(disk, place, found, limit=_ROWS, sort=sort, cursor=cursor)
    here = join_node(index.id, found.id) if found else None
    coloured = by if by != "kind" else None  # the first choice goes without saying
    kept = {"node": here, "path": None if here else path, "by": coloured}
    job = read_job(app, index.job, work=work) if state.scanning else None
    crumbs = show_crumbs(place, listing.trail)
    tabs = [
        tag("a", report.replace("-", " "), href=f"{address}/reports/{report}", title=about)
        for report, about in REPORTS.items()
    ]
    return frame(
        crumbs[-1]["name"],
        "/disk",
        tag("div",
            tag("div", _show_trail(address, crumbs, coloured), _show_summary(state, scans, job),
                class_="grow"),
            None if job else tag(
                "div", html.show_button("/disk", "Scan again", root=show_path(index.root)),
                html.show_button(f"{address}/forget", "Delete the scan"), class_="below"),
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
                html.show_next(listing.page.cursor, address, **kept, sort=sort),
                aria_label="Listing"),
            tag("section", nodes.show_legend(address, by, **kept, sort=sort),
                nodes.show_map(disk, index, found, by), class_="map-side", aria_label="Map")
            if found else None,
            class_="beside"),
        kind="disk",
    )  # fmt: skip


def _show_summary(state: IndexState, scans: Sequence[base.Scan], job: Json | None) -> Markup:
    root = state.root
    facts: list[str | Markup] = [html.show_place(show_path(state.index.root))]
    if root:
        facts += [
            html.show_size(root.size),
            count_of(root.files, "file"),
            count_of(root.folders, "folder"),
        ]
    finished = next((scan.finished_ms for scan in scans if scan.finished_ms), None)
    if finished and not job:
        facts.append(tag("span", "scanned ", html.show_age(show_epoch(finished))))
    return tag("p", [tag("span", each) for each in facts], class_="facts")


def _show_keep_form(app: App, index: str, work: Work) -> Markup:
    return tag(
        "p",
        tag("label", tag("span", "Save selection to"), tag(
            "select", tag("option", "a new set", value=""), nodes.list_choices(app, index, work),
            name="into")),
        nodes.show_name_field("Name of a new set"),
        tag("button", "Keep", class_="quiet"),
        class_="below",
    )  # fmt: skip


def _show_trail(address: str, crumbs: Sequence[Json], by: str | None) -> Markup:
    steps = [
        tag("a", crumb["name"], href=link_to(address, node=crumb["nodeId"], by=by))
        if crumb.get("nodeId") else tag("span", crumb["name"], class_="folder")
        for crumb in crumbs[:-1]
    ]  # fmt: skip
    last = tag("span", crumbs[-1]["name"], class_="name", aria_current="page")
    return tag("h1", [[step, tag("span", " / ", class_="folder")] for step in steps], last)


def _show_listing(listing: FolderListing, kept: dict[str, str | None]) -> Markup:
    rows = listing.page.rows
    if not rows:
        return html.show_note("This folder is empty")
    address, sort = f"/disk/{listing.place.index.id}", listing.sort
    most = max(row.size or 0 for row in rows) or 1
    heads = [
        tag("th", tag("a", name, href=link_to(address, **kept, sort=key)),
            scope="col", class_="number" if key != "name" else None,
            aria_sort=("ascending" if key == "name" else "descending") if key == sort else None)
        for key, name in _SORTS.items()
    ]  # fmt: skip
    ticks = tag("th", "Tick", class_="tick", scope="col")
    return html.show_rows([ticks, *heads], [_show_entry(listing, row, most) for row in rows])


def _show_entry(listing: FolderListing, row: FolderEntry, most: int) -> Markup:
    index, name, node = listing.place.index.id, show_name(row.name), row.node
    handle = join_node(index, node.id) if node else None
    inside = show_path("/".join((*listing.place.names, row.name)))
    if handle:
        href = nodes.link_node(index, handle, listable=row.listable)
        shown = tag("a", name, href=href, class_="open")
    elif row.listable:
        shown = tag("a", name, href=link_to(f"/disk/{index}", path=inside), class_="open")
    else:
        shown = tag("span", name)
    return tag(
        "tr",
        tag("td", nodes.show_tick(handle, name) if handle else None, class_="tick"),
        tag("td", tag("i", class_=f"kind {'folder-icon' if row.listable else row.kind}",
                      aria_hidden="true"), shown, "/" if row.listable else None,
            tag("span", row.state.replace("_", " "), class_="badge warn")
            if row.state != base.STATES[0] else None),
        tag("td", tag("i", style=f"--share:{(row.size or 0) / most:.3f}"), html.show_size(row.size),
            class_="number"),
        tag("td", html.show_age(show_epoch(row.mtime_ms)), class_="number faint"),
    )  # fmt: skip


def show_report_page(
    app: App,
    index_id: IndexParam,
    report: Annotated[str, Param("Its name", max_length=64, choices=tuple(REPORTS))],
    since: Annotated[str, Param("Of growth: a date or a span", max_length=40)] = "7d",
    cursor: CursorParam = None,
    *,
    work: Work,
) -> Content:
    """A report as a small chart."""
    index = find_index(app.disk, work.caller, index_id)
    grows = report == "growth"
    moment = since if grows else None
    found = read_disk_report(
        app.disk, index, report, limit=_REPORT_ROWS, cursor=cursor, since=moment
    )
    folder, earlier = name_folder(show_path(index.root)), found.since_scan
    address = f"/disk/{index_id}/reports/{report}"
    tabs = [
        tag("a", name.replace("-", " "), href=f"/disk/{index_id}/reports/{name}",
            aria_current="true" if name == report else None)
        for name in REPORTS
    ]  # fmt: skip
    spans = [
        tag("a", name, href=link_to(address, since=span),
            aria_current="true" if span == since else None)
        for span, name in _SPANS.items()
    ]  # fmt: skip
    rows = [_read_row(found, row) for row in found.page.rows]
    most = max((abs(value) for _, value, _ in rows), default=0) or 1
    bars = [(label, value / most, text) for label, value, text in rows]
    return frame(
        f"{report} of {folder}",
        "/disk",
        tag("div", tag("h1", tag("a", folder, href=f"/disk/{index_id}"),
                       tag("span", " / ", class_="folder"), report.replace("-", " ")),
            tag("nav", tabs, class_="tabs", aria_label="Reports"), class_="head"),
        tag("p", f"{REPORTS[found.kind].capitalize()}.",
            [" Compared with the scan of ", html.show_age(show_epoch(earlier.started_ms)), "."]
            if earlier else None, class_="faint"),
        tag("nav", tag("span", "Since", class_="faint"), spans, class_="tabs",
            aria_label="Since when") if grows else None,
        [tag("p", "Contents are still being compared; these are the results so far.",
             class_="summary"),
         show_jobs([read_job(app, found.comparison, work=work)], reload=True)]
        if found.comparison else None,
        show_chart(found.page.rows),
        html.show_bars(bars) if bars else _show_nothing(found),
        html.show_next(found.page.cursor, address, since=moment),
        kind="disk",
    )  # fmt: skip


def _show_nothing(report: DiskReport) -> Markup:
    if report.kind == "growth":
        if report.since_scan:
            return html.show_note("Nothing grew or shrank since then")
        return html.show_note(
            "There is no earlier scan to compare with",
            tag("p", "Scan the folder again later to see what has grown."),
        )
    notes = {"duplicates": "There are no duplicates", "empty-folders": "There are no empty folders"}
    return html.show_note(notes.get(report.kind, "There are no files here"))


def _read_row(report: DiskReport, row: base.ReportRow) -> tuple[str | Markup, int, str]:
    """The label of a row, its value and the value as text."""
    match row:
        case base.ExtensionTotal() | base.AgeTotal():
            label = row.age if isinstance(row, base.AgeTotal) else f".{row.extension}"
            text = f"{html.show_size(row.size)}, {count_of(row.files, 'file')}"
            return "none" if label == "." else label, row.size, text
        case base.Copies():
            first = next(iter(row.nodes), None)
            shown = _link_row(report, first) if first else f"sha256:{row.digest.hex()}"
            text = f"{row.copies} times {html.show_size(row.size)}"
            return shown, row.size * (row.copies - 1), text
        case base.Growth():
            change = row.now - row.before
            shown = _link_row(report, row.node) if row.node else show_path(row.name)
            return shown, change, f"{'+' if change >= 0 else '−'}{html.show_size(abs(change))}"
    node, text = row.node, html.show_size(row.node.size)
    if report.kind in ("oldest", "newest"):
        text = f"{show_epoch(node.mtime_ms)[:10]}, {text}"
    return _link_row(report, node), node.size, text


def _link_row(report: DiskReport, node: base.Node) -> Markup:
    index, path = report.index.id, report.paths[node.id]
    folder, _, name = path.rpartition("/")
    name = name if path != "." else "the whole folder"
    href = nodes.link_node(index, join_node(index, node.id), listable=node.listable)
    link = tag("a", name, href=href, class_="open", title=path)
    return join([link, " ", tag("span", folder, class_="folder")])
