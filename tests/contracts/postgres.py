"""A real PostgreSQL, started for the tests from the system's own binaries."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sonde.stores.knowledge_base import KnowledgeStore


def find_binaries() -> Path | None:
    """The newest PostgreSQL of this machine."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return Path(initdb).resolve().parent if initdb else None


BINARIES = find_binaries()
needs_postgres = pytest.mark.skipif(BINARIES is None, reason="needs PostgreSQL's programs")


@contextmanager
def run_postgres(folder: Path) -> Iterator[str]:
    """A server of its own on a free port; gives the address for a role without privileges."""
    assert BINARIES
    # PostgreSQL does not run as root
    user = "postgres" if os.name == "posix" and os.geteuid() == 0 else None
    folder.mkdir(parents=True, exist_ok=True)
    if user:
        for place in (folder, *folder.parents):
            if place.owner() == "root" and place != Path("/"):
                place.chmod(place.stat().st_mode | 0o011)
        shutil.chown(folder, user)
    data = folder / "data"
    command = [BINARIES / "initdb", "-D", data, "-U", "admin", "-A", "trust", "-N", "--no-locale",
               "-E", "UTF8"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, user=user, cwd="/")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = f"-h 127.0.0.1 -p {port} -k {folder} -F"
    server = subprocess.Popen(
        [BINARIES / "postgres", "-D", data, *options.split()],
        user=user,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        admin = f"postgresql://admin@127.0.0.1:{port}/postgres"
        connection = _connect(admin)
        connection.execute("CREATE ROLE sonde LOGIN PASSWORD 'sonde'")
        connection.execute("CREATE DATABASE sonde OWNER sonde")
        connection.close()
        yield f"postgresql://sonde:sonde@127.0.0.1:{port}/sonde"
    finally:
        server.terminate()
        server.wait(30)


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


def open_knowledge(backend: str, folder: Path, user: str, database: Any) -> KnowledgeStore:
    """A user's store of either kind."""
    if backend == "postgres":
        from sonde.stores.knowledge_postgres import PostgresKnowledge

        return PostgresKnowledge(database, user)
    from sonde.stores.knowledge_sqlite import SqliteKnowledge

    return SqliteKnowledge(folder / user)
