"""Sessions and preferences over HTTP, as a client without an SDK sends them."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.stateless import VERSION, frame_call, read_reply
from websockets.sync.client import connect

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


@pytest.mark.row("004-15", "004-17")
def test_a_session_in_the_query_string_is_honoured_and_ended(server):
    first = search(server, "?mcp-session-id=mine", limit=2)
    assert first["session_id"] == "mine"
    assert search(server, "?mcp-session-id=mine", limit=2)["suppressed"] == 2
    server.ask("/mcp?mcp-session-id=mine", "DELETE", headers={"Mcp-Protocol-Version": VERSION})
    assert "suppressed" not in search(server, "?mcp-session-id=mine", limit=2)
    assert "session_id" not in search(server, limit=2)


@pytest.mark.row("004-14", "004-27")
@pytest.mark.parametrize("named", ["header", "address"])
def test_a_request_of_the_rest_api_names_its_session_and_its_preferences(server, named):
    address = f"/api/search/knowledge?query=walrus&limit=2&config={pack({'snippet_length': 60})}"
    headers = {"Mcp-Session-Id": f"by {named}"} if named == "header" else {}
    if named == "address":
        address += "&mcp-session-id=by+address"
    pages = [json.loads(server.ask(address, headers=headers)[2]) for _ in range(2)]
    assert pages[0]["session_id"] == f"by {named}"
    assert pages[1]["suppressed"] == 2
    assert max(len(row["snippet"]) for page in pages for row in page["results"]) <= 60


@pytest.mark.row("004-11", "004-14")
def test_a_header_names_the_session_of_a_call_without_initialize(server):
    body, headers = frame_call("knowledge_search", {"query": "walrus", "limit": 2})
    headers |= {"Mcp-Session-Id": "my own"}
    replies = [read_reply(server.ask("/mcp", "POST", body, headers)[2]) for _ in range(2)]
    first, second = (reply["result"]["structuredContent"] for reply in replies)
    assert (first["session_id"], second["suppressed"]) == ("my own", 2)


@pytest.mark.row("004-14", "004-16")
def test_a_client_that_initializes_is_given_its_session(server):
    greeting = {"protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"}}  # fmt: skip
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting}
    kinds = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}

    def initialize(address: str = "", **own: str) -> tuple[int, str]:
        body = json.dumps(message).encode()
        status, headers, _ = server.ask(f"/mcp{address}", "POST", body, kinds | own)
        return status, headers.get("mcp-session-id", "")

    assert initialize(**{"Mcp-Session-Id": "my own"}) == (404, "")
    for address in ("", "?mcp-session-id=mine"):
        status, given = initialize(address)
        assert (status, bool(given)) == (200, True)


@pytest.mark.row("002-73", "004-28", "004-36", "004-116", "004-121")
@pytest.mark.parametrize("where", ["meta", "capability"])
def test_a_socket_may_name_preferences_when_it_initializes(server, where):
    config = {"snippet_length": 60}
    params: dict[str, Any] = {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }  # fmt: skip
    if where == "meta":
        params["_meta"] = {"config": config}
    else:
        params["capabilities"] = {"experimental": {"config": config}}
    options = {"subprotocols": ["mcp"], "additional_headers": server.headers}
    with connect(f"ws{server.url[4:]}/mcp/ws", **options) as socket:

        def ask(number: int, method: str, params: Any) -> Any:
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            socket.send(json.dumps(request))
            return json.loads(socket.recv(timeout=60))

        ask(1, "initialize", params)
        socket.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))

        def longest(number: int, **arguments: Any) -> int:
            call = {"name": "knowledge_search", "arguments": {"query": "walrus", **arguments}}
            answer = ask(number, "tools/call", call)["result"]["structuredContent"]
            return max(len(row["snippet"]) for row in answer["results"])

        assert longest(2) <= 60
        assert longest(3, snippet_length=200, dedupe=False) > 60
        shell = ask(4, "tools/call", {"name": "session-preferences", "arguments": {}})
        assert shell["result"]["structuredContent"]["units"] == "bytes"


@pytest.mark.row("004-34", "004-36")
def test_preferences_of_initialize_are_checked(server):
    capabilities = {"experimental": {"config": {"user_id": "bob"}}}
    body, headers = frame_call("knowledge_search", {"query": "walrus"})
    message = json.loads(body)
    message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities
    reply = read_reply(server.ask("/mcp", "POST", json.dumps(message).encode(), headers)[2])
    assert reply["error"]["code"] == -32602


@pytest.mark.row("004-118", "004-117")
def test_results_have_links_that_open(server):
    rows = search(server)["results"]
    assert rows[0]["uri"].startswith("notes://")
    for row in rows:
        assert server.read(row["link"].removeprefix(server.url))[1]["meta"]["uri"] == row["uri"]
    body, headers = frame_call("search", {"query": "walrus", "mode": "compact"})
    reply = read_reply(server.ask("/mcp", "POST", body, headers)[2])
    for row in reply["result"]["structuredContent"]["results"]:
        assert server.read(row["url"].removeprefix(server.url))[1]["meta"]["uri"] == row["id"]


@pytest.mark.row("004-26", "004-28", "004-29", "004-116")
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
@pytest.mark.row("004-31", "004-34", "004-35")
def test_what_a_request_may_not_prefer_is_refused(server, config):
    status, body = server.read(f"/api/projects?config={config}")
    assert status == 400
    assert body["code"] == "INVALID_REQUEST"


@pytest.mark.row("004-88")
def test_entries_have_addresses(server):
    status, body = server.read("/api/knowledge/notes/n1")
    assert status == 200
    assert body["meta"]["uri"] == "notes://n1"
    assert server.read("/api/knowledge/media/types")[1]["types"] == []
    assert server.read("/api/knowledge/notes/none")[0] == 404


@pytest.mark.row("004-88", "004-112")
@pytest.mark.parametrize(
    ("tool", "address"), [("knowledge_get", "/api/knowledge"), ("fetch", "/api/fetch")]
)
def test_the_uri_of_a_result_is_enough_to_read_it(server, tool, address):
    for row in search(server, limit=2)["results"]:
        body, headers = frame_call(tool, {"id": row["uri"]})
        over_mcp = read_reply(server.ask("/mcp", "POST", body, headers)[2])["result"]
        status, over_rest = server.read(f"{address}?id={row['uri']}")
        assert status == 200
        assert over_mcp["structuredContent"] == over_rest
        assert over_rest["meta"]["uri"] == row["uri"]
        assert over_rest["content"].startswith(f"walrus {row['title'][1:]} ")
    for named in ("n1", "nothing://n1"):
        status, refused = server.read(f"{address}?id={named}")
        assert status == 400
        assert "`source`" in refused["userMessage"]
    status, bare = server.read(f"{address}?id=n1&source=notes")
    assert (status, bare["meta"]["uri"]) == (200, "notes://n1")
