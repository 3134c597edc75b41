"""Keeping a project's index in step with its files, now or in the background."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime

from sonde.embedding.base import Embedder
from sonde.errors import Cancelled, IndexBusy, IndexCorrupt, IndexNotFound, SondeError
from sonde.indexing.pipeline import update_index
from sonde.indexing.refine import refine_vectors
from sonde.indexing.seed import seed_index
from sonde.projects.project import Project
from sonde.projects.workspace import Workspace
from sonde.runtime.jobs import Job
from sonde.runtime.locks import WriterLock
from sonde.runtime.work import Work
from sonde.stores.records import (
    Metadata,
    load_metadata,
    load_refused,
    save_fingerprints,
    save_metadata,
    save_refused,
    write_text,
)
from sonde.types import IndexReport

_FRESH_S = (0.5, 10.0)
"""How long an index counts as fresh: five times as long as looking took, within these bounds, so
that a large project is not looked at all the time."""
_RECORD_TIMES = 20
"""What the index holds is written down whole; under constant edits, this many times as long as
that takes passes in between. The look at everything once it is quiet makes up for the last."""
_SHOWN_MOST = 20
_SET_ASIDE_S = 0.2
_MEND_S = 0.1
"""How long an answer waits for its turn to index what changed; then it tells what is stale."""

log = logging.getLogger(__name__)


def update_project(
    workspace: Workspace,
    project: Project,
    work: Work,
    *,
    paths: set[str] | None = None,
    force: bool = False,
    existing: bool = False,
    hurried: bool = False,
) -> IndexReport:
    """Index what changed, then write down what the index holds.

    An index that turns out to be corrupt is set aside and built anew. `existing` keeps one that
    was deleted meanwhile from coming back; `hurried` leaves to others what an answer need not
    wait for.
    """
    with project.lock.held(work):
        if existing and not project.is_indexed():
            raise IndexNotFound(f"No index at {project.folder}/")
        try:
            return _update(workspace, project, work, paths, force=force, hurried=hurried)
        except IndexCorrupt as error:
            log.warning("rebuilding the index of %s: %s", project.root, error)
            _set_aside(project)
        return _update(workspace, project, work, None, force=False, hurried=False)


def _update(
    workspace: Workspace,
    project: Project,
    work: Work,
    paths: set[str] | None,
    *,
    force: bool,
    hurried: bool,
) -> IndexReport:
    began = _now()
    metadata = load_metadata(project.folder) or Metadata(
        project_path=str(project.root), created_at=began, store=project.store_name
    )
    config = project.folder / "config.json"
    if not config.exists():
        write_text(config, project.config_text)
    if not project.is_indexed():
        save_metadata(project.folder, metadata)
    if paths is None and metadata.recipe != project.tree.recipe:
        # cut in another way than now: what is unchanged must be cut again as well
        force = force or metadata.recipe != ""
        metadata = replace(metadata, recipe=project.tree.recipe)
    if metadata.last_full_index is None:
        seed_index(project.folder, project.tree, work, store=project.store_name)
    refused = load_refused(project.folder)
    before = dict(refused)
    report = update_index(
        project.tree,
        project.stores(),
        workspace.static,
        work,
        refused=refused,
        paths=paths,
        force=force,
    )
    if workspace.static:
        # chunks of an index that another version wrote have no vectors of this model yet
        refine_vectors(project.stores(), workspace.static, project.lock, work)
    if refused != before:
        save_refused(project.folder, refused)
    if paths is None:
        least, most = _FRESH_S
        project.fresh_until = time.monotonic() + min(max(least, 5 * report.seconds), most)
    # a run that was killed has changed the stores without writing down what it did
    unrecorded = metadata.generation != _generation(project)
    due = paths is None or (time.monotonic() >= project.record_after and not hurried)
    if (unrecorded and due) or metadata.last_full_index is None:
        started = time.monotonic()
        _record(project, metadata, report, began, full=paths is None)
        ended = time.monotonic()
        project.record_after = ended + _RECORD_TIMES * (ended - started)
    if not hurried:
        for store in project.stores().values():
            store.tidy()
    return report


def schedule_compaction(workspace: Workspace, project: Project) -> None:
    """Give back the space of what was replaced; in a server nobody waits for it."""
    if workspace.stays:
        workspace.jobs.submit(
            f"tidy:{project.key}", "tidy", lambda work: compact_project(project, work)
        )
    else:
        compact_project(project, Work())


def compact_project(project: Project, work: Work) -> None:
    """Give back the space of what was replaced."""
    with project.lock.held(work):
        for store in project.list_open():
            store.tidy()


def is_recorded(project: Project, omitted: Mapping[str, int]) -> bool:
    """Whether what is written down of the index, such as what it leaves out, is how it is."""
    metadata = load_metadata(project.folder)
    return (
        metadata is not None
        and metadata.last_full_index is not None
        and metadata.generation == _generation(project)
        and metadata.recipe == project.tree.recipe
        and metadata.skipped == omitted
    )


def _generation(project: Project) -> int:
    return sum(store.generation() for store in project.stores().values())


def _set_aside(project: Project) -> None:
    project.set_aside()
    metadata = load_metadata(project.folder)
    if metadata:
        save_metadata(project.folder, replace(metadata, last_full_index=None, generation=0))


def _record(
    project: Project, metadata: Metadata, report: IndexReport, began: str, *, full: bool
) -> None:
    stores = project.stores()
    for kind, store in stores.items():
        save_fingerprints(project.folder, kind, store.files())
    first = metadata.last_full_index is None or report.files_unchanged == 0
    save_metadata(
        project.folder,
        metadata.updated(
            code=stores["code"].counts(),
            docs=stores["docs"].counts(),
            full_index=began if full and first else None,
            incremental=_now(),
            report=report if full else None,
            generation=_generation(project),
        ),
    )


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
    """Around reads: an index found corrupt is set aside, so that the next run builds it anew."""
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
            next_action="Run `sonde index` to build it anew; nothing of the project is lost.",
        ) from error


def model_mismatch_note(workspace: Workspace, project: Project) -> str:
    """That the vectors of the index are not of the model in use, and the way out; else nothing.

    Vectors of two models are never compared. Embedding everything anew may cost time and money:
    it is offered, not done.
    """
    if workspace.deep is None or workspace.static:
        return ""  # the static model embeds anew at once, unasked
    stores = project.stores().values()
    if any(store.coverage(workspace.deep.name)[0] for store in stores):
        return ""
    others = sorted({name for store in stores for name in store.models()})
    if not others:
        return ""
    return (
        f"answered by words alone: the index was embedded by {', '.join(others)}, not by "
        f"{workspace.deep.name}; `sonde index --deep` or reindex_project embeds it anew"
    )


def schedule_deep_embedding(workspace: Workspace, project: Project) -> None:
    """Fill in deeper vectors when nothing else is to be done; servers only."""
    if workspace.stays and workspace.deep and not model_mismatch_note(workspace, project):
        start_deep_embedding(workspace, project)


def start_deep_embedding(
    workspace: Workspace, project: Project, *, gently: bool = True
) -> Job | None:
    """Fill in deeper vectors in the background, also those of a model that is new here."""
    deep, apart = workspace.deep, workspace.background_deep if gently else None
    if deep is None:
        return None

    def refine(work: Work) -> int:
        if apart is None:
            return _refine(project, deep, work)
        with closing(apart(work.check)) as embedder:
            return _refine(project, embedder, work)

    name = f"refine:{project.key}"
    return workspace.jobs.submit(name, "refine", refine, gently=gently and apart is None)


def _refine(project: Project, embedder: Embedder, work: Work) -> int:
    """Give every chunk its deeper vector, those of the most shown files first."""
    try:
        with WriterLock(project.folder, "refine.lock").held(wait_s=0):
            return refine_vectors(
                project.stores(),
                embedder,
                project.lock,
                work,
                wanted=lambda: [path for path, _ in project.searched.most_common(_SHOWN_MOST)],
            )
    except IndexBusy:
        return 0  # another process is at it


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def reindex_stale_files(
    workspace: Workspace, project: Project, changed: set[str], work: Work
) -> bool:
    """Index again the files among an answer's that changed meanwhile; whether that was possible."""
    try:
        with project.lock.held(work, wait_s=_MEND_S):
            update_project(workspace, project, work, paths=changed, existing=True, hurried=True)
    except Cancelled:
        raise
    except SondeError:
        # busy: whoever writes will see to it; not writable: the hits say when they are stale
        return False
    return True
