"""Clients that send or read slowly are cut off; those that only think are not."""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.waiting import PATIENCE_S
from uvicorn import Config
from uvicorn.server import ServerState

from sonde.web.application import PatientProtocol, TimeLimits

from .conftest import TOY, Server, bearer

LIMITS = TimeLimits(head_s=10.0, body_s=60.0)
MOMENT_S = 0.01
GET = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 500\r\n\r\n"


class ManualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only when it is told to."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def advance(self, seconds: float = 0.0) -> None:
        self.now += seconds
        for _ in range(10):  # a request and its answer take a few turns
            self.run_until_complete(asyncio.sleep(0))


class Wire(asyncio.Transport):
    """The server's end of a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.closed = b"", False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


class Client:
    """A connection to a server, of which each part is sent when the test says so."""

    def __init__(self, loop: ManualLoop) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            del scope
            while (message := await receive()).get("more_body"):
                pass
            if message["type"] == "http.disconnect":
                return
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"good"})

        config = Config(app, lifespan="off", timeout_keep_alive=1_000, log_config=None)
        config.load()
        self.wire = Wire()
        self._protocol = PatientProtocol(
            config=config, server_state=ServerState(), app_state={}, _loop=loop, limits=LIMITS
        )
        self._protocol.connection_made(self.wire)
        self._loop = loop

    def send(self, data: bytes) -> None:
        self._protocol.data_received(data)
        self._loop.advance()

    def is_refused(self) -> bool:
        return self.wire.closed and self.wire.sent.startswith(b"HTTP/1.1 408 ")


@pytest.fixture
def loop() -> Iterator[ManualLoop]:
    made = ManualLoop()
    yield made
    made.close()


def test_a_client_that_says_nothing_is_cut_off(loop: ManualLoop) -> None:
    client = Client(loop)
    loop.advance(LIMITS.head_s - MOMENT_S)
    assert not client.wire.closed
    loop.advance(2 * MOMENT_S)
    assert client.is_refused()


def test_a_head_that_never_ends_is_cut_off_however_it_trickles(loop: ManualLoop) -> None:
    client = Client(loop)
    client.send(b"GET / HTTP/1.1\r\n")
    for _ in range(9):
        loop.advance(LIMITS.head_s / 10)
        client.send(b"x-a: b\r\n")
        assert not client.wire.closed
    loop.advance(LIMITS.head_s / 10)
    assert client.is_refused()


def test_a_body_that_never_ends_is_cut_off(loop: ManualLoop) -> None:
    client = Client(loop)
    client.send(POST + b"{")
    loop.advance(LIMITS.body_s - MOMENT_S)
    assert not client.wire.closed
    client.send(b"}")
    loop.advance(2 * MOMENT_S)
    assert client.is_refused()


def test_a_connection_is_used_again_after_more_than_the_time_of_a_head(loop: ManualLoop) -> None:
    client = Client(loop)
    for times in (1, 2):
        client.send(GET)
        assert client.wire.sent.count(b"HTTP/1.1 200 ") == times
        loop.advance(2 * LIMITS.head_s)
        assert not client.wire.closed


def test_many_half_requests_are_all_gone_and_others_are_served_meanwhile(loop: ManualLoop) -> None:
    slow = [Client(loop) for _ in range(100)]
    for client in slow:
        client.send(b"GET / HT")
    other = Client(loop)
    other.send(GET)
    assert other.wire.sent.startswith(b"HTTP/1.1 200 ")
    loop.advance(LIMITS.head_s)
    assert all(client.is_refused() for client in slow)
    assert not other.wire.closed


def test_the_server_cuts_a_silent_client_off(start: Callable[..., Server], tmp_path: Path) -> None:
    server = start(str(TOY), str(tmp_path / "diary"), "--http",
                   env={**os.environ, "TOY_PATIENCE": "0.6,1.2"})  # fmt: skip
    with connect(server) as client:
        assert client.recv(65536).startswith(b"HTTP/1.1 408 ")


def connect(server: Server) -> socket.socket:
    place = urlsplit(server.url)
    return socket.create_connection((place.hostname, place.port), timeout=PATIENCE_S)


def test_a_user_with_many_long_calls_leaves_room_for_others(locked: Server) -> None:
    host = urlsplit(locked.url).netloc
    key = bearer("anna")["Authorization"]
    request = f"GET /api/wait HTTP/1.1\r\nhost: {host}\r\nauthorization: {key}\r\n\r\n"
    many = [connect(locked) for _ in range(60)]
    try:
        for client in many:
            client.sendall(request.encode())
        # later than theirs on the same loop, so every one of theirs has begun or waits its turn
        assert locked.ask("/healthz")[0] == 200
        assert locked.ask("/api/caller", headers=bearer("bert"))[0] == 200
        answered, _, _ = select.select(many, [], [], 0)
        assert not answered
    finally:
        for client in many:
            client.close()
    assert locked.ask("/api/caller", headers=bearer("anna"))[0] == 200
