"""Updating a project's index: before a search, what changed, deep vectors, records, repair."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace

from sonde.embedding.base import Embedder
from sonde.errors import Cancelled, IndexBusy, IndexCorrupt, IndexNotFound, SondeError
from sonde.indexing.diff import EVERYTHING, Diff, compare_index, generation_of
from sonde.indexing.pipeline import recipe_of, refine_vectors, seed_index, update_index
from sonde.projects.project import Project, Workspace
from sonde.runtime.jobs import Job
from sonde.runtime.work import Work, WriterLock
from sonde.searching.hits import find_changed
from sonde.stores import records
from sonde.stores.files import write_text
from sonde.types import FileContent, FileState, IndexReport

_RECORD_TIMES = 20
"""The records of an index are written whole; under constant edits, this many times as long as
that takes passes in between. The full comparison once it is quiet makes up for the last."""
_WANTED_FILES = 20  # the files shown most that get their deep vectors first
_SET_ASIDE_S = 0.2  # how long a search that found the index corrupt waits to set it aside
_REINDEX_STALE_S = 0.1  # how long an answer waits for the lock before it says what is stale
_MAX_COMPARED_FILES = 20_000  # beyond it a one-shot command answers from the index as it is
_CATCH_UP_S = 1.0  # how long a search waits for pending changes to be indexed
_JOB_THRESHOLD_FILES = 100  # from this many changes on, an update is a job that the status shows

log = logging.getLogger(__name__)


def compare_project(
    project: Project, work: Work, paths: Iterable[str] | None = None, *, force: bool = False
) -> Diff:
    """Compare a project's index with its files, or with the named files and folders."""
    return compare_index(
        project.tree,
        project.stores(),
        work,
        refused=records.load_refused(project.folder),
        paths=paths,
        force=force,
    )


def update_project(
    workspace: Workspace,
    project: Project,
    work: Work,
    *,
    diff: Diff | None = None,
    paths: Iterable[str] | None = None,
    force: bool = False,
    existing: bool = False,
    hurried: bool = False,
) -> IndexReport:
    """Index what changed, then write the records of the index.

    What changed is in `diff`, or is found by comparing `paths` (None: everything). An index that
    turns out to be corrupt is set aside and rebuilt. `existing` raises `IndexNotFound` for one
    that was deleted meanwhile; `hurried` skips what an answer need not wait for.
    """
    if diff is not None:
        paths = diff.paths
    with project.lock.held(work):
        if existing and not project.is_indexed():
            raise IndexNotFound(f"No index at {project.folder}/")
        try:
            return _update(workspace, project, work, paths, diff, force=force, hurried=hurried)
        except IndexCorrupt as error:
            log.warning("rebuilding the index of %s: %s", project.root, error)
            _set_aside(project)
        return _update(workspace, project, work, None, None, force=False, hurried=False)


def _update(
    workspace: Workspace,
    project: Project,
    work: Work,
    paths: Iterable[str] | None,
    diff: Diff | None,
    *,
    force: bool,
    hurried: bool,
) -> IndexReport:
    began, recipe = records.stamp_now(), recipe_of(project.tree)
    metadata = records.load_metadata(project.folder) or records.Metadata(
        project_path=str(project.root), created_at=began, store=project.settings.store_name
    )
    config = project.folder / "config.json"
    if not config.exists():
        write_text(config, project.settings.config_text)
    if not project.is_indexed():
        records.save_metadata(project.folder, metadata)
    if paths is None and metadata.recipe != recipe:
        # chunked in another way than now: unchanged files must be chunked again as well
        force = force or metadata.recipe != ""
        metadata = replace(metadata, recipe=recipe)
    if metadata.last_full_index is None:
        name, admits = project.settings.store_name, workspace.reach.admits
        seed_index(project.folder, project.tree, work, store=name, recipe=recipe, admits=admits)
    stores = project.stores()
    if diff is None or force or diff.generation != generation_of(stores):
        # none was made, or the index was written to since
        diff = compare_project(project, work, paths, force=force)
    report = update_index(project.tree, stores, workspace.static, work, diff)
    if workspace.static:
        # chunks of an index that another version wrote have no vectors of this model yet
        refine_vectors(stores, workspace.static, project.lock, work)
    if diff.refused != records.load_refused(project.folder):
        records.save_refused(project.folder, diff.refused)
    if paths is None:
        least, most = workspace.fresh_s
        project.mark_fresh(min(max(least, 5 * report.seconds), most))
    # a run that was killed has changed the stores without writing the records
    unrecorded = metadata.generation != generation_of(stores)
    due = paths is None or (project.are_records_due() and not hurried)
    if (unrecorded and due) or metadata.last_full_index is None:
        started = time.monotonic()
        _record(project, metadata, report, began, full=paths is None)
        project.defer_records(_RECORD_TIMES * (time.monotonic() - started))
    if not hurried:
        for store in stores.values():
            store.tidy()
    return report


