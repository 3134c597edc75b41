"""Maintenance of a project's index: checks, idle work, strategy, and store."""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Literal, NotRequired, TypedDict

from sonde.errors import IndexCorrupt, InvalidRequest, SondeError
from sonde.indexing.diff import compare_index
from sonde.indexing.integrity import check_index
from sonde.indexing.pipeline import update_index
from sonde.policy.changes import has_hook, install_hook, remove_hook
from sonde.projects.deep_vectors import schedule_deep_embedding
from sonde.projects.find import indexed_project
from sonde.projects.freshness import KnownFiles
from sonde.projects.project import Project, Workspace
from sonde.projects.update import compact_project, index_job, repairing_corruption, update_project
from sonde.runtime.jobs import Job
from sonde.runtime.processes import trim_heap
from sonde.runtime.work import Work
from sonde.stores import records
from sonde.stores.chunks.base import ChunkStore, place_digest
from sonde.stores.files import write_text
from sonde.stores.records import Findings
from sonde.types import IndexReport, Progress

_THOROUGH_EVERY = timedelta(hours=24)  # how often every single word is looked at
_DEEP_VECTORS_S, _IDLE_S = 600.0, 120.0  # after a search: make deep vectors until, free memory from
_COPIED_FILES = 200  # files whose vectors are copied to another store in one write
_QUESTION = (
    "Install a post-commit hook in this repository? Commits are then indexed even while no"
    " server runs."
)

log = logging.getLogger(__name__)


def check_soon(workspace: Workspace, project: Project, *, asked: bool = False) -> Job:
    """Check the project in the background, yielding to everything else unless a user asked.

    A child process does it: what reading every word leaves in the heap would be a third of the
    memory of a server that only watches.
    """
    if asked:
        workspace.jobs.cancel(f"check:{project.key}")  # one that yields may take very long
    return workspace.jobs.submit(
        f"check:{project.key}",
        "check",
        lambda work: _check_in_child(workspace, project, work),
        gently=not asked,
        lasting=asked,
    )


def _check_in_child(workspace: Workspace, project: Project, work: Work) -> Findings:
    child = None
    try:
        child = workspace.start_checker(project.root)
        while isinstance(answer := child.ask(None, work.check), Progress):
            work.report(answer)
    except (OSError, EOFError, RuntimeError) as error:
        raise SondeError(f"the check of {project.root} failed: {error}") from error
    finally:
        if child is not None:
            child.end()
    assert isinstance(answer, Findings)
    return answer


def check_now(
    workspace: Workspace, project: Project, work: Work, *, thorough: bool | None = None
) -> Findings:
    """Check the project as a job, and wait for it."""
    findings: Findings = workspace.jobs.submit(
        f"check:{project.key}",
        "check",
        lambda inner: check_project(workspace, project, inner, thorough=thorough),
        lasting=True,
    ).join(work)
    return findings


def check_project(
    workspace: Workspace, project: Project, work: Work, *, thorough: bool | None = None
) -> Findings:
    """Compare an index with its files and with itself, repair it, and record what was found.

    A `thorough` check looks at every single word; by default it is one a day. An index that cannot
    be repaired piece by piece is set aside and rebuilt.
    """
    if thorough is None:
        thorough = records.is_check_due(project.folder, _THOROUGH_EVERY, thorough=True)
    refused = records.load_refused(project.folder)
    before = dict(refused)
    try:
        with repairing_corruption(workspace, project):
            findings = check_index(
                project.tree,
                project.stores(),
                workspace.static,
                project.lock,
                work,
                refused=refused,
                thorough=thorough,
                changes_wait=project.settings.strategy != "realtime",
            )
    except IndexCorrupt as error:
        log.warning("rebuilding the index of %s: %s", project.root, error)
        records.record_check(project.folder, Findings(thorough=thorough), rebuilt=True)
        update_project(workspace, project, work, existing=True)
        return Findings()
    if refused != before:
        records.save_refused(project.folder, refused)
    if findings.drift:
        log.warning("the index of %s had drifted: %s", project.root, findings)
        schedule_deep_embedding(workspace, project)
    _restore_records(workspace, project, work)
    records.record_check(project.folder, findings)
    return findings


