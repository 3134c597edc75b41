"""Sessions and preferences over HTTP, as a client without an SDK sends them."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.stateless import VERSION, frame_call, read_reply

from sonde.knowledge.retrieval import cut_pieces
from sonde.stores.knowledge.base import Entry
from sonde.stores.knowledge.sqlite import SqliteKnowledge


@pytest.fixture(scope="module")
def server(start: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    home: Path = tmp_path_factory.mktemp("knowledge")
    store = SqliteKnowledge(home / "knowledge" / "local")
    texts = [f"walrus {n} " + "ice and sea " * 40 for n in range(6)]
    store.put(
        "notes",
        [Entry("notes", f"n{n}", tuple(cut_pieces(t)), id=f"n{n}") for n, t in enumerate(texts)],
    )
    store.close()
    environ = {"SONDE_HOME": str(home), "PATH": os.environ["PATH"], "SONDE_EMBEDDING": "none"}
    return start("-m", "sonde.cli.main", "--json", "serve", "--port", "0", cwd=home, env=environ)


def call(server: Any, address: str = "", **arguments: Any) -> Any:
    body, headers = frame_call("knowledge_search", arguments)
    return read_reply(server.ask(f"/mcp{address}", "POST", body, headers)[2])


def search(server: Any, address: str = "", **more: Any) -> Any:
    return call(server, address, query="walrus", **more)["result"]["structuredContent"]


def pack(config: Any) -> str:
    return base64.b64encode(json.dumps(config).encode()).decode()


def test_a_session_in_the_query_string_is_honoured_and_ended(server):
    first = search(server, "?mcp-session-id=mine", limit=2)
    assert first["session_id"] == "mine"
    assert search(server, "?mcp-session-id=mine", limit=2)["suppressed"] == 2
    server.ask("/mcp?mcp-session-id=mine", "DELETE", headers={"Mcp-Protocol-Version": VERSION})
    assert "suppressed" not in search(server, "?mcp-session-id=mine", limit=2)
    assert "session_id" not in search(server, limit=2)


def test_a_request_may_prefer_within_bounds(server):
    short = search(server, f"?config={pack({'snippet_length': 60})}")
    assert max(len(row["snippet"]) for row in short["results"]) <= 60
    clamped = search(server, f"?config={pack({'snippet_length': 10**9, 'max_tokens': 10**9})}")
    assert max(len(row["snippet"]) for row in clamped["results"]) <= 1000
    wins = search(server, f"?config={pack({'snippet_length': 60})}", snippet_length=200)
    assert max(len(row["snippet"]) for row in wins["results"]) > 60


@pytest.mark.parametrize(
    "config",
    [pack({"user": "bob"}), pack({"token": "x"}), pack([1]), "!!", pack({"order_by": "random"})],
)
def test_what_a_request_may_not_prefer_is_refused(server, config):
    status, body = server.read(f"/api/projects?config={config}")
    assert status == 400
    assert body["code"] == "INVALID_REQUEST"


def test_entries_have_addresses(server):
    status, body = server.read("/api/knowledge/notes/n1")
    assert status == 200
    assert body["meta"]["uri"] == "notes://n1"
    assert server.read("/api/knowledge/media/types")[1]["types"] == []
    assert server.read("/api/knowledge/notes/none")[0] == 404
