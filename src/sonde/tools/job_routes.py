"""Addresses of jobs."""

from __future__ import annotations

from typing import Annotated, Any

from sonde.app import App
from sonde.errors import InvalidRequest
from sonde.paging.cursor import decode_key, encode_key
from sonde.policy.roots import show_path
from sonde.runtime.work import Work
from sonde.tools.disk import find_job, show_job_progress
from sonde.tools.route import Route
from sonde.tools.schema import Param
from sonde.tools.shapes.shell import ProgressAnswer, show_epoch, show_job

JobParam = Annotated[str, Param("jobId", min_length=1, max_length=64)]
LimitParam = Annotated[int, Param("Rows of a page", minimum=1, maximum=1000)]
CursorParam = Annotated[str | None, Param("As in nextPageUrl", max_length=4096)]
_MOST = 1_000
"""More jobs than are ever written down."""

Answer = dict[str, Any]


def list_jobs(
    app: App, limit: LimitParam = 50, cursor: CursorParam = None, *, work: Work
) -> Answer:
    """Long work that the caller may see, of every process, the newest first."""
    caller = work.caller
    after = decode_key(cursor, "jobs", app.workspace.key) if cursor else None
    known = app.workspace.jobs.recent(_MOST, (after[0], after[1]) if after else None)
    found = [job for job in known if job.owner in ("", caller.user)]
    following = None
    if len(found) > limit:
        last = found[limit - 1]
        key = encode_key([-last.started_ms, last.id], "jobs", app.workspace.key)
        following = caller.link(f"jobs?limit={limit}&cursor={key}")
    rows = [show_job(job, caller) for job in found[:limit]]
    return {"jobs": rows, "nextPageUrl": following}


def read_job(app: App, job_id: JobParam, *, work: Work) -> Answer:
    """A job, with its whole report."""
    caller = work.caller
    record = find_job(app, caller, job_id)
    answer = show_job(record, caller) | dict(show_job_progress(record, caller))
    answer["subject"] = show_path(record.subject)
    if record.finished_ms:
        answer["finishedAt"] = show_epoch(record.finished_ms)
    if record.report:
        answer["report"] = dict(record.report)
    if record.error:
        answer["error"] = dict(record.error)
    if record.kind == "scan" and app.disk.saved.index(record.subject, caller.user):
        answer["indexUrl"] = caller.link(f"indexes/{record.subject}")
    return answer


def read_progress(app: App, job_id: JobParam, *, work: Work) -> ProgressAnswer:
    """A job as job_progress answers it."""
    return show_job_progress(find_job(app, work.caller, job_id), work.caller)


def stop_job(app: App, job_id: JobParam, *, work: Work) -> Answer:
    """Ask a job to stop."""
    record = find_job(app, work.caller, job_id)
    if not app.workspace.jobs.stop(record.id):
        raise InvalidRequest("the job has ended", user_message="This job is not running.")
    return {"jobId": record.id, "status": "stopping"}


JOB_ROUTES: tuple[Route, ...] = (
    Route("jobs", list_jobs, "Long work, the newest first"),
    Route("jobs/{jobId}", read_job, "A job, with its whole report"),
    Route("jobs/{jobId}", stop_job, "Ask a job to stop", method="DELETE", status=202),
    Route("jobs/{jobId}/progress", read_progress, "How far a job is"),
)
