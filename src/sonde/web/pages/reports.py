"""The reports on a scanned folder, each as a small chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from starlette.routing import BaseRoute

from sonde.app import App
from sonde.disk.reports import REPORTS
from sonde.runtime.work import Work
from sonde.tools.disk_routes import IndexParam, read_index, read_report_page
from sonde.tools.job_routes import read_job
from sonde.tools.route import Content
from sonde.tools.schema import Param
from sonde.web.application import Parts
from sonde.web.pages.disk import CursorParam, show_next
from sonde.web.pages.disk_map import link_entry
from sonde.web.pages.endpoints import serve_page
from sonde.web.pages.html import Markup, frame, join, link_to, show_age, show_note, tag
from sonde.web.pages.widgets import count, name_folder, show_bars, show_jobs, show_size

_SINCE = ("7d", "30d", "365d")


def add_report_pages(parts: Parts) -> Sequence[BaseRoute]:
    """One address for all of them."""
    return [serve_page("/disk/{index_id}/reports/{report}", show_report_page, parts)]


def show_report_page(
    app: App,
    index_id: IndexParam,
    report: Annotated[str, Param("Its name", max_length=64, choices=tuple(REPORTS))],
    since: Annotated[str, Param("Of growth: a date or a span", max_length=40)] = _SINCE[0],
    cursor: CursorParam = None,
    *,
    work: Work,
) -> Content:
    """A report as a small chart."""
    index = read_index(app, index_id, work=work)
    grows = report == "growth"
    moment = since if grows else None
    page = read_report_page(app, index_id, report, 50, cursor, moment, work=work)
    address = f"/disk/{index_id}/reports/{report}"
    tabs = [
        tag("a", name.replace("-", " "), href=f"/disk/{index_id}/reports/{name}",
            aria_current="true" if name == report else None)
        for name in REPORTS
    ]  # fmt: skip
    rows = [_read_row(index_id, report, row) for row in page["rows"]]
    most = max((abs(value) for _, value, _ in rows), default=0) or 1
    bars = [(label, value / most, told) for label, value, told in rows]
    waited = page.get("statusUrl", "").rpartition("/")[2]
    return frame(
        f"{report} of {name_folder(index['root'])}",
        "/disk",
        tag("div", tag("h1", tag("a", name_folder(index["root"]), href=f"/disk/{index_id}"),
                       tag("span", " / ", class_="folder"), report.replace("-", " ")),
            tag("nav", tabs, class_="tabs", aria_label="Reports"), class_="head"),
        tag("p", f"{REPORTS[report].capitalize()}.", _tell_since(page), class_="faint"),
        _show_spans(address, since) if grows else None,
        [tag("p", "Contents are still being compared; this is what is known so far.",
             class_="summary"), show_jobs([read_job(app, waited, work=work)], reload=True)]
        if waited else None,
        show_bars(bars) if bars else _show_nothing(report, page),
        show_next(page["nextPageUrl"], address, {"since": moment}),
        kind="disk",
    )  # fmt: skip


def _tell_since(page: Mapping[str, Any]) -> Any:
    return (
        [" Compared with the scan of ", show_age(page["since"]), "."] if page.get("since") else ""
    )


def _show_spans(address: str, since: str) -> Markup:
    spans = [
        tag("a", name, href=link_to(address, since=span),
            aria_current="true" if span == since else None)
        for span, name in zip(_SINCE, ("a week", "a month", "a year"), strict=True)
    ]  # fmt: skip
    return tag("nav", tag("span", "Since", class_="faint"), spans, class_="tabs",
               aria_label="Since when")  # fmt: skip


def _show_nothing(report: str, page: Mapping[str, Any]) -> Markup:
    if report == "growth":
        if page.get("since"):
            return show_note("Nothing grew or shrank since then")
        return show_note(
            "There is no earlier scan to compare with",
            tag("p", "Scan the folder again later; then this shows what grew in between."),
        )
    told = {"duplicates": "No two files are equal", "empty-folders": "No folder is empty"}
    return show_note(told.get(report, "There are no files here"))


def _read_row(index: str, report: str, row: Mapping[str, Any]) -> tuple[Any, int, str]:
    """What a row is about, how much it is, and how that is said."""
    if report in ("by-extension", "by-age"):
        label = row.get("age") or (f".{row['extension']}" if row["extension"] else "none")
        return label, row["size"], f"{show_size(row['size'])}, {count(row['files'], 'file')}"
    if report == "duplicates":
        label = _link_row(index, row["entries"][0]) if row["entries"] else row["digest"]
        return label, row["wasted"], f"{row['copies']} times {show_size(row['size'])}"
    if report == "growth":
        label = row["name"] if row.get("state") == "gone" else _link_row(index, row)
        sign = "+" if row["growth"] >= 0 else "−"
        return label, row["growth"], f"{sign}{show_size(abs(row['growth']))}"
    if report in ("oldest", "newest"):
        return (
            _link_row(index, row),
            row["size"],
            f"{row['modifiedAt'][:10]}, {show_size(row['size'])}",
        )
    return _link_row(index, row), row["size"], show_size(row["size"])


def _link_row(index: str, row: Mapping[str, Any]) -> Markup:
    folder, _, name = row["path"].rpartition("/")
    name = name if row["path"] != "." else "the whole folder"
    link = tag("a", name, href=link_entry(index, row), class_="open", title=row["path"])
    return join([link, " ", tag("span", folder, class_="folder")])