def _restore_records(workspace: Workspace, project: Project, work: Work) -> None:
    """Write the records of the index again if they are torn, edited or missing after a crash."""
    metadata = records.load_metadata(project.folder)
    whole = metadata is not None and metadata.last_full_index is not None
    project.defer_records(0.0)
    update_project(workspace, project, work, paths=set() if whole else None, existing=True)
    for kind, store in project.stores().items():
        hashes = {path: state.hash for path, state in store.files().items()}
        if records.load_fingerprints(project.folder, kind) != hashes:
            with project.lock.held(work):
                records.save_fingerprints(project.folder, kind, store.files())


class IdleWork:
    """Frees what a project no longer needs, and makes deep vectors while it is searched."""

    def __init__(self, workspace: Workspace, project: Project) -> None:
        self._workspace, self._project = workspace, project
        self._done_in: list[object] = []
        """The last two states it ran in: the second run frees what the first released."""

    def start(self, *, leads: bool, updates: object) -> None:
        """Start a job for what is due, unless nothing has happened since the last one."""
        project = self._project
        job = self._workspace.jobs.find(f"refine:{project.key}")
        state = (project.last_search, updates, (job.id, job.status) if job else None)
        if self._done_in != [state, state]:
            self._workspace.jobs.submit(
                f"rest:{project.key}", "rest", lambda work: self._run(work, state, leads=leads)
            )

    def _run(self, work: Work, state: object, *, leads: bool) -> None:
        project = self._project
        if leads:
            compact_project(project, work)
        since = project.now() - project.last_search
        if project.seconds_idle() >= _IDLE_S:
            for store in project.list_open():
                store.rest()
            project.part(KnownFiles).close()
            for model in filter(None, (*self._workspace.static.values(), self._workspace.prose)):
                model.close()
            gc.collect()
            self._done_in = [*self._done_in[-1:], state]
        elif leads and since < _DEEP_VECTORS_S:
            schedule_deep_embedding(self._workspace, project)
        trim_heap()


class StrategyAnswer(TypedDict):
    """The strategy of a project, and what was done about its hook."""

    status: str
    projectPath: str
    strategy: str
    hook: bool
    message: NotRequired[str]


def choose_strategy(
    workspace: Workspace,
    strategy: Literal["realtime", "lazy", "git"] | None = None,
    hook: bool | None = None,
    project: str | None = None,
    *,
    flush_command: Sequence[str],
    work: Work,
) -> StrategyAnswer:
    """Choose when changes are indexed, or with None report it; running servers switch at once.

    `hook` installs or removes the post-commit hook; None asks. The hook runs `flush_command` with
    the project as its last argument.
    """
    found = indexed_project(workspace, project)
    if strategy and strategy != found.settings.strategy:
        _write_setting(found, "indexingStrategy", strategy)
        workspace.projects.reload(found.root)
        if found.settings.strategy != strategy:
            raise InvalidRequest(
                f"another source sets indexingStrategy to {found.settings.strategy}",
                user_message="Another setting overrides the strategy of this project.",
                next_action="See `sonde config` for where it is set.",
            )
    message = _set_hook(workspace, found, strategy, hook, flush_command, work)
    answer: StrategyAnswer = {
        "status": "success",
        "projectPath": found.key,
        "strategy": found.settings.strategy,
        "hook": _has_hook(found),
    }
    return {**answer, "message": message} if message else answer


def flush_index(
    workspace: Workspace, project: str | None = None, *, work: Work
) -> dict[str, object]:
    """Index all pending changes, whatever the strategy."""
    found = indexed_project(workspace, project)
    if running := workspace.jobs.find(f"index:{found.key}"):
        running.wait(work)  # it may have begun before the last change
    report: IndexReport = index_job(workspace, found, existing=True).join(work)
    with found.lock.held(work):
        records.save_dirty(found.folder, (), records.load_heads(found.folder))
    return {
        "status": "success",
        "projectPath": found.key,
        "filesIndexed": report.files_indexed,
        "filesRemoved": report.files_removed,
    }


