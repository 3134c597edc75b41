"""Keeping a project's index in step while a server runs: what a follower does through the verbs."""

from __future__ import annotations

import gc
import logging
import threading
import time
from typing import Any

from sonde.errors import Cancelled, SondeError
from sonde.indexing.diff import Diff, compare_paths, compare_tree, expand_folders
from sonde.indexing.following.follower import Follower, describe_leader
from sonde.indexing.following.state import Actions
from sonde.indexing.following.strategies import EVERYTHING
from sonde.projects.check import check_soon, was_checked_lately
from sonde.projects.find import find_project
from sonde.projects.project import Project
from sonde.projects.update import (
    compact_project,
    index_job,
    is_recorded,
    schedule_deep_embedding,
    update_project,
)
from sonde.projects.workspace import Workspace
from sonde.runtime.memory import trim_heap
from sonde.runtime.work import Work
from sonde.stores.records import load_dirty, load_metadata, load_refused
from sonde.types import Skipped

_SYNC_FILES = 20_000
"""Beyond this many files a one-shot command answers from the index as it is."""
_SEARCHED_LATELY_S, _IDLE_S = 600.0, 120.0
"""Until so long after a search, deeper vectors are made; and from then on memory is freed."""
_MANY = 100
"""From so many changed files on, an update is a job that the status shows."""
_CATCH_UP_S = 1.0

log = logging.getLogger(__name__)
_starting = threading.Lock()


def begin_following(workspace: Workspace) -> None:
    """Follow the project that a server was started in, if it has an index."""
    try:
        follow_project(workspace, find_project(workspace))
    except SondeError as error:
        log.info("nothing is followed yet: %s", error)


def follow_project(workspace: Workspace, project: Project) -> None:
    """Keep a project's index in step from now on; servers only.

    An index that was begun and not finished is left to whoever asks for it: it may have been
    called off.
    """
    if not workspace.stays or project.watching == "off":
        return
    if project.follower is not None and project.follower.is_alive():
        return
    metadata = load_metadata(project.folder)
    if metadata is None or metadata.last_full_index is None:
        return
    with _starting:
        if project.follower is None or not project.follower.is_alive():
            project.follower = Follower(project, _act_on(workspace, project))
            project.follower.start()


def refresh(workspace: Workspace, project: Project, work: Work, *, follow: bool = True) -> None:
    """See to it that changes are known before a search; a server makes nobody wait for it."""
    stores = project.stores()
    project.last_search = time.monotonic()
    if follow:
        follow_project(workspace, project)
    if project.was_replaced and workspace.stays:
        project.was_replaced = False
        index_job(workspace, project, existing=True)
        return
    if _is_followed(workspace, project) or time.monotonic() < project.fresh_until:
        return
    if project.strategy == "git":
        return
    if workspace.stays:
        index_job(workspace, project, existing=True)
        return
    if stores["code"].counts().files > _SYNC_FILES:
        return
    try:
        with project.lock.held(work, wait_s=0):
            update_project(workspace, project, work, existing=True)
    except Cancelled:
        raise
    except SondeError as error:
        # the search still has an index to answer from; `sonde index` shows the reason
        log.info("%s is not brought up to date: %s", project.root, error)


def count_pending(project: Project) -> int:
    """How many changes wait by choice; under `realtime` none does."""
    if project.follower is None or project.strategy == "realtime":
        return 0
    return int(project.follower.describe().get("pendingFiles", 0))


def describe_following(project: Project) -> tuple[bool, dict[str, Any]]:
    """Whether somebody watches the project, and how."""
    follower = project.follower
    if follower is None:
        told = describe_leader(project.folder)
        return told is not None, {"role": "none", **(told or {"watching": "off"})}
    return follower.is_watched(), follower.describe()