def update_changed(workspace: Workspace, project: Project, paths: set[str], work: Work) -> None:
    """Index these paths if they differ; most events lead to no change, and to no lock."""
    everything = EVERYTHING in paths
    diff = compare_project(project, work, None if everything else paths)
    changes = diff.names()
    if len(changes) > _JOB_THRESHOLD_FILES or (
        everything and not _is_recorded(project, diff.omitted.counts)
    ):
        if running := workspace.jobs.find(f"index:{project.key}"):
            running.wait(work)  # it may have begun before these changes
        job = index_job(workspace, project, existing=True)
        job.wait(work)
        job.outcome()
    elif changes:
        update_project(workspace, project, work, diff=diff.only(changes), existing=True)


def find_changes(workspace: Workspace, project: Project, work: Work) -> set[str]:
    """Paths that differ from the index.

    Where size and time leave it open, as with a file that was indexed in the moment it was
    written, the content decides, and the new time is recorded.
    """
    diff = compare_project(project, work)
    changed = {entry.path for _, entry in diff.changed}
    same = set()
    for path in changed:
        work.check()
        hashes = [files[path].hash for files in diff.known.values() if path in files]
        content = project.tree.read(path) if hashes else None
        if isinstance(content, FileContent) and content.hash in hashes:
            same.add(path)
    if same:
        update_project(workspace, project, work, diff=diff.only(same), existing=True)
    return diff.names() - same


def schedule_compaction(workspace: Workspace, project: Project) -> None:
    """Free the space of replaced rows, in a server in the background."""
    if workspace.stays:
        workspace.jobs.submit(
            f"tidy:{project.key}", "tidy", lambda work: compact_project(project, work)
        )
    else:
        compact_project(project, Work())


def compact_project(project: Project, work: Work) -> None:
    """Free the space of replaced rows."""
    with project.lock.held(work):
        for store in project.list_open():
            store.tidy()


def _is_recorded(project: Project, omitted: Mapping[str, int]) -> bool:
    """Whether the records describe the index as it is, with what it leaves out."""
    metadata = records.load_metadata(project.folder)
    return (
        metadata is not None
        and metadata.last_full_index is not None
        and metadata.generation == generation_of(project.stores())
        and metadata.recipe == recipe_of(project.tree)
        and metadata.skipped == omitted
    )


def _set_aside(project: Project) -> None:
    project.set_aside()
    if metadata := records.load_metadata(project.folder):
        records.save_metadata(project.folder, replace(metadata, last_full_index=None, generation=0))


def _record(
    project: Project, metadata: records.Metadata, report: IndexReport, began: str, *, full: bool
) -> None:
    stores = project.stores()
    for kind, store in stores.items():
        records.save_fingerprints(project.folder, kind, store.files())
    first = metadata.last_full_index is None or report.files_unchanged == 0
    updated = metadata.updated(
        code=stores["code"].counts(),
        docs=stores["docs"].counts(),
        full_index=began if full and first else None,
        incremental=records.stamp_now(),
        report=report if full else None,
        generation=generation_of(stores),
    )
    records.save_metadata(project.folder, updated)


def index_job(
    workspace: Workspace, project: Project, *, force: bool = False, existing: bool = False
) -> Job:
    """The job that indexes this project; there is at most one in this process."""
    return workspace.jobs.submit(
        f"index:{project.key}",
        "index",
        lambda work: update_project(workspace, project, work, force=force, existing=existing),
    )


@contextmanager
def repairing_corruption(workspace: Workspace, project: Project) -> Iterator[None]:
    """Around reads: set a corrupt index aside, so that the next run rebuilds it."""
    try:
        yield
    except IndexCorrupt as error:
        with suppress(SondeError), project.lock.held(wait_s=_SET_ASIDE_S):
            _set_aside(project)
        if workspace.stays:
            index_job(workspace, project)
            raise
        raise IndexCorrupt(
            str(error).removeprefix(f"{error.code}: "),
            user_message="The search index is corrupted.",
            next_action="Run `sonde index` to rebuild it; no file of the project is lost.",
        ) from error


