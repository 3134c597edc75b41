"""Several servers on one PostgreSQL: whichever answers, sessions and pages go on; walls hold."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.stateless import frame_call, read_reply

from sonde.stores.knowledge.base import Entry, Piece

from .postgres import needs_postgres

pytestmark = needs_postgres
TOKENS = {"ann": "a" * 24, "bob": "b" * 24}


class Server:
    """One `sonde serve` on the shared database."""

    def __init__(self, folder: Path, url: str) -> None:
        folder.mkdir(parents=True)
        tokens = folder / "tokens"
        tokens.write_text("".join(f"{user} {token}\n" for user, token in TOKENS.items()))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "sonde.cli.main", "--json", "serve", "--port", "0",
             "--token-file", str(tokens)],
            stdout=subprocess.PIPE,
            cwd=folder,
            env={
                "SONDE_HOME": str(folder / "home"),
                "PATH": os.environ["PATH"],
                "SONDE_KNOWLEDGE_STORE": url,
                "SONDE_EMBEDDING": "none",
            },
        )  # fmt: skip

    @cached_property
    def netloc(self) -> str:
        """Where it listens, once it does."""
        assert self.process.stdout
        return urlsplit(json.loads(self.process.stdout.readline())["url"]).netloc

    def call(self, user: str, name: str, session: str = "", **arguments: Any) -> Any:
        """Call a tool as this user, in a session of this name; the answer's object."""
        body, headers = frame_call(name, arguments)
        headers["Authorization"] = f"Bearer {TOKENS[user]}"
        connection = http.client.HTTPConnection(self.netloc, timeout=60)
        try:
            address = f"/mcp?mcp-session-id={session}" if session else "/mcp"
            connection.request("POST", address, body, headers)
            reply = read_reply(connection.getresponse().read())
        finally:
            connection.close()
        return reply["error"]["data"] if "error" in reply else reply["result"]["structuredContent"]


@pytest.fixture
def servers(postgres_url: str, empty_database: Any, tmp_path: Path) -> Iterator[list[Server]]:
    started = [Server(tmp_path / str(at), postgres_url) for at in range(3)]
    yield started
    for server in started:
        server.process.kill()
        server.process.communicate()


def open_as(database: Any, user: str) -> Any:
    from sonde.stores.knowledge.postgres import PostgresKnowledge

    return PostgresKnowledge(database, user)


def fill(database: Any, user: str, count: int) -> None:
    entries = [
        Entry("notes", f"{user} {at}", (Piece(f"walrus {at}"),), id=f"{user}{at}")
        for at in range(count)
    ]
    open_as(database, user).put("notes", entries)


@pytest.mark.row("004-126")
def test_any_server_goes_on_where_another_was_also_when_one_dies(servers, database):
    fill(database, "ann", 12)
    one, two, three = servers
    first = one.call("ann", "knowledge_search", query="walrus", limit=4, session_id="new")
    handle = first["session_id"]
    asked = {"query": "walrus", "session_id": handle}
    one.process.kill()
    one.process.wait()
    second = two.call("ann", "knowledge_search", **asked, limit=4, offset=first["next_offset"])
    third = three.call("ann", "knowledge_search", **asked, limit=4, offset=second["next_offset"])
    pages = [row["uri"] for page in (first, second, third) for row in page["results"]]
    assert len(pages) == len(set(pages)) == 12
    again = two.call("ann", "knowledge_search", **asked, limit=4)
    assert "suppressed" not in again  # everything was seen: it starts over
    other = three.call("ann", "knowledge_search", **asked, limit=4)
    assert other["suppressed"] == 4


