"""Parts that several pages show: badges, jobs, small charts, sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sonde.disk.scope import find_home_folder
from sonde.text.sizes import count_of, format_bytes
from sonde.web.pages.endpoints import show_button
from sonde.web.pages.html import Markup, show_age, tag

_BADGES = {"ready": "good", "running": "busy", "indexing": "busy", "done": "good"}


def name_folder(path: str) -> str:
    """The last name of a path."""
    return path.rstrip("/").rpartition("/")[2] or path


def shorten_home(path: str) -> str:
    """A path as a person would write it."""
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
    """A state as a badge."""
    return tag("span", status.replace("_", " "), class_=f"badge {_BADGES.get(status, 'warn')}")


def show_jobs(jobs: Sequence[Mapping[str, Any]], *, reload: bool = False) -> Markup:
    """A table of jobs; those that run go on by themselves, and then show what came of them."""
    if not jobs:
        return tag("p", "Nothing has been done here lately.", class_="faint")
    names = ("What", "About", "How far", "Began")
    heads = [tag("th", name, scope="col") for name in names]
    head = tag("tr", heads, tag("th", tag("span", "Stop", class_="hidden"), scope="col"))
    rows = [_show_job(job, reload) for job in jobs]
    return tag("div", tag("table", tag("thead", head), tag("tbody", rows), class_="jobs"),
               class_="wide")  # fmt: skip


def _show_job(job: Mapping[str, Any], reload: bool) -> Markup:
    running = job["status"] == "running"
    progress = job.get("progress") or {}
    percent = job.get("progressPct")
    error = (job.get("error") or {}).get("userMessage")
    return tag(
        "tr",
        tag("td", job["kind"]),
        tag("td", _show_subject(job)),
        tag("td",
            tag("span", job["status"], class_=f"badge {_BADGES.get(job['status'], 'warn')}",
                data_status=True),
            tag("progress", value=percent, max=100, aria_label="Progress") if running else None,
            tag("span", _tell_progress(progress, job.get("eta")) if running else error,
                class_="faint", data_told=True)),
        tag("td", show_age(job["startedAt"])),
        tag("td", show_button(f"/jobs/{job['jobId']}/stop", "Stop",
                              label=f"Stop this {job['kind']}") if running else None),
        data_job=job["jobId"] if running else None,
        data_reload=reload,
    )  # fmt: skip


def _show_subject(job: Mapping[str, Any]) -> Markup:
    """What a job is about: a project, or a scanned folder that can be looked at."""
    subject = job["subject"]
    if "indexUrl" in job:
        return tag("a", "scanned folder", href=f"/disk/{subject}")
    return tag("code", name_folder(subject), title=subject)


def _tell_progress(progress: Mapping[str, Any], left_s: int | None) -> str:
    done, total = progress.get("done", 0), progress.get("total")
    counts = f"{done:,} of {total:,}" if total else f"{done:,}" if done else ""
    left = f", {left_s} s left" if left_s else ""
    return f"{progress.get('stage', '')} {counts}{left}".strip()


def show_bars(rows: Sequence[tuple[Any, float, str]]) -> Markup:
    """A small chart: names, bars, figures; what is less than nothing has another colour."""
    return tag(
        "dl",
        [
            tag("div", tag("dt", name),
                tag("dd", tag("i", style=f"--share:{abs(share):.3f}",
                              class_="less" if share < 0 else None), told))
            for name, share, told in rows
        ],
        class_="bars",
    )  # fmt: skip


def show_tick(node: str, name: str) -> Markup:
    """The box before a row."""
    return tag("input", type="checkbox", name="node_ids", value=node, aria_label=f"Tick {name}")
