"""An index made with the help of other processes is the same, whatever happens to them."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.processes import is_running
from tests.trees import read_clock_later
from tests.waiting import wait_until

from sonde.embedding.base import Embedder
from sonde.embedding.static import NAME, EverydayEmbedder, StaticEmbedder
from sonde.indexing.diff import compare_index
from sonde.indexing.pipeline import update_index
from sonde.indexing.preparing import PrepareOrder, Workers, count_workers, prepare_files
from sonde.runtime.processes import Child
from sonde.runtime.work import Work
from sonde.types import FileContent, Kind, Progress

OLD_NS = 1_600_000_000_000_000_000
FILES = 420
needs_proc = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")

HELPED = """
import sys
from pathlib import Path
from sonde.embedding.static import EverydayEmbedder, StaticEmbedder
from sonde.indexing.diff import compare_index
from sonde.indexing.pipeline import update_index
from sonde.indexing.preparing import Workers
from sonde.indexing.sources import Tree
from sonde.policy.admit import Rules, Source
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.runtime.work import Work
tree = Tree((Source("", Path(sys.argv[1]), Rules()),), lambda path: False, True, "syntax")
stores = {kind: SqliteChunkStore(Path(sys.argv[2]), kind) for kind in ("code", "docs")}
work = Work(report=lambda _: print("going", flush=True))
while True:
    diff = compare_index(tree, stores, work, force=True)
    static = {"code": StaticEmbedder(), "docs": EverydayEmbedder()}
    names = [model.name for model in static.values()]
    update_index(tree, stores, static, work, diff, workers=Workers(2, names))
