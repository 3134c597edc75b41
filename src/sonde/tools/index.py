"""Verbs on a project's index: create, rebuild, describe, delete."""

from __future__ import annotations

from typing import Annotated, Literal

from sonde.app import App
from sonde.projects.find import find_project, indexed_project, require_consent, require_index
from sonde.projects.index import (
    build_index,
    confirm_creation,
    confirm_rebuild,
    describe_index,
    embed_index,
    list_summaries,
    refresh_file,
    remove_index,
    start_indexing,
)
from sonde.projects.maintenance import check_soon
from sonde.runtime.work import Work
from sonde.tools.route import Route
from sonde.tools.schema import ConfirmParam, Param, ProjectParam
from sonde.tools.shapes.rfc import (
    DeleteAnswer,
    FileAnswer,
    IndexAnswer,
    ProjectsAnswer,
    StatusAnswer,
    show_index_status,
    show_report,
    show_summary,
)
from sonde.tools.shapes.shell import show_job
from sonde.tools.tool import Tool
from sonde.types import Json

Action = Literal["index", "rebuild", "check"]


def create_index(
    app: App,
    project: ProjectParam = None,
    deep: Annotated[bool, Param("Wait for the deeper vectors too")] = False,
    confirm: ConfirmParam = None,
    *,
    work: Work,
) -> IndexAnswer:
    """Index a project's code and docs so that they can be searched."""
    found = find_project(app.workspace, project, work)
    confirm_creation(app.workspace, found, work, confirm)
    report = build_index(app.workspace, found, work)
    embed_index(app.workspace, found, work, wait=deep)
    return show_report(found.root, [store.counts() for store in found.stores().values()], report)


def reindex_project(
    app: App, project: ProjectParam = None, confirm: ConfirmParam = None, *, work: Work
) -> IndexAnswer:
    """Rebuild the whole index from the files."""
    found = indexed_project(app.workspace, project)
    confirm_rebuild(app.workspace, found, work, confirm)
    report = build_index(app.workspace, found, work, force=True)
    embed_index(app.workspace, found, work, wait=False)
    counts = [store.counts() for store in found.stores().values()]
    return {**show_report(found.root, counts, report), "message": "Index rebuilt successfully"}


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
) -> FileAnswer:
    """Index one file again."""
    found = indexed_project(app.workspace, project)
    relative, chunks = refresh_file(app.workspace, found, path, work)
    return {
        "status": "success",
        "path": relative,
        "chunksCreated": chunks,
        "message": "File re-indexed successfully",
    }


def delete_index(
    app: App, project: ProjectParam = None, confirm: ConfirmParam = None, *, work: Work
) -> DeleteAnswer:
    """Delete a project's index; the project's files are not touched."""
    found = require_index(find_project(app.workspace, project))
    question = "Delete the index for this project? This cannot be undone."
    require_consent(app.workspace, work, "delete_index", found, question, confirm)
    remove_index(app.workspace, found, work)
    return {
        "status": "success",
        "projectPath": str(found.root),
        "message": "Index deleted successfully",
    }


def get_index_status(app: App, project: ProjectParam = None, *, work: Work) -> StatusAnswer:
    """How large, fresh and complete the index is, and what was left out."""
    del work
    return show_index_status(describe_index(app.workspace, indexed_project(app.workspace, project)))


def list_projects(app: App, *, work: Work) -> ProjectsAnswer:
    """Every project on this machine that has an index."""
    del work
    rows = [show_summary(summary) for summary in list_summaries(app.workspace)]
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
        found = find_project(app.workspace, project, work)
        confirm_creation(app.workspace, found, work, confirm)
        job = start_indexing(app.workspace, found)
    else:
        found = indexed_project(app.workspace, project)
        if action == "check":
            job = check_soon(app.workspace, found, asked=True)
        else:
            confirm_rebuild(app.workspace, found, work, confirm)
            job = start_indexing(app.workspace, found, force=True)
    return show_job(job.record(), work.caller)


TOOLS: tuple[Tool, ...] = (
    Tool(
        name="create_index",
        call=create_index,
        toolset="index",
        title="Create index",
        description=(
            "Index the contents of the current project so that it can be searched. "
            "Asks for confirmation; an existing index is brought up to date."
        ),
        read_only=False,
    ),
    Tool(
        name="get_index_status",
        call=get_index_status,
        toolset="index",
        title="Index status",
        description=(
            "Show how large, fresh and complete the project's index is and what was left out. "
            "Use list_projects to see every project."
        ),
    ),
    Tool(
        name="reindex_project",
        call=reindex_project,
        toolset="index",
        title="Reindex project",
        description=(
            "Rebuild the entire index from scratch; asks for confirmation. "
            "Rarely needed: changed files are picked up by themselves."
        ),
        read_only=False,
        destructive=True,
    ),
    Tool(
        name="reindex_file",
        call=reindex_file,
        toolset="index",
        title="Reindex file",
        description=(
            "Index a single file again right now. Rarely needed: searches notice changed files."
        ),
        read_only=False,
    ),
    Tool(
        name="delete_index",
        call=delete_index,
        toolset="index",
        title="Delete index",
        description=(
            "Delete the index of the current project; asks for confirmation. "
            "The project's own files are not touched."
        ),
        read_only=False,
        destructive=True,
    ),
    Tool(
        name="list_projects",
        call=list_projects,
        toolset="index",
        title="List projects",
        description=(
            "List every indexed project on this machine with its size and age. "
            "Pass a project's path as `project` to search it."
        ),
    ),
)

ROUTES: tuple[Route, ...] = (
    Route("projects", list_projects, "Every indexed project on this machine"),
    Route(
        "projects",
        start_project_job,
        "Index, rebuild or check a project",
        method="POST",
        status=202,
    ),
)
