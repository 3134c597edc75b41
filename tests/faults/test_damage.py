"""Files of either store that are deleted, cut or overwritten, under a server that goes on.

It says once that its index is damaged, rebuilds it, and goes on answering.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.backends import needs_lance
from tests.trees import write_files

from sonde.app import App
from sonde.errors import Cancelled, IndexCorrupt, SondeError
from sonde.projects.maintenance import check_project
from sonde.projects.project import Project
from sonde.runtime.work import Work
from sonde.stores.chunks.sqlite import SqliteChunkStore
from sonde.tools.code import grep, search_by_path, search_code, search_docs
from sonde.tools.index import create_index, get_index_status
from sonde.types import Kind

Damage = Callable[[Path], None]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwrite(path: Path) -> None:
    path.write_bytes(b"\xa5" * path.stat().st_size)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def turn_to_nan(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)


def delete(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    modules = {f"m{n}.py": f"def function_{n}():\n    return {n}\n" for n in range(20)}
    guide = {"guide.md": "# Guide\n\nHow the functions are called.\n", "pyproject.toml": ""}
    return write_files(tmp_path / "project", modules | guide)


@pytest.fixture
def start(open_app: Callable[..., App], root: Path) -> Callable[[str], App]:
    """Starts a server over an index that is whole."""

    def start_one(store: str) -> App:
        app = open_app(start=root, stays=True, store=store)
        create_index(app, work=Work())
        return app

    return start_one


def search(app: App) -> Any:
    return search_code(app, "function_7", work=Work())


def settle(app: App, root: Path) -> None:
    # a check in the background has the lowest priority: on a busy machine it takes minutes
    app.workspace.jobs.cancel(f"check:{root}", timeout_s=120)
    for kind in ("index", "check"):
        if job := app.workspace.jobs.find(f"{kind}:{root}"):
            assert job.wait(timeout_s=120)
            is_cancelled = kind == "check" and isinstance(job.error, Cancelled)
            assert job.error is None or is_cancelled, (kind, job.error)


def answer_in_the_end(app: App, root: Path) -> set[str]:
    """Search until the right answer comes; the codes of the errors on the way."""
    told: set[str] = set()
    for _ in range(6):
        try:
            rows = search(app)["results"]
        except SondeError as error:
            told.add(error.code)
        else:
            if rows and rows[0]["path"] == "m7.py":
                return told
        settle(app, root)
    pytest.fail(f"no answer, but {told}")


CASES: list[Any] = [
    ("sqlite", "index.db", cut),
    ("sqlite", "index.db", overwrite),
    ("sqlite", "index.d*[bl]", overwrite),  # and its log, but not the memory that is shared
    ("sqlite", "index.db", delete),
    ("sqlite", "index.vectors", delete),
    ("sqlite", "index.vectors/*.i8", overwrite),
    ("sqlite", "index.vectors/*.bits", cut),
    ("sqlite", "index.vectors/*", empty),
    ("sqlite", "index.vectors/*", turn_to_nan),
    *(
        pytest.param("lance", pattern, damage, marks=needs_lance)
        for pattern, damage in (
            ("index.lance.db", cut),
            ("index.lance.db", delete),
            ("index.lancedb", delete),
            ("index.lancedb/project_docs.lance/data/*", delete),
            ("index.lancedb/project_docs.lance/data/*", cut),
            ("index.lancedb/project_docs.lance/_versions/*", overwrite),
            ("index.lancedb/vectors-*.lance/data/*", delete),
        )
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("reopened", [False, True], ids=["open", "reopened"])
@pytest.mark.parametrize(("store", "pattern", "damage"), CASES)
def test_damage_costs_at_most_a_rebuild_and_docs_answer_meanwhile(
    start: Callable[[str], App],
    root: Path,
    store: str,
    pattern: str,
    damage: Damage,
    reopened: bool,
) -> None:
    app = start(store)
    project = app.workspace.projects.get(root)
    assert search(app)["results"][0]["path"] == "m7.py"
    settle(app, root)
    if reopened:
        app.workspace.projects.forget(root)
    harmed = list(project.folder.glob(pattern))
    assert harmed
    for path in harmed:
        damage(path)
    assert answer_in_the_end(app, root) <= {"INDEX_CORRUPT"}
    json.dumps(search(app), allow_nan=False)
    found = search_docs(app, "how functions are called", work=Work())["results"]
    assert found[0]["path"] == "guide.md"
    settle(app, root)
    project = app.workspace.projects.get(root)
    check_project(app.workspace, project, Work(), thorough=True)
    assert check_project(app.workspace, project, Work(), thorough=True).drift == 0
    assert len(project.stores()["code"].files()) == 21
    # what was not harmed was not thrown away either
    assert not list(project.folder.glob("docs.*.bak"))


@pytest.fixture
def spoilt(start: Callable[[str], App], root: Path) -> App:
    """A server whose index cannot be opened."""
    app = start("sqlite")
    folder = app.workspace.projects.get(root).folder
    app.workspace.projects.forget(root)
    (folder / "index.db").write_bytes(b"garbage!" * 4000)
    return app


VERBS: dict[str, Callable[[App], Any]] = {
    "search": search,
    "status": lambda app: get_index_status(app, work=Work()),
    "paths": lambda app: search_by_path(app, "*", work=Work()),
}


@pytest.mark.parametrize("verb", VERBS)
def test_whoever_finds_the_damage_says_so_and_has_it_rebuilt(
    spoilt: App, root: Path, verb: str
) -> None:
    with pytest.raises(IndexCorrupt) as told:
        VERBS[verb](spoilt)
    assert "Rebuilding it now" in told.value.user_message
    settle(spoilt, root)
    assert search(spoilt)["results"][0]["path"] == "m7.py"
    assert get_index_status(spoilt, work=Work())["totalFiles"] == 22
    assert search_by_path(spoilt, "*.py", work=Work())["totalMatches"] == 20
    assert (spoilt.workspace.projects.get(root).folder / "index.db.bak").exists()


def test_lines_are_found_without_the_damaged_index(spoilt: App) -> None:
    assert grep(spoilt, "function_7\\b", work=Work())["totalMatches"] == 1


def test_a_database_deleted_under_a_server_fills_up_again_in_silence(
    start: Callable[[str], App], root: Path
) -> None:
    app = start("sqlite")
    for path in app.workspace.projects.get(root).folder.glob("index.db*"):
        path.unlink()
    assert answer_in_the_end(app, root) == set()


def test_a_database_replaced_while_it_is_opened_is_opened_again(
    start: Callable[[str], App], root: Path
) -> None:
    plain = start("sqlite").workspace.projects.get(root)

    def open_store(folder: Path, _name: str, kind: Kind) -> SqliteChunkStore:
        if kind == "docs" and not (folder / "index.db.bak").exists():
            (folder / "index.db").rename(folder / "index.db.bak")  # as another process would
        return SqliteChunkStore(folder, kind)

    project = Project(root, plain.folder, plain.settings, open_store, plain.open_views)
    project.stores()
    with ThreadPoolExecutor() as thread, closing(project):  # a thread has its own connection
        assert not thread.submit(project.stores()["code"].files).result()


@needs_lance
def test_a_stale_lock_of_lance_holds_nobody_up(start: Callable[[str], App], root: Path) -> None:
    app = start("lance")
    folder = app.workspace.projects.get(root).folder
    app.workspace.projects.forget(root)
    for place in ("index.lancedb", "index.lancedb/project_docs.lance"):
        for name in (".lock", "project_docs.lock"):
            (folder / place / name).write_bytes(b"4194304\n")
    (root / "new.py").write_text("def newcomer(): pass\n")
    create_index(app, work=Work())
    assert search_code(app, "newcomer", work=Work())["results"][0]["path"] == "new.py"
