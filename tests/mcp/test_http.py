"""What is particular to HTTP and WebSocket: handshakes, users, sessions, closed connections."""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from mcp import Client
from tests.mcp.conftest import TOY, Diary, HttpServer
from tests.mcp.test_wire import LINES
from websockets.exceptions import ConnectionClosedError, InvalidStatus
from websockets.sync.client import connect

TOKENS = {"anna": "a" * 24, "bert": "b" * 24}
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    """A server that knows two users."""
    folder = tmp_path_factory.mktemp("locked")
    (folder / "tokens").write_text("".join(f"{u} {t}\n" for u, t in TOKENS.items()))
    command = [sys.executable, str(TOY), str(folder / "diary"), "--http", str(folder / "tokens")]
    server = HttpServer(command)
    yield server
    server.process.terminate()
    server.process.communicate()


def socket_url(server: HttpServer) -> str:
    return server.url.replace("http:", "ws:") + "/mcp/ws"


def post(
    server: HttpServer, message: dict[str, Any], headers: dict[str, str]
) -> tuple[int, dict[str, str], http.client.HTTPResponse, http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
    connection.request("POST", "/mcp", json.dumps({"jsonrpc": "2.0"} | message), JSON | headers)
    answer = connection.getresponse()
    return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer, connection


def greeting() -> dict[str, Any]:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    return {"id": 1, "method": "initialize", "params": params}


def test_a_socket_must_offer_the_protocol_and_come_from_here(toys_over_http):
    url = socket_url(toys_over_http)
    for options in ({}, {"subprotocols": ["chat"]}):
        with pytest.raises(InvalidStatus):
            connect(url, **options)
    with pytest.raises(InvalidStatus) as refused:
        connect(url, subprotocols=["mcp"], origin="http://evil.example")
    assert refused.value.response.status_code == 403
    assert json.loads(refused.value.response.body)["code"] == "FOREIGN_ORIGIN"
    # the name that the client asks for is this server's, but not its own
    evil, address = url.replace("127.0.0.1", "evil.example"), ("127.0.0.1", urlsplit(url).port)
    with pytest.raises(InvalidStatus) as refused:
        connect(evil, subprotocols=["mcp"], address=address)
    assert refused.value.response.status_code == 421


def test_a_socket_needs_a_token_where_others_can_connect(locked):
    with pytest.raises(InvalidStatus) as refused:
        connect(socket_url(locked), subprotocols=["mcp"])
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body)["code"] == "TOKEN_REQUIRED"


def test_a_frame_that_is_not_json_rpc_is_answered_and_harms_nobody(toys_over_http):
    with connect(socket_url(toys_over_http), subprotocols=["mcp"]) as socket:
        for frame, code in (("{", -32700), ("[]", -32600), ('"x"', -32600)):
            socket.send(frame)
            assert json.loads(socket.recv())["error"]["code"] == code
        socket.send(json.dumps({"jsonrpc": "2.0"} | greeting()))
        assert json.loads(socket.recv())["result"]["serverInfo"]["name"] == "sonde"
        socket.send("x" * (5 * 1024 * 1024))
        with pytest.raises(ConnectionClosedError):
            socket.recv()


@pytest.mark.row("000-P63", "004-123")
@pytest.mark.parametrize("version", ["2025-11-25", MODERN])
@pytest.mark.parametrize("what", LINES)
def test_a_post_that_is_no_message_is_answered_as_on_stdio(toys_over_http, version, what):
    line, wanted = LINES[what]
    connection = http.client.HTTPConnection(urlsplit(toys_over_http.url).netloc, timeout=30)
    connection.request("POST", "/mcp", line, JSON | {"Mcp-Protocol-Version": version})
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    errors = body if isinstance(body, list) else [body]
    assert answer.status == 400
    assert [(one["id"], one["error"]["code"]) for one in errors] == wanted


def test_a_binary_frame_ends_the_connection(toys_over_http):
    with connect(socket_url(toys_over_http), subprotocols=["mcp"]) as socket:
        socket.send(b"\x00")
        with pytest.raises(ConnectionClosedError) as ended:
            socket.recv()
        assert ended.value.rcvd.code == 1003


@pytest.mark.row("004-10", "004-11")
@pytest.mark.parametrize("transport", ["http", "ws"])
@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_the_token_decides_the_user_and_each_connection_is_its_own(locked, transport, era):
    async def who(user: str) -> list[dict[str, Any]]:
        async with Client(locked.reach(transport, TOKENS[user]), mode=era) as client:
            return [(await client.call_tool("tell_caller")).structured_content for _ in range(2)]

    anna, again = anyio.run(who, "anna")
    bert, _ = anyio.run(who, "bert")
    assert anna == again
    assert (anna["user"], bert["user"]) == ("anna", "bert")
    assert anna["link"] == f"{locked.url}/api/toys/1"
    lasting = not (transport == "http" and era == "auto")
    assert bool(anna["session"]) == lasting
    assert (anna["session"] != bert["session"]) == lasting


