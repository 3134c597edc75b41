"""A real `sonde serve` under load from this machine: many clients, bad clients, too many, the end.

benchmarks/load.py [SECONDS]     (of each pattern; 5 by default, about two minutes in all)

Requests are written by hand over asyncio streams with connections kept open, so that little of the
figures is the client's; both share the machine's cores all the same. Meanwhile event streams of a
job that really runs are held open.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

from children import read_cpu, read_memory, settle
from load_clients import Clients, Target, abort, ask, dribble, hold_stream, measure, overfill

from sonde.runtime.work import WriterLock
from sonde.stores.records import project_folder

SOURCE = Path(__file__).resolve().parent.parent
STREAMS = 100
CLIENTS = (1, 16, 64)
SONDE = (sys.executable, "-m", "sonde.cli.main")
QUESTIONS = ("who may come in over http", "rate limit", "scan a folder", "cursor signature",
             "treemap layout", "where are vectors kept", "confirm a deletion")  # fmt: skip
MODERN = "2026-07-28"


class Server:
    """A server process, and what it uses."""

    def __init__(self, project: Path, home: Path, **settings: str) -> None:
        environ = {**os.environ, "SONDE_HOME": str(home), "SONDE_FILE_ROOTS": str(project),
                   **settings}  # fmt: skip
        self.errors = home / f"stderr-{time.monotonic_ns()}"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [*SONDE, "--json", "serve", "--port", "0"],
                cwd=project, env=environ, stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip
        assert self.process.stdout
        facts = json.loads(self.process.stdout.readline())
        self.target = Target(facts["url"], facts["key"])

    def use(self) -> dict[str, float]:
        """Memory, threads and open files as they are now."""
        place = Path(f"/proc/{self.process.pid}")
        return {
            **read_memory(self.process.pid),
            "threads": len(list((place / "task").iterdir())),
            "files": len(list((place / "fd").iterdir())),
        }

    def end(self) -> tuple[int, float]:
        """Tell it to stop; its exit code, and how long that took."""
        began = time.perf_counter()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30), time.perf_counter() - began

    def read_errors(self) -> dict[str, int]:
        """What it said on stderr that is an error, and how often."""
        lines = self.errors.read_text(errors="replace").splitlines()
        return dict(Counter(line for line in lines if "ERROR" in line or "Traceback" in line))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", nargs="?", type=float, default=5.0)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        project, home = Path(folder) / "project", Path(folder) / "home"
        ignored = shutil.ignore_patterns("__pycache__", "models")
        shutil.copytree(SOURCE / "src", project / "src", ignore=ignored)
        shutil.copytree(SOURCE / "docs", project / "docs")
        shutil.copy(SOURCE / "pyproject.toml", project)
        environ = {**os.environ, "SONDE_HOME": str(home)}
        indexed = [*SONDE, "--yes", "index", "--quiet"]
        subprocess.run(indexed, cwd=project, env=environ, check=True)
        asyncio.run(measure_all(project, home, seconds))
    print(f"(load {os.getloadavg()[0]:.1f})")


async def measure_all(project: Path, home: Path, seconds: float) -> None:
    server = Server(project, home, SONDE_RATE_LIMIT="0")
    try:
        index, node, job = await prepare(server, project, home)
        settle(server.process.pid)
        before = server.use()
        with holding(project, home):
            streams = [asyncio.create_task(hold_stream(server.target, job)) for _ in range(STREAMS)]
            await asyncio.sleep(1)
            print(f"{STREAMS} event streams are open meanwhile")
            for name, (make, counts) in patterns(server.target, index, node).items():
                for clients in counts:
                    await show(server, name, make, clients, seconds)
            await misbehave(server, index, seconds)
            settle(server.process.pid)
            after = server.use()
            print("before", show_use(before), "\nafter ", show_use(after), "(streams still open)")
            code, took = await asyncio.to_thread(server.end)
            ended = Counter(await asyncio.gather(*streams))
            print(f"the end with {STREAMS} open streams: exit {code} after {took:.1f} s; streams: "
                  f"{dict(ended)}; errors in the log: {server.read_errors()}")  # fmt: skip
    finally:
        server.process.kill()
    await outrun(project, home)


async def prepare(server: Server, project: Path, home: Path) -> tuple[str, str, str]:
    """Scan the project, and begin an index job that waits as long as the lock is held."""
    target = server.target
    started = json.loads((await ask(target, "POST", "/api/indexes", {"root": str(project)})).body)
    while (
        json.loads((await ask(target, "GET", f"/api/jobs/{started['jobId']}")).body)["status"]
        == "running"
    ):
        await asyncio.sleep(0.1)
    index = started["indexId"]
    found = await ask(target, "GET", f"/api/indexes/{index}/detail?path=src/sonde/web/guard.py")
    with holding(project, home):
        begun = await ask(target, "POST", "/api/projects", {"project": str(project)})
    return index, json.loads(found.body)["nodeId"], json.loads(begun.body)["jobId"]


@contextmanager
def holding(project: Path, home: Path) -> Iterator[None]:
    """Be the one who writes the index, so that a job of the server waits for it."""
    with WriterLock(project_folder(home, project)).held(wait_s=60):
        yield


def patterns(
    target: Target, index: str, node: str
) -> dict[str, tuple[Callable[[], bytes], tuple[int, ...]]]:
    """What is asked for: name -> the next request, and how many clients send it at once."""
    questions = cycle(QUESTIONS)

    def call_tool() -> bytes:
        meta = {"io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {}}  # fmt: skip
        params = {"name": "search_code", "arguments": {"query": next(questions)}, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return target.write("POST", "/mcp", message, {
            "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MODERN,
            "Mcp-Method": "tools/call", "Mcp-Name": "search_code"})  # fmt: skip

    def search() -> bytes:
        words = next(questions).replace(" ", "+")
        return target.write("GET", f"/?q={words}&part=results")

    return {
        "/healthz": (lambda: target.write("GET", "/healthz"), CLIENTS),
        "a folder, 50 rows": (
            lambda: target.write("GET", f"/api/indexes/{index}/tree?limit=50&sort=size"), CLIENTS),
        "a node": (
            lambda: target.write("GET", f"/api/indexes/{index}/nodes/{node}/detail"), CLIENTS),
        "a file's lines": (
            lambda: target.write("GET", "/api/files/src/sonde/web/guard.py?lines=1-60"), CLIENTS),
        "search on the page": (search, CLIENTS),
        "MCP search_code": (call_tool, CLIENTS),
    }  # fmt: skip


async def show(
    server: Server, name: str, make: Callable[[], bytes], clients: int, seconds: float
) -> Clients:
    """Run one pattern and print its row."""
    cpu = read_cpu(server.process.pid)
    found = await measure(server.target, make, clients, seconds)
    cost = (read_cpu(server.process.pid) - cpu) / max(found.answers, 1)
    print(f"{name:<22} {clients:>3} clients  {found.answers / found.seconds:8,.1f}/s  p50 "
          f"{found.at(0.5):7.1f}  p95 {found.at(0.95):7.1f}  p99 {found.at(0.99):7.1f} ms  "
          f"server CPU {cost * 1e3:5.2f} ms  {dict(found.statuses)}")  # fmt: skip
    return found


async def misbehave(server: Server, index: str, seconds: float) -> None:
    """Clients that send slowly, go away, or send too much, beside others that do not."""
    target = server.target
    bad = [asyncio.create_task(dribble(target, seconds)) for _ in range(50)]
    bad += [asyncio.create_task(abort(target, seconds)) for _ in range(10)]
    bad += [asyncio.create_task(overfill(target, seconds)) for _ in range(4)]
    healthy = await show(
        server, "with bad clients", lambda: target.write("GET", f"/api/indexes/{index}/tree"),
        16, seconds,
    )  # fmt: skip
    assert set(healthy.statuses) == {200}
    told: Counter[str] = Counter()
    for each in await asyncio.gather(*bad):
        told += each
    print(f"bad clients: {dict(told)}; errors in the log: {server.read_errors()}")


async def outrun(project: Path, home: Path) -> None:
    """More requests than the default limit lets pass."""
    server = Server(project, home)
    try:
        target = server.target
        found = await measure(target, lambda: target.write("GET", "/api/jobs?limit=1"), 8, 3.0)
        passed, refused = found.statuses[200], found.statuses[429]
        wait = max(map(int, found.waits))
        await asyncio.sleep(wait)
        then = (await ask(target, "GET", "/api/jobs?limit=1")).status
        print(f"limit of 200 a second, 8 clients for 3 s: {passed / 3:,.0f} answers and "
              f"{refused / 3:,.0f} refusals (429) a second; Retry-After: {wait}, then {then}; "
              f"others: { {k: v for k, v in found.statuses.items() if k not in (200, 429)} }; "
              f"exit {server.end()[0]}")  # fmt: skip
    finally:
        server.process.kill()


def show_use(use: dict[str, Any]) -> str:
    return (f"{use['rss_mb']:.0f} MB ({use['anon_mb']:.0f} MB its own), "
            f"{use['threads']} threads, {use['files']} open files")  # fmt: skip


if __name__ == "__main__":
    main()
