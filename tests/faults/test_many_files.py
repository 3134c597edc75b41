"""Projects far larger than usual, within the memory that is promised."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COUNT = 100_000
MEMORY_BYTES = 500 * 1024 * 1024


def peak_of(pid: int) -> int:
    """The most memory a running process has held; what wait4 tells counts its parent's, too."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) * 1024


@pytest.mark.row("000-P58")
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_a_hundred_thousand_files_are_indexed_within_the_memory_promised(
    sonde: Any, tmp_path: Path
) -> None:
    for folder in range(COUNT // 200):
        place = sonde.project / f"d{folder}"
        place.mkdir()
        for number in range(200):
            (place / f"f{number}.py").write_text(f"def f_{folder}_{number}(): return {number}\n")
    asked = sonde.fail("index")
    assert asked["code"] == "FILE_LIMIT_WARNING"
    assert f"({COUNT + 31:,} files)" in asked["userMessage"]
    assert not (sonde.home / "indexes").exists() or not list(sonde.home.glob("indexes/*/*.db"))
    process = sonde.start("index", "--json", "--yes")
    assert process.stdout
    peak = 0
    while process.poll() is None:
        peak = max(peak, peak_of(process.pid))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    answer = json.loads(process.stdout.read())
    process.communicate()
    assert process.returncode == 0
    assert answer["filesIndexed"] == COUNT + 31
    assert 0 < peak < MEMORY_BYTES
    hit = sonde.ask("search", "f_42_137")["results"][0]
    assert hit["path"] == "d42/f137.py"
