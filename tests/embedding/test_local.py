"""The embedding process that servers share: one of it, back after a crash, gone when idle."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import ThreadingHTTPServer
from pathlib import Path
from socketserver import BaseRequestHandler
from typing import Any

import pytest
from tests.loopback import Exchange, LoopbackServer, running
from tests.processes import is_running
from tests.waiting import wait_until

from sonde.embedding.base import DEEP_NAME
from sonde.embedding.local import LocalEmbedder
from sonde.embedding.server import place_of, serve_until_idle
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


@pytest.mark.row("003-C51")
def test_all_share_one_process_and_a_crash_is_made_up_for(folder: Path) -> None:
    embedders = [LocalEmbedder(folder) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        vectors = list(pool.map(lambda one: one.embed(["walrus"], "query"), embedders))
    assert all((one == vectors[0]).all() for one in vectors)
    pid = facts_of(folder)["pid"]
    assert not serve_until_idle(folder, 1.0)  # there is one already
    assert stat.S_IMODE(place_of(folder, DEEP_NAME).stat().st_mode) == 0o600
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(pid), "killed")
    again = embedders[1].embed(["walrus"], "query")
    assert float((again * vectors[0]).sum()) == pytest.approx(1, abs=1e-3)
    assert facts_of(folder)["pid"] != pid


def test_it_ends_when_nobody_asks_and_comes_back(folder: Path) -> None:
    embedder = LocalEmbedder(folder, idle_s=0.3)
    assert embedder.embed(["walrus"], "query").any()
    pid = 0
    if place_of(folder, DEEP_NAME).exists():
        pid = facts_of(folder)["pid"]
    wait_until(lambda: not place_of(folder, DEEP_NAME).exists(), "its place is free")
    wait_until(lambda: not (pid and is_running(pid)), "it ended")
    assert embedder.embed(["walrus"], "query").any()


def test_a_stranger_on_its_port_is_sent_no_text(folder: Path) -> None:
    seen: list[str] = []

    class Stranger(Exchange):
        def answer(self) -> None:
            seen.append(self.command)
            claim = {"status": "ok", "model": DEEP_NAME, "proof": "none"}
            self.reply(200, json.dumps(claim).encode())

    with running(LoopbackServer(Stranger)) as stranger:
        folder.mkdir()
        place = place_of(folder, DEEP_NAME)
        place.write_text(json.dumps({"port": stranger.server_port, "token": "t", "pid": 1}))
        assert LocalEmbedder(folder).embed(["walrus"], "query").any()
    assert set(seen) == {"GET"}


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\n{}"])
def test_a_stranger_that_is_silent_or_busy_is_not_waited_for(answer: bytes, folder: Path) -> None:
    class Stranger(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(4_096)
            self.request.sendall(answer)
            done.wait(60)

    done = threading.Event()
    with running(ThreadingHTTPServer(("127.0.0.1", 0), Stranger)) as stranger:
        folder.mkdir()
        place = place_of(folder, DEEP_NAME)
        place.write_text(json.dumps({"port": stranger.server_port, "token": "t", "pid": 1}))
        try:
            assert LocalEmbedder(folder, proof_s=1.0).embed(["walrus"], "query").any()
        finally:
            done.set()


def test_one_that_cannot_start_is_an_error_with_its_reason(folder: Path) -> None:
    script = folder.parent / "python"
    script.write_text("#!/bin/sh\necho no such model >&2\nexit 3\n")
    script.chmod(0o755)
    with pytest.raises(EmbeddingFailed, match="no such model"):
        LocalEmbedder(folder, python=str(script)).embed(["walrus"], "query")
