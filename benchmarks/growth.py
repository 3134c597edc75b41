"""Whether an index grows: single-file updates by the thousand, then size and latency.

    python benchmarks/growth.py FOLDER [--store sqlite lance] [--updates 10000] [--files 1000]

Every update replaces one file by itself with one line changed, through the pipeline that a
watcher uses. A second thread asks a query every 50 ms all the while. Its answers are told apart by
whether the store was being compacted: how long they took (`wall`), how much of that the thread
computed (`cpu`), and how much it stood still for another reason than that other work had the
processors (`held`: locks, the interpreter, the disk; with LanceDB also its threads, which do the
query's work). Times are milliseconds. Size and latency are taken once the store has come to rest
(LanceDB keeps what was replaced for ten seconds); the size at once is told beside them.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sonde.embedding.static import StaticEmbedder
from sonde.indexing.diff import compare_index
from sonde.indexing.pipeline import update_index
from sonde.indexing.sources import Source, Tree
from sonde.policy.admit import Rules
from sonde.runtime.work import Work
from sonde.stores.chunks.base import ChunkStore
from sonde.text.words import index_terms

SETTLED_S = 13.0
SWITCH_S = 0.0005
"""As in a server."""
QUESTIONS = ("parse a date", "connection is closed", "raise an error when", "test the model form")


def open_stores(name: str, folder: Path) -> dict[Any, ChunkStore]:
    if name == "lance":
        from sonde.stores.chunks.lance import LanceChunkStore as Store
    else:
        from sonde.stores.chunks.sqlite import SqliteChunkStore as Store
    return {"code": Store(folder, "code"), "docs": Store(folder, "docs")}


def ask(store: ChunkStore, embedder: StaticEmbedder, question: str) -> None:
    found = store.lexical(index_terms(question), 50)
    found += store.dense(embedder.name, embedder.embed([question], "query")[0], 50)
    store.chunks([each.id for each in found[:20]])


def compare(stores: Sequence[ChunkStore], embedder: StaticEmbedder) -> list[tuple[float, float]]:
    """Median milliseconds of a query, wall and CPU, of stores that are asked in turn."""
    times: list[list[tuple[float, float]]] = [[] for _ in stores]
    for turn in range(80):
        for store, seen in zip(stores, times, strict=True):
            wall, cpu = time.perf_counter(), time.process_time()
            ask(store, embedder, QUESTIONS[turn % len(QUESTIONS)])
            seen.append((time.perf_counter() - wall, time.process_time() - cpu))
    return [
        (
            1000 * statistics.median(w for w, _ in seen[8:]),
            1000 * statistics.median(c for _, c in seen[8:]),
        )
        for seen in times
    ]


class Answer(NamedTuple):
    """When a query was asked, and how many milliseconds went where."""

    began: float
    wall: float
    cpu: float
    held: float


class Asker(threading.Thread):
    """Asks all the time and remembers how long the answers took."""

    def __init__(self, store: ChunkStore, embedder: StaticEmbedder) -> None:
        super().__init__(daemon=True)
        self._store, self._embedder = store, embedder
        self.answers: list[Answer] = []
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.05):
            began, cpu, queued = time.perf_counter(), time.thread_time(), read_queueing()
            ask(self._store, self._embedder, QUESTIONS[len(self.answers) % len(QUESTIONS)])
            wall = 1000 * (time.perf_counter() - began)
            cpu = 1000 * (time.thread_time() - cpu)
            held = max(wall - cpu - (read_queueing() - queued), 0.0)
            self.answers.append(Answer(began, wall, cpu, held))


def read_queueing() -> float:
    """Milliseconds that this thread was ready to run while others had the processors."""
    path = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
    return int(path.read_text().split()[1]) / 1e6


class Spans(list[tuple[float, float]]):
    """When a store was being compacted."""

    def note(self, store: ChunkStore, *names: str) -> None:
        """Note whenever one of these methods runs."""
        for name in names:
            setattr(store, name, self._noting(getattr(store, name)))

    def _noting(self, method: Callable[[], None]) -> Callable[[], None]:
        def noted() -> None:
            began = time.perf_counter()
            method()
            self.append((began, time.perf_counter()))

        return noted

    def overlaps(self, answer: Answer) -> bool:
        """Whether a compaction ran for any part of an answer."""
        end = answer.began + answer.wall / 1000
        return any(first < end and answer.began < last for first, last in self)


def describe(answers: list[Answer]) -> dict[str, Any]:
    """Count, and the median, 99th percentile and most of each time."""
    told: dict[str, Any] = {"queries": len(answers)}
    for place, name in enumerate(("wall", "cpu", "held"), 1):
        ranked = sorted(answer[place] for answer in answers)
        if ranked:
            at = (statistics.median(ranked), ranked[int(len(ranked) * 0.99)], ranked[-1])
            told[name] = [round(value, 1) for value in at]
    return told


def measure_growth(name: str, source: Path, work: Path, files: int, updates: int) -> dict[str, Any]:
    project = work / "project"
    shutil.rmtree(project, ignore_errors=True)
    chosen = sorted(p for p in source.rglob("*.py") if p.stat().st_size > 200)[:files]
    for path in chosen:
        target = project / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    tree = Tree(
        (Source("", project, Rules()),), lambda _: False, index_docs=True, chunking="syntax"
    )
    embedder = StaticEmbedder()
    stores = open_stores(name, work / f"index-{name}")
    update_index(tree, stores, {"code": embedder}, Work(), compare_index(tree, stores, Work()))
    pick = random.Random(3)
    paths = [str(path.relative_to(source)) for path in chosen]
    spans = Spans()
    spans.note(stores["code"], *(["compact", "_merge"] if name == "lance" else ["compact"]))
    asker = Asker(stores["code"], embedder)
    asker.start()
    spent = time.process_time()
    for turn in range(updates):
        path = pick.choice(paths)
        lines = (project / path).read_text("utf-8", "replace").split("\n")
        lines[pick.randrange(len(lines))] += f"  # turn {turn}"
        if len(lines) > 400:
            del lines[pick.randrange(len(lines))]
        (project / path).write_text("\n".join(lines))
        diff = compare_index(tree, stores, Work(), paths={path})
        update_index(tree, stores, {"code": embedder}, Work(), diff)
        for store in stores.values():
            store.tidy()
    spent = time.process_time() - spent
    asker.done.set()
    asker.join()
    burst_size = stores["code"].counts().bytes
    for _ in range(2):  # as a server does at rest
        time.sleep(SETTLED_S)
        stores["code"].tidy()
        stores["code"].rest()
    size = stores["code"].counts().bytes
    assert stores["code"].verify() == []
    fresh = open_stores(name, work / f"fresh-{name}")
    update_index(tree, fresh, {"code": embedder}, Work(), compare_index(tree, fresh, Work()))
    (wall, cpu), (fresh_wall, fresh_cpu) = compare([stores["code"], fresh["code"]], embedder)
    fresh_size = fresh["code"].counts().bytes
    for store in (*stores.values(), *fresh.values()):
        store.close()
    during = [answer for answer in asker.answers if spans.overlaps(answer)]
    return {
        "store": name,
        "updates": updates,
        "cpu_ms_per_update": round(1000 * spent / updates, 1),
        "size_ratio_at_once": round(burst_size / fresh_size, 2),
        "size_mb": round(size / 1e6, 1),
        "size_ratio": round(size / fresh_size, 2),
        "query_ms": round(wall, 1),
        "query_ratio": round(wall / fresh_wall, 2),
        "query_cpu_ratio": round(cpu / fresh_cpu, 2),
        "compactions": len(spans),
        "compaction_s": [round(f([b - a for a, b in spans] or [0]), 2) for f in (sum, max)],
        "while_compacting": describe(during),
        "otherwise": describe([answer for answer in asker.answers if not spans.overlaps(answer)]),
        "load": round(os.getloadavg()[0], 1),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    sys.setswitchinterval(SWITCH_S)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--store", nargs="+", default=["sqlite", "lance"])
    parser.add_argument("--updates", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=1_000)
    args = parser.parse_args()
    for name in args.store:
        with tempfile.TemporaryDirectory() as work:
            print(
                measure_growth(name, args.folder, Path(work), args.files, args.updates), flush=True
            )