def model_mismatch_note(workspace: Workspace, project: Project) -> str:
    """A note if the index was embedded by another model than the one in use; else empty.

    Vectors of two models are never compared. Embedding everything again may cost time and money,
    so it is offered, not done.
    """
    if workspace.deep is None or workspace.static:
        return ""  # the static model embeds again at once
    stores = project.stores().values()
    if any(store.coverage(workspace.deep.name)[0] for store in stores):
        return ""
    others = ", ".join(sorted({name for store in stores for name in store.models()}))
    return others and (
        f"answered by words alone: the index was embedded by {others}, not by "
        f"{workspace.deep.name}; `sonde index --deep` or reindex_project embeds it again"
    )


def schedule_deep_embedding(workspace: Workspace, project: Project) -> None:
    """Make missing deep vectors in the background; in servers only."""
    if workspace.stays and workspace.deep and not model_mismatch_note(workspace, project):
        start_deep_embedding(workspace, project)


def start_deep_embedding(
    workspace: Workspace, project: Project, *, gently: bool = True
) -> Job | None:
    """Start a job that makes missing deep vectors, also those of a model that is new here."""
    deep, background = workspace.deep, workspace.background_deep if gently else None
    if deep is None:
        return None

    def refine(work: Work) -> int:
        if background is None:
            return _refine(project, deep, work)
        with closing(background(work.check)) as embedder:
            return _refine(project, embedder, work)

    name = f"refine:{project.key}"
    return workspace.jobs.submit(name, "refine", refine, gently=gently and background is None)


def _refine(project: Project, embedder: Embedder, work: Work) -> int:
    """Give every chunk its deep vector, those of the files shown most first."""

    def wanted() -> list[str]:
        return [path for path, _ in project.shown.most_common(_WANTED_FILES)]

    try:
        with WriterLock(project.folder, "refine.lock").held(wait_s=0):
            return refine_vectors(project.stores(), embedder, project.lock, work, wanted=wanted)
    except IndexBusy:
        return 0  # another process does it


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
        with project.lock.held(work, wait_s=_REINDEX_STALE_S):
            update_project(workspace, project, work, paths=changed, existing=True, hurried=True)
    except Cancelled:
        raise
    except SondeError:
        # busy: the writer will find them; not writable: the hits say that they are stale
        return False
    return True


def follow_project(workspace: Workspace, project: Project) -> None:
    """Keep a project's index current from now on; servers only.

    An index that was begun and not finished is left alone: it may have been cancelled.
    """
    if not workspace.stays or project.settings.watching == "off":
        return
    if project.following is not None and project.following.is_alive():
        return
    metadata = records.load_metadata(project.folder)
    if metadata is not None and metadata.last_full_index is not None:
        project.start_following(lambda: workspace.start_follower(workspace, project))


def refresh(workspace: Workspace, project: Project, work: Work, *, follow: bool = True) -> None:
    """Index changes before a search; in a server in the background, so that it need not wait."""
    stores = project.stores()
    project.note_search()
    if follow:
        follow_project(workspace, project)
    if workspace.stays and project.take_replaced():
        index_job(workspace, project, existing=True)
        return
    following, strategy = project.following, project.settings.strategy
    if following and strategy == "lazy" and following.is_current():
        following.catch_up(_CATCH_UP_S)
    if (following and following.is_current()) or project.is_fresh() or strategy == "git":
        return
    if workspace.stays:
        index_job(workspace, project, existing=True)
        return
    if stores["code"].counts().files > _MAX_COMPARED_FILES:
        return
    try:
        with project.lock.held(work, wait_s=0):
            update_project(workspace, project, work, existing=True)
    except Cancelled:
        raise
    except SondeError as error:
        # the search still has an index to answer from; `sonde index` shows the reason
        log.info("%s is not updated: %s", project.root, error)


def count_pending(project: Project) -> int:
    """How many changes wait by choice; none do under `realtime`."""
    if project.following is None or project.settings.strategy == "realtime":
        return 0
    pending = project.following.describe().get("pendingFiles", 0)
    return pending if isinstance(pending, int) else 0