def _set_hook(
    workspace: Workspace,
    project: Project,
    strategy: str | None,
    hook: bool | None,
    flush_command: Sequence[str],
    work: Work,
) -> str:
    if hook is None and strategy == "git" and not _has_hook(project):
        hook = workspace.assume_yes or bool(work.ask(_QUESTION))
    if hook:
        storage = f"SONDE_HOME={workspace.home}"
        path = install_hook(project.root, ["env", storage, *flush_command, str(project.root)])
        return f"A post-commit hook is installed: {path}"
    leaves = strategy is not None and strategy != "git"
    if (hook is False or leaves) and _has_hook(project):
        remove_hook(project.root)
        return "The post-commit hook is removed"
    return ""


def _has_hook(project: Project) -> bool:
    with suppress(SondeError):
        return has_hook(project.root)
    return False


def _write_setting(project: Project, name: str, value: str) -> None:
    config = project.folder / "config.json"
    try:
        entries = json.loads(config.read_text("utf-8"))
    except (OSError, ValueError):
        entries = json.loads(project.settings.config_text)
    write_text(config, json.dumps({**entries, name: value}, indent=2, ensure_ascii=False) + "\n")


def convert_store(
    workspace: Workspace,
    store: Literal["sqlite", "lance"],
    project: str | None = None,
    *,
    work: Work,
) -> dict[str, str]:
    """Move a project's index to the other store; no text is embedded again."""
    found = indexed_project(workspace, project)
    answer = {"status": "success", "projectPath": found.key}
    if found.settings.store_name == store:
        return {**answer, "message": f"The index is kept in {store} already"}
    for kind in ("check", "refine", "index"):
        workspace.jobs.cancel(f"{kind}:{found.key}")
    workspace.jobs.submit(
        f"convert:{found.key}",
        "convert",
        lambda inner: _convert(workspace, found, store, inner),
        lasting=True,
    ).join(work)
    chosen = workspace.projects.get(found.root)
    if chosen.settings.store_name != store:
        raise InvalidRequest(
            f"the environment sets the store to {chosen.settings.store_name}",
            user_message="SONDE_STORE overrides the store of this project.",
            next_action="Unset SONDE_STORE.",
        )
    return {**answer, "message": f"The index is kept in {store} now"}


def _convert(workspace: Workspace, found: Project, store: str, work: Work) -> None:
    with found.lock.held(work):
        with found.open_stores(store) as target:
            models = [each.name for each in (*workspace.static.values(), workspace.deep) if each]
            for kind_, source in found.stores().items():
                _copy_vectors(source, target[kind_], models, work)
            diff = compare_index(found.tree, target, work)
            update_index(found.tree, target, workspace.static, work, diff)
        _write_setting(found, "store", store)
        if metadata := records.load_metadata(found.folder):
            records.save_metadata(found.folder, replace(metadata, store=store))
        found.remove_stores(found.settings.store_name)
        workspace.projects.forget(found.root)


def _copy_vectors(
    source: ChunkStore, target: ChunkStore, models: Sequence[str], work: Work
) -> None:
    paths = list(source.files())
    for start in range(0, len(paths), _COPIED_FILES):
        work.report(Progress("copying", start, len(paths)))
        digests = {
            chunk.id: chunk.digest
            for path in paths[start : start + _COPIED_FILES]
            for chunk in source.chunks_of(path)
        }
        for model in models:
            if vectors := source.vectors(model, list(digests)):
                import numpy as np  # slow to import

                parts = source.definition_vectors(model, list(digests))
                named = [place_digest(digests[key], place) for key, place in parts]
                named += [digests[key] for key in vectors]
                rows = np.stack([*parts.values(), *vectors.values()])
                target.put_vectors(model, named, rows)
