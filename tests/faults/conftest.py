"""sonde as separate processes, on trees and storage that are made to fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.contents import STATIC, read_index

from sonde.app import App
from sonde.runtime.work import Work
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.tools.index import create_index

PATIENCE_S = 120.0
# Root reads everything by these two powers; without them file modes hold for it as for anyone.
_DROP_POWERS = (
    "import ctypes, os, sys; libc = ctypes.CDLL(None);"
    "[libc.prctl(24, power, 0, 0, 0) for power in (1, 2)];"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


@dataclass
class Sonde:
    """Runs the command line for one project with storage of its own."""

    project: Path
    home: Path
    environ: dict[str, str] = field(default_factory=dict)
    prefix: tuple[str, ...] = ()

    def command(self, *args: str) -> list[str]:
        return [*self.prefix, sys.executable, "-m", "sonde.cli.main", *args]

    @property
    def variables(self) -> dict[str, str]:
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
        return {**kept, "HOME": str(self.home.parent), "SONDE_HOME": str(self.home), **self.environ}

    def run(self, *args: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*args),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=PATIENCE_S,
            **({"cwd": self.project, "env": self.variables} | options),
        )

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*args),
            cwd=self.project,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ask(self, *args: str, **options: Any) -> dict[str, Any]:
        """The JSON answer of a command that works."""
        done = self.run(*args, "--json", **options)
        assert done.returncode in (0, 1), (done.stdout, done.stderr)
        if args[0] == "grep":  # JSON Lines, as those of rg
            rows = [json.loads(line) for line in done.stdout.splitlines()]
            found = [row["data"] for row in rows if row["type"] == "match"]
            matches = [
                {
                    "path": row["path"]["text"],
                    "line": row["line_number"],
                    "text": row["lines"]["text"].removesuffix("\n"),
                }
                for row in found
            ]
            return {"matches": matches, "totalMatches": len(matches)}
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def fail(self, *args: str, **options: Any) -> dict[str, Any]:
        """The JSON error of a command that does not; never a traceback."""
        done = self.run(*args, "--json", **options)
        assert done.returncode == 2, (done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        error: dict[str, Any] = json.loads(done.stdout)
        assert set(error) == {"code", "userMessage", "developerMessage", "nextAction"}
        assert error["code"] != "ERROR", error
        return error

    @property
    def folder(self) -> Path:
        """Where the project's index lies."""
        (found,) = (self.home / "indexes").iterdir()
        return found

    def powerless(self) -> Sonde:
        """The same as someone whom file modes keep out."""
        drop = (sys.executable, "-c", _DROP_POWERS) if os.geteuid() == 0 else ()
        return Sonde(self.project, self.home, self.environ, drop)


def write_files(root: Path, count: int = 30) -> None:
    """A small project of code and docs."""
    (root / ".git").mkdir(parents=True)
    for number in range(count):
        folder = root / f"pkg{number % 5}"
        folder.mkdir(exist_ok=True)
        (folder / f"mod{number}.py").write_text(
            f'"""Module {number}."""\n\n\ndef function_{number}(value):\n'
            f"    return value + {number}\n\n\nclass Thing{number}:\n    size = {number}\n"
        )
    (root / "README.md").write_text("# Read me\n\nAll about things.\n")


def check_index(folder: Path) -> dict[str, Any]:
    """What an index holds, once it is found to be whole."""
    for kind in ("code", "docs"):
        store = SqliteChunkStore(folder, kind)
        assert store.verify() == []
        have, total = store.coverage(STATIC[kind])
        assert have == total
        store.close()
    return read_index(folder)


@pytest.fixture
def sonde(tmp_path: Path) -> Sonde:
    """A project that is not indexed yet."""
    project = tmp_path / "project"
    write_files(project)
    return Sonde(project, tmp_path / "home" / "store")


@pytest.fixture
def fresh(open_app: Callable[..., App], sonde: Sonde) -> Callable[[], dict[str, Any]]:
    """What a new index of the project as it is now would hold."""

    def build() -> dict[str, Any]:
        app = open_app("fresh", start=sonde.project)
        create_index(app, work=Work())
        return check_index(app.workspace.projects.get(sonde.project).folder)

    return build


@pytest.fixture
def contents(sonde: Sonde) -> Callable[[], dict[str, Any]]:
    """What the project's index holds."""
    return lambda: check_index(sonde.folder)
