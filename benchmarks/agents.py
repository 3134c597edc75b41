"""What agents and commands cost, with the background process and without it.

    python benchmarks/agents.py FOLDER [--rounds 20] [--agents 16] [--sources SRC] [--other SRC]

It indexes a copy of the folder, then alternates between the two ways (and, with `--other`, another
version's sources), each with a home of its own: searches from process start, lists of tools, and a
number of agents at once on one project, each with one search. Times are wall seconds and seconds of
CPU, of the caller and of the background process; memory is PSS in MB over all processes. Figures
go to stdout as JSON; the load average is beside them.
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
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from children import list_tree
from client import Client
from memory import measure_tree

START = "import sys; from sonde.cli.main import main; sys.exit(main())"
QUERIES = ("where are sessions refreshed", "template tag", "cache key", "parse a date", "csrf")
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Way:
    """One way to run sonde: its sources, and whether it uses the background process."""

    name: str
    home: Path
    project: Path
    sources: str = ""
    daemon: str = "on"

    @property
    def environ(self) -> dict[str, str]:
        more = {"HOME": str(self.home), "SONDE_DAEMON": self.daemon}
        return {"PATH": os.environ["PATH"], **more} | (
            {"PYTHONPATH": self.sources} if self.sources else {}
        )

    def run(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", START, *words],
            cwd=self.project, env=self.environ, stdin=subprocess.DEVNULL, capture_output=True,
            check=False, text=True,
        )  # fmt: skip
        return done.stdout

    def connect(self) -> Client:
        return Client([sys.executable, "-c", START, "mcp"], self.environ, self.project)

    def find_process(self) -> int:
        """The background process; 0 if there is none."""
        if self.daemon == "off":
            return 0
        found = json.loads(self.run("daemon", "--json") or "{}").get("processes", [])
        return int(found[0]["pid"]) if found else 0


def read_cpu(process: int) -> float:
    """Seconds of CPU that a process and its threads have used."""
    if not process:
        return 0.0
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def read_children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def time_search(way: Way, query: str, process: int) -> tuple[float, float, float]:
    """Wall seconds, CPU of the caller, CPU of the background process."""
    cpu, behind, began = read_children_cpu(), read_cpu(process), time.perf_counter()
    way.run("search", query, "-n", "5")
    wall = time.perf_counter() - began
    return wall, read_children_cpu() - cpu, read_cpu(process) - behind


def time_list(way: Way) -> float:
    """Wall seconds from the start of an agent's server to the list of tools."""
    began = time.perf_counter()
    with way.connect() as client:
        client.initialize()
        client.request("tools/list", {}, 60)
        return time.perf_counter() - began


def measure_agents(way: Way, count: int) -> dict[str, Any]:
    """A number of agents on one project, each with one search: memory, and their first answers."""
    times = []
    with ExitStack() as stack:
        clients = []
        for number in range(count):
            client = stack.enter_context(way.connect())
            client.initialize()
            client.request("tools/list", {}, 60)
            clients.append(client)
            query = QUERIES[number % len(QUERIES)]
            began = time.perf_counter()
            call = {"name": "search_code", "arguments": {"query": query}}
            client.request("tools/call", call, 120)
            times.append(round(time.perf_counter() - began, 3))
        time.sleep(2.0)  # what was begun in the background has started
        processes = {each for client in clients for each in list_tree(client.pid)}
        processes |= set(list_tree(way.find_process())) if way.find_process() else set()
        memory = sum(measure_one(each) for each in processes)
    return {"first_searches_s": times, "processes": len(processes), "pss_mb": round(memory)}


def measure_one(process: int) -> float:
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0.0
    return next(int(line.split()[1]) for line in text.splitlines() if line[:4] == "Pss:") / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--agents", type=int, default=16)
    parser.add_argument("--sources", default="", help="a `src` folder that nobody edits meanwhile")
    parser.add_argument("--other", default="", help="the `src` folder of another version")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        project = base / "project"
        shutil.copytree(args.folder, project, symlinks=True)
        ways = [
            Way("background", base / "a", project, args.sources),
            Way("alone", base / "b", project, args.sources, "off"),
        ]
        if args.other:
            ways.append(Way("other", base / "c", project, args.other, "off"))
        for way in ways:
            way.home.mkdir()
            way.run("index", "--yes")
            way.run("search", "warm")
        print(json.dumps(measure(ways, args.rounds, args.agents), indent=1))


def measure(ways: list[Way], rounds: int, agents: int) -> dict[str, Any]:
    figures: dict[str, Any] = {"load": os.getloadavg()[0]}
    try:
        processes = {way.name: way.find_process() for way in ways}
        taken: dict[str, list[tuple[float, float, float]]] = {way.name: [] for way in ways}
        listed: dict[str, list[float]] = {way.name: [] for way in ways}
        for number in range(rounds):
            for way in ways:
                query = QUERIES[number % len(QUERIES)]
                taken[way.name].append(time_search(way, query, processes[way.name]))
                listed[way.name].append(time_list(way))
        for way in ways:
            wall, caller, behind = (median(each) for each in zip(*taken[way.name], strict=True))
            total = sum(each[2] for each in taken[way.name]) / rounds
            figures[way.name] = {
                "search_wall_s": round(wall, 3),
                "search_caller_cpu_s": round(caller, 3),
                "search_background_cpu_s": round(total, 3) if behind or total else 0.0,
                "list_wall_s": round(median(listed[way.name]), 3),
            }
            if process := processes[way.name]:
                figures[way.name]["idle_pss_mb"] = round(measure_tree(process)["pss"])
        for way in ways:
            figures[way.name]["agents"] = measure_agents(way, agents)
        figures["load_at_end"] = os.getloadavg()[0]
        background = ways[0]
        cold = []
        for _ in range(min(rounds, 5)):
            background.run("daemon", "stop")
            cold.append(time_list(background))
        figures["background"]["list_cold_wall_s"] = round(median(cold), 3)
    finally:
        for way in ways:
            way.run("daemon", "stop")
    return figures


if __name__ == "__main__":
    main()
