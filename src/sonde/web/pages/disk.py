"""The pages of a disk: scanned folders, a folder as a listing and a map, a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs, urlsplit

from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute

from sonde.app import App
from sonde.disk.reports import REPORTS
from sonde.errors import SondeError
from sonde.runtime.work import Work
from sonde.tools.disk_routes import (
    ConfirmParam,
    IndexParam,
    NodeParam,
    delete_scan,
    list_indexes,
    read_detail,
    read_index,
    read_preview,
    read_tree,
    start_index,
)
from sonde.tools.job_routes import read_job
from sonde.tools.route import Content
from sonde.tools.schema import Param
from sonde.tools.set_routes import read_sets
from sonde.web.application import Parts
from sonde.web.pages.disk_map import link_entry, show_map
from sonde.web.pages.endpoints import lead_to, serve_form, serve_page, show_button
from sonde.web.pages.html import Markup, frame, link_to, show_age, show_note, tag
from sonde.web.pages.widgets import (
    count,
    name_folder,
    shorten_home,
    show_jobs,
    show_size,
    show_tick,
)

_ROWS = 100
_MAPPED = 60
_LEAST = 0.002
_OPENED = 0.05
"""Shares of the map: of what is drawn at all, of folders whose inside is drawn."""
_SORTS = {"name": "Name", "size": "Size", "modified": "Changed"}

CursorParam = Annotated[str | None, Param("Of the page before", max_length=4096)]


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
    """Forget a scan, once confirmed; the files stay."""
    delete_scan(app, index_id, confirm, work=work)
    return lead_to("/disk")


def show_disk(app: App, *, work: Work) -> Content:
    """Every scanned folder."""
    cards = [_show_card(row) for row in list_indexes(app, work=work)["indexes"]]
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
    return frame(
        "Disk", "/disk",
        tag("div", tag("h1", "Disk"), form, class_="head split"),
        tag("ul", cards, class_="cards") if cards else nothing,
        kind="disk",
    )  # fmt: skip


def _show_card(row: Mapping[str, Any]) -> Markup:
    busy = row.get("job", {}).get("status") == "running"
    told = "waiting"
    if "files" in row:
        told = f"{count(row['files'], 'file')} · {count(row['folders'], 'folder')}"
    return tag(
        "li",
        tag("h2",
            tag("a", name_folder(row["root"]), href=f"/disk/{row['indexId']}", class_="open"),
            tag("span", "scanning", class_="badge busy") if busy
            else tag("span", show_size(row.get("size")), class_="badge")),
        tag("p", tag("code", row["root"])),
        tag("p", told, class_="faint"),
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
    index = read_index(app, index_id, work=work)
    page = read_tree(app, index_id, node, path, _ROWS, cursor, sort, work=work)
    here = page["parent"]
    busy = index.get("job", {}).get("status") == "running"
    job = read_job(app, index["job"]["jobId"], work=work) if busy else None
    name = page["breadcrumb"][-1]["name"]
    return frame(
        name,
        "/disk",
        tag("div",
            tag("div", _show_trail(index_id, page["breadcrumb"]),
                _show_standing(index, job), class_="grow"),
            None if job else tag("div", _show_again(index["root"]),
                                 show_button(f"/disk/{index_id}/forget", "Forget"),
                                 class_="below"),
            class_="head split"),
        show_jobs([job], reload=True) if job else None,
        tag("nav", [tag("a", report.replace("-", " "),
                        href=f"/disk/{index_id}/reports/{report}", title=about)
                    for report, about in REPORTS.items()],
            tag("a", "find…", href=link_to("/queries", index=index_id), title="by a filter"),
            class_="tabs", aria_label="Reports"),
        tag("div",
            tag("section", tag("form", _show_listing(index_id, page, here, path, sort),
                               _show_keeping(app, index_id, work) if here else None,
                               method="post", action="/sets"), show_next(
                page["nextPageUrl"], f"/disk/{index_id}",
                {"node": here, "path": None if here else path, "sort": sort}),
                aria_label="Listing"),
            show_map(index_id, _read_map(app, index_id, here, work)) if here else None,
            class_="beside"),
        kind="disk",
    )  # fmt: skip


def _show_standing(index: Mapping[str, Any], job: Mapping[str, Any] | None) -> Markup:
    """How much was found, and when."""
    done = next(
        (start_scan_form for start_scan_form in index["scans"] if start_scan_form["finishedAt"]),
        None,
    )
    told: list[Any] = [tag("code", shorten_home(index["root"]), title=index["root"])]
    if "files" in index:
        told += [show_size(index["size"]), count(index["files"], "file"),
                 count(index["folders"], "folder")]  # fmt: skip
    if done and not job:
        told.append(tag("span", "scanned ", show_age(done["finishedAt"])))
    return tag("p", [tag("span", each) for each in told], class_="facts")


def _show_again(root: str) -> Markup:
    return tag("form", tag("input", type="hidden", name="root", value=root),
               tag("button", "Scan again", class_="quiet"), method="post", action="/disk",
               class_="one")  # fmt: skip


def _show_keeping(app: App, index: str, work: Work) -> Markup:
    """What to do with the rows that are ticked."""
    return tag(
        "p",
        tag("label", tag("span", "Keep what is ticked in"), tag(
            "select", tag("option", "a new set", value=""), list_choices(app, index, work),
            name="into")),
        tag("input", name="name", class_="field", placeholder="its name", maxlength=200,
            aria_label="Name of a new set", autocomplete="off"),
        tag("button", "Keep", class_="quiet"),
        class_="below",
    )  # fmt: skip


def list_choices(app: App, index: str, work: Work, but: str = "") -> list[Markup]:
    """The newest sets of a folder, to choose one of them."""
    return [
        tag("option", row["name"], value=row["selectionId"])
        for row in read_sets(app, 50, work=work)["sets"]
        if row["indexId"] == index and row["selectionId"] != but
    ]


def _read_map(app: App, index: str, node: str, work: Work) -> list[dict[str, Any]]:
    """The largest things in a folder, and in each of the large folders among them."""

    def read(parent: str, size: int, limit: int) -> list[dict[str, Any]]:
        try:
            found = read_tree(app, index, parent, None, limit, None, "size", work=work)["entries"]
        except SondeError:  # it went while the map was drawn
            return []
        rows = [row for row in found if row["size"]]
        left = size - sum(row["size"] for row in rows)
        if left > size * _LEAST:
            # smaller ones stand together, so that each box has its share of the whole
            rows.append({"name": "the rest", "size": left, "nodeId": parent, "counts": {}})
        return sorted(rows, key=lambda row: -row["size"])

    total = read_detail(app, index, node, work=work)["size"] or 1
    rows = read(node, total, _MAPPED)
    for row in rows:
        if row.get("counts") and row["nodeId"] and row["size"] / total > _OPENED:
            row["inner"] = read(row["nodeId"], row["size"], _MAPPED)
    return rows


def _show_trail(index: str, crumbs: Sequence[Mapping[str, Any]]) -> Markup:
    steps = [
        tag("a", crumb["name"], href=link_to(f"/disk/{index}", node=crumb["nodeId"]))
        if crumb.get("nodeId") else tag("span", crumb["name"], class_="folder")
        for crumb in crumbs[:-1]
    ]  # fmt: skip
    last = tag("span", crumbs[-1]["name"], class_="name", aria_current="page")
    return tag("h1", [[step, tag("span", " / ", class_="folder")] for step in steps], last)


def _show_listing(
    index: str, page: Mapping[str, Any], here: str | None, path: str | None, sort: str
) -> Markup:
    rows = page["entries"]
    if not rows:
        return show_note("This folder is empty")
    most = max((row["size"] or 0 for row in rows), default=0) or 1
    heads = [
        tag("th",
            tag("a", name, href=link_to(f"/disk/{index}", node=here, path=None if here else path,
                                        sort=key)),
            scope="col", class_="number" if key != "name" else None,
            aria_sort=("ascending" if key == "name" else "descending") if key == sort else None)
        for key, name in _SORTS.items()
    ]  # fmt: skip
    ticks = tag("th", "Tick", class_="tick", scope="col")
    body = [_show_entry(index, row, most, page["path"]) for row in rows]
    return tag("div", tag("table", tag("thead", tag("tr", ticks, heads)), tag("tbody", body),
                          class_="listing"), class_="wide")  # fmt: skip


def _show_entry(index: str, row: Mapping[str, Any], most: int, folder: str) -> Markup:
    name, directory = row["name"], row["kind"] == "directory" or "counts" in row
    inside = f"{folder}/{name}" if folder else name
    if not row["nodeId"]:
        shown = tag("a", name, href=link_to(f"/disk/{index}", path=inside), class_="open") \
            if directory else tag("span", name)  # fmt: skip
    else:
        shown = tag("a", name, href=link_entry(index, row), class_="open")
    size = row["size"]
    return tag(
        "tr",
        tag("td", show_tick(row["nodeId"], name) if row["nodeId"] else None, class_="tick"),
        tag("td", tag("i", class_=f"kind {'folder-icon' if directory else row['kind']}",
                      aria_hidden="true"), shown, "/" if directory else None,
            tag("span", row["state"].replace("_", " "), class_="badge warn")
            if row.get("state") else None),
        tag("td", tag("i", style=f"--share:{(size or 0) / most:.3f}"), show_size(size),
            class_="number"),
        tag("td", show_age(row["modifiedAt"]), class_="number faint"),
    )  # fmt: skip


def show_next(url: str | None, path: str, kept: Mapping[str, Any]) -> Markup | None:
    """The way to the next page, by the cursor that the API's own link holds."""
    if not url:
        return None
    cursor = parse_qs(urlsplit(url).query)["cursor"][0]
    way = tag("a", "Next page", href=link_to(path, **kept, cursor=cursor), rel="next")
    return tag("nav", way, class_="ways", aria_label="Pages")


