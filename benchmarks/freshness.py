"""How soon a saved file is found, what watching costs, and many servers on one project.

    python benchmarks/freshness.py save --files 10000 --edits 100
    python benchmarks/freshness.py idle --files 10000 --seconds 60
    python benchmarks/freshness.py servers --count 16 --seconds 60
    python benchmarks/freshness.py watched --files 10000 --edits 200
    python benchmarks/freshness.py busy --files 2000 --edits 40

Figures go to stdout as JSON. The project is made up: folders of small Python files.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from client import Client, is_complete

COMMAND = [sys.executable, "-m", "sonde.cli.main"]
LIMIT_S, SETTLED_S = 30.0, 600.0


class Bench:
    """An indexed project and its servers."""

    def __init__(self, place: Path, files: int, embedding: str) -> None:
        self.root = place / "project"
        self.files = files
        self.env = {**os.environ, "SONDE_HOME": str(place / "home"), "SONDE_EMBEDDING": embedding}
        self.log = place / "log"
        for number in range(files):
            path = self.path_of(number)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(
                "".join(
                    f"def fn_{number}_{part}(a, b):\n    return a + b * {part}\n\n\n"
                    for part in range(8)
                )
            )
        (self.root / "pyproject.toml").write_text("")
        run = [*COMMAND, "index", "--yes", "--quiet"]
        subprocess.run(run, cwd=self.root, env=self.env, check=True, stdout=sys.stderr)
        self.clients: list[Client] = []

    def path_of(self, number: int) -> Path:
        return self.root / f"pkg{number % 97}" / f"sub{number % 7}" / f"m{number}.py"

    def start(self, **settings: str) -> Client:
        client = Client([*COMMAND, "mcp"], self.env | settings, self.root, self.log)
        client.initialize()
        self.clients.append(client)
        return client

    def wait_followed(self, client: Client) -> None:
        wait_for(lambda: client.call("get_index_status", {})["details"]["following"].get("current"))

    def edit(self, number: int, word: str) -> Path:
        path = self.path_of(number)
        path.write_text(f"{path.read_text()}\n\ndef {word}():\n    return 1\n")
        return path

    def finds(self, client: Client, word: str, path: Path) -> bool:
        answer = client.call("search_code", {"query": word, "top_k": 1, "mode": "lexical"})
        return any(self.root / row["path"] == path for row in answer["results"])

    def close(self) -> None:
        for client in self.clients:
            client.close()


def wait_for(condition: Callable[[], Any], limit_s: float = LIMIT_S) -> float:
    """Seconds until something is true."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > limit_s:
            raise SystemExit("it did not happen in time")
        time.sleep(0.02)
    return time.monotonic() - began


