"""The documented endpoint on loopback, and the command that serves it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.loopback import running

from sonde.embedding.server import MAX_BODY_BYTES, EmbeddingServer
from sonde.embedding.static import StaticEmbedder


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with running(EmbeddingServer(StaticEmbedder(), 0)) as started:
        yield started


def send(
    server: EmbeddingServer, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else None
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, data, named)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


@pytest.mark.row("003-C52")
def test_texts_become_vectors(server: EmbeddingServer) -> None:
    status, answer = send(server, "POST", "/embed", {"texts": ["a", ""], "mode": "passage"})
    assert status == 200
    assert set(answer) == {"embeddings", "dimensions", "model"}
    assert [len(row) for row in answer["embeddings"]] == [answer["dimensions"]] * 2
    assert send(server, "GET", "/health")[1]["status"] == "ok"


@pytest.mark.row("003-C52")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"no json", 400),
        ([1], 400),
        ({"texts": "a"}, 400),
        ({"texts": [1]}, 400),
        ({"texts": ["a"], "mode": "both"}, 400),
        ({"texts": ["a"] * 3_000}, 400),
        (b"[" * 100_000, 400),
    ],
)
def test_what_is_no_request_is_refused(server: EmbeddingServer, body: Any, status: int) -> None:
    assert send(server, "POST", "/embed", body)[0] == status
    assert send(server, "POST", "/embed", {"texts": ["a"]})[0] == 200


def test_strangers_are_refused(server: EmbeddingServer) -> None:
    body = {"texts": ["a"]}
    assert send(server, "POST", "/embed", body, Host="evil.example")[0] == 421
    assert send(server, "POST", "/embed", body, Origin="http://evil.example")[0] == 403
    assert send(server, "POST", "/embed", body, Sec_Fetch_Site="cross-site")[0] == 403
    assert send(server, "POST", "/elsewhere", body)[0] == 404
    too_long = str(MAX_BODY_BYTES + 1)
    assert send(server, "POST", "/embed", b"{}", Content_Length=too_long)[0] == 413
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.row("003-C52", "001-90")
def test_the_command_serves_the_bundled_model(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "sonde.cli.main", "--json", "embed", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        env={"SONDE_HOME": str(tmp_path), "PATH": os.environ["PATH"]},
    )
    try:
        assert process.stdout
        told = json.loads(process.stdout.readline())
        address = urlsplit(told["url"])
        connection = HTTPConnection(address.netloc, timeout=60)
        connection.request("POST", address.path, json.dumps({"texts": ["walrus"], "mode": "query"}))
        answer = json.loads(connection.getresponse().read())
        connection.close()
        assert answer["model"] == told["model"] == "sonde-deep-8"
        assert len(answer["embeddings"][0]) == told["dimensions"] == 384
    finally:
        process.kill()
        process.communicate()
