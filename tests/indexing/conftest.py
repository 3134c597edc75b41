"""A folder of real files and a real store to bring in step with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.contents import read_contents
from tests.trees import read_clock_later

from sonde.indexing.diff import compare_index
from sonde.indexing.pipeline import update_index
from sonde.indexing.sources import Tree, TreeReader
from sonde.policy.admit import Rules, Source
from sonde.runtime.work import Work
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.stores.records import Refusals
from sonde.types import FileContent, IndexReport, Skipped


class _RecordingReader(TreeReader):
    def __init__(self, tree: RecordingTree) -> None:
        super().__init__(tree)
        self._recording = tree

    def read(self, path: str) -> FileContent | Skipped:
        self._recording.reads.append(path)
        return self._recording.faults.get(path) or super().read(path)


@dataclass(frozen=True)
class RecordingTree(Tree):
    """A tree that notes which files are read, in order, and fails to read some."""

    reads: list[str] = field(default_factory=list)
    faults: dict[str, Skipped] = field(default_factory=dict)

    def open_reader(self) -> TreeReader:
        return _RecordingReader(self)


class Bench:
    """One project and its index, without anything above the pipeline."""

    def __init__(self, root: Path, folder: Path, **tree: Any) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        settings: dict[str, Any] = {
            "sources": (Source("", root, Rules()),),
            "is_docs": lambda path: path.endswith(".md"),
            "index_docs": True,
            "chunking": "syntax",
        }
        self.tree = RecordingTree(**(settings | tree))
        self.stores = {kind: SqliteChunkStore(folder, kind) for kind in ("code", "docs")}
        self.refused: Refusals = {}

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def update(
        self,
        work: Work | None = None,
        *,
        paths: set[str] | None = None,
        force: bool = False,
        **options: Any,
    ) -> IndexReport:
        work = work or Work()
        diff = compare_index(
            self.tree, self.stores, work, refused=self.refused, paths=paths, force=force
        )
        options = {"now_ns": read_clock_later} | options
        return update_index(self.tree, self.stores, {}, work, diff, **options)

    def snapshot(self) -> dict[str, Any]:
        """Everything an index knows that does not depend on how it got there."""
        return read_contents(self.stores)

    def files(self) -> set[str]:
        return {path for store in self.stores.values() for path in store.files()}

    def close(self) -> None:
        for store in self.stores.values():
            assert store.verify() == []
            store.close()


@pytest.fixture
def open_bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Opens benches over `tmp_path/project`, each with an index of its own."""
    with ExitStack() as stack:
        count = 0

        def open_one(root: Path | None = None, **tree: Any) -> Bench:
            nonlocal count
            count += 1
            folder = tmp_path / f"index-{count}"
            bench = Bench(root or tmp_path / "project", folder, **tree)
            stack.callback(bench.close)
            return bench

        yield open_one


@pytest.fixture
def bench(open_bench: Callable[..., Bench]) -> Bench:
    """An empty project with an empty index."""
    return open_bench()


@pytest.fixture(scope="session")
def bench_class() -> type[Bench]:
    """For tests that open many."""
    return Bench
