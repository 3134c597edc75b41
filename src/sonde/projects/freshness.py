"""How much of a project its index covers right now, and bringing it in step before a search.

"complete" is a promise: every admitted file is indexed as it is on disk. So a search looks at every
file itself and compares its stamp with the index, whichever process keeps that current, and
whatever a process that was killed or ran out of space has left behind.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

from sonde.errors import Cancelled, IndexBusy, SondeError
from sonde.indexing.pipeline import recipe_of
from sonde.projects.lines import KnownFiles
from sonde.projects.project import Project, Workspace
from sonde.projects.update import follow_project, index_job, update_project
from sonde.runtime.work import Work
from sonde.searching.hits import find_changed
from sonde.stores.records import load_metadata, load_refused
from sonde.types import FileState, Progress

_INDEXED_AT_ONCE = 20  # changed files that a search in a server indexes itself: a tenth of a second
_MAX_LOOKED_FILES = 20_000  # a look at more of them takes longer than a search should
_WRITER_WAIT_S = 0.1  # how long an answer waits for the lock before it says what is stale
_RETRY_S = 10.0  # after which files that could not be read are tried again
_UNREADABLE = "the operating system refuses to read them"
_CATCH_UP_S = 1.0  # how long a search waits for pending changes to be indexed

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Coverage:
    """A project's files beside its index, at one moment."""

    files: int
    """Files that should be indexed."""
    missing: frozenset[str]
    """Those that are not indexed as they are."""
    gone: frozenset[str]
    """Indexed ones that should not be."""

    @property
    def differing(self) -> frozenset[str]:
        """Everything that an update would change."""
        return self.missing | self.gone

    @property
    def progress(self) -> Progress:
        """How far whoever indexes the project is."""
        return Progress("indexing", self.files - len(self.missing), self.files)


def measure_coverage(project: Project) -> Coverage:
    """Look at every file of the project and compare it with the index."""
    candidates = project.part(KnownFiles).candidates
    sight = candidates.look(project.tree.sources)
    stores = project.stores()
    missing, gone, refused = candidates.compare(sight, project.folder, stores.values())
    kind_of = project.tree.kind_of
    unwanted = {path for path in missing if kind_of(path) is None}
    files = len(sight.entries) - refused - len(unwanted)
    return Coverage(files, frozenset(missing - unwanted), gone)


def list_current_paths(project: Project) -> list[str]:
    """The paths of a project's files as they are now, indexed or not; not those refused."""
    if project.is_indexed() and _count_files(project) > _MAX_LOOKED_FILES:
        return [path for store in project.stores().values() for path in store.files()]
    entries = project.part(KnownFiles).candidates.look(project.tree.sources).entries
    refused = load_refused(project.folder) if project.is_indexed() else {}
    return [path for path in entries if path not in refused and project.tree.kind_of(path)]


def is_being_written(workspace: Workspace, project: Project) -> bool:
    """Whether this process or another writes to the index now."""
    job = workspace.jobs.find(f"index:{project.key}")
    if job and job.status == "running":
        return True
    try:
        with project.lock.held(wait_s=0):
            return False
    except IndexBusy:
        return True
    except SondeError:  # a home that cannot be written
        return False


def refresh(workspace: Workspace, project: Project, work: Work, *, follow: bool = True) -> str:
    """Index changes before a search, in a server only a few: the rest in the background.

    Returns how much of the project the index covers then. `follow` is false for a search over every
    project, which does not look at the files of those that are not in use.
    """
    project.note_search()
    if follow:
        follow_project(workspace, project)
    following, strategy = project.following, project.settings.strategy
    if following and strategy == "lazy" and following.is_current():
        following.catch_up(_CATCH_UP_S)
    in_use = follow or not workspace.stays or project.part(KnownFiles).candidates.has_looked
    if _count_files(project) > _MAX_LOOKED_FILES or not in_use:
        watched = following and following.is_current()
        if workspace.stays and not watched and not project.is_fresh() and strategy != "git":
            index_job(workspace, project, existing=True)
        return _trust_index(project)
    found = measure_coverage(project)
    why = ""
    if (strategy != "git" and found.differing) or _is_unfinished(project):
        left, retry_at = (part := project.part(KnownFiles)).left
        why = _UNREADABLE
        if left != found.differing or time.monotonic() >= retry_at:
            why = _bring_in_step(workspace, project, found, work)
            found = measure_coverage(project)
            wait_s = _RETRY_S if why == _UNREADABLE else 0.0
            part.left = (found.differing, time.monotonic() + wait_s)
    return _describe(workspace, project, found, why)