def show_node_page(app: App, index_id: IndexParam, node_id: NodeParam, *, work: Work) -> Content:
    """A file: what is known of it, and its beginning."""
    node = read_detail(app, index_id, node_id, work=work)
    facts = [
        ("Size", show_size(node["size"])),
        ("On disk", show_size(node["sizeOnDisk"])),
        ("Changed", show_age(node["modifiedAt"])),
        ("Permissions", tag("code", node["permissions"])),
        ("Kind", node["kind"]),
    ]
    if "symlink" in node:
        facts.append(("Leads to", tag("code", node["symlink"])))
    above = node.get("parentUrl", "").rpartition("/")[2]
    address = f"/api/indexes/{index_id}/nodes/{node_id}"
    return frame(
        node["name"],
        "/disk",
        tag("div", tag("h1", node["name"]),
            tag("p", tag("code", node["path"]),
                tag("a", "Its folder", href=link_to(f"/disk/{index_id}", node=above))
                if above else None,
                tag("a", "Look inside", href=link_to(f"/disk/{index_id}", node=node_id))
                if "counts" in node else None,
                tag("a", "Download", href=f"{address}/download") if "downloadUrl" in node else None,
                class_="facts"), class_="head"),
        tag("dl", [tag("div", tag("dt", name), tag("dd", fact)) for name, fact in facts],
            class_="facts-grid"),
        [tag("h2", "Beginning"), _show_beginning(app, index_id, node_id, node, work)]
        if "counts" not in node else None,
        kind="disk",
    )  # fmt: skip


def _show_beginning(
    app: App, index: str, node_id: str, node: Mapping[str, Any], work: Work
) -> Markup:
    if "previewUrl" not in node:
        return show_note("The contents of this are not shown")
    try:
        content = read_preview(app, index, node_id, work=work)
    except SondeError as error:
        return show_note(error.user_message, tag("p", error.next_action))
    if isinstance(content.body, bytes):
        return tag("img", src=f"/api/indexes/{index}/nodes/{node_id}/preview", alt=node["name"])
    if not content.body:
        return show_note("This file is empty")
    return tag("pre", tag("code", content.body), class_="prose", tabindex="0")