def test_a_ranking_of_everything_is_the_same_at_every_server(servers, database):
    """`search`: pages, the session and what was removed between them."""
    fill(database, "ann", 12)
    one, two, three = servers
    asked = {"query": "walrus", "limit": 4, "session": "ann-1"}
    first = one.call("ann", "search", **asked)
    one.process.kill()
    one.process.wait()
    shown = {row["id"] for row in first["results"]}
    rest = [f"ann{at}" for at in range(12) if f"notes://ann{at}" not in shown]
    store = open_as(database, "ann")
    store.remove("notes", [rest[0]])
    store.put("notes", [Entry("notes", "ann new", (Piece("walrus walrus"),), id="ann99")])
    second = two.call("ann", "search", **asked, offset=first["next_offset"])
    third = three.call("ann", "search", **asked, offset=second["next_offset"])
    pages = [row["id"] for page in (first, second, third) for row in page["results"]]
    assert sorted(pages) == sorted(f"notes://ann{at}" for at in range(12))
    assert third["next_offset"] is None
    assert first["total_estimated"] == third["total_estimated"] == 12
    address = f"notes://{rest[0]}"
    gone = next(row for page in (second, third) for row in page["results"] if row["id"] == address)
    assert (gone["title"], gone["snippet"]) == (f"ann {rest[0][3:]}", None)
    fresh = three.call("ann", "search", **asked)
    assert [row["id"] for row in fresh["results"]] == [
        "notes://ann99"
    ]  # the session has seen the others
    assert fresh["suppressed"] == 11
    got = two.call("ann", "fetch", id=first["results"][0]["uri"])
    assert "walrus" in got["content"]
    assert two.call("bob", "search", **asked, offset=4)["total_estimated"] == 0


def test_a_newer_ranking_of_another_server_is_the_one_that_pages_continue(servers, database):
    fill(database, "ann", 6)
    one, two, _ = servers
    asked = {"query": "walrus", "limit": 3}
    one.call("ann", "notes_search", **asked)
    fill(database, "ann", 9)
    first = two.call("ann", "notes_search", **asked)
    second = one.call("ann", "notes_search", **asked, offset=3)
    third = two.call("ann", "notes_search", **asked, offset=6)
    ids = [row["id"] for page in (first, second, third) for row in page["results"]]
    assert len(set(ids)) == 9


def test_preferences_and_questions_of_a_session_are_known_everywhere(servers, database):
    fill(database, "ann", 2)
    one, two, three = servers
    kept = {"defaults": {"snippet_length": 60}, "session_id": "new"}
    first = one.call("ann", "knowledge_search", query="walrus", **kept)
    handle = first["session_id"]
    long = Entry("notes", "long", (Piece("filler " * 90 + "walrus here " + "x " * 90),), id="long")
    open_as(database, "ann").put("notes", [long])
    found = two.call("ann", "knowledge_search", query="filler", session_id=handle)
    assert len(found["results"][0]["snippet"]) <= 60
    asked = {"source": "notes", "id": "long", "session_id": handle}
    two.call("ann", "knowledge_search", query="walrus here", session_id=handle)
    assert "walrus" in three.call("ann", "knowledge_get", **asked)["content"]
    assert "walrus" not in three.call("ann", "knowledge_get", source="notes", id="long")["content"]
    stranger = three.call("bob", "knowledge_search", query="walrus", session_id=handle)
    assert (stranger["total_estimated"], stranger.get("suppressed")) == (0, None)


@pytest.mark.row("004-3")
def test_a_token_decides_whose_knowledge_it_is(servers, database):
    fill(database, "ann", 3)
    one, two, _ = servers
    assert one.call("ann", "notes.search", query="walrus")["total_estimated"] == 3
    assert two.call("bob", "notes.search", query="walrus")["total_estimated"] == 0
    missing = two.call("bob", "notes_get", note_id="ann1")
    never = two.call("bob", "notes_get", note_id="ann999")
    assert missing["code"] == never["code"] == "ENTRY_NOT_FOUND"
    refused = two.call("ann", "notes_search", query="walrus", user_id="bob")
    assert refused["code"] == "UNKNOWN_ARGUMENT"


@pytest.mark.row("004-128")
def test_row_level_security_is_a_second_wall(database, empty_database):
    fill(database, "ann", 3)
    with database.transact("bob") as cursor:
        # as if a query had forgotten whose rows it is about
        assert cursor.execute("SELECT count(*) FROM notes").fetchone() == (0,)
        assert cursor.execute("DELETE FROM notes").rowcount == 0
    from sonde.errors import StorageUnusable

    with pytest.raises(StorageUnusable), database.transact("bob") as cursor:
        cursor.execute("INSERT INTO counters (owner, source) VALUES ('ann', 'x')")
    with database.transact("ann") as cursor:
        assert cursor.execute("SELECT count(*) FROM notes").fetchone() == (3,)
