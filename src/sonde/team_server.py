"""Servers of a shared index: their projects, signing key, and rules of access."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from sonde.app import Grounds
from sonde.errors import InvalidRequest
from sonde.indexing.sources import name_mirror
from sonde.projects.project import Project, Workspace
from sonde.settings import Settings
from sonde.stores.users import RepositoryAccess, load_signing_key

_FILE_BYTES = 1 << 30  # a file that was pushed was within the limit there

OpenProject = Callable[[Settings, Path], Project]


def read_signing_key(settings: Settings) -> bytes:
    """The key that signs cursors and sessions: shared by several servers, or the installation's."""
    if settings.signing_key:
        return hashlib.sha256(settings.signing_key.encode()).digest()
    return load_signing_key(settings.home)


def expand_home(text: str) -> Path:
    """A path with its `~` resolved; unchanged if there is no such user."""
    path = Path(text)
    with suppress(RuntimeError):
        path = path.expanduser()
    return path


def find_trees(settings: Settings) -> Path:
    """The folder below which the projects of a shared index lie."""
    return expand_home(settings.cache_folder).resolve() / "trees"


def open_any_project(
    settings: Settings, open_project: OpenProject, root: Path, *, writes: bool = False
) -> Project:
    """A local project, or one of a shared index, which consists of exactly the pushed files."""
    trees = find_trees(settings)
    if not root.is_relative_to(trees):
        return open_project(settings, root)
    own = replace(
        settings, respect_gitignore=False, max_file_size=_FILE_BYTES, watching="off", roots=(),
        store="sqlite", shared_index="",
    )  # fmt: skip
    project = open_project(own, root)
    if not writes:
        project.adopt(replace(project.settings, name=name_mirror(root.relative_to(trees))))
    return project


def add_repositories(settings: Settings, grounds: Grounds) -> Grounds:
    """The grounds, with the rules about repositories if a shared index is served."""
    if not settings.serve_from:
        return grounds
    trees = find_trees(settings)
    return replace(grounds, trees=trees, repositories=open_access(settings))


def open_access(settings: Settings) -> RepositoryAccess:
    """The operator's access file: rules about repositories, and the provider. Empty without one."""
    return RepositoryAccess(expand_home(settings.access_file) if settings.access_file else None)


def add_mirrors(
    settings: Settings, workspace: Workspace, open_project: OpenProject, clock: Callable[[], float]
) -> Workspace:
    """The workspace, with the projects of a shared index if one is served."""
    if not (workspace.stays and settings.serve_from):
        return workspace
    from sonde.shared.index import SharedIndex
    from sonde.shared.mirrors import Mirrors

    cache = find_trees(settings).parent
    if cache.is_relative_to(settings.home.resolve()):
        raise InvalidRequest(
            f"{cache} is inside {settings.home}",
            user_message="The cache cannot be inside sonde's own storage.",
            next_action="Name another folder with --cache.",
        )
    mirrors = Mirrors(
        SharedIndex(settings.serve_from), cache, settings.cache_size << 30, workspace,
        partial(open_any_project, settings, open_project, writes=True),
        every_s=settings.refs_interval, clock=clock,
    )  # fmt: skip
    return replace(workspace, mirrors=mirrors)
