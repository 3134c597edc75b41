"""What the first index of a second worktree, and of a copy, costs against that of the original.

    python benchmarks/copies.py ~/src/a-repository [--deep]

Figures go to stdout as JSON: seconds of CPU, all processes together, and of the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "sonde.cli.main", "index", "--yes", "--quiet"]


def measure_index(root: Path, home: Path, options: list[str]) -> dict[str, float]:
    """Index a project as a user does."""
    env = {**os.environ, "SONDE_HOME": str(home)}
    spent, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([*COMMAND, *options], cwd=root, env=env, check=True, stdout=sys.stderr)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - spent.ru_utime + after.ru_stime - spent.ru_stime
    return {"cpuS": round(cpu, 2), "wallS": round(wall, 2)}


def measure(repository: Path, place: Path, options: list[str]) -> dict[str, Any]:
    """The original, a worktree of it, and a copy with other times."""
    first, home = place / "first", place / "home"
    subprocess.run(["git", "clone", "-q", str(repository), str(first)], check=True)
    told = {"original": measure_index(first, home, options)}
    subprocess.run(["git", "worktree", "add", "-q", str(place / "second")], cwd=first, check=True)
    told["worktree"] = measure_index(place / "second", home, options)
    shutil.copytree(first, place / "third", symlinks=True, copy_function=shutil.copy)
    told["copy"] = measure_index(place / "third", home, options)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--deep", action="store_true", help="with the deeper vectors")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sonde-copies-") as place:
        told = measure(args.repository.resolve(), Path(place), ["--deep"] if args.deep else [])
    shares = {
        name: round(told["original"]["cpuS"] / told[name]["cpuS"], 1)
        for name in ("worktree", "copy")
    }
    load = round(os.getloadavg()[0], 1)
    print(json.dumps({**told, "timesLessCpu": shares, "loadAverage": load}, indent=2))


if __name__ == "__main__":
    main()
