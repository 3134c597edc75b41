"""A few of the faults that `make faults` tries one after the other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("cc"), reason="needs LD_PRELOAD and a C compiler"
)
def test_a_write_that_fails_loses_nothing_and_claims_nothing() -> None:
    options = ("--operations", "update", "--from", "9", "--every", "50")
    command = [sys.executable, "-m", "tests.faults.failing_writes", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [line.split(" | ") for line in done.stdout.splitlines()[2:]]
    assert [row[1] for row in rows] == ["full", "io", "quota", "short", "kill"]
    tried = {row[1]: [int(cell.strip(" |")) for cell in row[2:]] for row in rows}
    assert all(counts[0] >= 2 and counts[4] == 0 for counts in tried.values()), tried
    assert tried["full"][2]  # a full disk is said to be full
    assert tried["quota"][2]
    assert tried["kill"][3] == tried["kill"][0]
