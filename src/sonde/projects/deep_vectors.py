"""Deep vectors of a project: which are missing, and making them in the background."""

from __future__ import annotations

from contextlib import closing

from sonde.embedding.base import Embedder
from sonde.errors import IndexBusy
from sonde.indexing.pipeline import refine_vectors
from sonde.projects.project import Project, Workspace
from sonde.runtime.jobs import Job
from sonde.runtime.work import Work, WriterLock

_WANTED_FILES = 20  # the files shown most that get their deep vectors first


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
