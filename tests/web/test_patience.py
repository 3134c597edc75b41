"""Clients that send or read slowly are cut off; those that only think are not."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from tests.waiting import PATIENCE_S

from .conftest import TOY, Server, bearer

HEAD_S, BODY_S = 0.6, 1.2


@pytest.fixture(scope="module")
def server(start: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    diary = tmp_path_factory.mktemp("slow") / "diary"
    environ = {**os.environ, "TOY_PATIENCE": f"{HEAD_S},{BODY_S}"}
    return start(str(TOY), str(diary), "--http", env=environ)


def connect(server: Server) -> socket.socket:
    place = urlsplit(server.url)
    return socket.create_connection((place.hostname, place.port), timeout=PATIENCE_S)


def read_to_end(client: socket.socket) -> tuple[bytes, float]:
    """What came until the server closed the connection, and how long that took."""
    began, data = time.monotonic(), b""
    while part := client.recv(65536):
        data += part
    return data, time.monotonic() - began


def test_a_client_that_says_nothing_is_cut_off(server: Server) -> None:
    with connect(server) as client:
        data, waited = read_to_end(client)
    assert data.startswith(b"HTTP/1.1 408 ")
    assert waited >= HEAD_S * 0.9


def test_a_head_that_never_ends_is_cut_off_however_it_trickles(server: Server) -> None:
    with connect(server) as client:
        client.settimeout(0.05)
        client.sendall(b"GET /healthz HTTP/1.1\r\n")
        began, data = time.monotonic(), b""
        while not data and time.monotonic() - began < PATIENCE_S:
            try:
                data = client.recv(100)
            except TimeoutError:
                client.sendall(b"x-a: b\r\n")
    assert data.startswith(b"HTTP/1.1 408 ")


def test_a_body_that_never_ends_is_cut_off(server: Server) -> None:
    with connect(server) as client:
        host = urlsplit(server.url).netloc
        client.sendall(
            f"POST /mcp HTTP/1.1\r\nhost: {host}\r\ncontent-length: 500\r\n"
            "content-type: application/json\r\n\r\n{".encode()
        )
        data, waited = read_to_end(client)
    assert data.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 4"))
    assert waited >= BODY_S * 0.9


def test_a_connection_is_used_again_after_more_than_the_time_of_a_head(server: Server) -> None:
    host = urlsplit(server.url).netloc
    request = f"GET /healthz HTTP/1.1\r\nhost: {host}\r\n\r\n".encode()
    with connect(server) as client:
        client.sendall(request)
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        client.settimeout(2 * HEAD_S)
        with pytest.raises(TimeoutError):
            client.recv(1)
        client.settimeout(PATIENCE_S)
        client.sendall(request)
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_many_half_requests_are_all_gone_and_others_are_served_meanwhile(server: Server) -> None:
    slow = [connect(server) for _ in range(100)]
    try:
        for client in slow:
            client.sendall(b"GET / HT")
        assert server.ask("/healthz")[0] == 200
        assert all(read_to_end(client)[0].startswith(b"HTTP/1.1 408 ") for client in slow)
    finally:
        for client in slow:
            client.close()


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
