"""The workspace: the open projects and what the services on them share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sonde.embedding.base import Embedder
from sonde.paging.cursor import ResultSets
from sonde.projects.project import Project
from sonde.runtime.jobs import Jobs
from sonde.runtime.processes import Child

FRESH_S = (0.5, 10.0)
"""How long an index counts as fresh: five times as long as comparing it took, within these bounds,
so that a large project is not compared all the time."""


class Projects:
    """The open projects by root; each is opened on first use."""

    def __init__(self, open_project: Callable[[Path], Project]) -> None:
        self._open_project = open_project
        self._open: dict[Path, Project] = {}
        self._guard = threading.Lock()

    def get(self, root: Path) -> Project:
        """The project at this root."""
        with self._guard:
            project = self._open.get(root)
            if project is None:
                project = self._open[root] = self._open_project(root)
            return project

    def reload(self, root: Path) -> None:
        """Read the settings of one that is in use again."""
        fresh = self._open_project(root)
        with self._guard:
            project = self._open.get(root)
        if project:
            project.adopt(fresh.settings)

    def stop_following(self) -> None:
        """Stop every follower."""
        for project in list(self._open.values()):
            project.stop_following()

    def forget(self, root: Path) -> None:
        """Close one, so that its settings are read again next time."""
        with self._guard:
            project = self._open.pop(root, None)
        if project:
            project.stop_following()
            project.close()

    def close(self) -> None:
        """Close all."""
        for root in list(self._open):
            self.forget(root)


@dataclass(frozen=True, slots=True)
class Workspace:
    """The open projects, with the parts that find, index and search them."""

    home: Path
    start: Path
    """Where a call that names no project looks for one."""
    key: bytes
    """Signs cursors and confirmations of this installation."""
    projects: Projects
    jobs: Jobs
    results: ResultSets
    static: Embedder | None
    deep: Embedder | None
    background_deep: Callable[[Callable[[], None]], Embedder] | None
    """Opens the deep model in a process of lowest priority; its argument is called during work."""
    start_checker: Callable[[Path], Child]
    """Starts a process that checks the project at a root; see `projects.check`."""
    max_tokens: int
    assume_yes: bool
    stays: bool
    """True in a server: background work may outlive the answer."""
    fresh_s: tuple[float, float] = FRESH_S

    def close(self) -> None:
        """Stop background work and close every project."""
        self.projects.stop_following()
        self.jobs.close()
        self.results.close()
        self.projects.close()
        for embedder in (self.static, self.deep):
            if embedder:
                embedder.close()
