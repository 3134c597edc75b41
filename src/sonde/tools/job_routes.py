"""Verbs on jobs: list, read, stop."""

from __future__ import annotations

from typing import Annotated

from sonde.app import App
from sonde.errors import InvalidRequest
from sonde.paging.cursor import decode_key, encode_key
from sonde.runtime.work import Work
from sonde.stores.disk.base import DiskIndex
from sonde.tools.route import Route
from sonde.tools.schema import CursorParam, LimitParam, Param
from sonde.tools.shapes.shell import ProgressAnswer, show_job, show_job_detail, show_job_progress
from sonde.tools.tool import Tool
from sonde.types import Json

JobParam = Annotated[str, Param("jobId", min_length=1, max_length=64)]
MAX_JOBS = 1_000
"""More than are ever stored."""


def job_progress(
    app: App,
    job_id: Annotated[str, Param("jobId of an answer", min_length=1, max_length=64)],
    *,
    work: Work,
) -> ProgressAnswer:
    """The progress of a job, or its outcome."""
    return show_job_progress(app.workspace.jobs.find_visible(job_id, work.caller.user), work.caller)


def list_jobs(app: App, limit: LimitParam = 50, cursor: CursorParam = None, *, work: Work) -> Json:
    """Jobs that the caller may see, of every process, newest first."""
    caller = work.caller
    after = decode_key(cursor, "jobs", app.workspace.key) if cursor else None
    known = app.workspace.jobs.recent(MAX_JOBS, (after[0], after[1]) if after else None)
    found = [job for job in known if job.owner in ("", caller.user)]
    following = None
    if len(found) > limit:
        last = found[limit - 1]
        key = encode_key([-last.started_ms, last.id], "jobs", app.workspace.key)
        following = caller.link(f"jobs?limit={limit}&cursor={key}")
    rows = [show_job(job, caller) for job in found[:limit]]
    return {"jobs": rows, "nextPageUrl": following}


def read_job(app: App, job_id: JobParam, *, work: Work) -> Json:
    """A job, with its whole report."""
    caller = work.caller
    record = app.workspace.jobs.find_visible(job_id, caller.user)
    scan = record.kind == "scan" and app.disk.saved.get(DiskIndex, record.subject, caller.user)
    return show_job_detail(record, caller, scanned=bool(scan))


def read_progress(app: App, job_id: JobParam, *, work: Work) -> ProgressAnswer:
    """The same, under the name that the REST API gives it."""
    return job_progress(app, job_id, work=work)


def stop_job(app: App, job_id: JobParam, *, work: Work) -> Json:
    """Ask a job to stop."""
    record = app.workspace.jobs.find_visible(job_id, work.caller.user)
    if not app.workspace.jobs.stop(record.id):
        raise InvalidRequest("the job has ended", user_message="This job is not running.")
    return {"jobId": record.id, "status": "stopping"}


TOOLS: tuple[Tool, ...] = (
    Tool(
        name="job_progress",
        call=job_progress,
        toolset="files",
        title="Job progress",
        description="Show how far a job is, or what came of it.",
        aliases=("job-progress",),
    ),
)
ROUTES: tuple[Route, ...] = (
    Route("jobs", list_jobs, "Long work, the newest first"),
    Route("jobs/{jobId}", read_job, "A job, with its whole report"),
    Route("jobs/{jobId}", stop_job, "Ask a job to stop", method="DELETE", status=202),
    Route("jobs/{jobId}/progress", read_progress, "How far a job is"),
)
