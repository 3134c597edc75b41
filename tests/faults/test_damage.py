"""Files of either store that are deleted, cut or overwritten, under a server that goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.backends import needs_lance

from sonde.app import App
from sonde.errors import SondeError
from sonde.settings import load_settings
from sonde.tools.checking import check_project
from sonde.tools.code import search_code, search_docs
from sonde.tools.index import create_index
from sonde.wiring import build_app
from sonde.work import Work

Damage = Callable[[Path], None]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwrite(path: Path) -> None:
    path.write_bytes(b"\xa5" * path.stat().st_size)


def delete(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("")
    for number in range(20):
        (folder / f"m{number}.py").write_text(f"def function_{number}():\n    return {number}\n")
    (folder / "guide.md").write_text("# Guide\n\nHow the functions are called.\n")
    return folder


@pytest.fixture
def start(tmp_path: Path, root: Path) -> Iterator[Callable[[str], App]]:
    """Starts a server over an index that is whole."""
    started: list[App] = []

    def start_one(store: str) -> App:
        settings = load_settings(
            {}, home=tmp_path / "home", assume_yes=True, embedding="static", store=store
        )
        started.append(build_app(settings, start=root, stays=True))
        create_index(started[0], work=Work())
        return started[0]

    yield start_one
    for app in started:
        app.close()


def settle(app: App, root: Path) -> None:
    for kind in ("index", "check"):
        job = app.jobs.find(f"{kind}:{root}")
        assert job is None or job.wait(timeout_s=120)


def answer_in_the_end(app: App, root: Path) -> set[str]:
    """Search until the right answer comes; the codes of the errors on the way."""
    told: set[str] = set()
    for _ in range(6):
        try:
            rows = search_code(app, "function_7", work=Work())["results"]
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
    ("sqlite", "index.db", delete),
    ("sqlite", "index.vectors", delete),
    ("sqlite", "index.vectors/*.i8", overwrite),
    ("sqlite", "index.vectors/*.bits", cut),
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
    project = app.projects.get(root)
    assert search_code(app, "function_7", work=Work())["results"][0]["path"] == "m7.py"
    settle(app, root)
    if reopened:
        app.projects.forget(root)
    harmed = list(project.folder.glob(pattern))
    assert harmed
    for path in harmed:
        damage(path)
    assert answer_in_the_end(app, root) <= {"INDEX_CORRUPT"}
    found = search_docs(app, "how functions are called", work=Work())["results"]
    assert found[0]["path"] == "guide.md"
    settle(app, root)
    project = app.projects.get(root)
    check_project(app, project, Work(), thorough=True)
    assert check_project(app, project, Work(), thorough=True).drift == 0
    assert len(project.stores()["code"].files()) == 21
    # what was not harmed was not thrown away either
    assert not list(project.folder.glob("docs.*.bak"))


@needs_lance
def test_a_stale_lock_of_lance_holds_nobody_up(start: Callable[[str], App], root: Path) -> None:
    app = start("lance")
    folder = app.projects.get(root).folder
    app.projects.forget(root)
    for place in ("index.lancedb", "index.lancedb/project_docs.lance"):
        for name in (".lock", "project_docs.lock"):
            (folder / place / name).write_bytes(b"4194304\n")
    (root / "new.py").write_text("def newcomer(): pass\n")
    create_index(app, work=Work())
    assert search_code(app, "newcomer", work=Work())["results"][0]["path"] == "new.py"
