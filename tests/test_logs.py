"""Logs of the storage: what is in them and what is not, how large they grow, who may read them."""

from __future__ import annotations

import json
import logging
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import FILES, Shell
from tests.loopback import Exchange, LoopbackServer, running
from tests.mcp.conftest import RawClient
from tests.trees import write_files

from sonde.runtime.logs import LOG_FILE, OLD_FILES, LogFiles, LogLine, project_log

KEY = "0123456789abcdef" * 2


@pytest.fixture
def log(tmp_path: Path) -> Iterator[logging.Logger]:
    """The log of a project, in files of at most 2 kB."""
    (tmp_path / "indexes" / KEY).mkdir(parents=True)
    handler = LogFiles(tmp_path, most_bytes=2_000)
    handler.setFormatter(LogLine("%(levelname)s %(message)s"))
    ours = logging.getLogger("sonde")
    before = ours.level
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    yield project_log(tmp_path / "indexes" / KEY)
    ours.removeHandler(handler)
    ours.setLevel(before)


@pytest.mark.row("001-13")
def test_files_roll_stay_small_and_are_private(tmp_path: Path, log: logging.Logger) -> None:
    writers = [
        threading.Thread(target=lambda n=n: [log.info("%d: line %d", n, at) for at in range(300)])
        for n in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    folder = tmp_path / "indexes" / KEY / "logs"
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == [
        LOG_FILE,
        *(f"{LOG_FILE}.{number}" for number in range(1, OLD_FILES + 1)),
    ]
    assert all(file.stat().st_size < 2_100 for file in files)
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_what_concerns_no_index_is_in_the_log_of_the_storage(
    tmp_path: Path, log: logging.Logger
) -> None:
    logging.getLogger("sonde.mcp").warning("of the server")
    project_log(tmp_path / "indexes" / "gone").warning("of an index that is not there")
    text = (tmp_path / "logs" / LOG_FILE).read_text()
    assert text == "WARNING of the server\nWARNING of an index that is not there\n"
    assert not (tmp_path / "indexes" / "gone").exists()


def test_an_exception_is_logged_without_what_it_quotes(tmp_path: Path, log: logging.Logger) -> None:
    def fail() -> None:
        raise ValueError("near 'canary query'")

    try:
        fail()
    except ValueError:
        log.exception("a tool failed")
    text = (tmp_path / "indexes" / KEY / "logs" / LOG_FILE).read_text()
    assert text.startswith("ERROR a tool failed [ValueError at test_logs.py:")
    assert "canary" not in text
    assert "Traceback" not in text
    assert text.count("\n") == 1


def test_a_thread_that_fails_leaves_one_line(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, threading\n"
        "from sonde.runtime.logs import open_logs\n"
        "open_logs(pathlib.Path(sys.argv[1]), 'warning')\n"
        "threading.Thread(target=lambda: 1 / 0).start()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stderr.startswith("ERROR sonde: a thread failed [ZeroDivisionError at ")
    assert done.stderr.count("\n") == 1
    assert "a thread failed" in (tmp_path / "logs" / LOG_FILE).read_text()


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path, log: logging.Logger) -> None:
    (tmp_path / "indexes" / KEY / "logs").write_text("a file is in the way")
    log.warning("lost")


@pytest.mark.row("001-13", "003-C60")
def test_the_product_logs_what_it_skips_and_fails_at_but_no_query(tmp_path: Path) -> None:
    class Answer(Exchange):
        def answer(self) -> None:
            texts = self.read_json()["texts"]
            if texts != ["ready"]:
                self.reply(500, b"{}")
            else:
                self.reply(200, json.dumps({"embeddings": [[1.0, 0.0]] * len(texts)}).encode())

    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEcanary" * 20 + "\n"
    files = FILES | {"keys.py": f'KEY = """{key}"""\n', "large.txt": "x" * 2_000_000}
    shell = Shell(write_files(tmp_path / "shop", files), tmp_path / "home")
    assert shell.run("index", "--yes").returncode == 0
    with running(LoopbackServer(Answer)) as service:
        settings = {
            "SONDE_EMBEDDING": "http",
            "SONDE_EMBEDDING_ENDPOINT": f"{service.address}/embed",
            "SONDE_EMBEDDING_DIMENSIONS": "2",
        }
        client = RawClient(
            "-m", "sonde.cli.main", "mcp", env={**shell.environ, **settings}, cwd=shell.folder
        )
        client.greet()
        assert client.call("cortex_search", query="canaryquery")["error"]["code"] == -32603
        _, stderr, _ = client.finish()
    home = shell.home / ".mcp" / "search"
    (log,) = home.glob(f"indexes/*/logs/{LOG_FILE}")
    assert "'filesIndexed': " in log.read_text()
    assert "'too_large': 1" in log.read_text()
    assert "large.txt (too_large" in log.read_text()
    server = (home / "logs" / LOG_FILE).read_text()
    assert "EMBEDDING_FAILED" in server
    for text in (log.read_text(), server, stderr):
        assert "Traceback" not in text
        assert "canary" not in text
    checks = json.loads(shell.run("--json", "doctor").stdout)["checks"]
    found = {check["name"]: check["found"] for check in checks}
    assert (found["logs"], found["index log"]) == (str(home / "logs" / LOG_FILE), str(log))


def test_a_storage_that_cannot_be_looked_at_stops_no_work(tmp_path: Path) -> None:
    handler = LogFiles(tmp_path / ("x" * 300))  # longer than a name can be
    handler.emit(logging.makeLogRecord({"name": project_log(Path(KEY)).name, "msg": "lost"}))
