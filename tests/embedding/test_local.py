"""The embedding process that servers share: one of it, back after a crash, gone when idle."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.embedding_servers import running

from sonde.embedding.base import DEEP_NAME
from sonde.embedding.local import LocalEmbedder
from sonde.embedding.process import place_of, serve_until_idle
from sonde.errors import EmbeddingFailed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "embedding"
    yield made
    if place_of(made, DEEP_NAME).exists():
        os.kill(facts_of(made)["pid"], signal.SIGKILL)


def facts_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(place_of(folder, DEEP_NAME).read_text())
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_all_share_one_process_and_a_crash_is_made_up_for(folder: Path) -> None:
    embedders = [LocalEmbedder(folder) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        vectors = list(pool.map(lambda one: one.embed(["walrus"], "query"), embedders))
    assert all((one == vectors[0]).all() for one in vectors)
    pid = facts_of(folder)["pid"]
    assert not serve_until_idle(folder, 1.0)  # there is one already
    assert stat.S_IMODE(place_of(folder, DEEP_NAME).stat().st_mode) == 0o600
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))
    again = embedders[1].embed(["walrus"], "query")
    assert float((again * vectors[0]).sum()) == pytest.approx(1, abs=1e-3)
    assert facts_of(folder)["pid"] != pid


def test_it_ends_when_nobody_asks_and_comes_back(folder: Path) -> None:
    embedder = LocalEmbedder(folder, idle_s=0.3)
    assert embedder.embed(["walrus"], "query").any()
    pid = 0
    if place_of(folder, DEEP_NAME).exists():
        pid = facts_of(folder)["pid"]
    wait_until(lambda: not place_of(folder, DEEP_NAME).exists())
    wait_until(lambda: not (pid and is_alive(pid)))
    assert embedder.embed(["walrus"], "query").any()


def test_a_stranger_on_its_port_is_sent_no_text(folder: Path) -> None:
    seen: list[str] = []

    class Stranger(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append("GET")
            data = json.dumps({"status": "ok", "model": DEEP_NAME, "proof": "none"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            seen.append("POST")

        def log_message(self, *_: object) -> None:
            pass

    with running(HTTPServer(("127.0.0.1", 0), Stranger)) as stranger:
        folder.mkdir()
        place = place_of(folder, DEEP_NAME)
        place.write_text(json.dumps({"port": stranger.server_port, "token": "t", "pid": 1}))
        assert LocalEmbedder(folder).embed(["walrus"], "query").any()
    assert "GET" in seen
    assert "POST" not in seen


def test_one_that_cannot_start_is_an_error_with_its_reason(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = folder.parent / "python"
    script.write_text("#!/bin/sh\necho no such model >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    with pytest.raises(EmbeddingFailed, match="no such model"):
        LocalEmbedder(folder).embed(["walrus"], "query")
