"""PostgreSQL goes away, hangs up or is full, or we are killed: nothing that was stored is lost."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.waiting import wait_until

from sonde.errors import StorageUnusable
from sonde.stores.knowledge.base import Entry, KnowledgeStore, Piece

from .postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    started = PostgresServer()
    yield started
    started.close()


@pytest.fixture
def open_store(server: PostgresServer) -> Iterator[Callable[..., Any]]:
    """Opens the store of a user, over connections of its own."""
    from sonde.stores.knowledge.postgres import PostgresKnowledge
    from sonde.stores.knowledge.postgres.database import PostgresDatabase

    opened: list[Any] = []

    def open_one(user: str, **options: Any) -> PostgresKnowledge:
        opened.append(PostgresDatabase(server.url, **options))
        return PostgresKnowledge(opened[-1], user)

    yield open_one
    for database in opened:
        database.close()


def note(text: str) -> Entry:
    return Entry("notes", "", (Piece(f"walrus {text}"), Piece("second", 1)))


def check_whole(store: KnowledgeStore, keys: list[str]) -> None:
    """Every acknowledged entry is there, whole, and found; the counts of terms agree."""
    assert all(store.get("notes", key) is not None for key in keys)
    entries, pieces = store.count("notes")
    assert pieces == 2 * entries >= 2 * len(keys)
    assert len(store.rank("notes", ["walru"], 100_000)) == entries
    assert len(store.rank("notes", ["second"], 100_000)) == entries
    store.remove("notes", [entry.id for entry in store.list_entries("notes", limit=100_000)])
    assert store.count("notes") == (0, 0)
    assert store.rank("notes", ["walr"], 9) == []  # no term is left that could begin so


@pytest.mark.row("004-127")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_a_restart_under_load_loses_nothing(server, open_store, how):
    user = f"load {how}"
    store = open_store(user)
    keys: list[str] = []
    refused: list[Exception] = []
    done = threading.Event()

    def write() -> None:
        while not done.is_set():
            try:
                keys.extend(store.put("notes", [note("a"), note("b")]))
            except StorageUnusable as error:
                refused.append(error)

    def read() -> None:
        while not done.is_set():
            try:
                store.rank("notes", ["walru"], 10)
                store.recall("something")
            except StorageUnusable as error:
                refused.append(error)

    threads = [threading.Thread(target=work) for work in (write, write, read)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: len(keys) > 20)
        server.stop(how)
        before = len(keys)
        server.start()
        wait_until(lambda: len(keys) > before + 20)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert refused
    for error in refused:
        assert error.next_action
        assert "sonde:sonde" not in f"{error.as_dict()}"
    check_whole(store, keys)


def test_a_connection_that_is_cut_takes_its_change_with_it_and_nothing_else(server, open_store):
    store = open_store("cut")
    store.put("notes", [note("kept")])
    database = store._database
    admin = server.connect()

    def change_and_wait() -> None:
        with database.transact("cut") as cursor:
            cursor.execute("DELETE FROM notes")
            pid = cursor.execute("SELECT pg_backend_pid()").fetchone()[0]
            admin.execute("SELECT pg_terminate_backend(%s)", [pid])
            cursor.execute("SELECT pg_sleep(30)")

    with pytest.raises(StorageUnusable) as told:
        change_and_wait()
    admin.close()
    assert "restarted" in told.value.as_dict()["userMessage"]
    check_whole(store, [entry.id for entry in store.list_entries("notes")])


def test_when_every_connection_is_taken_it_is_said_so(open_store):
    store = open_store("busy", most_connections=1, wait_s=0.2)
    store.put("notes", [note("there")])
    with store._database.transact("busy"), pytest.raises(StorageUnusable) as told:
        store.count("notes")
    assert "no free connection" in told.value.as_dict()["userMessage"]
    assert store.count("notes") == (1, 2)


@pytest.mark.row("004-129")
def test_more_callers_than_connections_wait_for_each_other(open_store):
    store = open_store("queue", most_connections=2)
    threads = [
        threading.Thread(target=store.put, args=("notes", [note(str(at))])) for at in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.count("notes") == (12, 24)
    assert len(store.rank("notes", ["walru"], 99)) == 12


def test_a_database_that_is_not_there_is_named_without_its_password():
    from sonde.stores.knowledge.postgres.database import PostgresDatabase

    with pytest.raises(StorageUnusable) as told:
        PostgresDatabase("postgresql://ann:secret-word@127.0.0.1:1/none", wait_s=2)
    assert "secret-word" not in f"{told.value.as_dict()} {told.value}"


WRITER = """
import sys
import numpy as np
from sonde.stores.knowledge.base import Entry, Piece
from sonde.stores.knowledge.postgres import PostgresKnowledge
from sonde.stores.knowledge.postgres.database import PostgresDatabase
store = PostgresKnowledge(PostgresDatabase(sys.argv[1]), sys.argv[2])
for number in range(100_000):
    entry = Entry("notes", "", (Piece("walrus"), Piece("second", 1)))
    keys = store.put("notes", [entry] * 3)
    bare = store.list_bare("notes", "m", 10)
    store.put_vectors("notes", "m", [b.piece.number for b in bare], np.ones((len(bare), 8), "f4"))
    print(*keys, flush=True)
"""


@pytest.mark.parametrize("after", [1, 9])
def test_what_was_acknowledged_before_a_kill_is_there(server, open_store, after):
    user = f"killed {after}"
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, server.url, user], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout
    keys = [key for _ in range(after) for key in child.stdout.readline().split()]
    child.send_signal(signal.SIGKILL)
    keys += child.communicate()[0].split()
    store = open_store(user)
    # what the child was doing when it died is undone, and holds nobody up
    near = store.nearest("notes", "m", np.ones(8, np.float32), 100_000)
    assert len(near) >= 2 * (len(keys) - 3)
    check_whole(store, keys)