@pytest.mark.parametrize("surface", ["stdio-legacy", "stdio-auto"], indirect=True)
def test_over_stdio_the_process_is_the_session_and_links_are_resources(connect):
    async def check() -> None:
        async with connect() as client:
            first, second = [
                (await client.call_tool("tell_caller")).structured_content for _ in range(2)
            ]
        assert first == second
        assert (first["user"], first["link"]) == ("local", "sonde://toys/1")
        assert first["session"]

    anyio.run(check)


@pytest.mark.row("004-16")
def test_a_session_is_nobody_elses(locked):
    bearer = {user: {"Authorization": f"Bearer {token}"} for user, token in TOKENS.items()}
    status, headers, _, connection = post(locked, greeting(), bearer["anna"])
    connection.close()
    assert status == 200
    session = {"Mcp-Session-Id": headers["mcp-session-id"]}
    listing = {"id": 2, "method": "tools/list"}
    for user, expected in (("bert", 404), ("anna", 200)):
        status, _, _, connection = post(locked, listing, bearer[user] | session)
        connection.close()
        assert status == expected


def test_a_question_put_to_one_user_is_not_answered_by_another(locked):
    meta = {
        f"{META}protocolVersion": MODERN,
        f"{META}clientInfo": {"name": "test", "version": "1"},
        f"{META}clientCapabilities": {"elicitation": {"form": {}}},
    }
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "remove"}

    def remove(user: str, **answers: Any) -> dict[str, Any]:
        params = {"name": "remove", "_meta": meta} | answers
        call = {"id": 1, "method": "tools/call", "params": params}
        bearer = {"Authorization": f"Bearer {TOKENS[user]}"}
        _, _, answer, connection = post(locked, call, headers | bearer)
        told: dict[str, Any] = json.loads(answer.read())
        connection.close()
        return told

    asked = remove("anna")["result"]
    assert asked["resultType"] == "input_required"
    yes = {"confirm": {"action": "accept", "content": {"confirm": True}}}
    answers = {"requestState": asked["requestState"], "inputResponses": yes}
    assert remove("bert", **answers)["error"]["code"] == -32602
    assert remove("anna", **answers)["result"]["resultType"] == "input_required", "asked once more"


def test_closing_the_stream_calls_the_work_off_in_the_newer_era(toys_over_http):
    diary: Diary = toys_over_http.diary
    diary.path.write_text("")
    meta = {
        f"{META}protocolVersion": MODERN,
        f"{META}clientInfo": {"name": "test", "version": "1"},
        f"{META}clientCapabilities": {},
        "progressToken": "p",
    }
    call = {"id": 3, "method": "tools/call", "params": {"name": "wait", "_meta": meta}}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "wait"}
    status, _, answer, connection = post(toys_over_http, call, headers)
    assert status == 200
    assert b"event: message" in answer.readline()
    diary.wait_for("waiting")
    answer.close()
    connection.close()
    diary.wait_for("stopped")


def test_closing_a_socket_calls_the_work_off(toys_over_http):
    diary: Diary = toys_over_http.diary
    diary.path.write_text("")
    with connect(socket_url(toys_over_http), subprotocols=["mcp"]) as socket:
        socket.send(json.dumps({"jsonrpc": "2.0"} | greeting()))
        socket.recv()
        socket.send('{"jsonrpc":"2.0","method":"notifications/initialized"}')
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "wait"}}
        socket.send(json.dumps(call))
        diary.wait_for("waiting")
    diary.wait_for("stopped")


def test_a_server_with_open_streams_ends_in_time(tmp_path: Path):
    server = HttpServer([sys.executable, str(TOY), str(tmp_path / "diary"), "--http"])
    status, headers, _, first = post(server, greeting(), {})
    assert status == 200
    stream = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=30)
    session = {"Mcp-Session-Id": headers["mcp-session-id"], "Accept": "text/event-stream"}
    stream.request("GET", "/mcp", headers=session)
    assert stream.getresponse().status == 200
    with connect(socket_url(server), subprotocols=["mcp"]):
        began = time.monotonic()
        server.process.terminate()
        server.process.communicate(timeout=30)
    assert server.process.returncode == 0
    assert time.monotonic() - began < 15
    first.close()
    stream.close()
