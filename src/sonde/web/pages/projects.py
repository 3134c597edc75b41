"""The pages of projects and jobs: the state of each index, jobs, and forms to start them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, Literal

from starlette.responses import Response

from sonde.app import App
from sonde.errors import IndexNotFound, InvalidRequest
from sonde.indexing.sources import MirrorsState
from sonde.projects.find import find_project
from sonde.projects.index import INDEX_QUESTION
from sonde.runtime.work import Work
from sonde.text.formats import count_of, format_bytes, format_seconds, show_time
from sonde.tools import index
from sonde.tools.schema import ConfirmParam, Param
from sonde.types import Content
from sonde.web.pages import html
from sonde.web.pages.html import Markup, frame, link_to, name_folder, redirect_to, tag

_SHOWN_JOBS = 20  # the newest; older ones are of no interest here

ProjectParam = Annotated[str, Param("Folder of the project", min_length=1, max_length=4096)]


def begin(
    app: App,
    project: ProjectParam,
    action: Annotated[index.Action, Param("What to do")] = "index",
    confirm: ConfirmParam = None,
    *,
    work: Work,
) -> Response:
    """Start a job on a project. For a detected project the form is consent, unless very large."""
    agreed = Work(ask=lambda asked: asked.startswith(INDEX_QUESTION) or None, caller=work.caller)
    root = project.strip()
    index.start_project_job(app, root, action, confirm, work=agreed)
    return redirect_to(link_to("/project", project=root))


def stop(app: App, job_id: index.JobParam, *, work: Work) -> Response:
    """Stop a job; it may have ended meanwhile."""
    with suppress(InvalidRequest):
        index.stop_job(app, job_id, work=work)
    job = index.read_job(app, job_id, work=work)
    if "indexUrl" in job or job["kind"] == "duplicates":
        return redirect_to(f"/disk/{job['subject']}")
    known = index.list_projects(app, work=work)["projects"]
    if any(row["projectPath"] == job["subject"] for row in known):
        return redirect_to(link_to("/project", project=job["subject"]))
    return redirect_to("/projects")


def show_projects(app: App, *, work: Work) -> Content:
    """All projects and the newest jobs."""
    rows = index.list_projects(app, work=work)["projects"]
    jobs = _read_jobs(app, work)
    running = {
        job["subject"]: job for job in jobs if (job["kind"], job["status"]) == ("index", "running")
    }
    cards = [html.show_card(row, running.get(row["projectPath"])) for row in rows]
    nothing = html.show_note(
        "No project is indexed yet",
        tag("p", "Enter its folder above, or index it from a terminal:"),
        tag("pre", tag("code", "cd your/project\nsonde index")),
    )
    form = html.show_folder_form("/projects", "project", "Index", "~/code/project")
    named = tag("h2", "Indexed", class_="hidden")
    listed = html.join([named, tag("ul", cards, class_="cards")]) if cards else nothing
    if mirrors := app.workspace.mirrors:
        listed = _show_branches(mirrors.describe(app.workspace.reach.admits))
    return frame(
        "Projects",
        "/projects",
        tag("div", tag("h1", "Projects"), None if mirrors else form, class_="head split"),
        listed,
        tag("h2", "Work"),
        show_jobs(jobs, reload=True),
        kind="projects",
    )


def _show_branches(state: MirrorsState) -> Markup:
    """The branches of a shared index: commit, time of the push, and whether it is cached."""
    heads = [tag("th", name, scope="col") for name in ("Branch", "Commit", "Pushed", "Here")]
    rows = [
        tag("tr",
            tag("td", tag("a", one.name, href=link_to("/view", project=one.name))),
            tag("td", tag("code", one.commit[:12])),
            tag("td", html.show_age(show_time(one.pushed_ms))),
            tag("td", format_bytes(one.bytes) if ready
                else "being fetched" if one.is_default else "when it is used"))
        for one, ready in state.mirrors
    ]  # fmt: skip
    cache = f"{format_bytes(state.cache_bytes)} of {format_bytes(state.most_bytes)} in the cache"
    looked = f"looked up {state.seconds_since_poll:.0f} s ago" if state.is_reached else ""
    facts = ", ".join(filter(None, (cache, looked, state.problem)))
    return html.join([tag("p", facts, class_="summary"), html.show_rows(heads, rows)])


def show_jobs_page(
    app: App, part: Annotated[Literal["jobs"] | None, Param("Only the lists")] = None, *, work: Work
) -> Content:
    """Running jobs with their progress, and recent ones."""
    jobs = _read_jobs(app, work)
    running = [job for job in jobs if job["status"] == "running"]
    ended = [job for job in jobs if job["status"] != "running"]
    words = "Nothing is running" if not running else count_of(len(running), "job") + " running"
    lists = html.join([
        tag("p", words, class_="summary", role="status"),
        show_jobs(running) if running else None,
        [tag("h2", "Recent"), show_jobs(ended)] if ended else None,
    ])  # fmt: skip
    if part:
        return Content(lists, "text/html")
    return frame("Jobs", "/jobs", tag("h1", "Jobs"),
                 tag("div", lists, id="jobs", data_live=True), kind="jobs")  # fmt: skip


def show_project(app: App, project: ProjectParam, *, work: Work) -> Content:
    """One project: size, freshness, vector coverage, skipped files, jobs."""
    try:
        status = index.get_index_status(app, project, work=work)
    except IndexNotFound:
        root = find_project(app.workspace, project).key
        jobs = _read_jobs(app, work, root)
        if any(job["status"] == "running" for job in jobs):
            return frame(  # nothing is stored yet
                name_folder(root),
                "/projects",
                tag("h1", name_folder(root), " ", html.show_status("indexing")),
                tag("p", html.show_place(root)),
                tag("h2", "Work"),
                show_jobs(jobs, reload=True),
                kind="projects",
            )
        status = index.get_index_status(app, project, work=work)
    root, details = status["projectPath"], status["details"]
    following = details["following"]
    facts: list[tuple[str, str]] = [
        ("Files", f"{status['totalFiles']:,}"),
        ("Chunks", f"{status['totalChunks']:,}"),
        ("On disk", status["storageSize"]),
        ("Updated", html.show_age(status["lastUpdated"])),
        ("Changes", following["strategy"] if status["watcherActive"] else "when searched"),
        ("Store", details["store"]),
    ]
    skipped = sorted((details.get("skipped") or {}).items(), key=lambda pair: -pair[1])
    left_out = [(name.replace("_", " "), n / skipped[0][1], f"{n:,}") for name, n in skipped]
    jobs = _read_jobs(app, work, root)
    return frame(
        name_folder(root),
        "/projects",
        tag("div",
            tag("div", tag("h1", name_folder(root), " ", html.show_status(status["status"])),
                tag("p", html.show_place(root),
                    tag("a", "Search", href=link_to("/", project=root)), class_="facts")),
            None if status["status"] == "indexing" else _show_actions(root),
            class_="head split"),
        html.show_facts(facts),
        [tag("p", warning, class_="note") for warning in details.get("warnings", ())],
        [tag("h2", "Vectors"), html.show_bars(_read_shares(details["vectors"]))]
        if details["vectors"] else None,
        [tag("h2", "Left out"), html.show_bars(left_out)] if left_out else None,
        tag("h2", "Work"),
        show_jobs(jobs, reload=True),
        kind="projects",
    )  # fmt: skip


def _show_actions(root: str) -> Markup:
    """The buttons for an index; deleting asks for confirmation."""
    actions = {"index": "Update", "check": "Check", "rebuild": "Rebuild"}
    return tag(
        "form", html.hidden_fields(project=root),
        [tag("button", name, name="action", value=action, class_="quiet")
         for action, name in actions.items()],
        tag("button", "Delete", formaction="/project/forget", class_="quiet danger-text"),
        method="post", action="/projects", class_="below",
    )  # fmt: skip


def _read_jobs(app: App, work: Work, root: str | None = None) -> list[Mapping[str, object]]:
    rows = index.list_jobs(app, _SHOWN_JOBS, work=work)["jobs"]
    scanned = {each.id: each.root for each in app.disk.list_indexes(work.caller.user)}
    jobs = [index.read_job(app, row["jobId"], work=work) for row in rows]
    jobs = [{**job, "folder": scanned.get(str(job["subject"]))} for job in jobs]
    return [job for job in jobs if root in (None, job["subject"])]


def _read_shares(vectors: Mapping[str, str]) -> list[tuple[str, float, str]]:
    """The share of chunks that have a vector of each model, out of `120/150`."""
    rows = []
    for name, share in vectors.items():
        have, _, total = share.partition("/")
        rows.append((name, int(have) / max(int(total), 1), f"{int(have):,} of {int(total):,}"))
    return rows


def show_jobs(jobs: Sequence[Mapping[str, Any]], *, reload: bool = False) -> Markup:
    """A table of jobs as `read_job` answers them; the script of the page updates running ones."""
    if not jobs:
        return tag("p", "No recent jobs.", class_="faint")
    names = ("Job", "Target", "Progress", "Started", tag("span", "Stop", class_="hidden"))
    heads = [tag("th", name, scope="col") for name in names]
    return html.show_rows(heads, [_show_job(job, reload) for job in jobs], kind="jobs")


_JOB_WORDS = {
    "index": ("Indexing", "Indexed"), "refine": ("Computing deep vectors", "Computed deep vectors"),
    "check": ("Checking", "Checked"), "scan": ("Scanning", "Scanned"),
    "duplicates": ("Comparing files", "Compared files"), "views": ("Building views", "Built views"),
    "embed": ("Embedding", "Embedded"), "import": ("Importing", "Imported"),
    "rest": ("Tidying up", "Tidied up"), "warm": ("Loading", "Loaded"),
    "tidy": ("Compacting", "Compacted"), "export": ("Exporting", "Exported"),
}  # fmt: skip
"""The name of each kind of job, while it runs and afterwards."""


def _describe_progress(row: Mapping[str, Any]) -> str:
    progress, left_s = row.get("progress") or {}, row.get("eta")
    done, total = progress.get("done", 0), progress.get("total")
    counts = f"{done:,} of {total:,}" if total else f"{done:,}" if done else ""
    left = ""
    if left_s:
        left = f", {left_s:.0f} s left" if left_s < 90 else f", {left_s / 60:.0f} min left"
    return f"{progress.get('stage', '')} {counts}{left}".strip()


def _describe_outcome(job: Mapping[str, Any]) -> str:
    """The outcome of a job that has ended: why it failed, or how long it took."""
    error, began, ended = job.get("error") or {}, job.get("startedAt"), job.get("finishedAt")
    if error or not began or not ended:
        return str(error.get("userMessage", ""))
    seconds = (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    words = f"took {format_seconds(seconds) if seconds >= 1 else 'less than a second'}"
    report = (job["kind"] == "import" and job.get("report")) or {}
    done = {key: report.get(key) for key in ("added", "updated", "removed", "unchanged")}
    done["skipped"] = sum(report.get("skipped", {}).values())
    return ", ".join([f"{n:,} {name}" for name, n in done.items() if n] + [words])


def _show_job(job: Mapping[str, Any], reload: bool) -> Markup:
    kind, subject, running = job["kind"], job["subject"], job["status"] == "running"
    note = _describe_progress(job) if running else _describe_outcome(job)
    doing, did = _JOB_WORDS.get(kind, (kind.capitalize(), kind.capitalize()))
    name = "knowledge" if subject.startswith("knowledge:") else name_folder(subject)
    about = tag("code", name, title=subject)
    if folder := job.get("folder"):
        about = tag("a", name_folder(folder), href=f"/disk/{subject}", title=folder)
    return tag(
        "tr",
        tag("td", did if job["status"] == "done" else doing),
        tag("td", about),
        tag("td",
            html.show_status(job["status"], data_status=True),
            tag("progress", value=job.get("progressPct"), max=100, aria_label="Progress")
            if running else None,
            tag("span", note, class_="faint", data_note=True)),
        tag("td", html.show_age(job["startedAt"])),
        tag("td", html.show_button(f"/jobs/{job['jobId']}/stop", "Stop", label=f"Stop this {kind}")
            if running else None),
        data_row=job["jobId"],
        data_job=job["jobId"] if running else None,
        data_reload=reload,
    )  # fmt: skip
