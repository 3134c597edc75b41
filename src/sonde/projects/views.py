"""Views of a project: kept current, and searched by chunk type and tag."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from sonde.errors import Cancelled, IndexCorrupt, SondeError
from sonde.indexing.pipeline import refine_vectors
from sonde.indexing.views import update_views
from sonde.projects.find import find_project, indexed_project
from sonde.projects.follow import refresh
from sonde.projects.project import Project
from sonde.projects.update import reindex_stale_files, repairing_corruption, schedule_compaction
from sonde.projects.workspace import Workspace
from sonde.runtime.work import Work, WriterLock
from sonde.searching.contexts import (
    SearchOptions,
    SearchResult,
    embed_query,
)
from sonde.searching.hits import find_changed
from sonde.types import FileState

_VIEWS_WAIT_S = 20.0
"""How long a search in a server waits for views before it answers from those there are."""

log = logging.getLogger(__name__)
T = TypeVar("T")


def find_context(
    workspace: Workspace, project: str | None, query: str, options: SearchOptions, work: Work
) -> tuple[list[SearchResult], str]:
    """The best chunks of a project, and a note on what is still missing."""
    found = find_project(workspace, project)
    files = found.open_chunk_files(workspace.static or workspace.deep, follow=workspace.stays)
    if files:
        return files.query(query, options), ""
    indexed_project(workspace, project)
    if found.views.made_from() is None and not workspace.static:
        # report an unreachable service at once, not after making all views
        embed_query(workspace.deep, query)

    def run() -> list[SearchResult]:
        searcher = found.views.searcher(workspace.static or workspace.deep)
        return searcher.query(query, options)

    with repairing_corruption(workspace, found):
        note = refresh_views(workspace, found, work)
        results = read_views(workspace, found, work, run)
        if _reindex_changed(workspace, found, results, work):
            note = refresh_views(workspace, found, work, again=True)
            results = read_views(workspace, found, work, run)
    return results, note


def read_views(workspace: Workspace, project: Project, work: Work, run: Callable[[], T]) -> T:
    """Run a search over the views; rebuild them first if they are damaged."""
    try:
        return run()
    except IndexCorrupt as error:
        log.warning("rebuilding the views of %s: %s", project.root, error)
        project.views.delete()
        refresh_views(workspace, project, work, again=True)
        return run()


class ProjectSearcher:
    """A `ContextSearcher` over a project: its chunk files where it has some, else its index."""

    def __init__(self, workspace: Workspace, project: str | None = None) -> None:
        self._workspace, self._project = workspace, project

    def query(self, query: str, options: SearchOptions) -> list[SearchResult]:
        """The best chunks."""
        return find_context(self._workspace, self._project, query, options, Work())[0]


def refresh_views(
    workspace: Workspace, project: Project, work: Work, *, again: bool = False
) -> str:
    """Bring the views up to date with the index. Returns a note if that is not done in time."""
    if not again:
        refresh(workspace, project, work)
    stamp = tuple(store.generation() for store in project.stores().values())
    if project.views.made_from() == stamp:
        return ""
    job = workspace.jobs.submit(
        f"views:{project.key}", "views", lambda own: _make_views(workspace, project, own)
    )
    if not job.wait(work, _VIEWS_WAIT_S if workspace.stays else None):
        done, total = job.progress.done, job.progress.total
        return f"views are being made, {done} of {total} files done"
    try:
        job.outcome()
    except Cancelled:
        raise
    except SondeError as error:
        log.warning("views of %s are as they were: %s", project.root, error)
        return error.user_message
    return ""


def _make_views(workspace: Workspace, project: Project, work: Work) -> int:
    lock = WriterLock(project.folder, "views.lock")
    with lock.held(work):
        stamp = tuple(store.generation() for store in project.stores().values())
        embedder = workspace.static or workspace.deep
        views, tree, stores = project.views, project.tree, project.stores()
        try:
            made = update_views(tree, stores, views.store(), embedder, work)
        except IndexCorrupt:
            views.delete()
            made = update_views(tree, stores, views.store(), embedder, work)
        if embedder:
            # views that were made under another model have no vectors of this one yet
            made += refine_vectors({"code": views.store()}, embedder, lock, work)
        views.mark_made(stamp)
    if made:
        schedule_compaction(workspace, project)
    return made


def _reindex_changed(
    workspace: Workspace, project: Project, results: Sequence[SearchResult], work: Work
) -> bool:
    """Index again the files among the results that changed since."""
    paths = {str(one.chunk.metadata["file_path"]) for one in results}
    states: dict[str, FileState] = {}
    for store in project.stores().values():
        states |= store.files(paths)
    changed = find_changed(paths, states, project.tree.check_all)
    return bool(changed) and reindex_stale_files(workspace, project, changed, work)
