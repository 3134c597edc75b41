"""A server's app on a real project, and ways to wait until its index has come to rest."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.contents import read_index
from tests.waiting import wait_until

from sonde.app import App
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.tools.code import search_code
from sonde.tools.index import create_index, get_index_status
from sonde.wiring import build_app


class Served:
    """A project with a server on it."""

    def __init__(
        self, root: Path, place: Path, clock: Callable[[], float], **settings: Any
    ) -> None:
        self.root = root
        self._clock = clock
        self.place = place
        self._settings = {"embedding": "static"} | settings
        self.app = self.open()

    def open(self, name: str = "home", *, stays: bool = True) -> App:
        """An app of its own on the same project."""
        settings = load_settings({}, home=self.place / name, assume_yes=True, **self._settings)
        return build_app(settings, start=self.root, stays=stays, clock=self._clock)

    @property
    def folder(self) -> Path:
        """Where the project's index lies."""
        return self.app.workspace.projects.get(self.root).folder

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def git(self, *args: str, cwd: Path | None = None) -> str:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        quiet = ("-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main")
        done = subprocess.run(
            ["git", *identity, *quiet, *args],
            cwd=cwd or self.root,
            env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def following(self, app: App | None = None) -> dict[str, Any]:
        """What the status says of how the project is followed."""
        told: dict[str, Any] = get_index_status(app or self.app, work=Work())["details"]
        return dict(told["following"])

    def begin(self) -> None:
        """Index, and wait until changes are followed."""
        create_index(self.app, work=Work())
        wait_until(lambda: self.following().get("current"), "following")
        wait_until((self.folder / "integrity.json").exists, "checked")

    def finds(self, word: str, app: App | None = None) -> list[str]:
        """Files in which a word is found by searching."""
        answer = search_code(app or self.app, word, 20, mode="lexical", work=Work())
        return [row["path"] for row in answer["results"]]

    def holds(self, path: str) -> str | None:
        """The hash under which the index knows a file."""
        for store in self.app.workspace.projects.get(self.root).stores().values():
            if state := store.files([path]).get(path):
                return state.hash
        return None

    def build_fresh(self) -> dict[str, Any]:
        """What a new index of the project as it is now holds."""
        name = f"fresh-{time.monotonic_ns()}"
        app = self.open(name, stays=False)
        try:
            create_index(app, work=Work())
            return read_index(app.workspace.projects.get(self.root).folder)
        finally:
            app.close()

    def wait_equal(self, what: str = "the index equals a fresh one") -> None:
        """Wait until the index is what a fresh one is."""
        fresh = self.build_fresh()
        wait_until(lambda: read_index(self.folder) == fresh, what)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Puts a server on a small project; settings by name."""
    with ExitStack() as stack:

        def serve_one(
            *,
            begin: bool = True,
            files: int = 20,
            clock: Callable[[], float] = time.monotonic,
            **settings: Any,
        ) -> Served:
            root = tmp_path / "project"
            if not root.exists():
                (root / "pkg").mkdir(parents=True)
                (root / "pyproject.toml").write_text("")
                for number in range(files):
                    text = f"def function_{number}():\n    return {number}\n"
                    (root / "pkg" / f"m{number}.py").write_text(text)
                (root / "README.md").write_text("# Things\n\nAll about things.\n")
            served = Served(root, tmp_path, clock, **settings)
            stack.callback(served.app.close)
            if begin:
                served.begin()
            return served

        yield serve_one


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """A server that follows a small project."""
    return serve()
