"""A disk to scan, and the parts that scan it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from sonde.app import App
from sonde.disk.indexes import start_scan
from sonde.disk.scan import TreeScan
from sonde.disk.trees import ScanReport
from sonde.runtime.work import Work
from sonde.stores.disk.base import ROOT_ID, Node
from sonde.stores.disk.sqlite import TreeStore
from sonde.types import Caller

BOUND_S = 60.0


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A small tree with one of everything that is usual."""
    root = tmp_path / "disk"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "docs").mkdir()
    (root / "empty").mkdir()
    (root / "src" / "main.py").write_text("print('hello')\n" * 100)
    (root / "src" / "deep" / "note.txt").write_text("a note\n")
    (root / "docs" / "guide.md").write_text("# Guide\n\n" + "words " * 500)
    (root / "docs" / "copy.md").write_text("# Guide\n\n" + "words " * 500)
    (root / ".env").write_text("TOKEN=x\n")
    (root / "link").symlink_to("docs")
    return root


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TreeStore]:
    opened = TreeStore(tmp_path / "tree.db")
    yield opened
    opened.close()


@pytest.fixture
def open_app(open_app: Callable[..., App], disk: Path) -> Callable[[], App]:
    """Opens the installation, as often as wanted, as after a restart."""
    asked = {"assume_yes": False, "embedding": "none", "file_roots": [str(disk)]}
    return partial(open_app, start=disk, stays=True, **asked)


@pytest.fixture
def app(open_app: Callable[[], App]) -> App:
    return open_app()


@pytest.fixture
def work() -> Work:
    return Work(caller=Caller(session="a connection"))


def scan(app: App, root: Path, caller: Caller = Caller(), **options: object) -> str:  # noqa: B008
    """Scan and wait; the handle of the index."""
    job = start_scan(app.disk, caller, root, **options)  # type: ignore[arg-type]
    assert job.wait(timeout_s=BOUND_S)
    job.outcome()
    assert app.workspace.jobs.look_up(job.id).status == "done"
    return job.subject


def scan_store(
    store: TreeStore, root: Path, work: Work | None = None, **options: object
) -> ScanReport:
    """Scan a folder straight into a store."""
    return TreeScan(store, root, work or Work(), **options).run()  # type: ignore[arg-type]


def list_tree(store: TreeStore, node: int = ROOT_ID, path: str = "") -> dict[str, Node]:
    """Every node by its path."""
    found: dict[str, Node] = {}
    for child in store.children(node, 1_000_000):
        place = f"{path}{child.name}"
        found[place] = child
        found |= list_tree(store, child.id, f"{place}/")
    return found
