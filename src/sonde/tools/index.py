"""Verbs on a project's index (create, rebuild, describe, delete), and on jobs of every kind."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Literal

from sonde.app import App
from sonde.errors import InvalidRequest
from sonde.paging.cursor import decode_key, encode_key
from sonde.projects import find, index
from sonde.projects.maintenance import check_soon
from sonde.runtime.jobs import JobRecord
from sonde.runtime.work import Work
from sonde.tools.route import Route
from sonde.tools.schema import ConfirmParam, CursorParam, LimitParam, Param, ProjectParam
from sonde.tools.shapes import rfc, shell
from sonde.tools.tool import Tool, declare_tool
from sonde.types import Caller, Json

Action = Literal["index", "rebuild", "check"]
JobParam = Annotated[str, Param("jobId", min_length=1, max_length=64)]
MAX_JOBS = 1_000
"""More than are ever stored."""


def create_index(
    app: App,
    project: ProjectParam = None,
    deep: Annotated[bool, Param("Wait for deep vectors too")] = False,
    confirm: ConfirmParam = None,
    *,
    work: Work,
) -> rfc.IndexAnswer:
    """Index a project's code and docs so that they can be searched."""
    found = find.find_project(app.workspace, project, work)
    index.confirm_creation(app.workspace, found, work, confirm)
    report = index.build_index(app.workspace, found, work)
    index.embed_index(app.workspace, found, work, wait=deep)
    return rfc.show_report(found, report)


def reindex_project(
    app: App, project: ProjectParam = None, confirm: ConfirmParam = None, *, work: Work
) -> rfc.IndexAnswer:
    """Rebuild the whole index from the files."""
    found = find.indexed_project(app.workspace, project)
    index.confirm_rebuild(app.workspace, found, work, confirm)
    report = index.build_index(app.workspace, found, work, force=True)
    index.embed_index(app.workspace, found, work, wait=False)
    return {**rfc.show_report(found, report), "message": "Index rebuilt successfully"}


def reindex_file(
    app: App,
    path: Annotated[
        str,
        Param(
            "Relative path to the file (e.g. 'src/auth/login.ts')", min_length=1, max_length=4096
        ),
    ],
    project: ProjectParam = None,
    *,
    work: Work,
) -> rfc.FileAnswer:
    """Index one file again."""
    found = find.indexed_project(app.workspace, project)
    relative, chunks = index.refresh_file(app.workspace, found, path, work)
    return {
        "status": "success",
        "path": relative,
        "chunksCreated": chunks,
        "message": "File re-indexed successfully",
    }


def delete_index(
    app: App, project: ProjectParam = None, confirm: ConfirmParam = None, *, work: Work
) -> rfc.DeleteAnswer:
    """Delete a project's index; the project's files are not touched."""
    found = find.require_index(find.find_project(app.workspace, project))
    question = "Delete the index for this project? This cannot be undone."
    find.require_consent(app.workspace, work, "delete_index", found, question, confirm)
    index.remove_index(app.workspace, found, work)
    return {"status": "success", "projectPath": found.key, "message": "Index deleted successfully"}


def get_index_status(app: App, project: ProjectParam = None, *, work: Work) -> rfc.StatusAnswer:
    """How large, fresh and complete the index is, and what was left out."""
    found = find.indexed_project(app.workspace, project)
    return index.describe_index(app.workspace, found)  # type: ignore[return-value]


def list_projects(app: App, *, work: Work) -> rfc.ProjectsAnswer:
    """Every project on this machine that has an index."""
    rows = list(index.list_summaries(app.workspace))
    return {"projects": rows, "totalProjects": len(rows)}


def start_project_job(
    app: App,
    project: Annotated[str, Param("Folder of the project", min_length=1, max_length=4096)],
    action: Annotated[Action, Param("Index what changed, rebuild everything, or check")] = "index",
    confirm: ConfirmParam = None,
    *,
    work: Work,
) -> Json:
    """Index, rebuild or check a project in the background."""
    if action == "index":
        found = find.find_project(app.workspace, project, work)
        index.confirm_creation(app.workspace, found, work, confirm)
        job = index.start_indexing(app.workspace, found)
    else:
        found = find.indexed_project(app.workspace, project)
        if action == "check":
            job = check_soon(app.workspace, found, asked=True)
        else:
            index.confirm_rebuild(app.workspace, found, work, confirm)
            job = index.start_indexing(app.workspace, found, force=True)
    return shell.show_job(job.record(), work.caller)


