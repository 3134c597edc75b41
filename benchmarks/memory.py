"""Memory of everything that sonde runs: after a burst of work, and while it indexes many files.

    python benchmarks/memory.py burst FOLDER [--quiet 300]
    python benchmarks/memory.py many FOLDER... [--files 50000]

`burst` indexes a copy of a folder, starts a server in it, adds thousands of files, asks hundreds of
queries, waits until the deep model has embedded everything, and then leaves the server alone.
`many` indexes copies of the folders' text files, each a little different. Memory is summed
over a process and its children. Figures go to stdout as JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from children import list_tree
from client import Client, is_complete

COMMAND = [sys.executable, "-m", "sonde.cli.main"]
SAMPLE_S = 0.2
QUERIES = ("parse a date", "raise an error when the connection is closed", "template tag", "cache")


def measure_tree(pid: int) -> dict[str, float]:
    """Megabytes of a process and its children: resident, and of their own."""
    sums = {"Rss": 0.0, "Pss": 0.0, "Private_Clean": 0.0, "Private_Dirty": 0.0}
    processes = 0
    for each in list_tree(pid):
        with contextlib.suppress(OSError, ValueError):
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()[1:]
            for line in lines:
                name, _, rest = line.partition(":")
                if name in sums:
                    sums[name] += int(rest.split()[0]) / 1024
            processes += 1
    own = sums["Private_Clean"] + sums["Private_Dirty"]
    return {"rss": sums["Rss"], "pss": sums["Pss"], "own": own, "processes": processes}


class Sampler(threading.Thread):
    """The most memory that a process and its children have had."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._done = threading.Event()
        self.most: dict[str, float] = {}

    def run(self) -> None:
        while not self._done.wait(SAMPLE_S):
            for name, value in measure_tree(self._pid).items():
                self.most[name] = max(self.most.get(name, 0.0), value)

    def stop(self) -> dict[str, float]:
        self._done.set()
        self.join()
        return round_all(self.most)


def round_all(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in values.items()}


def list_texts(folders: list[Path]) -> Iterator[Path]:
    """Text files of a size that is indexed."""
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                usual = path.is_file() and not path.is_symlink() and path.stat().st_size < 500_000
                if usual and "\0" not in path.read_text("utf-8"):
                    yield path


def make_project(folders: list[Path], target: Path, count: int) -> int:
    """Copies of text files, each with a line of its own, until there are enough."""
    sources = list(itertools.islice(list_texts(folders), count))
    made = 0
    for turn in range(count // max(len(sources), 1) + 1):
        for number, path in enumerate(sources):
            if made == count:
                break
            place = target / f"part{turn}" / f"d{number // 200}" / f"{number}_{path.name}"
            place.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_bytes()
            cut = text.find(b"\n", len(text) // 2) + 1
            place.write_bytes(text[:cut] + f"# copy {turn} of {number}\n".encode() + text[cut:])
            made += 1
    (target / "pyproject.toml").write_text("")
    return made


def measure_burst(args: argparse.Namespace, place: Path) -> dict[str, Any]:
    """A server that worked hard, and then has nothing to do."""
    root = place / "project"
    files = make_project(args.folders, root, args.files)
    env = {**os.environ, "SONDE_HOME": str(place / "home")}
    index = [*COMMAND, "index", "--yes", "--deep", "--quiet"]
    subprocess.run(index, cwd=root, env=env, check=True, stdout=sys.stderr)
    with Client([*COMMAND, "mcp"], env, root, place / "log") as client:
        client.initialize()
        series = {"before": round_all(measure_tree(client.pid))}
        sampler = Sampler(client.pid)
        sampler.start()
        for number in range(args.changed):
            new = root / f"new{number % 40}" / f"m{number}.py"
            new.parent.mkdir(exist_ok=True)
            new.write_text(f"def added_{number}(value):\n    return value + {number}\n")
        for asked in range(args.queries):
            query = f"{QUERIES[asked % len(QUERIES)]} {asked}"
            client.call(("search_code", "search_docs")[asked % 2], {"query": query, "top_k": 20})
        began = time.monotonic()
        while time.monotonic() - began < args.patience:
            told = client.call("get_index_status", {})
            if told["totalFiles"] > files + args.changed - 1 and is_complete(told):
                break
            time.sleep(1)
        burst = sampler.stop()
        began = time.monotonic()
        for after in [after for after in (0, 60, 120, 180, 240, 300) if after <= args.quiet]:
            time.sleep(max(began + after - time.monotonic(), 0.0))
            series[str(after)] = round_all(measure_tree(client.pid))
        return {
            "files": told["totalFiles"],
            "chunks": told["totalChunks"],
            "vectors": told["details"]["vectors"],
            "queries": args.queries,
            "mostMB": burst,
            "secondsQuietMB": series,
        }


def measure_many(args: argparse.Namespace, place: Path) -> dict[str, Any]:
    """The command that indexes a large project, and whatever it starts."""
    root = place / "project"
    files = make_project(args.folders, root, args.files)
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file())
    env = {**os.environ, "SONDE_HOME": str(place / "home"), "SONDE_MAX_FILES": "1000000"}
    began = time.monotonic()
    process = subprocess.Popen(
        [*COMMAND, "index", "--yes", "--json"], cwd=root, env=env, stdout=subprocess.PIPE, text=True
    )
    sampler = Sampler(process.pid)
    sampler.start()
    answer = json.loads(process.communicate()[0] or "{}")
    return {
        "files": files,
        "megabytes": round(size / 1e6),
        "seconds": round(time.monotonic() - began),
        "answer": {k: answer.get(k) for k in ("status", "filesIndexed", "chunksCreated", "code")},
        "mostMB": sampler.stop(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("burst", "many"))
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--files", type=int, default=None)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--changed", type=int, default=2_000)
    parser.add_argument("--patience", type=float, default=900.0, help="until all is embedded")
    parser.add_argument("--quiet", type=float, default=300.0)
    args = parser.parse_args()
    args.files = args.files or {"burst": 600, "many": 50_000}[args.what]
    place = Path(tempfile.mkdtemp(prefix="sonde-memory-"))
    try:
        result = (measure_burst if args.what == "burst" else measure_many)(args, place)
        print(json.dumps({**result, "loadAverage": round(os.getloadavg()[0], 1)}, indent=2))
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
