"""Scans beside `find` and `du -a` on the same tree, and listings of a million nodes.

benchmarks/disk.py FOLDER            scan, scan again, find, du -a, taking turns
benchmarks/disk.py --million PARENT  make a million files below PARENT (200,000 of them in one
                                     folder), scan them, list folders, remove them
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from children import Cost, run_child

_SCAN = """
import json, sys
from pathlib import Path
from sonde.disk.scan import TreeScan
from sonde.stores.disk.sqlite import TreeStore
from sonde.runtime.work import Work
store = TreeStore(Path(sys.argv[1]))
report = TreeScan(store, Path(sys.argv[2]), Work()).run().as_dict()
store.close()
# not the peak of the children's usage: that one begins with the parent's memory
peak = next(l for l in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in l)
print(json.dumps({**report, "peak_mb": int(peak.split()[1]) / 1024}))
"""
_LIST = """
import json, random, statistics, sys, time
from pathlib import Path
from sonde.stores.disk.sqlite import TreeStore
store = TreeStore(Path(sys.argv[1]))
folders = [store.find(()), store.find(("one",)), *store.children(store.find(("many",)).id, 300)]
figures = {}
for sort in ("name", "size", "modified"):
    walls, cpus, big = [], [], []
    for folder in random.Random(1).sample(folders, 200) + folders[:2] * 20:
        began, ran = time.perf_counter(), time.thread_time()
        store.children(folder.id, 20, sort)
        cpus.append(time.thread_time() - ran)
        walls.append(time.perf_counter() - began)
        if folder is folders[1]:
            big.append(cpus[-1])
    # what else the machine does shows in the time that passes, not in the time that is worked
    figures[sort] = {
        "median_ms": statistics.median(walls) * 1e3, "most_ms": max(walls) * 1e3,
        "median_cpu_ms": statistics.median(cpus) * 1e3, "most_cpu_ms": max(cpus) * 1e3,
        "largest_folder_cpu_ms": statistics.median(big) * 1e3,
    }
print(json.dumps(figures))
"""


def measure(command: list[str], cwd: Path) -> Cost:
    return run_child(command, dict(os.environ), cwd, allowed=(0, 1))


def compare(root: Path, rounds: int) -> None:
    """Each in turn, so that what else the machine does falls on all alike."""
    costs: dict[str, list[Cost]] = {"first scan": [], "scan again": [], "find": [], "du -a": []}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for number in range(rounds + 1):
            database = folder / f"{number}.db"
            scan = [sys.executable, "-c", _SCAN, str(database), str(root)]
            commands = {
                "find": ["find", str(root), "-xdev", "-printf", "%y %s %b %T@ %m %n %p\\n"],
                "first scan": scan,
                "du -a": ["du", "-ax", str(root)],
                "scan again": scan,
            }
            for name, command in commands.items():
                cost = measure(command, folder)
                if number:  # the first round warms the cache of the file system
                    costs[name].append(cost)
            size = database.stat().st_size
    told = json.loads(costs["first scan"][-1].output)
    nodes = told["added"] + 1
    print(f"{nodes:,} nodes ({told['folders']:,} folders); the tree takes {size / 1e6:.0f} MB")
    base = {
        kind: statistics.median(getattr(cost, kind) for cost in costs["find"])
        for kind in ("wall_s", "cpu_s")
    }
    for name, found in costs.items():
        wall = statistics.median(cost.wall_s for cost in found)
        cpu = statistics.median(cost.cpu_s for cost in found)
        peak = ""
        if "scan" in name:
            most = max(json.loads(cost.output)["peak_mb"] for cost in found)
            peak = f"   peak {most:.0f} MB"
        print(
            f"{name:<11} wall {wall:7.2f} s ({wall / base['wall_s']:4.1f} x find)   "
            f"cpu {cpu:7.2f} s ({cpu / base['cpu_s']:4.1f} x find)   "
            f"{nodes / wall:10,.0f} nodes/s{peak}"
        )


def make_million(root: Path) -> None:
    (root / "one").mkdir(parents=True)
    for number in range(200_000):
        os.close(os.open(root / "one" / f"file-{number:06}.txt", os.O_CREAT))
    for outer in range(800):
        folder = root / "many" / f"folder-{outer:04}"
        folder.mkdir(parents=True)
        for number in range(1000):
            os.close(os.open(folder / f"file-{number:04}.dat", os.O_CREAT))


def list_million(parent: Path) -> None:
    root = Path(tempfile.mkdtemp(dir=parent)) / "million"
    database = root.parent / "tree.db"
    try:
        make_million(root)
        for name in ("first scan", "scan again"):
            cost = measure([sys.executable, "-c", _SCAN, str(database), str(root)], parent)
            told = json.loads(cost.output)
            print(
                f"{name}: {told['files'] + told['folders']:,} nodes, wall {cost.wall_s:.1f} s, "
                f"cpu {cost.cpu_s:.1f} s, peak {told['peak_mb']:.0f} MB, "
                f"database {database.stat().st_size / 1e6:.0f} MB"
            )
        cost = measure([sys.executable, "-c", _LIST, str(database)], parent)
        print(f"listings: {cost.output.strip()}")
    finally:
        shutil.rmtree(root.parent)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--million", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    began = time.perf_counter()
    if args.million:
        list_million(args.folder.resolve())
    else:
        compare(args.folder.resolve(), args.rounds)
    print(f"({time.perf_counter() - began:.0f} s in all; load {os.getloadavg()[0]:.1f})")


if __name__ == "__main__":
    main()
