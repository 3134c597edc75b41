"""App: the parts that every verb works on."""

from __future__ import annotations

from dataclasses import dataclass

from sonde.disk.trees import Disk
from sonde.knowledge.library import Library
from sonde.projects.project import Workspace
from sonde.runtime.private import mend_storage


@dataclass(frozen=True, slots=True)
class App:
    """Projects, disks and knowledge; no verbs of its own."""

    workspace: Workspace
    disk: Disk
    knowledge: Library

    def close(self) -> None:
        """Stop background work and close every file."""
        self.workspace.close()
        self.disk.close()
        self.knowledge.close()
        mend_storage(self.workspace.home)
