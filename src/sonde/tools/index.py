"""Verbs on the index itself: create, rebuild, look at, delete."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from sonde.app import App
from sonde.errors import (
    DocsIndexNotFound,
    FileLimitWarning,
    FileMissing,
    FileNotAdmitted,
    IndexBusy,
    SondeError,
)
from sonde.indexing.diff import compare_tree
from sonde.policy.admit import REASONS
from sonde.policy.git import remove_hook
from sonde.policy.roots import resolve_inside
from sonde.projects.check import check_soon, describe_checks
from sonde.projects.find import (
    find_project,
    indexed_project,
    known_roots,
    require_consent,
    require_index,
)
from sonde.projects.follow import describe_following, follow_project
from sonde.projects.project import Project
from sonde.projects.update import (
    index_job,
    model_mismatch_note,
    repairing_corruption,
    schedule_deep_embedding,
    start_deep_embedding,
    update_project,
)
from sonde.runtime.jobs import Job
from sonde.runtime.work import Work
from sonde.stores.database import translate_errors
from sonde.stores.records import Metadata, load_metadata, measure_folder, project_folder
from sonde.text.languages import language_of
from sonde.tools.route import Route
from sonde.tools.schema import Param
from sonde.tools.shapes.rfc import (
    DeleteAnswer,
    FileAnswer,
    IndexAnswer,
    ProjectsAnswer,
    StatusAnswer,
    format_size,
    show_duration,
)
from sonde.tools.shapes.shell import show_job
from sonde.types import FileState, IndexReport, Skipped

ProjectParam = Annotated[str | None, Param("Folder of the project; default: here", max_length=4096)]
ConfirmParam = Annotated[str | None, Param("Token of the answer that asked", max_length=100)]


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
    agree_to_index(app, found, work, confirm)
    report = _run(app, found, work)
    _embed_now(app, found, work, wait=deep)
    return _answer(found, report)


def reindex_project(
    app: App, project: ProjectParam = None, confirm: ConfirmParam = None, *, work: Work
) -> IndexAnswer:
    """Rebuild the whole index from the files."""
    found = indexed_project(app.workspace, project)
    agree_to_rebuild(app, found, work, confirm)
    report = _run(app, found, work, force=True)
    _embed_now(app, found, work, wait=False)
    return {**_answer(found, report), "message": "Index rebuilt successfully"}


def agree_to_index(app: App, project: Project, work: Work, confirm: str | None) -> None:
    """Whether a project that was not indexed before may be."""
    if not project.is_indexed() and not app.workspace.assume_yes:
        question = _limit_or(project, f"Index {project.root} for searching?", work)
        require_consent(app.workspace, work, "create_index", project, question, confirm)


def agree_to_rebuild(app: App, project: Project, work: Work, confirm: str | None) -> None:
    """Whether everything may be read anew."""
    question = "This will rebuild the entire index. Continue?"
    require_consent(app.workspace, work, "reindex_project", project, question, confirm)


def go_on(app: App, project: Project) -> None:
    """What follows once a server has indexed: changes are watched, vectors filled in."""
    follow_project(app.workspace, project)
    schedule_deep_embedding(app.workspace, project)


def _embed_now(app: App, project: Project, work: Work, *, wait: bool) -> None:
    """Embed with a provider that was named, also where another did before; whoever indexes asks
    for that. A server goes on in the background, unless the caller would rather wait."""
    named = app.workspace.static is None and app.workspace.deep is not None
    if wait or (named and not app.workspace.stays):
        job = start_deep_embedding(app.workspace, project, gently=False)
        if job:
            job.join(work)
    elif named:
        start_deep_embedding(app.workspace, project)


def _limit_or(project: Project, question: str, work: Work) -> str | FileLimitWarning:
    """The question, or the RFC's warning when the project is over the soft limit."""
    nothing: dict[Any, dict[str, Any]] = {"code": {}, "docs": {}}
    count = len(compare_tree(project.tree, nothing, {}, work).changed)
    if count <= project.settings.max_files:
        return question
    return FileLimitWarning(
        f"{count} files exceeds soft limit of {project.settings.max_files:,}", count=f"{count:,}"
    )


