"""The workspace: the open projects and what the services on them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sonde.embedding.base import Embedder
from sonde.paging.results import ResultSets
from sonde.projects.project import Projects
from sonde.runtime.jobs import Jobs


@dataclass(frozen=True, slots=True)
class Workspace:
    """The open projects, with the parts that find, index and search them."""

    home: Path
    start: Path
    """Where the project is looked for when a call names none."""
    key: bytes
    """Signs cursors and confirmations of this installation."""
    projects: Projects
    jobs: Jobs
    results: ResultSets
    static: Embedder | None
    deep: Embedder | None
    background_deep: Callable[[Callable[[], None]], Embedder] | None
    """Opens the deep model in a process of lowest priority; its argument is called during work."""
    max_tokens: int
    assume_yes: bool
    stays: bool
    """True in a server: background work may outlive the answer."""

    def close(self) -> None:
        """Stop background work and close every project."""
        self.projects.stop_following()
        self.jobs.close()
        self.results.close()
        self.projects.close()
        for embedder in (self.static, self.deep):
            if embedder:
                embedder.close()