"""


def write_project(root: Path) -> None:
    """Code, prose and data of several languages, enough for some batches."""
    texts: list[Callable[[int], tuple[str, str]]] = [
        lambda n: (f"a{n}.py", f"import os\n\n\nclass Größe{n}:\n    def get_x{n}(self): ...\n"),
        lambda n: (
            f"b/{n}.ts",
            f"export function readFile{n}(name: string) {{ return '日本{n}' }}\n",
        ),
        lambda n: (f"docs/{n}.md", f"---\ntags: [t{n % 3}]\n---\n# Part {n}\n\nText → of it 🚀.\n"),
        lambda n: (f"data/{n}.json", '{"value": [' + ", ".join(map(str, range(n))) + "]}\n"),
        lambda n: (
            f"c/f{n}.py",
            "".join(f"def f_{n}_{i}(x):\n    return x\n\n\n" for i in range(90)),
        ),
    ]
    for number in range(FILES):
        name, text = texts[number % len(texts)](number)
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, ns=(OLD_NS, OLD_NS + number))
    (root / "binary.py").write_bytes(b"a\0b")
    (root / "latin.py").write_bytes("x = 'é'\n".encode("latin-1"))


def read_rows(folder: Path) -> dict[str, list[Any]]:
    """Every row of every table, the words as SQLite stores them, and every vector file."""
    found: dict[str, list[Any]] = {}
    for path in sorted(folder.glob("*.db")):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        query = (
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRT%'"
        )
        for (table,) in connection.execute(query).fetchall():
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            chosen = ", ".join(f'"{column}"' for column in columns if column != "uuid")
            rows = connection.execute(f"SELECT {chosen} FROM {table} ORDER BY 1, 2").fetchall()
            found[f"{path.name}/{table}"] = rows
        connection.close()
    for path in sorted(folder.rglob("*.vectors/*")):
        found[path.name] = [path.read_bytes()]
    return found


@pytest.fixture
def project(bench: Any) -> Any:
    write_project(bench.root)
    return bench


def index(
    bench: Any, count: int, work: Work | None = None, *, force: bool = False, **options: Any
) -> dict[str, Any]:
    """Index and show everything that is stored."""
    work = work or Work()
    static: dict[Kind, Embedder] = {"code": StaticEmbedder(), "docs": EverydayEmbedder()}
    diff = compare_index(bench.tree, bench.stores, work, refused=bench.refused, force=force)
    helping = Workers(count, [model.name for model in static.values()], **options)
    report = update_index(
        bench.tree, bench.stores, static, work, diff, workers=helping, now_ns=read_clock_later
    )
    assert report.files_indexed == FILES + 1
    return {
        "report": (report.chunks_created, report.skipped, report.examples),
        "refused": bench.refused,
        **read_rows(bench.stores["code"]._database.path.parent),
    }


def list_workers(parent: int) -> list[int]:
    """The worker processes of a process."""
    found = []
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        for number in task.read_text().split():
            line = Path(f"/proc/{number}/cmdline").read_bytes()
            if b"sonde.indexing.preparing" in line:
                found.append(int(number))
    return found


def test_workers_make_the_same_index_to_the_byte(project: Any, open_bench: Any) -> None:
    alone, helped = index(project, 0), index(open_bench(project.root), 2)
    assert alone.keys() == helped.keys()
    assert [name for name in alone if alone[name] != helped[name]] == []
    assert len(alone["index.db/chunks"]) > FILES
    assert len(alone["index.db/lex_data"]) > 2
    again = index(project, 0, force=True), index(project, 2, force=True)
    for table in ("index.db/vectors", "docs.db/vectors"):
        assert again[0][table] == again[1][table] == alone[table]


@needs_proc
def test_workers_are_used_and_end_with_the_update(project: Any) -> None:
    seen: list[set[int]] = []
    index(project, 2, Work(report=lambda _: seen.append(set(list_workers(os.getpid())))))
    assert len(seen[0]) == 2
    wait_until(lambda: not any(map(is_running, seen[0])))


@needs_proc
def test_killed_workers_leave_a_whole_index(project: Any, open_bench: Any) -> None:
    killed: list[int] = []

    def kill_workers(_: Progress) -> None:
        for number in list_workers(os.getpid()):
            os.kill(number, signal.SIGKILL)
            killed.append(number)

    expected = index(project, 0)
    assert index(open_bench(project.root), 2, Work(report=kill_workers)) == expected
    assert killed


@needs_proc
def test_workers_without_memory_leave_a_whole_index(
    project: Any, open_bench: Any, caplog: pytest.LogCaptureFixture
) -> None:
    import resource

    def start_limited(model: str) -> Child:
        child = Child("sonde.indexing.preparing", model)
        child.ask(PrepareOrder("code", "syntax", ()))  # it is up, and fails later than its start
        resource.prlimit(child.pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))
        return child

    expected = index(project, 0)
    caplog.set_level(logging.WARNING, "sonde")  # a test before may have made it quieter
    assert index(open_bench(project.root), 2, start=start_limited) == expected
    assert "without a worker" in caplog.text


@needs_proc
def test_workers_that_hold_much_memory_are_replaced(project: Any, open_bench: Any) -> None:
    started: list[int] = []

    def start_child(models: Sequence[str]) -> Child:
        child = Child("sonde.indexing.preparing", *models)
        started.append(child.pid)
        return child

    expected = index(project, 0)
    assert index(open_bench(project.root), 2, worn_bytes=1, start=start_child) == expected
    assert len(started) > 2
    wait_until(lambda: not any(map(is_running, started)))


@needs_proc
def test_closing_ends_workers_that_took_the_place_of_others() -> None:
    text = "def add(one, other):\n    return one + other\n" * 5_000
    content = FileContent("big.py", text, "0" * 64, len(text), 0)
    order = PrepareOrder("code", "syntax", (content,))
    with Workers(1, (), worn_bytes=1) as helping:
        assert helping.submit(order).result()
        assert helping.submit(order).result()
        left = [helping.submit(order), helping.submit(order)]
    assert [done.result(timeout=0) for done in left] == [None, None]


def test_workers_that_cannot_start_leave_a_whole_index(project: Any, open_bench: Any) -> None:
    def refuse(_models: Sequence[str]) -> Child:
        raise FileNotFoundError("/nonexistent/python")

    expected = index(project, 0)
    assert index(open_bench(project.root), 2, start=refuse) == expected


@pytest.fixture
def helped_process(project: Any, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that indexes with workers, over and over."""
    command = [sys.executable, "-c", HELPED, str(project.root), str(tmp_path / "helped")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


@needs_proc
def test_workers_end_when_their_parent_is_killed(helped_process: subprocess.Popen[str]) -> None:
    assert helped_process.stdout
    assert helped_process.stdout.readline() == "going\n"
    found: list[int] = []

    def find_workers() -> bool:
        found[:] = list_workers(helped_process.pid)
        return len(found) == 2

    wait_until(find_workers)
    helped_process.kill()
    helped_process.wait()
    wait_until(lambda: not any(map(is_running, found)))


def test_a_worker_answers_as_we_do_and_imports_nothing_from_where_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pickle.py").write_text("raise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    content = FileContent("a.py", "def f():\n    return '\ud800'\n", "0" * 64, 27, 1)
    order = PrepareOrder("code", "syntax", (content,), frozenset({"a.py"}))
    with Workers(1, [NAME]) as helping:
        answer = helping.submit(order).result()
    here = prepare_files(order, StaticEmbedder())
    assert answer
    assert (answer.files, answer.digests) == (here.files, here.digests)
    assert [row.tobytes() for row in answer.vectors] == [row.tobytes() for row in here.vectors]


def test_small_projects_and_single_cores_get_no_workers() -> None:
    large = [10_000] * 1_000
    assert count_workers([10_000] * 100, cores=2) == 0
    assert count_workers(large, cores=2) == 2
    assert count_workers(large, cores=1) == 0
