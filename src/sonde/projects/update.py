"""Updates of a project's index: before searches, after changes, and after corruption."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial

from sonde import errors
from sonde.indexing.diff import EVERYTHING, Diff, compare_index, generation_of
from sonde.indexing.pipeline import recipe_of, refine_vectors, seed_index, update_index
from sonde.projects.freshness import (
    Coverage,
    KnownFiles,
    describe_deep_vectors,
    is_too_large,
    measure_coverage,
)
from sonde.projects.project import Project, Workspace
from sonde.runtime.jobs import Job
from sonde.runtime.logs import project_log
from sonde.runtime.work import Work
from sonde.stores import records
from sonde.stores.files import write_text
from sonde.types import IndexReport, Progress

_RECORD_TIMES = 20
"""Records are written whole; under constant edits, this many times as long passes in between."""
_SET_ASIDE_S = 0.2  # how long a search that found the index corrupt waits to set it aside
_JOB_THRESHOLD_FILES = 100  # from this many changes on, an update is a job that the status shows
_INDEXED_AT_ONCE = 20  # changed files that a search in a server indexes itself: a tenth of a second
_WRITER_WAIT_S = 0.1  # how long an answer waits for the lock before it says what is stale
_CATCH_UP_S = 1.0  # how long a search waits for pending changes to be indexed
_RETRY_S = 10.0  # after which files that could not be read are tried again
AS_WATCHED = "complete, as watched"
"""The freshness that the watcher reports, without a look at the files."""
_UNREADABLE = "the operating system refuses to read them"

log = logging.getLogger(__name__)


def compare_project(
    project: Project, work: Work, paths: Iterable[str] | None = None, *, force: bool = False
) -> Diff:
    """Compare a project's index with its files, or with the named files and folders."""
    refused = records.load_refused(project.folder)
    return compare_index(
        project.tree, project.stores(), work, refused=refused, paths=paths, force=force
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
    project.require_writable()
    paths = paths if diff is None else diff.paths
    with project.lock.held(work):
        if existing and not project.is_indexed():
            raise errors.IndexNotFound(f"No index at {project.folder}/")
        try:
            return _update(workspace, project, work, paths, diff, force=force, hurried=hurried)
        except errors.IndexCorrupt as error:
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
    note, seed = "", partial(workspace.seed_shared, project, work)
    if metadata.last_full_index is None:
        name, admits = project.settings.store_name, workspace.reach.admits
        note = seed_index(
            project.folder, project.tree, work, store=name, recipe=recipe, admits=admits, begin=seed
        )
    stores = project.stores()
    if diff is None or force or diff.generation != generation_of(stores):
        # none was made, or the index was written to since
        diff = compare_project(project, work, paths, force=force)
    report = replace(update_index(project.tree, stores, workspace.static, work, diff), note=note)
    # chunks of an index that another version wrote have no vectors of these models yet
    refine_vectors(stores, workspace.static, project.lock, work)
    if diff.refused != records.load_refused(project.folder):
        records.save_refused(project.folder, diff.refused)
    if paths is None:
        least, most = workspace.fresh_s
        project.mark_fresh(min(max(least, 5 * report.seconds), most))
    if not hurried:
        for store in stores.values():  # before the records, as it may begin a generation
            store.tidy()
    # a run that was killed has changed the stores without writing the records
    unrecorded = metadata.generation != generation_of(stores)
    unrecorded |= paths is None and metadata.skipped != report.skipped
    due = paths is None or (project.are_records_due() and not hurried)
    if (unrecorded and due) or metadata.last_full_index is None:
        started = time.monotonic()
        _record(project, metadata, report, began, full=paths is None)
        project.defer_records(_RECORD_TIMES * (time.monotonic() - started))
    return report


def update_changed(workspace: Workspace, project: Project, paths: set[str], work: Work) -> None:
    """Index these paths if they differ. Most events change nothing, so the lock is taken late."""
    everything = EVERYTHING in paths
    changes = (diff := compare_project(project, work, None if everything else paths)).names()
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


def schedule_compaction(workspace: Workspace, project: Project) -> None:
    """Free the space of replaced rows, in a server in the background."""
    if workspace.stays:
        run = partial(compact_project, project)
        workspace.jobs.submit(f"tidy:{project.key}", "tidy", run)
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
    whole, now = began if full and first else None, records.stamp_now()
    updated = replace(
        metadata,
        code=stores["code"].counts(),
        docs=stores["docs"].counts(),
        last_full_index=whole or metadata.last_full_index,
        last_incremental_update=now,
        last_docs_index=whole or now,
        generation=generation_of(stores),
    )
    if full:
        examples = tuple(asdict(each) for each in report.examples)
        updated = replace(updated, skipped=dict(report.skipped), skipped_examples=examples)
    records.save_metadata(project.folder, updated)
    if full:
        named = ", ".join(f"{one.path} ({one.reason} {one.detail})" for one in report.examples)
        about = (project.root, report.as_dict(), named or "nothing worth naming")
        project_log(project.folder).info("%s was indexed: %s; skipped: %s", *about)


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
    """For reads: a corrupt index is set aside, so that the next update rebuilds it."""
    try:
        yield
    except errors.IndexCorrupt as error:
        with suppress(errors.SondeError), project.lock.held(wait_s=_SET_ASIDE_S):
            _set_aside(project)
        if workspace.stays:
            if not project.settings.name:  # else it is written again when next used
                index_job(workspace, project)
            raise
        raise errors.IndexCorrupt(
            str(error).removeprefix(f"{error.code}: "), user_message="The index is corrupted.",
            next_action="Run `sonde index` to rebuild it; no file of the project is lost.",
        ) from error  # fmt: skip


def follow_project(workspace: Workspace, project: Project) -> None:
    """Keep a project's index current from now on; servers only.

    An index that was begun and not finished is left alone: it may have been cancelled.
    """
    if project.following is not None and project.following.is_alive():
        return
    if _can_follow(workspace, project):
        project.start_following(lambda: workspace.start_follower(workspace, project))


def _can_follow(workspace: Workspace, project: Project) -> bool:
    metadata = records.load_metadata(project.folder)
    is_whole = metadata is not None and metadata.last_full_index is not None
    return workspace.stays and project.settings.watching != "off" and is_whole


def refresh(
    workspace: Workspace, project: Project, work: Work, *, follow: bool = True, look: bool = False
) -> str:
    """Index changes before a search, in a server only a few: the rest in the background.

    Returns what the index covers then. Without `follow`, only of a project that is in use; with it,
    the caller follows the project once it has its answer, as both look at every file. With `look`,
    every file is looked at even if that was done moments ago.
    """
    project.note_search()
    if project.settings.name:
        return "complete" + describe_deep_vectors(workspace, project)
    following, strategy = project.following, project.settings.strategy
    if following and strategy == "lazy" and following.is_current():
        following.catch_up(_CATCH_UP_S)
    part, watched = project.part(KnownFiles), following and following.is_current()
    in_use = follow or not workspace.stays or part.candidates.seen
    if not in_use or is_too_large(project):
        # who begins to follow compares everything, once the first search has its answer
        begins = follow and following is None and _can_follow(workspace, project)
        known = begins or watched or project.is_fresh() or strategy == "git"
        if workspace.stays and not known:
            index_job(workspace, project, existing=True)
        return _trust_index(project)
    if watched and not look and part.is_in_step() and not _is_unfinished(project):
        return _trust_index(project)
    try:
        found, why = measure_coverage(project), ""
    except (errors.FileMissing, errors.PermissionDenied) as error:  # of the project's folder itself
        return f"incomplete; the files cannot be seen: {error.user_message}"
    if (strategy != "git" and found.differing) or _is_unfinished(project):
        left, retry_at = part.left
        why = _UNREADABLE
        if left != found.differing or time.monotonic() >= retry_at:
            why = _bring_in_step(workspace, project, found, work)
            found = measure_coverage(project)
            wait_s = _RETRY_S if why == _UNREADABLE else 0.0
            part.left = (found.differing, time.monotonic() + wait_s)
    part.note(found)
    return _describe(workspace, project, found, why)


def describe_freshness(workspace: Workspace, project: Project) -> tuple[str, Progress | None]:
    """How much of the project the index covers, and how far its indexing is."""
    if is_too_large(project):
        return _trust_index(project), None
    found = measure_coverage(project)
    being_written = found.differing and is_being_written(workspace, project)
    return _describe(workspace, project, found), found.progress if being_written else None


def _is_unfinished(project: Project) -> bool:
    """Whether the first index was never finished, or files are chunked in another way now."""
    metadata = records.load_metadata(project.folder)
    return metadata is not None and (
        metadata.last_full_index is None or metadata.recipe != recipe_of(project.tree)
    )


def _bring_in_step(workspace: Workspace, project: Project, found: Coverage, work: Work) -> str:
    """Index what differs, or start a job for it. Returns why that is not possible."""
    few = 0 < len(found.differing) <= _INDEXED_AT_ONCE and not _is_unfinished(project)
    if workspace.stays and not few:
        before = workspace.jobs.find(f"index:{project.key}")
        index_job(workspace, project, existing=True)
        if before and before.result and "unreadable" in before.result.skipped:
            return _UNREADABLE
        return before.error.user_message if before and before.error else ""
    done = _update_in_answer(workspace, project, found.differing if few else None, work)
    if isinstance(done, IndexReport):
        return _UNREADABLE if "unreadable" in done.skipped else ""
    return "" if isinstance(done, errors.IndexBusy) else done.user_message


def _update_in_answer(
    workspace: Workspace, project: Project, paths: Iterable[str] | None, work: Work
) -> IndexReport | errors.SondeError:
    """Index what an answer waits for. Returns the error if that is not possible at once: the answer
    still has an index to come from."""
    hurried = workspace.stays
    try:
        with project.lock.held(work, wait_s=_WRITER_WAIT_S):
            return update_project(
                workspace, project, work, paths=paths, existing=True, hurried=hurried
            )
    except errors.Cancelled:
        raise
    except errors.SondeError as error:
        log.info("%s is not updated: %s", project.root, error)
        return error


def _describe(workspace: Workspace, project: Project, found: Coverage, why: str = "") -> str:
    if not found.differing:
        if not found.files:
            return "empty; no file here may be indexed"
        return "complete" + describe_deep_vectors(workspace, project)
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


def _trust_index(project: Project) -> str:
    """The freshness without a look at the files, as the leader reports it."""
    following = project.following
    if following and following.is_current():
        pending = following.describe().get("pendingFiles", 0)
        return f"incomplete; {pending} changes are pending" if pending else AS_WATCHED
    metadata = records.load_metadata(project.folder)
    return f"as of {metadata and metadata.last_updated}; not compared with the files"


def is_being_written(workspace: Workspace, project: Project) -> bool:
    """Whether this process or another writes to the index now."""
    job = workspace.jobs.find(f"index:{project.key}")
    if job and job.status == "running":
        return True
    with suppress(errors.SondeError):  # a home that cannot be written
        return project.lock.is_taken()
    return False


def reindex_stale_files(
    workspace: Workspace, project: Project, changed: Iterable[str], work: Work
) -> bool:
    """Index changed files of an answer, and damaged vectors. False if that is not possible now."""
    return isinstance(_update_in_answer(workspace, project, changed, work), IndexReport)
