"""The reports on a scanned folder, each as a small chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from starlette.routing import BaseRoute

from sonde.app import App
from sonde.disk.reports import REPORTS, DiskReport, read_disk_report
from sonde.disk.scope import find_index
from sonde.disk.trees import join_node
from sonde.policy.roots import show_path
from sonde.runtime.work import Work
from sonde.stores.disk.base import AgeTotal, Copies, ExtensionTotal, Growth, Node, ReportRow
from sonde.tools.disk import IndexParam
from sonde.tools.index import read_job
from sonde.tools.route import Content
from sonde.tools.schema import CursorParam, Param
from sonde.tools.shapes.shell import show_epoch
from sonde.web.application import Parts
from sonde.web.pages.disk_map import link_node
from sonde.web.pages.endpoints import serve_page
from sonde.web.pages.html import Markup, frame, join, link_to, show_age, show_note, tag
from sonde.web.pages.widgets import count, name_folder, show_bars, show_jobs, show_next, show_size

_ROWS = 50
_SPANS = {"7d": "a week", "30d": "a month", "365d": "a year"}


def add_report_pages(parts: Parts) -> Sequence[BaseRoute]:
    """One address for all of them."""
    return [serve_page("/disk/{index_id}/reports/{report}", show_report_page, parts)]


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
    found = read_disk_report(app.disk, index, report, limit=_ROWS, cursor=cursor, since=moment)
    folder = name_folder(show_path(index.root))
    address = f"/disk/{index_id}/reports/{report}"
    tabs = [
        tag("a", name.replace("-", " "), href=f"/disk/{index_id}/reports/{name}",
            aria_current="true" if name == report else None)
        for name in REPORTS
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
        tag("p", f"{REPORTS[found.kind].capitalize()}.", _show_base(found), class_="faint"),
        _show_spans(address, since) if grows else None,
        [tag("p", "Contents are still being compared; this is what is known so far.",
             class_="summary"),
         show_jobs([read_job(app, found.comparison, work=work)], reload=True)]
        if found.comparison else None,
        show_bars(bars) if bars else _show_nothing(found),
        show_next(found.page.cursor, address, since=moment),
        kind="disk",
    )  # fmt: skip


def _show_base(report: DiskReport) -> list[str | Markup]:
    base = report.since_scan
    if base is None:
        return []
    return [" Compared with the scan of ", show_age(show_epoch(base.started_ms)), "."]


def _show_spans(address: str, since: str) -> Markup:
    spans = [
        tag("a", name, href=link_to(address, since=span),
            aria_current="true" if span == since else None)
        for span, name in _SPANS.items()
    ]  # fmt: skip
    return tag("nav", tag("span", "Since", class_="faint"), spans, class_="tabs",
               aria_label="Since when")  # fmt: skip


def _show_nothing(report: DiskReport) -> Markup:
    if report.kind == "growth":
        if report.since_scan:
            return show_note("Nothing grew or shrank since then")
        return show_note(
            "There is no earlier scan to compare with",
            tag("p", "Scan the folder again later; then this shows what grew in between."),
        )
    notes = {"duplicates": "No two files are equal", "empty-folders": "No folder is empty"}
    return show_note(notes.get(report.kind, "There are no files here"))


def _read_row(report: DiskReport, row: ReportRow) -> tuple[str | Markup, int, str]:
    """The label of a row, its value and the value as text."""
    match row:
        case ExtensionTotal() | AgeTotal():
            if isinstance(row, AgeTotal):
                label = row.age
            else:
                label = f".{row.extension}" if row.extension else "none"
            return label, row.size, f"{show_size(row.size)}, {count(row.files, 'file')}"
        case Copies():
            first = next(iter(row.nodes), None)
            shown = _link_row(report, first) if first else f"sha256:{row.digest.hex()}"
            text = f"{row.copies} times {show_size(row.size)}"
            return shown, row.size * (row.copies - 1), text
        case Growth():
            change = row.now - row.before
            shown = _link_row(report, row.node) if row.node else show_path(row.name)
            return shown, change, f"{'+' if change >= 0 else '−'}{show_size(abs(change))}"
    node, text = row.node, show_size(row.node.size)
    if report.kind in ("oldest", "newest"):
        text = f"{show_epoch(node.mtime_ms)[:10]}, {text}"
    return _link_row(report, node), node.size, text


def _link_row(report: DiskReport, node: Node) -> Markup:
    index, path = report.index.id, report.paths[node.id]
    folder, _, name = path.rpartition("/")
    name = name if path != "." else "the whole folder"
    href = link_node(index, join_node(index, node.id), listable=node.listable)
    link = tag("a", name, href=href, class_="open", title=path)
    return join([link, " ", tag("span", folder, class_="folder")])
