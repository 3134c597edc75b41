"""What the chunk stores cost: writing, ranking by words and vectors, memory, disk.

    python benchmarks/stores.py [--chunks 10000 100000] [--store sqlite lance]

The text is the installed Python's own library, over and over under new paths; vectors are
random directions around a few hundred centres, so that neighbours exist. Times are CPU
milliseconds (all threads), which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import resource
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from sonde.stores.chunks.base import ChunkStore
from sonde.text.words import index_terms, unique
from sonde.types import Chunk, FileState, Filter, ParsedFile, Span, Symbol

LINES = 30
DEFINED = re.compile(r"^\s*(?:def|class) (\w+)", re.MULTILINE)
IMPORTED = re.compile(r"^(?:import|from) .*?(\w+)$", re.MULTILINE)
BATCH_FILES = 100
QUERIES = 100
STATIC, DEEP = ("static", 256), ("deep", 384)


def list_sources() -> list[Path]:
    folders = {sysconfig.get_path("stdlib"), sysconfig.get_path("purelib")}
    found = sorted(path for folder in folders for path in Path(folder).rglob("*.py"))
    random.Random(1).shuffle(found)
    return found


def make_files(count: int) -> Iterator[ParsedFile]:
    """Files with `count` chunks altogether."""
    sources = list_sources()
    for turn in itertools.count():
        for source in sources:
            try:
                text = source.read_text("utf-8")
            except (OSError, UnicodeDecodeError):
                continue
            if not 0 < len(text) < 200_000:
                continue
            path = "/".join((f"part{turn}", *source.parts[-4:]))
            file = cut_file(path, text, turn)
            count -= len(file.chunks)
            yield file
            if count <= 0:
                return


def cut_file(path: str, text: str, turn: int) -> ParsedFile:
    lines = text.splitlines(keepends=True)
    chunks, place = [], 0
    symbols, imports = [], []
    for start in range(0, len(lines), LINES):
        part = "".join(lines[start : start + LINES])
        end = place + len(part.encode())
        span = Span(start + 1, min(start + LINES, len(lines)), place, end)
        defined = DEFINED.findall(part)
        symbol = defined[0] if defined else ""
        chunks.append(Chunk(path, part, span, f"{path} {symbol}", symbol))
        symbols += [Symbol(name, "function", start + 1) for name in defined]
        imports += IMPORTED.findall(part)
        place = end
    state = FileState(path, f"{hash(path):064x}"[:64], place, turn, "python", "code")
    return ParsedFile(state, tuple(chunks), tuple(symbols), tuple(imports))


def make_vectors(digests: list[bytes], dimensions: int) -> np.ndarray:
    centres = np.random.default_rng(7).standard_normal((400, dimensions)).astype(np.float32)
    rows = np.empty((len(digests), dimensions), np.float32)
    for place, digest in enumerate(digests):
        own = np.random.default_rng(int.from_bytes(digest[:8], "big"))
        rows[place] = centres[own.integers(400)] + own.standard_normal(dimensions, np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def open_store(name: str, folder: Path) -> ChunkStore:
    if name == "lance":
        from sonde.stores.chunks.lance import LanceChunkStore

        return LanceChunkStore(folder, "code")
    from sonde.stores.chunks.sqlite import SqliteChunkStore

    return SqliteChunkStore(folder, "code")


def measure(times: int, call: Callable[[int], object]) -> dict[str, float]:
    taken = []
    for turn in range(times):
        began = time.process_time()
        call(turn)
        taken.append((time.process_time() - began) * 1000)
    taken.sort()
    return {"p50": round(taken[times // 2], 2), "p95": round(taken[int(times * 0.95)], 2)}


def read_rss_mb() -> float:
    status = Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return round(int(fields["RssAnon"].split()[0]) / 1024, 1)


def write_index(name: str, folder: Path, count: int) -> None:
    """Child process: fill a store and say what it took."""
    store = open_store(name, folder)
    facts: dict[str, object] = {}
    wrote = embedded = parsed = 0.0
    chunks = files = 0
    source = make_files(count)
    while batch := list(itertools.islice(source, BATCH_FILES)):
        began = time.process_time()
        for file in batch:
            for chunk in file.chunks:
                index_terms(chunk.text)
        parsed += time.process_time() - began
        began = time.process_time()
        store.replace(batch)
        wrote += time.process_time() - began
        digests = [chunk.digest for file in batch for chunk in file.chunks]
        for model, dimensions in (STATIC, DEEP):
            rows = make_vectors(digests, dimensions)
            began = time.process_time()
            store.put_vectors(model, digests, rows)
            embedded += time.process_time() - began
        chunks += len(digests)
        files += len(batch)
    facts["files"], facts["chunks"] = files, chunks
    facts["replace chunks per CPU s"] = round(chunks / wrote)
    facts["of which splitting into words, share"] = round(parsed / wrote, 2)
    facts["put_vectors rows per CPU s"] = round(2 * chunks / embedded)
    facts["peak RSS MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    began = time.process_time()
    store.compact()
    facts["compact CPU s"] = round(time.process_time() - began, 2)
    facts["disk MB"] = round(store.counts().bytes / 1e6, 1)
    store.close()
    print(json.dumps(facts))


def query_index(name: str, folder: Path, count: int) -> None:
    """Child process: search a full store and say what it took."""
    began = time.process_time()
    store = open_store(name, folder)
    facts: dict[str, object] = {"open CPU ms": round((time.process_time() - began) * 1000, 1)}
    pick = random.Random(3)
    files = list(itertools.islice(make_files(min(count, 20_000)), 2_000))
    some = [pick.choice(pick.choice(files).chunks) for _ in range(QUERIES)]
    queries = []
    for chunk in some:
        words = unique(index_terms(chunk.text)) or ["none"]
        queries.append(pick.sample(words, min(len(words), 6)))
    paths = list(store.files())
    half = Filter(frozenset(path for path in paths if pick.random() < 0.5))
    one = [Filter(frozenset([pick.choice(paths)])) for _ in range(QUERIES)]
    began = time.process_time()
    store.lexical(queries[0], 200)
    facts["first lexical CPU ms"] = round((time.process_time() - began) * 1000, 1)
    facts["lexical, new words"] = measure(QUERIES, lambda i: store.lexical(queries[i], 200))
    facts["lexical"] = measure(QUERIES, lambda i: store.lexical(queries[i], 200))
    facts["lexical, half of the files"] = measure(
        QUERIES, lambda i: store.lexical(queries[i], 200, half)
    )
    facts["lexical, one file"] = measure(QUERIES, lambda i: store.lexical(queries[i], 200, one[i]))
    facts["common words, one file"] = measure(
        QUERIES, lambda i: store.lexical(["self", "return", "the", "def"], 200, one[i])
    )
    for model, dimensions in (STATIC, DEEP):
        vectors = make_vectors([chunk.digest for chunk in some], dimensions)
        began = time.process_time()
        store.dense(model, vectors[0], 200)
        facts[f"first dense {model} CPU ms"] = round((time.process_time() - began) * 1000, 1)
        facts[f"dense {model}"] = measure(
            QUERIES, lambda i, m=model, v=vectors: store.dense(m, v[i], 200)
        )
        facts[f"dense {model}, half of the files"] = measure(
            QUERIES, lambda i, m=model, v=vectors: store.dense(m, v[i], 200, half)
        )
    facts["trigrams"] = measure(
        QUERIES, lambda i: store.trigram_candidates(max(queries[i], key=len))
    )
    facts["private RSS MB after searching"] = read_rss_mb()
    edited = [pick.choice(files) for _ in range(QUERIES)]
    facts["one file replaced"] = measure(QUERIES, lambda i: store.replace([edited[i]]))

    def edit_and_search(turn: int) -> None:
        store.replace([edited[turn]])
        store.dense("deep", vectors[turn], 200)

    facts["one file replaced, then dense"] = measure(QUERIES, edit_and_search)
    facts["coverage"] = measure(QUERIES, lambda _: store.coverage("deep"))
    facts["missing(256)"] = measure(5, lambda _: store.missing("deep", 256))
    facts["files()"] = measure(5, lambda _: store.files())
    store.close()
    print(json.dumps(facts))


def run_child(step: str, name: str, folder: Path, count: int) -> None:
    command = [sys.executable, __file__, "--child", step, name, str(folder), str(count)]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    for key, value in json.loads(answer).items():
        print(f"  {key:42} {value}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the chunk stores.")
    parser.add_argument("--chunks", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--store", nargs="+", default=["sqlite"])
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        step, name, folder, count = options.child
        steps = {"write": write_index, "query": query_index}
        steps[step](name, Path(folder), int(count))
        return
    for name, count in itertools.product(options.store, options.chunks):
        folder = Path(tempfile.mkdtemp(prefix="sonde-bench-"))
        try:
            print(f"{name}, {count} chunks")
            run_child("write", name, folder, count)
            run_child("query", name, folder, count)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
