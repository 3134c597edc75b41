"""What did not change is neither cut nor embedded again: in a project, and across its copies."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.backends import STORES
from tests.contents import read_contents
from tests.trees import write_files

from sonde.app import App
from sonde.embedding.static import StaticEmbedder
from sonde.projects.maintenance import check_project
from sonde.projects.project import Project, Projects
from sonde.runtime.work import Work
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.tools.code import search_code
from sonde.tools.index import create_index
from sonde.types import Kind, ParsedFile


class Counter:
    """The files written after they were cut, and the texts embedded, since it was last asked."""

    def __init__(self) -> None:
        self.cut: list[str] = []
        self.embedded: list[str] = []

    def take(self) -> tuple[int, int]:
        counted = (len(self.cut), len(self.embedded))
        self.cut.clear()
        self.embedded.clear()
        return counted


class CountingEmbedder(StaticEmbedder):
    """Notes what it embeds."""

    def __init__(self, counter: Counter) -> None:
        super().__init__()
        self._counter = counter

    def embed(self, texts: Sequence[str], mode: Any) -> Any:
        self._counter.embedded += texts if mode != "query" else []
        return super().embed(texts, mode)


class CountingStore:
    """A store that notes the files it is given."""

    def __init__(self, store: Any, counter: Counter) -> None:
        self._store, self._counter = store, counter

    def replace(self, files: Sequence[ParsedFile], *, more: bool = False) -> None:
        self._counter.cut += [file.state.path for file in files]
        self._store.replace(files, more=more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    modules = {
        f"m{number}.py": "".join(
            f"def function_{number}_{part}(value):\n"
            f"    # {'a line of some length to fill the chunk ' * 30}\n"
            f"    return value + {part}\n\n\n"
            for part in range(6)
        )
        for number in range(30)
    }
    guide = {"guide.md": "# Guide\n\nHow the functions are called.\n", "pyproject.toml": ""}
    return write_files(tmp_path / "project", modules | guide)


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def app(open_app: Callable[..., App], root: Path, store: str, counter: Counter) -> App:
    made = open_app(start=root, store=store)
    open_project = made.workspace.projects.get

    def open_counted(place: Path) -> Project:
        plain = open_project(place)
        made.workspace.projects.forget(place)

        def open_store(folder: Path, name: str, kind: Kind) -> Any:
            if name == "lance":
                from sonde.stores.chunks.lance import LanceChunkStore

                return CountingStore(LanceChunkStore(folder, kind), counter)
            return CountingStore(SqliteChunkStore(folder, kind), counter)

        return Project(place, plain.folder, plain.settings, open_store, plain.open_views)

    model = CountingEmbedder(counter)
    workspace = replace(
        made.workspace, projects=Projects(open_counted), static={"docs": model, "code": model}
    )
    return App(workspace, made.disk, made.knowledge, made.grounds)


def index(app: App, root: Path) -> Any:
    return create_index(app, str(root), work=Work())


def read_index(app: App, root: Path) -> dict[str, Any]:
    stores = app.workspace.projects.get(root).stores()
    known = read_contents(stores)
    for kind, store in stores.items():
        assert store.verify() == []
        known[kind] = store.coverage("sonde-static-1")
    return known


def test_a_one_line_edit_embeds_only_the_chunk_it_is_in(
    app: App, root: Path, counter: Counter
) -> None:
    index(app, root)
    _, all_chunks = counter.take()
    assert all_chunks > 150
    path = root / "m7.py"
    path.write_text(path.read_text().replace("value + 3", "value + 333"))
    index(app, root)
    assert counter.take() == (1, 1)
    path.write_text("# a line on top moves every line below\n" + path.read_text())
    index(app, root)
    cut, embedded = counter.take()
    assert (cut, embedded) == (1, 1)
    path.touch()
    index(app, root)
    assert counter.take() == (0, 0)


def test_a_copy_of_an_indexed_project_is_neither_cut_nor_embedded(
    app: App, root: Path, counter: Counter, tmp_path: Path
) -> None:
    index(app, root)
    counter.take()
    other = tmp_path / "copy"
    shutil.copytree(root, other)
    (other / "m3.py").write_text("def only_in_the_copy():\n    return 1\n")
    (other / "m4.py").unlink()
    (other / "m5.py").rename(other / "m5_renamed.py")
    answer = index(app, other)
    assert answer["filesIndexed"] == 31
    assert sorted(counter.cut) == ["m3.py", "m5_renamed.py"]
    assert counter.take()[1] < 12
    made = read_index(app, other)
    assert (
        check_project(app.workspace, app.workspace.projects.get(other), Work(), thorough=True).drift
        == 0
    )
    found = search_code(app, "only_in_the_copy", project=str(other), work=Work())
    assert found["results"][0]["path"] == "m3.py"
    # what a copy does to its index is nothing to the original
    assert read_index(app, root)["code:m4.py"]
    shutil.rmtree(app.workspace.home / "indexes")
    app.workspace.projects.forget(root)
    app.workspace.projects.forget(other)
    index(app, other)
    assert counter.take()[0] == 31
    assert read_index(app, other) == made


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_files_of_a_copy_are_read_though_size_and_time_are_the_same(
    app: App, root: Path, counter: Counter, tmp_path: Path
) -> None:
    index(app, root)
    other = tmp_path / "copy"
    shutil.copytree(root, other)
    path = other / "m3.py"
    facts = path.stat()
    path.write_text(path.read_text().replace("value + 3", "value + 4"))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    counter.take()
    index(app, other)
    assert counter.take()[0] == 1


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_second_worktree_starts_with_what_the_first_has(
    app: App, root: Path, counter: Counter, tmp_path: Path
) -> None:
    def git(*args: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *args], cwd=root, check=True, capture_output=True)

    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")
    index(app, root)
    counter.take()
    git("worktree", "add", "-q", str(tmp_path / "second"), "-b", "second")
    assert index(app, tmp_path / "second")["filesIndexed"] == 32
    assert counter.take() == (0, 0)


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
@pytest.mark.parametrize("damage", ["database", "vectors", "prints", "other files"])
def test_an_original_that_is_of_no_use_costs_nothing_but_the_time(
    app: App, root: Path, counter: Counter, tmp_path: Path, damage: str
) -> None:
    index(app, root)
    folder = app.workspace.projects.get(root).folder
    app.workspace.projects.forget(root)
    counter.take()
    other = tmp_path / "copy"
    shutil.copytree(root, other)
    if damage == "database":
        (folder / "docs.db").write_bytes(b"garbage!" * 2000)
    elif damage == "vectors":
        shutil.rmtree(folder / "index.vectors")
    elif damage == "prints":
        (folder / "fingerprints.json").write_text("[]")
        (folder / "docs-fingerprints.json").write_text("{")
    else:
        for path in other.glob("*.py"):
            path.write_text(f"# {path.name} is another file\n" + path.read_text())
    assert index(app, other)["filesIndexed"] == 32
    made = read_index(app, other)
    assert made["code"][0] == made["code"][1]
    assert not list(app.workspace.projects.get(other).folder.glob("seed.tmp"))
    assert len(counter.cut) == (0 if damage == "vectors" else 32)


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_project_that_is_cut_in_another_way_now_is_cut_again(
    app: App, root: Path, counter: Counter, tmp_path: Path
) -> None:
    index(app, root)
    counter.take()
    config = app.workspace.projects.get(root).folder / "config.json"
    config.write_text('{"chunking": "recursive"}')
    app.workspace.projects.forget(root)
    index(app, root)
    assert counter.take()[0] == 32
    index(app, root)
    assert counter.take()[0] == 0
    other = tmp_path / "copy"
    shutil.copytree(root, other)
    index(app, other)
    assert counter.take()[0] == 32
