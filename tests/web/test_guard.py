"""What the guard lets in, seen from outside, and its laws."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import string
import struct
from typing import Any

import anyio
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.drawing import draw_list
from tests.web.conftest import TOKENS, TOY, bearer

from sonde.types import Caller
from sonde.web.accounts import Keyring
from sonde.web.guard import MAX_BODY_BYTES, Access, Guard

SHAPE = {"code", "userMessage", "developerMessage", "nextAction"}
EVERYWHERE = ("/healthz", "/metrics", "/mcp", "/api/caller", "/api/openapi.json", "/nowhere")


def ask_guard(access: Access, path: str = "/", scheme: str = "http", **headers: str) -> Any:
    """What the guard does with a request: the caller it lets in, or the code it refuses with."""
    seen: list[Any] = []

    async def inner(scope: Any, _receive: Any, _send: Any) -> None:
        seen.append(scope["sonde.caller"])

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            seen.append(json.loads(message["body"])["code"])

    raw = [(name.replace("_", "-").encode(), v.encode("latin-1")) for name, v in headers.items()]
    scope = {"type": "http", "method": "GET", "path": path, "scheme": scheme, "headers": raw}
    anyio.run(Guard(inner, access), scope, receive, send)
    return seen[0]


@pytest.mark.parametrize("path", EVERYWHERE)
def test_a_foreign_host_or_origin_is_refused_everywhere(toys_server, path):
    status, error = toys_server.read(path, headers={"Host": "rebound.example"})
    assert (status, error["code"], set(error)) == (421, "UNKNOWN_HOST", SHAPE)
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "file://"):
        status, error = toys_server.read(path, headers={"Origin": origin})
        assert (status, error["code"]) == (403, "FOREIGN_ORIGIN")


def test_our_own_names_and_origin_pass(toys_server):
    port = toys_server.netloc.rpartition(":")[2]
    for name in ("localhost", "127.0.0.1", "[::1]", "LOCALHOST", "127.0.0.7"):
        host = f"{name}:{port}"
        own = {"Host": host, "Origin": f"http://{host}"}
        assert toys_server.read("/healthz", headers=own)[0] == 200


def test_another_site_may_link_to_us_but_not_embed_us():
    site = {"host": "localhost", "sec_fetch_site": "cross-site"}
    assert ask_guard(Access(), **site, sec_fetch_mode="no-cors") == "FOREIGN_ORIGIN"
    framed = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "iframe"}
    assert ask_guard(Access(), **site, **framed) == "FOREIGN_ORIGIN"
    followed = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}
    assert ask_guard(Access(), **site, **followed).user == "local"


# ours, what looks like ours, and what is put around it to make it so
parts = ["localhost", "127.0.0.1", "127.", "[::1]", "evil", ".example", ".", ":", "80", "@", "/"]
names = draw_list(st.sampled_from(parts), 4, 1).map("".join)
names |= st.text(string.ascii_letters + string.digits + ".-:[]@/?# %", min_size=1, max_size=30)
OWN = re.compile(r"(localhost|127\.\d+\.\d+\.\d+|\[::1\])\.?(:\d*)?", re.IGNORECASE)


@settings(max_examples=200)
@given(names)
@example("127.0.0.1.evil.example")
@example("localhost.evil.example")
@example("localhost..")
@example("localhost@evil.example")
@example("evil.example[::1]")
@example("[::1].evil.example")
def test_on_loopback_only_names_of_this_machine_pass(name):
    if ask_guard(Access(), host=name) != "UNKNOWN_HOST":
        assert OWN.fullmatch(name)


raw = st.text(st.characters(min_codepoint=33, max_codepoint=255), max_size=20)
values = raw | st.builds("http://{}".format, raw) | st.builds("Bearer {}".format, raw)
values |= st.sampled_from(["http://[", "http://[x]y", "http://a:b", "null", 'sonde_token="', "-1"])


@settings(max_examples=60)
@given(
    st.dictionaries(
        st.sampled_from(["host", "origin", "cookie", "authorization", "content_length"]), values
    ),
    raw,
)
def test_no_header_breaks_the_guard(headers, path):
    for access in (Access(), Access(host="0.0.0.0", tokens=Keyring([("anna", "t" * 20)]))):
        seen = ask_guard(access, f"/{path}", **({"host": "localhost"} | headers))
        assert isinstance(seen, Caller | str)


def test_a_server_for_others_answers_to_addresses_and_to_its_public_name():
    access = Access(
        host="0.0.0.0", tokens=Keyring([("anna", "t" * 20)]), public_url="https://search.example"
    )
    token = {"authorization": "Bearer " + "t" * 20}
    assert ask_guard(access, host="192.0.2.7:80", **token).user == "anna"
    seen = ask_guard(access, host="search.example", origin="https://search.example", **token)
    assert seen.link("jobs/1") == "https://search.example/api/jobs/1"
    assert ask_guard(access, host="other.example", **token) == "UNKNOWN_HOST"
    assert ask_guard(access, host="192.0.2.7:80") == "TOKEN_REQUIRED"


@pytest.mark.parametrize("path", EVERYWHERE)
def test_with_tokens_everything_but_the_pulse_needs_one(locked, path):
    status, headers, body = locked.ask(path)
    if path == "/healthz":
        assert status == 200
        return
    assert (status, headers["www-authenticate"]) == (401, "Bearer")
    assert json.loads(body)["code"] == "TOKEN_REQUIRED"


def test_the_token_decides_the_user(locked):
    for user in TOKENS:
        status, seen = locked.read("/api/caller", headers=bearer(user))
        assert (status, seen["user"]) == (200, user)
        assert seen["link"] == f"{locked.url}/api/toys/1"
    for name in ("sonde_token", f"sonde_{locked.netloc.rpartition(':')[2]}"):
        cookie = {"Cookie": f"other=1; {name}={TOKENS['bert']}"}
        answer = locked.read("/api/caller", headers=cookie)[1]
        assert answer["code"] == "TOKEN_REQUIRED", "a cookie names a session, never a token"
    status, error = locked.read("/api/caller?user=anna", headers=bearer("bert"))
    assert (status, error["code"]) == (400, "UNKNOWN_ARGUMENT")


def test_wrong_tokens_are_slowed_down_but_right_ones_are_not(locked):
    wrong = {"Authorization": "Bearer " + "x" * 24}
    codes = [locked.read("/api/caller", headers=wrong)[1]["code"] for _ in range(14)]
    assert codes[:5] == ["TOKEN_REQUIRED"] * 5
    assert codes[-1] == "TOO_MANY_REQUESTS"
    assert locked.read("/api/caller", headers=bearer("anna"))[0] == 200


def test_more_requests_than_the_limit_wait(toys_server):
    access = Access(rate_limit=3)
    bucket: list[Any] = []

    async def inner(scope: Any, _receive: Any, _send: Any) -> None:
        bucket.append("in")

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            bucket.append(dict(message["headers"])[b"retry-after"])

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def press() -> None:
        guard = Guard(inner, access)
        headers = [(b"host", b"localhost")]
        for _ in range(40):
            scope = {"type": "http", "method": "GET", "path": "/", "scheme": "http"}
            await guard(scope | {"headers": headers}, receive, send)

    anyio.run(press)
    assert bucket[:6] == ["in"] * 6
    assert b"1" in bucket[6:]


def test_a_body_that_is_too_large_is_not_taken_in(toys_server):
    headers = {"Content-Type": "application/json", "Content-Length": str(MAX_BODY_BYTES + 1)}
    status, error = toys_server.read("/api/toys/1", "POST", headers=headers)
    assert (status, error["code"]) == (413, "BODY_TOO_LARGE")

    connection = http.client.HTTPConnection(toys_server.netloc, timeout=30)
    connection.putrequest("POST", "/mcp")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    # refused before everything was sent, which is what this is about
    with contextlib.suppress(OSError):
        for _ in range(MAX_BODY_BYTES // 0x10000 + 2):
            connection.send(piece)
        assert connection.getresponse().status == 413
    assert toys_server.read("/healthz")[0] == 200


def test_a_client_that_goes_away_early_is_no_defect(start, tmp_path):
    """Neither one that never sends its body nor one that is gone before it is answered."""
    server = start(str(TOY), str(tmp_path / "diary"), "--http")
    host, port = server.netloc.split(":")
    head = f"Host: {server.netloc}\r\n".encode()
    for sent in (
        b"POST /api/toys/1 HTTP/1.1\r\n" + head + b"Content-Length: 10\r\n\r\n{",
        b"GET /api/toys/1 HTTP/1.1\r\n" + head + b"\r\n",
        b"GET /healthz HTTP/1.1\r\nHo",
    ):
        for _ in range(5):
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(sent)
                # closed with a reset, as by a process that was killed
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert server.read("/healthz")[0] == 200
    server.process.terminate()
    assert server.end() == (0, "")


@pytest.mark.parametrize("path", ["/api/../etc", "/api/texts/%2e%2e/x", "/a%00b", "/a%5cb"])
def test_a_path_is_plain(toys_server, path):
    status, error = toys_server.read(path)
    assert (status, error["code"]) == (400, "INVALID_REQUEST")


def test_answers_carry_headers_that_keep_browsers_in_bounds(toys_server):
    _, headers, _ = toys_server.ask("/api/texts/a")
    assert headers["x-content-type-options"] == "nosniff"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


def test_messages_of_a_socket_count_like_requests_and_none_is_lost():
    sent, got, waits = iter(range(50)), [], []

    async def inner(_scope: Any, receive: Any, _send: Any) -> None:
        while (message := await receive())["type"] == "websocket.receive":
            got.append(message["text"])

    async def receive() -> dict[str, Any]:
        number = next(sent, None)
        kind = "websocket.disconnect" if number is None else "websocket.receive"
        return {"type": kind, "text": str(number)}

    async def send(_message: dict[str, Any]) -> None:
        raise AssertionError

    async def note_wait(seconds: float) -> None:
        waits.append(seconds)
        await anyio.sleep(seconds)

    scope = {"type": "websocket", "path": "/mcp/ws", "scheme": "ws",
             "headers": [(b"host", b"localhost")]}  # fmt: skip
    anyio.run(Guard(inner, Access(rate_limit=20), note_wait), scope, receive, send)
    assert got == [str(number) for number in range(50)]
    assert waits, "twice the rate may come at once, and these were more"
