"""Parts that several pages show: badges, jobs, small charts, sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonde.disk.scope import find_home_folder
from sonde.text.formats import count_of, format_bytes
from sonde.web.pages.endpoints import show_button
from sonde.web.pages.html import Markup, link_to, show_age, tag

_BADGES = {"ready": "good", "running": "busy", "indexing": "busy", "done": "good"}


def name_folder(path: str) -> str:
    """The last name of a path."""
    return path.rstrip("/").rpartition("/")[2] or path


def shorten_home(path: str) -> str:
    """The path with `~` for the home folder."""
    home = find_home_folder()
    if home is None or not Path(path).is_relative_to(home):
        return path
    return str(Path("~") / Path(path).relative_to(home))


def count(number: int, noun: str) -> str:
    """A number and what it counts."""
    return count_of(number, noun)


def show_size(size: int | None) -> str:
    """A size; empty if it is not known."""
    return "" if size is None else format_bytes(size, "iec")


def show_status(status: str) -> Markup:
    """A status as a badge."""
    return tag("span", status.replace("_", " "), class_=f"badge {_BADGES.get(status, 'warn')}")


def show_jobs(jobs: Sequence[Mapping[str, Any]], *, reload: bool = False) -> Markup:
    """A table of jobs as `read_job` answers them; the script of the page updates running ones."""
    if not jobs:
        return tag("p", "Nothing has been done here lately.", class_="faint")
    names = ("What", "About", "How far", "Began")
    heads = [tag("th", name, scope="col") for name in names]
    head = tag("tr", heads, tag("th", tag("span", "Stop", class_="hidden"), scope="col"))
    rows = [_show_job(_read_job(job), reload) for job in jobs]
    return tag("div", tag("table", tag("thead", head), tag("tbody", rows), class_="jobs"),
               class_="wide")  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Job:
    """The fields of a job that the table shows."""

    id: str
    kind: str
    status: str
    subject: str
    started_at: str
    percent: float | None
    note: str | None
    """Its progress while it runs, then its error."""
    has_scan: bool
    """Whether its subject is a scanned folder with a page of its own."""

    @property
    def running(self) -> bool:
        """Whether it can be stopped."""
        return self.status == "running"


def _read_job(row: Mapping[str, Any]) -> _Job:
    error = (row.get("error") or {}).get("userMessage")
    note = _describe_progress(row) if row["status"] == "running" else error
    return _Job(
        row["jobId"], row["kind"], row["status"], row["subject"], row["startedAt"],
        row.get("progressPct"), note, "indexUrl" in row,
    )  # fmt: skip


def _describe_progress(row: Mapping[str, Any]) -> str:
    progress, left_s = row.get("progress") or {}, row.get("eta")
    done, total = progress.get("done", 0), progress.get("total")
    counts = f"{done:,} of {total:,}" if total else f"{done:,}" if done else ""
    left = f", {left_s} s left" if left_s else ""
    return f"{progress.get('stage', '')} {counts}{left}".strip()


def _show_job(job: _Job, reload: bool) -> Markup:
    subject = (
        tag("a", "scanned folder", href=f"/disk/{job.subject}")
        if job.has_scan
        else tag("code", name_folder(job.subject), title=job.subject)
    )
    return tag(
        "tr",
        tag("td", job.kind),
        tag("td", subject),
        tag("td",
            tag("span", job.status, class_=f"badge {_BADGES.get(job.status, 'warn')}",
                data_status=True),
            tag("progress", value=job.percent, max=100, aria_label="Progress")
            if job.running else None,
            tag("span", job.note, class_="faint", data_note=True)),
        tag("td", show_age(job.started_at)),
        tag("td", show_button(f"/jobs/{job.id}/stop", "Stop", label=f"Stop this {job.kind}")
            if job.running else None),
        data_job=job.id if job.running else None,
        data_reload=reload,
    )  # fmt: skip


def show_bars(rows: Sequence[tuple[object, float, str]]) -> Markup:
    """A small chart: names, bars, figures; negative bars have another colour."""
    return tag(
        "dl",
        [
            tag("div", tag("dt", name),
                tag("dd", tag("i", style=f"--share:{abs(share):.3f}",
                              class_="less" if share < 0 else None), figure))
            for name, share, figure in rows
        ],
        class_="bars",
    )  # fmt: skip


def show_tick(node: str, name: str) -> Markup:
    """The checkbox of a row."""
    return tag("input", type="checkbox", name="node_ids", value=node, aria_label=f"Tick {name}")


def show_next(cursor: str | None, path: str, /, **kept: str | None) -> Markup | None:
    """The link to the next page, if there is one."""
    if not cursor:
        return None
    link = tag("a", "Next page", href=link_to(path, **kept, cursor=cursor), rel="next")
    return tag("nav", link, class_="ways", aria_label="Pages")


def show_cards(cards: Sequence[Markup], nothing: Markup) -> Markup:
    """A list of cards, or what is said if there are none."""
    return tag("ul", cards, class_="cards") if cards else nothing


def show_rows(heads: Sequence[Markup | None], rows: Sequence[Markup]) -> Markup:
    """A listing as a table that scrolls sideways where it is too wide."""
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="listing")
    return tag("div", table, class_="wide")


def show_name_field(label: str) -> Markup:
    """The field for the name of a new set."""
    return tag("input", name="name", class_="field", placeholder="its name", maxlength=200,
               aria_label=label, autocomplete="off")  # fmt: skip
