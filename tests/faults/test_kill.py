"""Processes that are killed, and several at once on one index."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.backends import needs_lance
from tests.waiting import wait_until


def write_more(sonde: Any, start: int, count: int) -> None:
    for number in range(start, start + count):
        text = f"def extra_{number}(x):\n    return x * {number}\n" * 20
        (sonde.project / f"extra{number}.py").write_text(text)


@pytest.mark.row("001-158")
def test_an_index_killed_at_any_moment_is_completed_by_the_next_run(
    sonde: Any, fresh: Callable[[], Any], contents: Callable[[], Any]
) -> None:
    chance = random.Random(7)
    sonde.ask("index", "--yes")
    began = time.monotonic()
    sonde.ask("index", "--yes")
    usual_s = time.monotonic() - began
    killed = 0
    for round_ in range(15):
        write_more(sonde, 50 * round_, 50)
        process = sonde.start("index", "--yes")
        # from before the first file is read until after the last is written
        try:
            process.wait(usual_s * chance.uniform(0.3, 1.3))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.communicate(timeout=60)
        for path in sonde.home.glob("indexes/*/*.json"):
            json.loads(path.read_text())
    assert killed >= 3
    assert sonde.ask("index", "--yes")["filesIndexed"] == 31 + 750
    assert contents() == fresh()
    metadata = json.loads((sonde.folder / "metadata.json").read_text())
    assert metadata["stats"]["totalFiles"] == 30 + 750
    assert metadata["lastFullIndex"]
    prints = json.loads((sonde.folder / "fingerprints.json").read_text())
    assert set(prints) == {name.removeprefix("code:") for name in contents() if name[0] == "c"}
    assert sonde.ask("status")["status"] == "ready"


def test_two_indexing_at_once_and_searches_meanwhile_all_succeed(
    sonde: Any, fresh: Callable[[], Any], contents: Callable[[], Any]
) -> None:
    sonde.ask("index", "--yes")
    write_more(sonde, 0, 600)
    indexing = [sonde.start("index", "--yes", "--json") for _ in range(2)]
    searches = 0
    deadline = time.monotonic() + 100
    while any(process.poll() is None for process in indexing) and time.monotonic() < deadline:
        answer = sonde.ask("search", "function_7")
        assert answer["results"][0]["path"].endswith("mod7.py")
        searches += 1
    for process in indexing:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert json.loads(out)["filesIndexed"] == 631
    assert searches >= 1
    assert contents() == fresh()


def test_an_interrupted_index_says_so_and_keeps_what_it_did(sonde: Any) -> None:
    write_more(sonde, 0, 1500)
    process = sonde.start("index", "--yes", "--json")
    wait_until(lambda: list(sonde.home.glob("indexes/*/index.db")), "an index begun")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert "Traceback" not in err
    assert process.returncode == 130, out
    assert json.loads(out)["code"] == "CANCELLED"
    assert sonde.ask("index", "--yes")["filesIndexed"] == 1531


@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "runs"), [("sqlite", 24), pytest.param("lance", 7, marks=needs_lance)]
)
@pytest.mark.row("001-112", "001-158")
def test_a_kill_at_any_instant_loses_nothing_and_one_check_mends_the_rest(
    store: str, runs: int
) -> None:
    script = Path(__file__).with_name("kills.py")
    command = [sys.executable, str(script), "--store", store, "--runs", str(runs), "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"{runs} kills, nothing lost" in done.stdout
