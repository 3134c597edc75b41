"""Starting a project's index from a shared one: the nearest pushed commit, then local changes.

A failure becomes a note, and the project is indexed here, as without a shared index.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from sonde.errors import Cancelled, NoHistory, SharedIndexMissing, SondeError
from sonde.indexing.diff import coverage_of
from sonde.indexing.pipeline import recipe_of
from sonde.policy.commits import list_commit_ids, read_checkout
from sonde.projects.project import Project, Workspace
from sonde.runtime.private import make_folder
from sonde.runtime.work import Work, WriterLock
from sonde.shared.index import SharedIndex
from sonde.shared.manifest import PushedCommit, name_repository, shorten_recipe
from sonde.stores.chunks.base import ChunkStore, Vectors
from sonde.stores.files import translate_os_errors

HISTORY = 2_000  # commits back from the one that is checked out, among which a pushed one is sought
WORTH_FETCHING = 200  # missing deep vectors from which reading a snapshot is faster: half a minute

log = logging.getLogger(__name__)


def find_base(shared: SharedIndex, repository: str, root: Path, recipe: str) -> PushedCommit | None:
    """The pushed commit to start from: the nearest ancestor, else the default branch's head.

    None if there is none, or if this version would chunk its files differently.
    """
    nearest = shared.nearest(repository, list_commit_ids(root, HISTORY))
    commit = nearest or shared.find_head(repository)
    if commit is None:
        return None
    found = shared.read_commit(repository, commit)
    return found if shorten_recipe(found.recipe) == shorten_recipe(recipe) else None


def _find_for(project: Project) -> tuple[SharedIndex, PushedCommit]:
    url = project.settings.shared_index
    shared = SharedIndex(url)
    try:
        name = name_repository(read_checkout(project.root).remote, project.root)
    except NoHistory as error:
        raise SharedIndexMissing(
            str(error), user_message="The project is not the root of a git repository."
        ) from error
    base = find_base(shared, name, project.root, recipe_of(project.tree))
    if base is None:
        names = dict.fromkeys(each.repository for each in shared.list_branches())
        known = ", ".join(names) or "nothing"
        raise SharedIndexMissing(
            f"{url} has nothing that {project.root} can start from",
            user_message=f"It has no index of {name} that this version can use; it has: {known}.",
        )
    return shared, base


@contextmanager
def open_workplace(project: Project, name: str, work: Work) -> Iterator[Path]:
    """A temporary folder next to the index, for one process at a time."""
    folder = project.folder / name
    with translate_os_errors(folder), WriterLock(project.folder, f"{name}.lock").held(work):
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def seed_project(project: Project, work: Work) -> str:
    """Start a new index from the nearest pushed commit. Returns what was done, or why not.

    The files are still compared with those here, under the policy of this machine: files that may
    not be indexed here are dropped, and files that differ are indexed.
    """
    url = project.settings.shared_index
    if project.settings.store_name != "sqlite":
        return f"indexed here, not from {url}: only the store 'sqlite' can start from it"
    try:
        shared, base = _find_for(project)
        filled = shared.fill(base.repository, base.commit, project.folder, work=work)
    except Cancelled:
        raise
    except SondeError as error:
        log.warning("not indexed from %s: %s", url, error)
        return f"indexed here, not from {url}: {error.user_message}"
    place = f"{base.repository} at {base.commit[:12]}"
    return f"started from {place} of {url}" + (f"; {filled.note}" if filled.note else "")


def fetch_vectors(
    workspace: Workspace, project: Project, work: Work, *, least: int = WORTH_FETCHING
) -> str:
    """Fetch missing deep vectors, if at least `least` are, from the nearest pushed commit."""
    import numpy as np

    url, deep = project.settings.shared_index, workspace.deep
    if not url or deep is None:
        return ""
    stores = project.stores()
    have, total = coverage_of(stores, deep.name)
    if total - have < least:
        return ""
    taken = 0
    try:
        with open_workplace(project, "shared", work) as folder:
            shared, base = _find_for(project)
            if deep.name not in base.models:
                return f"{url} has no vectors of {deep.name}"
            shared.fill(base.repository, base.commit, folder, work=work)
            with project.with_folder(folder).open_stores("sqlite") as opened:
                for kind, store in stores.items():
                    lacking = store.missing(deep.name, store.counts().chunks)
                    missing = {chunk.digest for chunk in lacking}
                    if found := collect_vectors(opened[kind], deep.name, missing):
                        with project.lock.held(work):
                            rows = np.stack(list(found.values()))
                            store.put_vectors(deep.name, list(found), rows)
                        taken += len(found)
    except Cancelled:
        raise
    except SondeError as error:
        return f"no vectors were taken from {url}: {error.user_message}"
    return f"took {taken} deep vectors from {url}"


def collect_vectors(
    source: ChunkStore, model: str, digests: Collection[bytes]
) -> dict[bytes, Vectors]:
    """The vectors of these digests that a store has."""
    known = source.known_digests(model, digests)
    found: dict[bytes, Vectors] = {}
    for path in source.files() if known else ():
        chunks = [chunk for chunk in source.chunks_of(path) if chunk.digest in known]
        rows = source.vectors(model, [chunk.id for chunk in chunks])
        found |= {chunk.digest: rows[chunk.id] for chunk in chunks if chunk.id in rows}
    return found