def _run(app: App, project: Project, work: Work, *, force: bool = False) -> IndexReport:
    """Index as a job; a caller that is cancelled takes the job with it."""
    app.workspace.jobs.cancel(f"refine:{project.key}")
    running = app.workspace.jobs.find(f"index:{project.key}")
    if force and running:
        running.wait(work)  # to join it would be to rebuild nothing
    report: IndexReport = index_job(app.workspace, project, force=force).join(work)
    go_on(app, project)
    return report


def _answer(project: Project, report: IndexReport) -> IndexAnswer:
    counts = [store.counts() for store in project.stores().values()]
    answer: IndexAnswer = {
        "status": "success",
        "projectPath": str(project.root),
        "filesIndexed": sum(count.files for count in counts),
        "chunksCreated": sum(count.chunks for count in counts),
        "duration": show_duration(report.seconds),
    }
    if report.skipped:
        answer["skipped"] = report.skipped
    return answer


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
    resolved = resolve_inside(found.root, path)
    relative = resolved.relative_to(found.root).as_posix()
    verdict = found.tree.check(relative)
    if isinstance(verdict, Skipped):
        if verdict.reason == "missing":
            update_project(app.workspace, found, work, paths={relative})
            raise FileMissing(f"{relative} not in index", path=relative)
        raise _not_admitted(relative, verdict.reason, verdict.detail)
    report = update_project(app.workspace, found, work, paths={relative}, force=True)
    for reason in report.skipped:
        raise _not_admitted(relative, reason)
    if found.tree.kind_of(relative) is None:
        raise DocsIndexNotFound(f"No docs index at {found.folder}/")
    chunks = sum(len(store.chunks_of(relative)) for store in found.stores().values())
    return {
        "status": "success",
        "path": relative,
        "chunksCreated": chunks,
        "message": "File re-indexed successfully",
    }


def _not_admitted(path: str, reason: str, detail: str = "") -> FileNotAdmitted:
    told = REASONS.get(reason, reason)
    return FileNotAdmitted(f"{path}: {reason} {detail}".strip(), path=path, reason=told)


def delete_index(
    app: App, project: ProjectParam = None, confirm: ConfirmParam = None, *, work: Work
) -> DeleteAnswer:
    """Delete a project's index; the project's files are not touched."""
    found = require_index(find_project(app.workspace, project))
    question = "Delete the index for this project? This cannot be undone."
    require_consent(app.workspace, work, "delete_index", found, question, confirm)
    found.stop_following()
    if found.settings.strategy == "git":
        with suppress(SondeError):
            remove_hook(found.root)
    for kind in ("check", "refine", "views", "index", "flush"):
        app.workspace.jobs.cancel(f"{kind}:{found.key}")
    with found.lock.held(work):
        app.workspace.projects.forget(found.root)
        # metadata first: from here on the index does not exist, whatever happens
        with translate_errors(found.folder):
            (found.folder / "metadata.json").unlink(missing_ok=True)
        # the lock last: while its file is there, no other process can begin a new index here
        for path in found.folder.iterdir():
            if path.name != "writer.lock":
                _remove(path)
        shutil.rmtree(found.folder, ignore_errors=True)
    return {
        "status": "success",
        "projectPath": str(found.root),
        "message": "Index deleted successfully",
    }


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def get_index_status(app: App, project: ProjectParam = None, *, work: Work) -> StatusAnswer:
    """How large, how fresh and how complete the index is, and what was left out."""
    del work
    found = indexed_project(app.workspace, project)
    follow_project(app.workspace, found)
    with repairing_corruption(app.workspace, found):
        return _describe(app, found)


