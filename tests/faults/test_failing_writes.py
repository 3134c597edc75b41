"""A few of the faults that `make faults` tries one after the other."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.backends import needs_lance

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("cc"), reason="needs LD_PRELOAD and a C compiler"
)


def try_faults(*options: str) -> dict[str, list[int]]:
    """By kind: calls, tried, ended well, refused, killed, problems."""
    command = [sys.executable, "-m", "tests.faults.failing_writes", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [line.split(" | ") for line in done.stdout.splitlines()[2:]]
    return {row[1]: [int(cell.strip(" |")) for cell in row[2:]] for row in rows}


def test_a_write_that_fails_loses_nothing_and_claims_nothing() -> None:
    tried = try_faults("--operations", "update", "--from", "9", "--every", "50")
    assert list(tried) == ["full", "io", "quota", "short", "kill"]
    assert all(counts[1] >= 2 and counts[5] == 0 for counts in tried.values()), tried
    assert tried["full"][3]  # a full disk is said to be full
    assert tried["quota"][3]
    assert tried["kill"][4] == tried["kill"][1]


@needs_lance
def test_a_write_of_lancedb_that_fails_is_noticed_and_not_called_damage() -> None:
    options = ("--store", "lance", "--operations", "compact", "--within", ".lancedb/")
    ((_, tried, well, refused, _, problems),) = try_faults(
        *options, "--kinds", "io", "--from", "1", "--every", "9"
    ).values()
    assert tried > 15
    assert (well + refused, problems) == (tried, 0)
    assert refused
