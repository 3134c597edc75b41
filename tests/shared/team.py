"""Servers of one shared index."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.users.site import MARK
from tests.waiting import wait_until
from tests.web.conftest import Server

SONDE = (sys.executable, "-m", "sonde.cli.main")
KEY = "k" * 40


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
