"""`sonde serve` as a person starts it: where it listens, and how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SERVE = ("-m", "sonde.cli.main", "--json", "serve", "--port", "0")


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"SONDE_HOME": str(home), "PATH": os.environ["PATH"], **more}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_and_ends_cleanly(start, tmp_path, number):
    server = start(*SERVE, cwd=tmp_path, env=environment(tmp_path / "home"))
    assert server.read("/healthz")[1]["status"] == "ok"
    assert server.read("/api/projects") == (200, {"projects": [], "totalProjects": 0})
    server.process.send_signal(number)
    assert server.end() == (0, "")


def test_what_is_running_is_called_off_when_it_ends(start, tmp_path):
    toy = Path(__file__).parent.parent / "mcp" / "toy_server.py"
    diary = tmp_path / "diary"
    server = start(str(toy), str(diary), "--http")
    asking = subprocess.Popen(
        [sys.executable, "-c", f"import urllib.request as u; u.urlopen('{server.url}/api/wait')"],
        stderr=subprocess.DEVNULL,
    )
    while not diary.exists() or "waiting" not in diary.read_text():
        assert asking.poll() is None
    server.process.send_signal(signal.SIGTERM)
    assert server.end() == (0, ""), "it is called off in time, so that nothing is cut off"
    asking.wait(30)
    assert diary.read_text().split() == ["opened", "waiting", "stopped", "closed"]


def run_serve(tmp_path: Path, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sonde.cli.main", "serve", "--port", "0", *options],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(tmp_path / "home", **more),
        timeout=30,
    )


def test_nobody_is_let_in_without_a_token(tmp_path):
    ended = run_serve(tmp_path, "--host", "0.0.0.0")
    assert ended.returncode == 2
    assert "--token-file" in ended.stderr


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("short", "16 characters"),
        ("", "no token"),
        ("one two three", "USER TOKEN"),
        ("An/na " + "x" * 20, "cannot be a user"),
    ],
)
def test_a_token_file_that_cannot_be_meant_is_refused(tmp_path, text, hint):
    (tmp_path / "tokens").write_text(text)
    ended = run_serve(tmp_path, SONDE_TOKEN_FILE=str(tmp_path / "tokens"))
    assert ended.returncode == 2
    assert hint in ended.stderr
    assert "x" * 20 not in ended.stderr


def test_a_port_in_use_is_told(start, tmp_path):
    server = start(*SERVE, cwd=tmp_path, env=environment(tmp_path / "home"))
    port = server.netloc.rpartition(":")[2]
    ended = run_serve(tmp_path, "--port", port)
    assert ended.returncode == 2
    assert "--port" in ended.stderr


BUSY = """
import threading
from sonde.embedding.onnx import OnnxEmbedder
from sonde.mcp.calls import end_if_busy

begun = threading.Event()
model = OnnxEmbedder()

def work():
    while True:
        model.embed(["word " * 400] * 5, "passage")
        begun.set()

threading.Thread(target=work, daemon=True).start()
assert begun.wait(60)
end_if_busy(0.1)
"""


def test_a_model_that_is_at_work_does_not_abort_the_end():
    for _ in range(3):  # it is a race: without care, two of three end in an abort
        ended = subprocess.run([sys.executable, "-c", BUSY], capture_output=True, timeout=60)
        assert (ended.returncode, ended.stderr) == (0, b"")
