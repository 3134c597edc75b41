"""A shared index as it grows: push one repository after the other, and ask after each.

    python -m benchmarks.shared WORK FOLDER [FOLDER...] [--s3]
    python -m benchmarks.shared WORK FOLDER --index INDEX [--s3] [--tables]

Each folder is copied into WORK, made a repository and pushed (without deep vectors), first to a
folder; with --s3, to a small object store on loopback, which counts requests and bytes. Printed
after each push: chunks so far; the push, and a second one of ten changed files; filling an index
folder from the snapshot and from the rows; lookups in the tables, cold (newly opened) and warm.

With --index, an index that exists is asked: a push of ten files of FOLDER, a repository in it that
is pushed already; filling a folder from its snapshot, and lookups in the tables; and unless
--tables, a server of it, cold and warm, about that repository and about all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from tests.loopback import running
from tests.shared.lookups import SharedLookups
from tests.shared.object_store import BUCKET, ObjectStore

from sonde.projects.find import find_project
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.shared.index import SharedIndex
from sonde.shared.push import PushReport, push_project
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.wiring import build_app

ASKED = 40  # lookups of each kind


def measure_cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@contextmanager
def timed(name: str, store: ObjectStore | None) -> Iterator[None]:
    wall, cpu = time.perf_counter(), measure_cpu()
    before = (store.requests, store.bytes_sent) if store else (0, 0)
    yield
    line = f"  {name:28} {time.perf_counter() - wall:8.2f} s  CPU {measure_cpu() - cpu:7.2f} s"
    if store:
        line += f"  {store.requests - before[0]:6} requests  {store.bytes_sent - before[1]:>12,} B"
    print(line, flush=True)


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x@x", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def push(work: Path, root: Path, url: str) -> PushReport:
    settings = load_settings({}, home=work / "home", embedding="static")
    app = build_app(settings, start=root)
    try:
        project = find_project(app.workspace, str(root))
        return push_project(app.workspace, project, url, Work())
    finally:
        app.close()


def change_ten(root: Path, seed: int) -> None:
    files = [root / name for name in git(root, "ls-files", "*.py", "*.c").splitlines()]
    for path in random.Random(seed).sample(sorted(files), min(10, len(files))):
        with path.open("a") as file:
            file.write("\n# changed\n" if path.suffix == ".py" else "\n/* changed */\n")
    git(root, "commit", "-qam", "ten")


def ask(name: str, question: Callable[[int], object], store: ObjectStore | None) -> None:
    times, cpu = [], measure_cpu()
    before = (store.requests, store.bytes_sent) if store else (0, 0)
    for number in range(ASKED):
        began = time.perf_counter()
        question(number)
        times.append((time.perf_counter() - began) * 1000)
    rest = sorted(times[1:])
    line = f"  {name:28} cold {times[0]:7.1f} ms  p50 {statistics.median(rest):7.1f} ms"
    line += f"  p95 {rest[int(len(rest) * 0.95)]:7.1f} ms"
    line += f"  CPU here {(measure_cpu() - cpu) / ASKED * 1000:6.1f} ms"
    if store:
        each = (store.bytes_sent - before[1]) // ASKED
        line += f"  {(store.requests - before[0]) / ASKED:6.1f} requests  {each:>10,} B each"
    print(line, flush=True)


def look_up(url: str, report: PushReport, filled: Path, store: ObjectStore | None) -> None:
    shared = SharedIndex.open(url)
    tables = SharedLookups(shared, report.repository, report.commit)
    local = SqliteChunkStore(filled, "code")
    chance = random.Random(1)
    paths = chance.sample(sorted(local.files()), min(ASKED, len(local.files())))
    named = [local.names_of([p])[p] or [("main", "function")] for p in paths]
    names = [found[0][0].rpartition(".")[2] for found in named]
    chunks = [(local.chunks_of(path) or [None])[0] for path in paths]
    (model,) = local.models()
    ids = [chunk.id for chunk in chunks if chunk]
    vectors = list(local.vectors(model, ids).values())
    local.close()
    last = len(names)
    ask("words", lambda n: tables.lexical([names[n % last].lower(), "return"], 10), store)
    ask("names", lambda n: tables.paths_named([names[n % last]]), store)
    ask("trigrams", lambda n: tables.trigram_candidates(names[n % last]), store)
    ask("vectors", lambda n: tables.dense(model, vectors[n % len(vectors)], 10), store)


def run(work: Path, url: str, folders: list[Path], store: ObjectStore | None) -> None:
    for number, folder in enumerate(folders):
        root = work / "repositories" / f"{number}-{folder.name}"
        shutil.copytree(folder, root, ignore=shutil.ignore_patterns(".git", "*.so*", "__pycache__"))
        git(root, "init", "-q", "-b", "main")
        git(root, "add", "-Af")
        git(root, "commit", "-qm", "one")
        print(f"{root.name} -> {url.partition(':')[0]}", flush=True)
        with timed("push", store):
            push(work, root, url)
        change_ten(root, 1)
        with timed("push of ten files", store):
            report = push(work, root, url)
        shared = SharedIndex.open(url)
        total = shared.tables.open("chunks").count_rows()
        print(f"  {total:,} chunks in all; {report.chunks:,} in this commit", flush=True)
        for rows in (False, True):
            filled = work / "filled" / f"{number}-{rows}"
            filled.mkdir(parents=True)
            with timed("fill from rows" if rows else "fill from the snapshot", store):
                shared.fill(report.repository, report.commit, filled, rows=rows)
        look_up(url, report, filled, store)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"  peak memory so far {peak:,} MB; load {os.getloadavg()[0]:.1f}", flush=True)


class Served:
    """`sonde serve --from` as a process of its own, asked over REST."""

    def __init__(self, work: Path, url: str) -> None:
        home = work / "server"
        home.mkdir()
        (home / "tokens").write_text("local " + "c" * 24)
        environ = {
            "HOME": str(home), "SONDE_HOME": str(home / "home"), "SONDE_EMBEDDING": "static",
            "SONDE_RATE_LIMIT": "0",
            "SONDE_REFS_INTERVAL": "3600",
        }  # fmt: skip
        command = [sys.executable, "-m", "sonde.cli.main", "--json", "serve", "--port", "0"]
        command += ["--no-browser", "--from", url, "--cache", str(home / "cache")]
        command += ["--token-file", str(home / "tokens")]
        self.process = subprocess.Popen(
            command, cwd=home, env={**os.environ, **environ}, stdout=subprocess.PIPE
        )
        assert self.process.stdout
        self.url = json.loads(self.process.stdout.readline())["url"]

    def ask(self, path: str, **fields: str) -> str:
        request = urllib.request.Request(f"{self.url.rstrip('/')}{path}?{urlencode(fields)}")
        request.add_header("Authorization", "Bearer " + "c" * 24)
        try:
            with urllib.request.urlopen(request, timeout=900) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return str(error.read().decode())

    def count_filled(self) -> float:
        """How many branches are in the cache."""
        lines = self.ask("/metrics").splitlines()
        return next(float(x.split()[1]) for x in lines if x.startswith("sonde_branches_filled"))

    def measure_memory(self) -> str:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return " ".join(
            x for x in status.splitlines() if x.startswith(("VmRSS", "VmHWM", "RssAnon"))
        )

    def measure_cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask_index(work: Path, url: str, root: Path, store: ObjectStore | None, *, serves: bool) -> None:
    """An index that exists: a push, lookups, and a server from an empty cache on."""
    change_ten(root, os.getpid())
    with timed("push of ten files", store):
        report = push(work, root, url)
    total = SharedIndex.open(url).tables.open("chunks").count_rows()
    heads = SharedIndex.open(url).repositories()
    print(f"  {total:,} chunks, {len(heads)} repositories; {report.chunks:,} in {root.name}")
    filled = work / "filled"
    filled.mkdir()
    with timed("fill from the snapshot", store):
        SharedIndex.open(url).fill(report.repository, report.commit, filled)
    look_up(url, report, filled, store)
    if not serves:
        return
    names = [Path(p).stem for p in git(root, "ls-files", "*.py", "*.c", "*.h").splitlines()]
    words = random.Random(2).sample(sorted(set(names)), ASKED)
    server = Served(work, url)
    try:
        with timed("first answer, empty cache", store):
            server.ask("/api/search/code", query=words[0], project=report.repository)
        with timed("all default branches here", store):
            while server.count_filled() < len(heads):
                time.sleep(1)
        for scope in (report.repository, "all"):
            before = server.measure_cpu()
            ask(
                f"search, {scope}",
                lambda n, p=scope: server.ask(  # type: ignore[misc]
                    "/api/search/code", query=f"where is {words[n]} handled", project=p
                ),
                store,
            )
            ask(f"regex, {scope}", lambda n, p=scope: server.ask(  # type: ignore[misc]
                "/api/search/lines", pattern=rf"\b{words[n]}\w*\(", project=p), store)  # fmt: skip
            used = (server.measure_cpu() - before) * 1000 / (2 * ASKED)
            print(f"  CPU of the server {used:.0f} ms each; {server.measure_memory()}", flush=True)
        cache = sum(x.stat().st_size for x in (work / "server").rglob("*") if x.is_file())
        print(f"  {cache / 1e6:,.0f} MB in the cache; load {os.getloadavg()[0]:.1f}", flush=True)
    finally:
        server.process.terminate()
        server.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("--index", type=Path)
    parser.add_argument("--tables", action="store_true")
    given = parser.parse_args()
    shutil.rmtree(given.work, ignore_errors=True)
    given.work.mkdir(parents=True)
    if given.index and not given.s3:
        ask_index(given.work, str(given.index), given.folders[0], None, serves=not given.tables)
        return
    if not given.s3:
        run(given.work, str(given.work / "shared"), given.folders, None)
        size = sum(path.stat().st_size for path in (given.work / "shared").rglob("*"))
        print(f"{size / 1e6:,.0f} MB in the shared index")
        return
    with running(ObjectStore()) as store:
        os.environ |= store.environ
        if given.index:
            for path in filter(Path.is_file, given.index.rglob("*")):
                store.objects[f"index/{path.relative_to(given.index)}"] = path.read_bytes()
            url, serves = f"s3://{BUCKET}/index", not given.tables
            ask_index(given.work, url, given.folders[0], store, serves=serves)
            return
        run(given.work, f"s3://{BUCKET}/index", given.folders, store)
        held = sum(map(len, store.objects.values()))
        print(f"{held / 1e6:,.0f} MB in the shared index, {len(store.objects):,} objects")


if __name__ == "__main__":
    main()
