"""Random edits, renames, branch switches and kills over a real repository, with constant queries.

Shows that no answer holds a line that is not in the file, that the index ends equal to a fresh one,
and that memory stays flat. `make soak` runs an hour; the figures go to stdout as JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from children import read_memory
from client import Client, ServerBroke

SERVERS = 3
KILL_S, SAMPLE_S = 20.0, 5.0
SETTLE_S = 120.0
COMMAND = [sys.executable, "-m", "sonde.cli.main"]


class Soak:
    """One run: a project, its servers, and what was seen."""

    def __init__(self, source: Path, place: Path, seed: int, embedding: str) -> None:
        self.chance = random.Random(seed)
        self.root, self.place = place / "project", place
        self.env = {**os.environ, "SONDE_HOME": str(place / "home"), "SONDE_EMBEDDING": embedding}
        self.counts: Counter[str] = Counter()
        self.stale: list[dict[str, Any]] = []
        self.lies: list[str] = []
        """Answers that called themselves complete and missed a file written just before."""
        self.errors: list[str] = []
        self.memory: list[tuple[float, float]] = []
        self.query_ms: list[float] = []
        self.words: list[str] = []
        self.git("clone", "-q", "--no-hardlinks", str(source), str(self.root), cwd=place)
        for number in range(3):
            self.make_branch(f"soak-{number}")
        subprocess.run(
            [*COMMAND, "index", "--yes", "--quiet"], cwd=self.root, env=self.env, check=True
        )
        self.clients = [self.start() for _ in range(SERVERS)]
        self.began = time.monotonic()

    def git(self, *args: str, cwd: Path | None = None) -> None:
        who = ("-c", "user.name=soak", "-c", "user.email=soak@example.com")
        subprocess.run(["git", *who, *args], cwd=cwd or self.root, check=True, capture_output=True)

    def make_branch(self, name: str) -> None:
        """A branch on which a tenth of all files differ."""
        self.git("checkout", "-qb", name)
        for path in self.list_files():
            if self.chance.random() < 0.1:
                path.write_text(path.read_text("utf-8", "replace") + self.make_text())
        self.git("commit", "-qam", name)

    def start(self) -> Client:
        client = Client([*COMMAND, "mcp"], self.env, self.root, self.place / "server.log")
        client.initialize()
        return client

    def list_files(self) -> list[Path]:
        found = subprocess.run(
            ["git", "ls-files", "-z", "-co", "--exclude-standard"],
            cwd=self.root,
            capture_output=True,
            check=True,
        ).stdout
        names = [os.fsdecode(name) for name in found.split(b"\0") if name]
        return [
            p
            for name in names
            if name.endswith((".py", ".md", ".txt", ".js", ".ts", ".c", ".h", ".go", ".rs"))
            and (p := self.root / name).is_file()
            and not p.is_symlink()
        ]

    def make_text(self) -> str:
        word = f"soak_{self.chance.randrange(10**9)}"
        self.words = [*self.words[-200:], word]
        return f"\n\ndef {word}(value):\n    return value + {self.chance.randrange(1000)}\n"

    def change(self) -> None:
        """One random operation."""
        what = self.chance.choices(
            (
                "edit",
                "append",
                "create",
                "rename",
                "delete",
                "swap",
                "touch",
                "hide",
                "folder",
                "ignore",
                "switch",
                "commit",
            ),
            (20, 20, 8, 8, 5, 10, 5, 5, 3, 1, 2, 3),
        )[0]
        files = self.list_files()
        path = self.chance.choice(files)
        text = path.read_text("utf-8", "replace")
        if what == "edit":
            lines = text.splitlines(keepends=True)
            at = self.chance.randrange(len(lines) + 1)
            del lines[at : at + self.chance.randrange(4)]
            lines.insert(at, f"# soak {self.chance.randrange(10**6)}\n")
            path.write_text("".join(lines))
        elif what == "append":
            path.write_text(text + self.make_text())
        elif what == "create":
            new = path.with_name(f"soak_{self.chance.randrange(10**6)}.py")
            new.write_text(self.make_text())
        elif what == "rename":
            path.rename(path.with_name(f"moved_{self.chance.randrange(10**6)}{path.suffix}"))
        elif what == "delete":
            path.unlink()
        elif what == "swap":
            draft = path.with_name(f".{path.name}.draft")
            draft.write_text(text + self.make_text())
            draft.replace(path)
        elif what == "touch":
            path.touch()
        elif what == "hide":  # other text of the same length, under the old time
            facts = path.stat()
            path.write_text(text.swapcase())
            os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        elif what == "folder" and path.parent != self.root:
            path.parent.rename(path.parent.with_name(f"folder_{self.chance.randrange(10**6)}"))
        elif what == "ignore":
            (self.root / ".sondeignore").write_text(
                self.chance.choice(("", "*.txt\n", "docs/\n", "moved_*\n"))
            )
        elif what in ("switch", "commit"):
            self.git("add", "-A")
            self.git("commit", "-qm", "soak", "--allow-empty")
            if what == "switch":
                self.git("checkout", "-q", f"soak-{self.chance.randrange(3)}")
        self.counts[what] += 1

    def query(self, client: Client) -> None:
        """One question, and whether every line of the answer is in the file."""
        word = self.chance.choice(self.words) if self.words else "value"
        tool, arguments = self.chance.choice(
            (
                ("search_code", {"query": word, "top_k": 5}),
                ("search_code", {"query": "return the value of", "top_k": 10}),
                ("search_code", {"query": word, "mode": "lexical", "top_k": 5}),
                ("search_docs", {"query": "how to install", "top_k": 5}),
            )
        )
        began = time.perf_counter()
        answer = client.call(tool, arguments, 120)
        self.query_ms.append((time.perf_counter() - began) * 1000)
        self.counts["queries"] += 1
        for row in answer["results"]:
            if row.get("stale"):
                self.counts["marked stale"] += 1
                continue
            self.counts["rows"] += 1
            try:
                text = (self.root / row["path"]).read_text("utf-8", "replace")
            except OSError:
                text = ""
            lines = "\n".join(text.splitlines()[row["startLine"] - 1 : row["endLine"]])
            at = 0
            for part in "\n".join(row["text"].splitlines()).split("\n⋮\n"):  # lines left out
                at = lines.find(part.strip(), at) if at >= 0 else at
            if at < 0:
                self.stale.append({k: row[k] for k in ("path", "startLine", "endLine", "text")})

    def test_truth(self, client: Client) -> None:
        """Write a word that no other file holds and search for it at once."""
        word = "".join(self.chance.choices("bcdfghjklm", k=12))
        (self.root / "soak_truth.py").write_text(f"def {word}(): pass\n")
        answer = client.call("search_code", {"query": word, "mode": "lexical"}, 120)
        self.counts["tests of truth"] += 1
        freshness = answer["metadata"]["freshness"]
        if freshness.startswith("complete"):
            self.counts["called complete"] += 1
            if "soak_truth.py" not in [row["path"] for row in answer["results"]]:
                self.lies.append(f"{word}: {freshness}")

    def run(self, seconds: float) -> None:
        """Change, ask and kill until the time is over."""
        next_kill, next_sample = time.monotonic() + KILL_S, 0.0
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            for _ in range(self.chance.randrange(4)):
                self.change()
            time.sleep(self.chance.choice((0, 0, 0.05, 0.3, 0.8)))
            number = self.chance.randrange(SERVERS)
            try:
                self.query(self.clients[number])
                self.test_truth(self.clients[number])
            except ServerBroke as error:
                self.errors.append(str(error)[:300])
            if now >= next_kill:
                next_kill = now + KILL_S
                self.clients[number].kill()
                self.clients[number] = self.start()
                self.counts["kills"] += 1
            if now >= next_sample:
                next_sample = now + SAMPLE_S
                sizes = [read_memory(client.pid)["rss_mb"] for client in self.clients]
                self.memory.append((now - self.began, max(sizes)))

    def settle(self) -> float | None:
        """Seconds until the index is what a fresh one is; None if it never is."""
        env = {**self.env, "SONDE_HOME": str(self.place / "fresh")}
        subprocess.run([*COMMAND, "index", "--yes", "--quiet"], cwd=self.root, env=env, check=True)
        fresh = read_index(self.place / "fresh")
        began = time.monotonic()
        while time.monotonic() - began < SETTLE_S:
            found = read_index(self.place / "home")
            if found == fresh:
                return time.monotonic() - began
            time.sleep(0.5)
        differing = {k for k in fresh.keys() | found.keys() if fresh.get(k) != found.get(k)}
        self.errors.append(f"differs from a fresh index: {sorted(differing)[:10]}")
        return None

    def close(self) -> None:
        for client in self.clients:
            client.close()


def read_index(home: Path) -> dict[str, Any]:
    """What an index holds, apart from how it came to hold it."""
    from sonde.stores.chunks.sqlite import SqliteChunkStore

    (folder,) = (home / "indexes").iterdir()
    known: dict[str, Any] = {}
    for kind in ("code", "docs"):
        store = SqliteChunkStore(folder, kind)  # type: ignore[arg-type]
        for path, state in store.files().items():
            chunks = [(c.text, c.span, c.header, c.symbol) for c in store.chunks_of(path)]
            known[f"{kind}:{path}"] = (state.hash, chunks)
        store.close()
    return known


def summarize(soak: Soak, seconds: float, settled: float | None) -> dict[str, Any]:
    sizes = [size for _, size in soak.memory]
    quarter = max(len(sizes) // 4, 1)
    return {
        "seconds": round(seconds),
        "files": len(soak.list_files()),
        "operations": dict(soak.counts),
        "queryMs": {
            "median": round(statistics.median(soak.query_ms), 1),
            "p95": round(statistics.quantiles(soak.query_ms, n=20)[-1], 1),
        },
        "staleLines": len(soak.stale),
        "staleExamples": soak.stale[:3],
        "lies": soak.lies[:10],
        "errors": soak.errors[:10],
        "equalsFreshAfterS": None if settled is None else round(settled, 1),
        "memoryMB": {
            "firstQuarter": round(statistics.mean(sizes[:quarter]), 1),
            "lastQuarter": round(statistics.mean(sizes[-quarter:]), 1),
            "most": round(max(sizes), 1),
        },
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=3600.0)
    parser.add_argument("--repository", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--embedding", default="auto")
    args = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="sonde-soak-"))
    try:
        soak = Soak(args.repository.resolve(), place, args.seed, args.embedding)
        try:
            soak.run(args.seconds)
            result = summarize(soak, args.seconds, soak.settle()) | {"seed": args.seed}
        finally:
            soak.close()
        print(json.dumps(result, indent=2))
        bad = result["staleLines"] or result["lies"] or result["errors"]
        bad = bad or result["equalsFreshAfterS"] is None
        return 1 if bad else 0
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
