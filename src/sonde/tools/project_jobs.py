"""Verbs that begin long work on a project and answer with its job at once."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from sonde.app import App, Project
from sonde.errors import IndexBusy
from sonde.jobs import Job
from sonde.tools.arguments import Param
from sonde.tools.checking import check_soon
from sonde.tools.index import ConfirmParam, agree_to_index, agree_to_rebuild, go_on
from sonde.tools.route import Route
from sonde.tools.scope import find_project, indexed_project
from sonde.tools.shapes.shell import show_job
from sonde.tools.updating import refine_later, update_project
from sonde.types import IndexReport
from sonde.work import Work

Action = Literal["index", "rebuild", "check"]


def start_project_job(
    app: App,
    project: Annotated[str, Param("Folder of the project", min_length=1, max_length=4096)],
    action: Annotated[Action, Param("Index what changed, everything anew, or check")] = "index",
    confirm: ConfirmParam = None,
    *,
    work: Work,
) -> dict[str, Any]:
    """Index a project, build its index anew, or check it, in the background."""
    if action == "index":
        found = find_project(app, project, work)
        agree_to_index(app, found, work, confirm)
        job = _index(app, found)
    else:
        found = indexed_project(app, project)
        if action == "check":
            job = check_soon(app, found, asked=True)
        else:
            agree_to_rebuild(app, found, work, confirm)
            job = _index(app, found, force=True)
    return show_job(job.record(), work.caller)


def _index(app: App, project: Project, *, force: bool = False) -> Job:
    key = f"index:{project.key}"
    running = app.jobs.find(key)
    if force and running and running.status == "running":
        raise IndexBusy("to join a job that is running would rebuild nothing")
    app.jobs.cancel(f"refine:{project.key}")

    def run(inner: Work) -> IndexReport:
        report = update_project(app, project, inner, force=force)
        go_on(app, project)
        if app.static is None:
            refine_later(app, project)  # a provider was named: it embeds what is new or other
        return report

    return app.jobs.submit(key, "index", run, lasting=True)


PROJECT_ROUTES: tuple[Route, ...] = (
    Route(
        "projects",
        start_project_job,
        "Index a project, build its index anew, or check it",
        method="POST",
        status=202,
    ),
)
