"""Deep vectors: finding the missing and damaged ones, and computing them in the background."""

from __future__ import annotations

from contextlib import ExitStack, closing

from sonde.embedding.base import Embedder
from sonde.errors import IndexBusy
from sonde.indexing.pipeline import refine_vectors
from sonde.projects.project import Project, Workspace
from sonde.projects.update import follow_project, index_job, reindex_stale_files
from sonde.runtime.jobs import Job
from sonde.runtime.work import Work, WriterLock

_WANTED_FILES = 20  # the files shown most that get their deep vectors first


def count_damaged(project: Project) -> int:
    """How many vectors are left out of searches because they are damaged."""
    return sum(store.count_damaged() for store in project.stores().values())


def describe_damage(project: Project, left_out: int) -> str:
    """The note of an answer that was ranked without these vectors."""
    return (
        f"{left_out} vectors of {project.key} are damaged and were left out; they are made again "
        "in the background, or by `sonde check`"
    )


def mend_vectors(workspace: Workspace, project: Project, work: Work) -> bool:
    """Compute damaged vectors again, in a server in the background. Returns whether it is done."""
    if workspace.stays:
        index_job(workspace, project, existing=True)
        return False
    return reindex_stale_files(workspace, project, (), work)


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


def begin_background_work(workspace: Workspace, project: Project, *, follow: bool = True) -> None:
    """Follow a project and compute its missing deep vectors; in servers only."""
    if follow:
        follow_project(workspace, project)
    schedule_deep_embedding(workspace, project)


def schedule_deep_embedding(workspace: Workspace, project: Project) -> None:
    """Compute missing deep vectors in the background; in servers only."""
    wanted = workspace.stays and workspace.deep and not project.settings.name
    if wanted and not model_mismatch_note(workspace, project):
        start_deep_embedding(workspace, project)


def start_deep_embedding(
    workspace: Workspace, project: Project, *, gently: bool = True
) -> Job | None:
    """Start a job that computes missing deep vectors, also for a model that was just chosen."""
    deep, background = workspace.deep, workspace.background_deep if gently else None
    if deep is None:
        return None

    def refine(work: Work) -> int:
        if background is None:
            return _refine(project, deep, work, gently=gently)
        with closing(background(work.check)) as embedder:
            return _refine(project, embedder, work, gently=gently)

    name = f"refine:{project.key}"
    return workspace.jobs.submit(name, "refine", refine, gently=gently and background is None)


def _refine(project: Project, embedder: Embedder, work: Work, *, gently: bool) -> int:
    """Give chunks and definitions their deep vectors, those of the files shown most first.

    Work in the background leaves a project to the process that has begun. Work that was asked for
    does not: that process may be waiting until the machine is idle.
    """

    def wanted() -> list[str]:
        return [path for path, _ in project.shown.most_common(_WANTED_FILES)]

    with ExitStack() as held:
        try:
            held.enter_context(WriterLock(project.folder, "refine.lock").held(wait_s=0))
        except IndexBusy:
            if gently:
                return 0
        stores = project.stores()
        models = dict.fromkeys(stores, embedder)
        return refine_vectors(stores, models, project.lock, work, wanted=wanted, definitions=True)
