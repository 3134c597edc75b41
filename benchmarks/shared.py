"""A shared index as it grows: push repositories into it, and ask it at some sizes.

    python -m benchmarks.shared grow INDEX CHUNKS REPOSITORY... [--at-once N] [--s3]
    python -m benchmarks.shared ask INDEX REPOSITORY WORK [--s3] [--rows] [--parts push,tables]

INDEX is a folder. An S3 server on loopback has its files as objects, so what was pushed to the one
can be read as the other; it counts requests and bytes. `grow` pushes checkouts into the folder or
with --s3 through the object store, without deep vectors, until INDEX has so many chunks; what was
pushed already is left alone. Lance never writes a file twice, so `cp -al INDEX COPY` between two
runs keeps a size.

`ask` measures, in the folder or with --s3 on the object store: a push of ten changed files of
REPOSITORY; filling a folder from its snapshot (with --rows also from its rows) and lookups in the
tables, each opened newly and warm; a server with an empty cache, with all branches in it, and
started again, about REPOSITORY and about everything. WORK is emptied first.
"""

from __future__ import annotations

import argparse
import json
import mmap
import multiprocessing
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.loopback import running
from tests.shared.lookups import SharedLookups
from tests.shared.object_store import BUCKET, ObjectStore

from sonde.shared.index import SharedIndex
from sonde.stores.chunks.sqlite import SqliteChunkStore

ASKED = 40  # questions of each kind
SONDE = (sys.executable, "-m", "sonde.cli.main", "--json")
KEY = "c" * 24


