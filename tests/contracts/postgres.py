"""A real PostgreSQL, started for the tests from the system's own binaries."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sonde.stores.knowledge.base import KnowledgeStore


def find_binaries() -> Path | None:
    """The newest PostgreSQL of this machine."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


BINARIES = find_binaries()
needs_postgres = pytest.mark.skipif(BINARIES is None, reason="needs PostgreSQL's programs")


class PostgresServer:
    """A server of its own on a free port, with a role without privileges."""

    def __init__(self) -> None:
        assert BINARIES
        # PostgreSQL does not run as root, and another user cannot enter the folders of pytest
        self._user = "postgres" if os.name == "posix" and os.geteuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="sonde-postgres-"))
        if self._user:
            shutil.chown(self._folder, self._user)
        options = "-U admin -A trust -N --no-locale -E UTF8".split()
        command = [BINARIES / "initdb", "-D", self._folder / "data", *options]
        subprocess.run(command, check=True, capture_output=True, user=self._user, cwd="/")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.admin_url = f"postgresql://admin@127.0.0.1:{self._port}/postgres"
        self.url = f"postgresql://sonde:sonde@127.0.0.1:{self._port}/sonde"
        self.start()
        connection = self.connect()
        connection.execute("CREATE ROLE sonde LOGIN PASSWORD 'sonde'")
        connection.execute("CREATE DATABASE sonde OWNER sonde")
        connection.close()

    def start(self) -> None:
        """Start it; `connect` waits until it answers."""
        options = f"-h 127.0.0.1 -p {self._port} -k {self._folder} -F"
        self._process = subprocess.Popen(
            [BINARIES / "postgres", "-D", self._folder / "data", *options.split()],  # type: ignore[operator]
            user=self._user,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it: in order, or (SIGQUIT) as a crash does."""
        self._process.send_signal(how)
        self._process.wait(30)

    def close(self) -> None:
        """Stop it and remove what it wrote."""
        self.stop(signal.SIGINT)
        shutil.rmtree(self._folder)

    def connect(self) -> Any:
        """A connection of its administrator."""
        return _connect(self.admin_url)


@contextmanager
def run_postgres() -> Iterator[str]:
    """A server of its own; gives the address for a role without privileges."""
    server = PostgresServer()
    try:
        yield server.url
    finally:
        server.close()


def _connect(url: str) -> Any:
    import psycopg

    deadline = time.monotonic() + 60
    while True:
        try:
            return psycopg.connect(url, autocommit=True)
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def open_knowledge(
    backend: str, folder: Path, user: str, database: Any, **options: int
) -> KnowledgeStore:
    """A user's store of either kind."""
    if backend == "postgres":
        from sonde.stores.knowledge.postgres import PostgresKnowledge

        return PostgresKnowledge(database, user, **options)
    from sonde.stores.knowledge.sqlite import SqliteKnowledge

    return SqliteKnowledge(folder / user, **options)
