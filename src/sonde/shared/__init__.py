"""One index for a team: Lance tables at a URL, pushed by CI, read by laptops and servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sonde.projects.project import Project
    from sonde.runtime.work import Work


def seed_new_index(project: Project, work: Work) -> str:
    """Begin a project's index with a shared one, if its settings name one; returns a note."""
    if not project.settings.shared_index:
        return ""
    from sonde.shared.seed import seed_project  # of no use to most runs

    return seed_project(project, work)
