"""A git repository, and pushing it to a shared index in a folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.shared.team import Team
from tests.trees import write_files
from tests.users.site import MARK

from sonde.app import App
from sonde.projects.find import find_project
from sonde.projects.project import Project
from sonde.runtime.work import Work
from sonde.shared.push import PushReport, push_project

FILES = {
    "src/orders.py": "class Order:\n    def total(self):\n        return sum(self.prices)\n",
    "src/users.py": "import orders\n\n\ndef find_user(name):\n    return orders.Order\n",
    "docs/guide.md": "# Guide\n\nHow to order things.\n\n## Refunds\n\nAsk for them.\n",
    "run.sh": "#!/bin/sh\necho run\n",
}


def run_git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=dev", "-c", "user.email=dev@example.com")
    command = ["git", "-C", str(root), *identity, *arguments]
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    return done.stdout.strip()


class Clone:
    """A repository that is checked out, as CI or a colleague has it."""

    def __init__(self, root: Path, open_app: Callable[..., App], home: str) -> None:
        self.root, self.home, self._open_app = root, home, open_app

    def commit(self, files: dict[str, str | bytes] | None = None, *gone: str) -> str:
        write_files(self.root, files or {})
        for path in gone:
            (self.root / path).unlink()
        run_git(self.root, "add", "-A")
        run_git(self.root, "commit", "-qm", "a change")
        return run_git(self.root, "rev-parse", "HEAD")

    def open(self, **explicit: Any) -> tuple[App, Project]:
        app = self._open_app(self.home, start=self.root, **explicit)
        return app, find_project(app.workspace, str(self.root))

    def push(self, url: str | Path, **options: Any) -> PushReport:
        app, project = self.open()
        return push_project(app.workspace, project, str(url), Work(), **options)


@pytest.fixture
def ci(tmp_path: Path, open_app: Callable[..., App]) -> Clone:
    """A repository with one commit."""
    root = tmp_path / "ci" / "shop"
    write_files(root, FILES)
    (root / "run.sh").chmod(0o755)
    run_git(root, "init", "-q", "-b", "main")
    clone = Clone(root, open_app, "ci-home")
    clone.commit()
    return clone


@pytest.fixture
def index(ci: Clone, tmp_path: Path) -> Path:
    """Two repositories: one that everybody sees, and one with the mark in everything."""
    place = tmp_path / "index"
    ci.push(place)
    vault = Clone(tmp_path / "ci" / f"{MARK}-vault", ci._open_app, "ci-home")
    files = {f"{MARK}_{n:02}.py": f"def {MARK}_{n}():\n    return 'number {n} of {MARK}'\n"
             for n in range(60)}  # fmt: skip
    write_files(vault.root, files | {f"ledger_{MARK}.md": f"# {MARK}\n\nThe {MARK} in words.\n"})
    run_git(vault.root, "init", "-q", "-b", "main")
    vault.commit()
    vault.push(place)
    return place


@pytest.fixture
def team(tmp_path: Path, index: Path) -> Iterator[Team]:
    found = Team(tmp_path, index)
    yield found
    for server in found.servers:
        server.process.kill()
        server.process.communicate()