def read_process(pid: int) -> dict[str, float]:
    """Resident and own megabytes, and seconds of CPU."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    sizes = {line.split(":")[0]: int(line.split()[1]) for line in rollup.splitlines()[1:]}
    return {
        "rssMB": sizes["Rss"] / 1024,
        "pssMB": sizes["Pss"] / 1024,
        "privateMB": (sizes["Private_Clean"] + sizes["Private_Dirty"]) / 1024,
        "cpuS": (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"),
    }


def summarize(values: list[float]) -> dict[str, float]:
    return {
        "count": len(values),
        "median": round(statistics.median(values), 3),
        "p95": round(statistics.quantiles(values, n=20)[-1], 3),
        "most": round(max(values), 3),
    }


def measure_save(bench: Bench, args: argparse.Namespace) -> dict[str, Any]:
    """From the end of the write to the first answer that has it."""
    client = bench.start()
    bench.wait_followed(client)
    seconds = []
    for turn in range(args.edits):
        word = f"saved{turn}q{random.randrange(10**6)}"
        path = bench.edit(random.randrange(bench.files), word)
        seconds.append(wait_for(lambda w=word, p=path: bench.finds(client, w, p)))
    return {"secondsFromSaveToSearchable": summarize(seconds)}


def measure_idle(bench: Bench, args: argparse.Namespace) -> dict[str, Any]:
    """A server that nobody asks anything, and that has nothing to do."""
    client = bench.start()
    home = Path(bench.env["SONDE_HOME"])
    wait_for(
        lambda: any(
            json.loads(path.read_text()).get("current")
            for path in home.glob("indexes/*/watcher.json")
        )
    )
    settled = {"afterStart": read_process(client.pid)}
    time.sleep(args.settle)
    before = read_process(client.pid)
    time.sleep(args.seconds)
    after = read_process(client.pid)
    return {
        **settled,
        "idle": after,
        "cpuSecondsWhileIdle": round(after["cpuS"] - before["cpuS"], 2),
        "overSeconds": args.seconds,
    }


def measure_watched(bench: Bench, args: argparse.Namespace) -> dict[str, Any]:
    """Start-up and keyword queries of two servers in turn, of which one watches the project."""
    kinds = {"watching": "auto", "not watching": "off"}
    starts: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(args.starts):
        for kind, setting in kinds.items():
            began = time.perf_counter()
            client = bench.start(SONDE_WATCHING=setting)
            client.request("tools/list", {}, 60)
            starts[kind].append((time.perf_counter() - began) * 1000)
            bench.clients.remove(client)
            client.close()
    servers = {kind: bench.start(SONDE_WATCHING=setting) for kind, setting in kinds.items()}
    bench.wait_followed(servers["watching"])
    asked = {}
    for edits in (False, True):
        times: dict[str, list[float]] = {kind: [] for kind in kinds}
        before = {kind: read_process(server.pid)["cpuS"] for kind, server in servers.items()}
        for turn in range(args.edits):
            if edits:
                bench.edit(random.randrange(bench.files), f"edited{turn}")
            query = {"query": f"fn_{random.randrange(bench.files)}_1", "mode": "lexical"}
            for kind in random.sample(list(kinds), 2):
                began = time.perf_counter()
                servers[kind].call("search_code", query)
                times[kind].append((time.perf_counter() - began) * 1000)
        asked["under edits" if edits else "quiet"] = {
            kind: summarize(times[kind])
            | {"cpuMs": round(1000 * (read_process(s.pid)["cpuS"] - before[kind]) / args.edits, 1)}
            for kind, s in servers.items()
        }
    return {"startMs": {k: summarize(v) for k, v in starts.items()}, "keywordMs": asked}


def measure_servers(bench: Bench, args: argparse.Namespace) -> dict[str, Any]:
    """Servers on one project under constant edits; an error of any ends the run."""
    for _ in range(args.count):
        bench.start()
    for client in bench.clients:
        bench.wait_followed(client)
    alone = [read_process(client.pid) for client in bench.clients]
    latest: dict[Path, str] = {}
    queries = edits = 0
    query_ms = []
    end = time.monotonic() + args.seconds
    while time.monotonic() < end:
        word = f"many{edits}q{random.randrange(10**6)}"
        latest[bench.edit(random.randrange(bench.files), word)] = word
        edits += 1
        for client in random.sample(bench.clients, 4):
            began = time.perf_counter()
            client.call("search_code", {"query": random.choice(list(latest.values()))})
            query_ms.append((time.perf_counter() - began) * 1000)
            queries += 1
    last = list(latest.items())[-20:]
    seen = [
        wait_for(lambda c=client, w=word, p=path: bench.finds(c, w, p))
        for client in bench.clients
        for path, word in last
    ]
    # while deeper vectors are made, who has which of them at hand is a matter of milliseconds
    settled = [
        wait_for(lambda c=client: is_complete(c.call("get_index_status", {})), SETTLED_S)
        for client in bench.clients
    ]
    asked = [word for _, word in last] + ["return the sum", "fn"]
    answers = [
        [client.call("search_code", {"query": word, "top_k": 10})["results"] for word in asked]
        for client in bench.clients
    ]
    roles = [
        client.call("get_index_status", {})["details"]["following"]["role"]
        for client in bench.clients
    ]
    after = [read_process(client.pid) for client in bench.clients]
    return {
        "servers": args.count,
        "writers": roles.count("writer"),
        "edits": edits,
        "queries": queries,
        "errors": 0,
        "queryMs": summarize(query_ms),
        "secondsUntilAllAgree": round(sum(seen), 2),
        "secondsUntilSettled": round(sum(settled), 2),
        "equalAnswers": all(answer == answers[0] for answer in answers),
        "beforeMB": _describe_sizes(alone),
        "afterMB": _describe_sizes(after),
    }


def measure_busy(bench: Bench, args: argparse.Namespace) -> dict[str, Any]:
    """Searches right after indexing, while other programs take all of every processor."""
    spin = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(spin) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        client = bench.start()
        client.request("tools/list", {}, 60)
        query_ms = []
        for turn in range(args.edits):
            began = time.perf_counter()
            client.call("search_code", {"query": f"the sum of fn {turn}", "top_k": 5})
            query_ms.append((time.perf_counter() - began) * 1000)
            time.sleep(0.1)  # whoever reads the answer
    finally:
        for other in others:
            other.kill()
    return {"busyProcesses": len(others), "firstMs": query_ms[0], "queryMs": summarize(query_ms)}


def _describe_sizes(rows: list[dict[str, float]]) -> dict[str, Any]:
    return {
        key: {
            "median": round(statistics.median(row[key] for row in rows), 1),
            "most": round(max(row[key] for row in rows), 1),
        }
        for key in ("rssMB", "pssMB", "privateMB")
    }


MEASURES = {
    "save": measure_save,
    "idle": measure_idle,
    "servers": measure_servers,
    "watched": measure_watched,
    "busy": measure_busy,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=MEASURES)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--settle", type=float, default=30.0, help="before CPU is counted")
    parser.add_argument("--embedding", default="auto")
    args = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="sonde-freshness-"))
    try:
        bench = Bench(place, args.files, args.embedding)
        try:
            result = MEASURES[args.what](bench, args)
        finally:
            bench.close()
        load = round(os.getloadavg()[0], 1)
        print(json.dumps({"files": args.files, **result, "loadAverage": load}, indent=2))
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
