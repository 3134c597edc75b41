"""Several servers on one PostgreSQL: whichever answers, sessions and pages go on; walls hold."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from sonde.stores.knowledge_base import Entry, Piece

from .postgres import needs_postgres

pytestmark = needs_postgres
TOKENS = {"ann": "a" * 24, "bob": "b" * 24}
VERSION = "2026-07-28"


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
        assert self.process.stdout
        self.netloc = urlsplit(json.loads(self.process.stdout.readline())["url"]).netloc

    def call(self, user: str, name: str, **arguments: Any) -> Any:
        """Call a tool as this user; the answer's object."""
        params = {
            "name": name,
            "arguments": arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": VERSION,
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            "Authorization": f"Bearer {TOKENS[user]}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Mcp-Protocol-Version": VERSION,
            "Mcp-Method": "tools/call",
            "Mcp-Name": name,
        }
        connection = http.client.HTTPConnection(self.netloc, timeout=60)
        try:
            connection.request("POST", "/mcp", json.dumps(body), headers)
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        if text.startswith(("event:", "data:", ":")):
            data = [line[5:] for line in text.splitlines() if line.startswith("data:")]
            text = data[-1]
        reply = json.loads(text)
        return reply["error"]["data"] if "error" in reply else reply["result"]["structuredContent"]


@pytest.fixture
def servers(postgres_url: str, empty_database: Any, tmp_path: Path) -> Iterator[list[Server]]:
    started = [Server(tmp_path / str(at), postgres_url) for at in range(3)]
    yield started
    for server in started:
        server.process.kill()
        server.process.communicate()


def fill(database: Any, user: str, count: int) -> None:
    from sonde.stores.knowledge_postgres import PostgresKnowledge

    entries = [
        Entry("notes", f"{user} {at}", (Piece(f"walrus {at}"),), id=f"{user}{at}")
        for at in range(count)
    ]
    PostgresKnowledge(database, user).put("notes", entries)


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