class StoredObjects(MutableMapping[str, Any]):
    """Objects that are files below a folder, mapped into memory when they are read."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._guard = folder, threading.Lock()
        found = filter(Path.is_file, folder.rglob("*"))
        self._keys = {str(path.relative_to(folder)) for path in found}

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        with (self._folder / key).open("rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return b""
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __setitem__(self, key: str, data: bytes) -> None:
        path = self._folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_name(f".{path.name}.new")
        written.write_bytes(data)
        written.replace(path)
        with self._guard:
            self._keys.add(key)

    def __delitem__(self, key: str) -> None:
        with self._guard:
            self._keys.remove(key)
        (self._folder / key).unlink()

    def __iter__(self) -> Iterator[str]:
        with self._guard:
            return iter(list(self._keys))

    def __len__(self) -> int:
        return len(self._keys)


def _serve(folder: Path, pipe: Connection) -> None:
    with running(ObjectStore(StoredObjects(folder))) as store:
        pipe.send(store.environ)
        while pipe.recv():
            pipe.send((store.requests, store.bytes_sent))


class Counts:
    """Requests and bytes of an object store in a process of its own; 0 for a folder."""

    def __init__(self, pipe: Connection | None = None) -> None:
        self.pipe = pipe

    def read(self) -> tuple[int, int]:
        if not self.pipe:
            return 0, 0
        self.pipe.send("read")
        requests, sent = self.pipe.recv()
        return requests, sent


@contextmanager
def serving(index: Path, *, s3: bool) -> Iterator[tuple[str, Counts]]:
    """The address of the index: its folder, or an S3 server that the environment then names."""
    index.mkdir(parents=True, exist_ok=True)
    if not s3:
        yield str(index / "index"), Counts()
        return
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(index, theirs))
    process.start()
    os.environ |= ours.recv()
    try:
        yield f"s3://{BUCKET}/index", Counts(ours)
    finally:
        ours.send("")
        process.join()


def count_chunks(index: Path) -> int:
    return int(SharedIndex(str(index)).tables.open("chunks").count_rows())


def measure_cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


@contextmanager
def timed(name: str, counts: Counts) -> Iterator[None]:
    wall, cpu, before = time.perf_counter(), measure_cpu(), counts.read()
    yield
    line = f"  {name:28} {time.perf_counter() - wall:8.2f} s  CPU {measure_cpu() - cpu:7.2f} s"
    requests, sent = (now - then for now, then in zip(counts.read(), before, strict=True))
    print(f"{line}  {requests:6} requests  {sent:>13,} B", flush=True)


def git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x@x", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def push(home: Path, root: Path, url: str) -> dict[str, Any]:
    command = [*SONDE, "push", url, "--first-stage", "--repository", root.name, "-p", str(root)]
    environ = {"SONDE_HOME": str(home), "SONDE_DAEMON": "off", "SONDE_ASSUME_YES": "1"}
    env = {**os.environ, **environ}
    home.mkdir(parents=True, exist_ok=True)  # not run in `root`, whose modules Python would import
    done = subprocess.run(command, check=False, env=env, cwd=home, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{root.name}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    return dict(json.loads(done.stdout))


def grow(index: Path, most: int, roots: list[Path], at_once: int, *, s3: bool) -> None:
    """Push until there are so many chunks; several at once, as CI systems do."""
    began, cpu = time.perf_counter(), measure_cpu()
    store = index / "index"
    with serving(index, s3=s3) as (url, counts):
        known = set[str]()
        if store.exists():
            known = {one.repository for one in SharedIndex(str(store)).list_branches()}

        def add(root: Path) -> None:
            if root.name in known or (store.exists() and count_chunks(store) >= most):
                return
            start = time.perf_counter()
            try:
                told = push(index.with_name(f"{index.name}-home") / root.name, root, url)
            except RuntimeError as error:
                print(error, flush=True)
                return
            print(
                f"{root.name}: {told['files']:,} files, {told['chunks']:,} chunks, "
                f"{told['added']['chunks']:,} new, {told['snapshotBytes']:,} B of snapshot in "
                f"{time.perf_counter() - start:.1f} s; {count_chunks(store):,} in all; CPU so far "
                f"{measure_cpu() - cpu:.0f} s; load {os.getloadavg()[0]:.1f}; {told['note']}",
                flush=True,
            )

        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(add, roots))
        requests, sent = counts.read()
    size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
    print(
        f"{count_chunks(store):,} chunks, {size / 1e6:,.0f} MB; "
        f"{time.perf_counter() - began:.0f} s, {requests:,} requests, {sent / 1e6:,.0f} MB sent",
        flush=True,
    )


def change_ten(root: Path) -> None:
    files = [root / name for name in git(root, "ls-files", "*.py", "*.c").splitlines()]
    for path in random.Random(os.getpid()).sample(sorted(files), min(10, len(files))):
        with path.open("a") as file:
            file.write("\n# changed\n" if path.suffix == ".py" else "\n/* changed */\n")
    git(root, "commit", "-qam", "ten")


def ask(name: str, question: Callable[[int], object], counts: Counts, asked: int = ASKED) -> None:
    times: list[float] = []
    cpu, before = measure_cpu(), counts.read()
    for number in range(asked):
        began = time.perf_counter()
        question(number)
        times.append((time.perf_counter() - began) * 1000)
    rest = sorted(times[1:])
    line = f"  {name:28} cold {times[0]:7.1f} ms  p50 {statistics.median(rest):7.1f} ms"
    line += f"  p95 {rest[int(len(rest) * 0.95)]:7.1f} ms"
    line += f"  CPU here {(measure_cpu() - cpu) / asked * 1000:6.1f} ms"
    requests, sent = (now - then for now, then in zip(counts.read(), before, strict=True))
    print(f"{line}  {requests / asked:6.1f} requests  {sent // asked:>10,} B each", flush=True)


def look_up(url: str, repository: str, filled: Path, counts: Counts) -> None:
    shared = SharedIndex(url)
    tables = SharedLookups(shared, repository, shared.find_head(repository))
    local = SqliteChunkStore(filled, "code")
    chance = random.Random(1)
    paths = chance.sample(sorted(local.files()), min(ASKED, len(local.files())))
    named = [local.symbols_of([p])[p].list_names() or [("main", "function")] for p in paths]
    names = [found[0][0].rpartition(".")[2] for found in named]
    chunks = [(local.chunks_of(path) or [None])[0] for path in paths]
    (model,) = local.models()
    ids = [chunk.id for chunk in chunks if chunk]
    vectors = list(local.vectors(model, ids).values())
    local.close()
    last = len(names)
    ask("words", lambda n: tables.lexical([names[n % last].lower(), "return"], 10), counts)
    ask("names", lambda n: tables.paths_named([names[n % last]]), counts)
    ask("trigrams", lambda n: tables.trigram_candidates(names[n % last]), counts)
    ask("vectors", lambda n: tables.dense(model, vectors[n % len(vectors)], 10), counts)


class Served:
    """`sonde serve --from` as a process of its own, asked over REST."""

    def __init__(self, home: Path, url: str) -> None:
        home.mkdir(exist_ok=True)
        (home / "tokens").write_text(f"local {KEY}")
        environ = {
            "HOME": str(home), "SONDE_HOME": str(home / "home"), "SONDE_EMBEDDING": "static",
            "SONDE_RATE_LIMIT": "0", "SONDE_REFS_INTERVAL": "3600",
        }  # fmt: skip
        command = [*SONDE, "serve", "--port", "0", "--no-browser", "--from", url]
        command += ["--cache", str(home / "cache"), "--token-file", str(home / "tokens")]
        self.process = subprocess.Popen(
            command, cwd=home, env={**os.environ, **environ}, stdout=subprocess.PIPE
        )
        assert self.process.stdout
        self.url = json.loads(self.process.stdout.readline())["url"]

    def ask(self, path: str, **fields: str) -> str:
        request = urllib.request.Request(f"{self.url.rstrip('/')}{path}?{urlencode(fields)}")
        request.add_header("Authorization", f"Bearer {KEY}")
        try:
            with urllib.request.urlopen(request, timeout=900) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error

    def search(self, word: str, project: str) -> str:
        query = f"where is {word} handled"
        return self.ask("/api/search/code", query=query, project=project)

    def grep(self, word: str, project: str) -> str:
        return self.ask("/api/search/lines", pattern=rf"\b{word}\w*\(", project=project)

    def count_filled(self) -> float:
        """How many branches are in the cache."""
        lines = self.ask("/metrics").splitlines()
        return next(float(x.split()[1]) for x in lines if x.startswith("sonde_branches_filled"))

    def measure_memory(self) -> str:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        wanted = ("VmRSS", "VmHWM", "RssAnon")
        return " ".join(" ".join(x.split()) for x in status.splitlines() if x.startswith(wanted))

    def measure_cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


def ask_server(work: Path, url: str, root: Path, counts: Counts) -> None:
    """A server from an empty cache on, and one that is started again."""
    heads = [one.repository for one in SharedIndex(url).list_branches()]
    names = [Path(p).stem for p in git(root, "ls-files", "*.py", "*.c", "*.h").splitlines()]
    words = random.Random(2).sample(sorted(set(names)), ASKED)
    others = random.Random(3).sample(heads, min(20, len(heads)))
    server = Served(work / "server", url)
    try:
        with timed("first answer, empty cache", counts):
            server.search(words[0], root.name)
        with timed("all default branches here", counts):
            while server.count_filled() < len(heads):
                time.sleep(1)
        size = sum(x.stat().st_size for x in (work / "server").rglob("*") if x.is_file())
        print(f"  {size / 1e6:,.0f} MB in the cache; {server.measure_memory()}")
    finally:
        server.close()
    server = Served(work / "server", url)
    try:
        print(f"  started again: {server.measure_memory()}")
        ask("first of a branch", lambda n: server.search(words[n], others[n]), counts, len(others))
        for scope in (root.name, "all"):
            for verb in (server.search, server.grep):
                before = server.measure_cpu()
                ask(f"{verb.__name__}, {scope}", lambda n, s=scope, v=verb: v(words[n], s), counts)  # type: ignore[misc]
                used = (server.measure_cpu() - before) * 1000 / ASKED
                print(f"  CPU of it {used:.0f} ms each; {server.measure_memory()}", flush=True)
    finally:
        server.close()


def ask_index(
    work: Path, url: str, root: Path, counts: Counts, parts: list[str], *, rows: bool
) -> None:
    """An index that exists: a push, lookups in the tables, servers."""
    if "push" in parts:
        change_ten(root)
        try:
            with timed("push of ten files", counts):
                told = push(work / "home", root, url)
            print(f"  {told['added']}; {told['snapshotBytes']:,} B of snapshot; {told['note']}")
        finally:
            git(root, "reset", "-q", "--hard", "HEAD~1")
    if "tables" in parts:
        filled = work / "filled"
        for from_rows in (True, False) if rows else (False,):
            shutil.rmtree(filled, ignore_errors=True)
            filled.mkdir(parents=True)
            with timed("fill from rows" if from_rows else "fill from the snapshot", counts):
                shared = SharedIndex(url)
                commit = shared.find_head(root.name)
                shared.fill(root.name, commit, filled, rows=from_rows)
        look_up(url, root.name, filled, counts)
    if "server" in parts:
        ask_server(work, url, root, counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    growing, asking = verbs.add_parser("grow"), verbs.add_parser("ask")
    for each in (growing, asking):
        each.add_argument("index", type=Path)
        each.add_argument("--s3", action="store_true")
    growing.add_argument("chunks", type=int)
    growing.add_argument("repositories", type=Path, nargs="+")
    growing.add_argument("--at-once", type=int, default=1)
    asking.add_argument("repository", type=Path)
    asking.add_argument("work", type=Path)
    asking.add_argument("--rows", action="store_true")
    asking.add_argument("--parts", default="push,tables,server")
    given = parser.parse_args()
    if given.verb == "grow":
        grow(given.index, given.chunks, given.repositories, given.at_once, s3=given.s3)
        return
    shutil.rmtree(given.work, ignore_errors=True)
    given.work.mkdir(parents=True)
    chunks = count_chunks(given.index / "index")
    print(f"{chunks:,} chunks, {'S3' if given.s3 else 'folder'}", flush=True)
    with serving(given.index, s3=given.s3) as (url, counts):
        parts = given.parts.split(",")
        ask_index(given.work, url, given.repository, counts, parts, rows=given.rows)
    print(f"  load {os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
