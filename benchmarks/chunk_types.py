"""Views of files: how many sources parse, what they cost, how fast `cortex_search` answers.

chunk_types.py parse FOLDER     per language: files that give definitions (FOLDER of repositories)
chunk_types.py cost FOLDER      first index and then the views of one project: CPU, bytes
chunk_types.py tags FOLDER      every front-matter tag and hashtag found in documents, to be judged
chunk_types.py latency          cortex_search over chunk files of 1,000, 10,000 and 100,000 chunks
chunk_types.py index            the same over an index of a project's own, kept on disk
chunk_types.py reload           a thousand threads that ask while the files are written anew
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from sonde.chunking.tags import find_tags
from sonde.chunking.views import derive_views
from sonde.searching.chunk_files import ChunkFiles
from sonde.searching.contexts import SearchOptions
from sonde.text.languages import language_of
from sonde.types import Chunk, FileState, ParsedFile, Span

_LARGEST = 1 << 20


def read_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Every text file below a folder that sonde would index by its size."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _LARGEST:
            continue
        if ".git" in path.parts or "node_modules" in path.parts:
            continue
        try:
            yield path.relative_to(folder).as_posix(), path.read_text("utf-8")
        except (UnicodeDecodeError, OSError):
            continue


def measure_parsing(folder: Path) -> None:
    """Per language, the share of files with at least one definition."""
    files: Counter[str] = Counter()
    parsed: Counter[str] = Counter()
    definitions: Counter[str] = Counter()
    began = time.process_time()
    for path, text in read_texts(folder):
        language = language_of(path)
        if language.kind != "code" or not language.grammar or not text.strip():
            continue
        views = derive_views(path, text, "code")
        found = sum(view.type == "definitions" and view.chunk.symbol != "" for view in views)
        files[language.name] += 1
        parsed[language.name] += found > 0
        definitions[language.name] += found
    print("| language | files | with definitions | share | definitions |")
    print("|---|---|---|---|---|")
    for name, count in sorted(files.items()):
        share = f"{100 * parsed[name] / count:.1f} %"
        print(f"| {name} | {count:,} | {parsed[name]:,} | {share} | {definitions[name]:,} |")
    total, good = files.total(), parsed.total()
    print(f"| all | {total:,} | {good:,} | {100 * good / total:.1f} % | {definitions.total():,} |")
    print(f"\n{time.process_time() - began:.1f} s of CPU")


def measure_cost(folder: Path) -> None:
    """CPU and bytes of a first index, and of the views after it."""
    from sonde.runtime.work import Work
    from sonde.settings import load_settings
    from sonde.tools.code import cortex_search
    from sonde.tools.index import create_index
    from sonde.wiring import build_app

    with tempfile.TemporaryDirectory() as home:
        settings = load_settings({}, home=home, assume_yes=True, embedding="static")
        app = build_app(settings, start=folder.resolve())
        began, wall = time.process_time(), time.perf_counter()
        report = create_index(app, work=Work())
        index = time.process_time() - began, time.perf_counter() - wall
        began, wall = time.process_time(), time.perf_counter()
        cortex_search(app, "configuration", work=Work())
        views = time.process_time() - began, time.perf_counter() - wall
        app.close()
        more = sum(measure_bytes(place) for place in Path(home).glob("indexes/*/views-*"))
        size = measure_bytes(Path(home)) - more
        tags = measure_tagging(folder)
    print(f"{report['filesIndexed']:,} files, {report['chunksCreated']:,} plain chunks")
    print(f"index: {index[0]:.1f} s of CPU, {index[1]:.1f} s, {size / 1e6:.1f} MB")
    print(f"of it for tags of documents: {tags:.2f} s of CPU")
    print(f"views: {views[0]:.1f} s of CPU, {views[1]:.1f} s, {more / 1e6:.1f} MB more")


def measure_bytes(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure_tagging(folder: Path) -> float:
    """Seconds of CPU to find the tags of all documents, which is part of every first index."""
    texts = [(t, language_of(p)) for p, t in read_texts(folder)]
    began = time.process_time()
    for text, language in texts:
        if language.kind == "docs":
            find_tags(text, language.name)
    return time.process_time() - began


def list_tags(folder: Path) -> None:
    """Tags by how often they were found, with one place each."""
    counts: Counter[str] = Counter()
    places: dict[str, str] = {}
    documents = 0
    for path, text in read_texts(folder):
        language = language_of(path)
        if language.kind != "docs":
            continue
        documents += 1
        for tag in find_tags(text, language.name):
            counts[tag] += 1
            places.setdefault(tag, path)
    print(f"{documents} documents, {counts.total()} tags, {len(counts)} different")
    for tag, count in counts.most_common():
        print(f"{count:5} {tag}  {places[tag]}")


def measure_latency() -> None:
    """Milliseconds a query, and bytes of memory, at three sizes."""
    from sonde.embedding.static import StaticEmbedder

    embedder = StaticEmbedder()
    numbers = np.random.default_rng(1)
    words = [f"word{number}" for number in range(5_000)]
    embedder.embed(["warm up"], "query")
    print("| chunks | read | median | 95th | with tag and type | memory |")
    print("|---|---|---|---|---|---|")
    before = resident_bytes()
    for count in (1_000, 10_000, 100_000):
        with tempfile.TemporaryDirectory() as name:
            write_chunks(Path(name), count, words, numbers, embedder.dimensions)
            began = time.perf_counter()
            files = ChunkFiles(Path(name), embedder)
            read = time.perf_counter() - began
        plain = sorted(time_query(files, f"word{at} parse config", ()) for at in range(50))
        chosen = sorted(time_query(files, f"word{at} parse config", ("rare",)) for at in range(50))
        used = (resident_bytes() - before) / 1e6
        print(
            f"| {count:,} | {read:.1f} s | {1e3 * statistics.median(plain):.1f} ms"
            f" | {1e3 * plain[47]:.1f} ms | {1e3 * statistics.median(chosen):.1f} ms"
            f" | {used:.0f} MB |"
        )
        del files
    print(f"\npeak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


def write_chunks(
    folder: Path, count: int, words: list[str], numbers: np.random.Generator, size: int
) -> None:
    """Chunks of some 600 characters with random unit vectors; one of them is tagged `rare`."""
    with (folder / "code-data.json").open("w") as file:
        file.write('{"chunks": [')
        for at in range(count):
            picked = numbers.integers(0, len(words), 80)
            vector = numbers.normal(size=size)
            row = {
                "id": f"chunk-{at}",
                "title": f"src/file{at}.py name{at}",
                "text": " ".join(words[number] for number in picked),
                "chunk_type": "data",
                "tags": ["code", "python"] + (["rare"] if at == count // 2 else []),
                "embedding": [round(float(x), 5) for x in vector / np.linalg.norm(vector)],
            }
            file.write((",\n" if at else "") + json.dumps(row))
        file.write("]}")


def time_query(files: ChunkFiles, query: str, tags: tuple[str, ...]) -> float:
    """Seconds of one query, the embedding of it included."""
    began = time.perf_counter()
    types = ("data",) if tags else ()
    found = files.query(query, SearchOptions(min_score=-1, tags=tags, chunk_types=types))
    took = time.perf_counter() - began
    if not found or (tags and len(found) != 1):
        raise SystemExit("the query found nothing")
    return took


def measure_index() -> None:
    """Milliseconds a query over the views of a project, at three sizes."""
    from sonde.embedding.static import StaticEmbedder
    from sonde.searching.contexts import ViewSearcher
    from sonde.stores.chunks.sqlite import SqliteChunkStore

    embedder, numbers = StaticEmbedder(), np.random.default_rng(1)
    kinds = {
        "all": SearchOptions(min_score=-1),
        "one file by its tag": SearchOptions(min_score=-1, tags=("needle",)),
        "one type": SearchOptions(min_score=-1, chunk_types=("definitions",)),
    }
    with tempfile.TemporaryDirectory() as name:
        store = SqliteChunkStore(Path(name), "code")
        searcher = ViewSearcher(store, embedder)
        held = 0
        for count in (1_000, 10_000, 100_000):
            while held < count:
                files = [make_views(held + at, numbers) for at in range(0, 1_000, 25)]
                digests = [chunk.digest for file in files for chunk in file.chunks]
                vectors = numbers.normal(size=(1_000, embedder.dimensions)).astype(np.float32)
                vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
                store.put_vectors(embedder.name, digests, vectors)
                store.replace(files)
                held += 1_000
            for what, options in kinds.items():
                searcher.query("first", options)
                took = []
                for at in range(50):
                    began = time.perf_counter()
                    searcher.query(f"word{at} parse config", options)
                    took.append(time.perf_counter() - began)
                median, slow = statistics.median(took) * 1e3, sorted(took)[47] * 1e3
                print(f"{count:,} chunks, {what}: median {median:.1f} ms, 95th {slow:.1f} ms")
        store.close()
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB")


def make_views(number: int, numbers: np.random.Generator) -> ParsedFile:
    """A file of 25 definitions; the first one has a tag of its own."""
    path = f"definitions/src/mod{number // 1_000}/file{number}.py"
    chunks = tuple(
        Chunk(
            path,
            " ".join(f"word{word}" for word in numbers.integers(0, 5_000, 30)),
            Span(at + 1, at + 1, at * 300, at * 300 + 300),
            f"src/file{number}.py name{at}",
            f"name{at}",
        )
        for at in range(25)
    )
    state = FileState(path, "0" * 64, 1, 1, "python", "code")
    return ParsedFile(state, chunks, tags=() if number else ("needle",))


def measure_reload(threads: int = 1_000, each: int = 3) -> None:
    """Errors and answers of wrong length among queries that start at once, during reloads."""
    from sonde.embedding.static import StaticEmbedder

    embedder, numbers = StaticEmbedder(), np.random.default_rng(1)
    words = [f"word{number}" for number in range(5_000)]
    ending, start = threading.Event(), threading.Barrier(threads)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_chunks(folder, 2_000, words, numbers, embedder.dimensions)
        files = ChunkFiles(folder, embedder)
        files.follow()

        def rewrite() -> None:
            while not ending.wait(0.7):
                with tempfile.TemporaryDirectory() as beside:
                    write_chunks(Path(beside), 2_000, words, numbers, embedder.dimensions)
                    (Path(beside) / "code-data.json").replace(folder / "code-data.json")

        def ask(number: int) -> int:
            start.wait()
            options = SearchOptions(min_score=-1)
            found = [files.query(f"word{number + at} config", options) for at in range(each)]
            return sum(len(results) != options.limit for results in found)

        writer = threading.Thread(target=rewrite)
        writer.start()
        try:
            with ThreadPoolExecutor(threads) as pool:
                wrong = sum(pool.map(ask, range(threads)))
        finally:
            ending.set()
            writer.join()
            files.close()
    print(f"{threads * each:,} queries, {wrong} wrong, {files.reloads} reloads")


def resident_bytes() -> int:
    """What this process holds in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("what", choices=("parse", "cost", "tags", "latency", "index", "reload"))
    parser.add_argument("folder", nargs="?", type=Path)
    args = parser.parse_args()
    if args.what == "latency":
        measure_latency()
    elif args.what == "index":
        measure_index()
    elif args.what == "reload":
        measure_reload()
    elif args.folder is None:
        parser.error("a folder is needed")
    else:
        run = {"parse": measure_parsing, "cost": measure_cost, "tags": list_tags}[args.what]
        run(args.folder)


if __name__ == "__main__":
    main()
