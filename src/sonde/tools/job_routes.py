"""Verbs on jobs: list, read, stop."""

from __future__ import annotations

from typing import Annotated

from sonde.app import App
from sonde.errors import InvalidRequest
from sonde.paging.cursor import decode_key, encode_key
from sonde.policy.roots import show_path
from sonde.runtime.work import Work
from sonde.tools.route import Route
from sonde.tools.schema import CursorParam, LimitParam, Param
from sonde.tools.shapes.shell import (
    ProgressAnswer,
    cut_mapping,
    percent,
    show_epoch,
    show_job,
    show_progress,
)
from sonde.types import Caller, JobRecord, Json

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


def show_job_progress(record: JobRecord, caller: Caller) -> ProgressAnswer:
    """A job as job_progress answers it."""
    answer: ProgressAnswer = {
        "status": record.status,
        "statusUrl": caller.link(f"jobs/{record.id}"),
    }
    if record.total is not None or record.status == "done":
        answer["progressPct"] = percent(record)
    if record.eta_s is not None and record.status == "running":
        answer["eta"] = round(record.eta_s)
    if record.kind == "scan":
        answer["indexId"] = record.subject
    report = cut_mapping(record.error or record.report)
    if not report and record.status != "done":
        report = show_progress(record)
    if report:
        answer["report"] = report
    return answer


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
    return show_job_progress(app.workspace.jobs.find_visible(job_id, work.caller.user), work.caller)


def stop_job(app: App, job_id: JobParam, *, work: Work) -> Json:
    """Ask a job to stop."""
    record = app.workspace.jobs.find_visible(job_id, work.caller.user)
    if not app.workspace.jobs.stop(record.id):
        raise InvalidRequest("the job has ended", user_message="This job is not running.")
    return {"jobId": record.id, "status": "stopping"}


ROUTES: tuple[Route, ...] = (
    Route("jobs", list_jobs, "Long work, the newest first"),
    Route("jobs/{jobId}", read_job, "A job, with its whole report"),
    Route("jobs/{jobId}", stop_job, "Ask a job to stop", method="DELETE", status=202),
    Route("jobs/{jobId}/progress", read_progress, "How far a job is"),
)