def _describe(app: App, found: Project) -> StatusAnswer:
    stores = found.stores()
    metadata = load_metadata(found.folder)
    code, docs = stores["code"].counts(), stores["docs"].counts()
    job = app.workspace.jobs.find(f"index:{found.key}")
    indexing = job is not None and job.status == "running"
    details: dict[str, Any] = {
        "store": found.settings.store_name,
        "docs": {"totalDocs": docs.files, "totalDocChunks": docs.chunks},
        "vectors": _coverage(app, found),
    }
    if told := model_mismatch_note(app.workspace, found):
        details["otherModel"] = told
    if plain := _count_plain(stores["code"].files().values()):
        details["withoutGrammar"] = plain
    if checks := describe_checks(found.folder):
        details["integrity"] = checks
    if job and indexing:
        details["progress"] = {"stage": job.progress.stage, "done": job.progress.done}
        if job.progress.total:
            details["progress"]["total"] = job.progress.total
    if job and isinstance(job.error, SondeError):
        details["lastError"] = job.error.as_dict()
    if metadata and metadata.skipped:
        details["skipped"] = metadata.skipped
        details["skippedExamples"] = metadata.skipped_examples
    if found.settings.warnings:
        details["warnings"] = list(found.settings.warnings)
    watched, details["following"] = describe_following(found)
    details["following"].setdefault("strategy", found.settings.strategy)
    incomplete = metadata is None or metadata.last_full_index is None
    return {
        "status": "indexing" if indexing else "incomplete" if incomplete else "ready",
        "projectPath": str(found.root),
        "totalFiles": code.files + docs.files,
        "totalChunks": code.chunks + docs.chunks,
        "lastUpdated": metadata.last_updated if metadata else None,
        "storageSize": format_size(measure_folder(found.folder)),
        "watcherActive": watched,
        "details": details,
    }


def _count_plain(states: Iterable[FileState]) -> dict[str, int]:
    """Languages whose sources are cut by their text alone, and how many files there are."""
    counts: Counter[str] = Counter()
    for state in states:
        language = language_of(state.path)
        if language.kind == "code" and not language.grammar:
            counts[language.name] += 1
    return dict(counts.most_common(10))


def _coverage(app: App, project: Project) -> dict[str, str]:
    shares = {}
    for embedder in (app.workspace.static, app.workspace.deep):
        if embedder:
            pairs = [store.coverage(embedder.name) for store in project.stores().values()]
            have, total = (sum(column) for column in zip(*pairs, strict=True))
            shares[embedder.name] = f"{have}/{total}"
    return shares


def list_projects(app: App, *, work: Work) -> ProjectsAnswer:
    """Every project on this machine that has an index."""
    del work
    rows: list[dict[str, Any]] = []
    for root in known_roots(app.workspace):
        metadata, status = Metadata(str(root), ""), "incomplete"
        try:
            metadata = load_metadata(project_folder(app.workspace.home, root)) or metadata
            status = "ready" if metadata.last_full_index else status
        except SondeError as error:
            status = error.code.lower()
        rows.append(
            {
                "projectPath": str(root),
                "status": status,
                "totalFiles": metadata.total_files,
                "totalChunks": metadata.total_chunks,
                "lastUpdated": metadata.last_updated,
                "storageSize": format_size(
                    measure_folder(project_folder(app.workspace.home, root))
                ),
            }
        )
    return {"projects": rows, "totalProjects": len(rows)}


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
        found = find_project(app.workspace, project, work)
        agree_to_index(app, found, work, confirm)
        job = _index(app, found)
    else:
        found = indexed_project(app.workspace, project)
        if action == "check":
            job = check_soon(app.workspace, found, asked=True)
        else:
            agree_to_rebuild(app, found, work, confirm)
            job = _index(app, found, force=True)
    return show_job(job.record(), work.caller)


def _index(app: App, project: Project, *, force: bool = False) -> Job:
    key = f"index:{project.key}"
    running = app.workspace.jobs.find(key)
    if force and running and running.status == "running":
        raise IndexBusy("to join a job that is running would rebuild nothing")
    app.workspace.jobs.cancel(f"refine:{project.key}")

    def run(inner: Work) -> IndexReport:
        report = update_project(app.workspace, project, inner, force=force)
        go_on(app, project)
        if app.workspace.static is None:
            start_deep_embedding(
                app.workspace, project
            )  # a provider was named: it embeds what is new or other
        return report

    return app.workspace.jobs.submit(key, "index", run, lasting=True)


PROJECT_ROUTES: tuple[Route, ...] = (
    Route(
        "projects",
        start_project_job,
        "Index a project, build its index anew, or check it",
        method="POST",
        status=202,
    ),
)
