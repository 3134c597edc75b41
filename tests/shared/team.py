"""One shared index, and servers of it, for the tests of a team."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.shared.conftest import Clone, run_git
from tests.trees import write_files
from tests.users.site import MARK
from tests.waiting import wait_until
from tests.web.conftest import Server

SONDE = (sys.executable, "-m", "sonde.cli.main")
KEY = "k" * 40


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


class Team:
    """Servers of one shared index, each with a home and a cache of its own."""

    def __init__(self, folder: Path, index: Path) -> None:
        self.folder, self.index = folder, index
        self.access = folder / "access.toml"
        self.users = folder / "tokens"
        self.users.write_text("anna " + "a" * 24 + "\nbert " + "b" * 24 + "\nlocal " + "c" * 24)
        self.access.write_text(f'all = ["shop"]\n[users]\nanna = ["{MARK}-*"]\n')
        self.servers: list[Server] = []

    def serve(self, name: str, *options: str, **environ: str) -> Server:
        home = self.folder / name
        home.mkdir(exist_ok=True)
        server = Server(
            [*SONDE, "--json", "serve", "--port", "0", "--no-browser", "--from", str(self.index),
             "--cache", str(home / "cache"), "--access", str(self.access),
             "--token-file", str(self.users), *options],
            cwd=home,
            env={"PATH": "/usr/bin:/bin", "HOME": str(home), "SONDE_EMBEDDING": "static",
                 "SONDE_RATE_LIMIT": "0", "SONDE_SIGNING_KEY": KEY, "WORD": "secret", **environ},
        )  # fmt: skip
        self.servers.append(server)
        wait_until(lambda: server.ask("/readyz")[0] == 200, "ready")
        return server


@pytest.fixture
def team(tmp_path: Path, index: Path) -> Iterator[Team]:
    found = Team(tmp_path, index)
    yield found
    for server in found.servers:
        server.process.kill()
        server.process.communicate()