def job_progress(
    app: App,
    job_id: Annotated[str, Param("jobId of an answer", min_length=1, max_length=64)],
    *,
    work: Work,
) -> shell.ProgressAnswer:
    """The progress of a job, or its outcome."""
    record, scanned = _find_job(app, job_id, work.caller)
    return shell.show_job_progress(record, work.caller, scanned=scanned)


def _find_job(app: App, job_id: str, caller: Caller) -> tuple[JobRecord, bool]:
    """A job, and whether it scanned a folder whose index is still there."""
    record = find.find_job(app.workspace, job_id)
    scan = record.kind == "scan" and app.disk.get_index(record.subject, caller.user)
    return replace(record, subject=find.name_root(app.workspace, record.subject)), bool(scan)


def list_jobs(app: App, limit: LimitParam = 50, cursor: CursorParam = None, *, work: Work) -> Json:
    """Jobs that the caller may see, of every process, newest first."""
    caller = work.caller
    after = decode_key(cursor, "jobs", app.workspace.key) if cursor else None
    known = app.workspace.jobs.recent(MAX_JOBS, (after[0], after[1]) if after else None)
    found = [job for job in known if find.sees_job(app.workspace, job)]
    following = None
    if len(found) > limit:
        last = found[limit - 1]
        key = encode_key([-last.started_ms, last.id], "jobs", app.workspace.key)
        following = caller.link(f"jobs?limit={limit}&cursor={key}")
    rows = [shell.show_job(job, caller) for job in found[:limit]]
    return {"jobs": rows, "nextPageUrl": following}


def read_job(app: App, job_id: JobParam, *, work: Work) -> Json:
    """A job, with its whole report."""
    record, scanned = _find_job(app, job_id, work.caller)
    return shell.show_job_detail(record, work.caller, scanned=scanned)


def read_progress(app: App, job_id: JobParam, *, work: Work) -> shell.ProgressAnswer:
    """The same, under the name that the REST API gives it."""
    return job_progress(app, job_id, work=work)


def stop_job(app: App, job_id: JobParam, *, work: Work) -> Json:
    """Ask a job to stop."""
    record = find.find_job(app.workspace, job_id, to_stop=True)
    if not app.workspace.jobs.stop(record.id):
        raise InvalidRequest(
            "the job has ended", user_message="This job is not running.",
            next_action="job_progress tells how it ended.",
        )  # fmt: skip
    return {"jobId": record.id, "status": "stopping"}


_declare = partial(declare_tool, "index")

TOOLS: tuple[Tool, ...] = (
    _declare(
        create_index,
        "Create index",
        "Index the contents of the current project so that it can be searched; asks first. "
        "An existing index is brought up to date.",
        read_only=False,
    ),
    _declare(
        get_index_status,
        "Get index status",
        "Show how large, fresh and complete the project's index is and what was left out. "
        "Prefer list_projects for all projects.",
    ),
    _declare(
        reindex_project,
        "Reindex project",
        "Rebuild the entire index from scratch; asks first. "
        "Rarely needed: changed files are picked up by themselves.",
        read_only=False,
        destructive=True,
    ),
    _declare(
        reindex_file,
        "Reindex file",
        "Index a single file again. Rarely needed: searches notice changed files.",
        read_only=False,
    ),
    _declare(
        delete_index,
        "Delete index",
        "Delete the index of the current project; asks first. "
        "The project's own files are not touched.",
        read_only=False,
        destructive=True,
    ),
    _declare(
        list_projects,
        "List projects",
        "List every indexed project on this machine with its size and age. "
        "Pass a project's path as `project` to search it.",
    ),
)
JOB_TOOLS = (
    declare_tool(
        "files", job_progress, "Job progress", "Show how far a job is, or what came of it."
    ),
)

ROUTES: tuple[Route, ...] = (
    Route("projects", list_projects, "Every indexed project on this machine"),
    Route("projects", start_project_job, "Index, rebuild or check a project", "POST", 202),
)
JOB_ROUTES: tuple[Route, ...] = (
    Route("jobs", list_jobs, "Long work, the newest first"),
    Route("jobs/{jobId}", read_job, "A job, with its whole report"),
    Route("jobs/{jobId}", stop_job, "Ask a job to stop", method="DELETE", status=202),
    Route("jobs/{jobId}/progress", read_progress, "How far a job is"),
)