def _is_followed(workspace: Workspace, project: Project) -> bool:
    """Whether changes reach the index by themselves; under `lazy`, a search makes them."""
    follower = project.follower
    if follower is None:
        return False
    if project.strategy == "lazy" and follower.is_current():
        if follower.leads():
            follower.catch_up(_CATCH_UP_S)
        elif waiting := load_dirty(project.folder):
            workspace.jobs.submit(
                f"flush:{project.key}",
                "flush",
                lambda work: _update(workspace, project, waiting, work),
            ).wait(timeout_s=_CATCH_UP_S)
    return follower.is_current()


def _act_on(workspace: Workspace, project: Project) -> Actions:
    rested: list[object] = []
    """The last states it rested in, two: the second time gives back what the first one freed."""

    def rest() -> None:
        follower = project.follower
        if follower is None:
            return
        job = workspace.jobs.find(f"refine:{project.key}")
        refined = (job.id, job.status) if job else None
        stamp = (project.last_search, follower.describe().get("updates"), refined)
        if rested != [stamp, stamp]:
            workspace.jobs.submit(f"rest:{project.key}", "rest", lambda work: settle(work, stamp))

    def settle(work: Work, stamp: object) -> None:
        leads = project.follower is not None and project.follower.leads()
        if leads:
            compact_project(project, work)
        last = project.last_search
        since = float("inf") if last is None else time.monotonic() - last
        if since >= _IDLE_S:
            release_memory(workspace, project)
            rested[:] = [*rested[-1:], stamp]
        elif leads and since < _SEARCHED_LATELY_S:
            schedule_deep_embedding(workspace, project)
        trim_heap()

    def check() -> None:
        if not was_checked_lately(project.folder):
            check_soon(workspace, project)

    return Actions(
        update=lambda paths, work: _update(workspace, project, paths, work),
        find_changes=lambda work: _find_changes(workspace, project, work),
        reload=lambda: workspace.projects.reload(project.root),
        rest=rest,
        check=check,
    )


def release_memory(workspace: Workspace, project: Project) -> None:
    """Free what a project keeps in memory for speed; its next use takes it up again."""
    for store in project.list_open():
        store.rest()
    if workspace.static:
        workspace.static.close()
    gc.collect()


def _update(workspace: Workspace, project: Project, paths: set[str], work: Work) -> None:
    """Index these files if they differ; most events lead to nothing, and to no lock."""
    everything = EVERYTHING in paths
    diff = _compare(project, None if everything else paths, work)
    changes = _name_changes(diff)
    if len(changes) > _MANY or (everything and not is_recorded(project, diff.omitted.counts)):
        running = workspace.jobs.find(f"index:{project.key}")
        if running:
            running.wait(work)  # it may have begun before these changes
        job = index_job(workspace, project, existing=True)
        job.wait(work)
        job.outcome()
    elif changes:
        update_project(workspace, project, work, paths=changes, existing=True)


def _compare(project: Project, paths: set[str] | None, work: Work) -> Diff:
    stores, refused = project.stores(), load_refused(project.folder)
    if paths is None:
        known = {kind: store.files() for kind, store in stores.items()}
        return compare_tree(project.tree, known, refused, work)
    paths = expand_folders(
        project.tree, paths, lambda: [path for s in stores.values() for path in s.files()]
    )
    known = {kind: store.files(paths) for kind, store in stores.items()}
    return compare_paths(project.tree, known, refused, paths)


def _find_changes(workspace: Workspace, project: Project, work: Work) -> set[str]:
    """Paths that differ from the index. Where size and time leave it open, as with a file that was
    indexed in the moment it was written, the content decides, and the time is written down."""
    diff = _compare(project, None, work)
    changed = {entry.path for _, entry in diff.changed}
    known = {
        path: state.hash
        for store in project.stores().values()
        for path, state in store.files(changed).items()
    }
    same = set()
    for path, digest in known.items():
        work.check()
        content = project.tree.read(path)
        if not isinstance(content, Skipped) and content.hash == digest:
            same.add(path)
    if same:
        update_project(workspace, project, work, paths=same, existing=True)
    return (changed - same) | {path for _, path in diff.removed}


def _name_changes(diff: Diff) -> set[str]:
    return {entry.path for _, entry in diff.changed} | {path for _, path in diff.removed}