def is_searchable(project: Project) -> bool:
    """Whether the index may answer: its first run is done, or covers half of the files."""
    if not project.is_indexed():
        return False
    metadata = load_metadata(project.folder)
    if metadata is None or metadata.last_full_index:
        return True
    found = measure_coverage(project)
    return 2 * len(found.missing) <= found.files


def describe_freshness(workspace: Workspace, project: Project) -> tuple[str, Progress | None]:
    """How much of the project the index covers, and how far whoever indexes it is."""
    if _count_files(project) > _MAX_LOOKED_FILES:
        return _trust_index(project), None
    found = measure_coverage(project)
    being_written = found.differing and is_being_written(workspace, project)
    return _describe(workspace, project, found), found.progress if being_written else None


def _count_files(project: Project) -> int:
    return sum(store.counts().files for store in project.stores().values())


def _is_unfinished(project: Project) -> bool:
    """Whether the first index was never finished, or files are chunked in another way now."""
    metadata = load_metadata(project.folder)
    return metadata is not None and (
        metadata.last_full_index is None or metadata.recipe != recipe_of(project.tree)
    )


def _bring_in_step(workspace: Workspace, project: Project, found: Coverage, work: Work) -> str:
    """Index what differs, or start to. Returns why that is not possible."""
    few = 0 < len(found.differing) <= _INDEXED_AT_ONCE and not _is_unfinished(project)
    if workspace.stays and not few:
        before = workspace.jobs.find(f"index:{project.key}")
        index_job(workspace, project, existing=True)
        if before and before.result and "unreadable" in before.result.skipped:
            return _UNREADABLE
        return before.error.user_message if before and before.error else ""
    paths = found.differing if few else None
    try:
        with project.lock.held(work, wait_s=_WRITER_WAIT_S):
            report = update_project(
                workspace, project, work, paths=paths, existing=True, hurried=workspace.stays
            )
            return _UNREADABLE if "unreadable" in report.skipped else ""
    except (Cancelled, IndexBusy) as error:
        if isinstance(error, Cancelled):
            raise
    except SondeError as error:
        # the search still has an index to answer from
        log.info("%s is not updated: %s", project.root, error)
        return error.user_message
    return ""


def _describe(workspace: Workspace, project: Project, found: Coverage, why: str = "") -> str:
    if not found.differing:
        if not found.files:
            return "empty; no file here may be indexed"
        return "complete" + _describe_deep(workspace, project)
    leader = project.following.describe() if project.following else {}
    if leader.get("watching") == "events":  # else the note says why it polls
        why = why or str(leader.get("note", ""))
    if not why and is_being_written(workspace, project):
        return f"indexing, {found.progress.done} of {found.files} files done"
    if not why and project.settings.strategy == "git":
        why = "they wait for a commit (strategy git)"
    said = f"{len(found.missing)} of {found.files} files are not indexed as they are"
    if found.gone:
        said += f", {len(found.gone)} indexed ones are gone"
    return f"incomplete; {said}" + (f": {why}" if why else "")


def _describe_deep(workspace: Workspace, project: Project) -> str:
    """How many chunks have deep vectors, while that is not all of them."""
    if workspace.deep:
        pairs = [store.coverage(workspace.deep.name) for store in project.stores().values()]
        have, total = (sum(column) for column in zip(*pairs, strict=True))
        if 0 < have < total:
            return f"; deeper vectors for {100 * have // total} % of chunks"
    return ""


def _trust_index(project: Project) -> str:
    """Without a look at the files: what whoever keeps the index current says of it."""
    following = project.following
    if following and following.is_current():
        pending = following.describe().get("pendingFiles", 0)
        return f"incomplete; {pending} changes are pending" if pending else "complete, as watched"
    metadata = load_metadata(project.folder)
    return f"as of {metadata and metadata.last_updated}; not compared with the files"


def find_stale_files(project: Project, known: Mapping[str, FileState | None]) -> set[str]:
    """Which of these files are not as they are known, or as they are indexed where None is."""
    states = {path: state for path, state in known.items() if state}
    unknown = known.keys() - states.keys()
    for store in project.stores().values() if unknown else ():
        states |= store.files(unknown)
    return find_changed(known.keys(), states, project.tree.check_all)


def reindex_stale_files(
    workspace: Workspace, project: Project, changed: set[str], work: Work
) -> bool:
    """Index changed files of an answer. Returns false if the index cannot be written now."""
    try:
        with project.lock.held(work, wait_s=_WRITER_WAIT_S):
            update_project(workspace, project, work, paths=changed, existing=True, hurried=True)
    except Cancelled:
        raise
    except SondeError:
        # busy: the writer will find them; not writable: the hits say that they are stale
        return False
    return True
