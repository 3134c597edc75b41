"""A server that finds its index damaged says so once, rebuilds it, and goes on answering."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sonde.app import App
from sonde.errors import IndexCorrupt, SondeError
from sonde.settings import load_settings
from sonde.tools.code import grep, search_by_path, search_code
from sonde.tools.index import create_index, get_index_status
from sonde.wiring import build_app
from sonde.work import Work


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "pyproject.toml").write_text("")
    for number in range(40):
        (root / f"m{number}.py").write_text(f"def function_{number}():\n    return {number}\n")
    return root


@pytest.fixture
def server(tmp_path: Path, project: Path) -> Iterator[App]:
    settings = load_settings({}, home=tmp_path / "home", assume_yes=True, embedding="static")
    app = build_app(settings, start=project, stays=True)
    create_index(app, work=Work())
    yield app
    app.close()


def search(app: App) -> Any:
    return search_code(app, "function_7", work=Work())


def wait_for_index(app: App, project: Path) -> None:
    job = app.jobs.find(f"index:{project}")
    assert job
    assert job.wait(timeout_s=60)
    assert job.error is None, job.error


def answer_in_the_end(app: App, project: Path) -> list[str]:
    """Search until the right answer comes; the codes of the errors on the way."""
    told: list[str] = []
    for _ in range(5):
        try:
            rows = search(app)["results"]
        except SondeError as error:
            told.append(error.code)
        else:
            if rows and rows[0]["path"] == "m7.py":
                return told
        wait_for_index(app, project)
    pytest.fail(f"no answer, but {told}")


def test_a_server_rebuilds_an_index_it_cannot_open(server: App, project: Path) -> None:
    folder = server.projects.get(project).folder
    server.projects.forget(project)
    (folder / "index.db").write_bytes(b"garbage!" * 4000)
    with pytest.raises(IndexCorrupt) as told:
        search(server)
    assert "Rebuilding it now" in told.value.user_message
    wait_for_index(server, project)
    assert search(server)["results"][0]["path"] == "m7.py"
    assert get_index_status(server, work=Work())["totalFiles"] == 41
    assert (folder / "index.db.bak").exists()


@pytest.mark.parametrize("verb", ["status", "paths", "grep"])
def test_other_verbs_notice_too(server: App, project: Path, verb: str) -> None:
    folder = server.projects.get(project).folder
    server.projects.forget(project)
    (folder / "index.db").write_bytes(b"garbage!" * 4000)
    if verb == "grep":
        assert grep(server, "function_7\\b", work=Work())["totalMatches"] == 1
        return
    with pytest.raises(IndexCorrupt):
        get_index_status(server, work=Work()) if verb == "status" else search_by_path(
            server, "*", work=Work()
        )
    wait_for_index(server, project)
    assert search_by_path(server, "*.py", work=Work())["totalMatches"] == 40


def test_damage_under_an_open_index_is_recovered_from(server: App, project: Path) -> None:
    folder = server.projects.get(project).folder
    assert search(server)["results"]
    wait_for_index(server, project)
    for name in ("index.db", "index.db-wal"):
        with (folder / name).open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            file.write(b"\xa5" * size)
    assert set(answer_in_the_end(server, project)) <= {"INDEX_CORRUPT"}


@pytest.mark.parametrize("damage", ["deleted", "emptied", "cut", "not numbers"])
def test_damaged_vectors_cost_at_most_a_rebuild(server: App, project: Path, damage: str) -> None:
    folder = server.projects.get(project).folder
    server.projects.forget(project)
    for path in (folder / "index.vectors").iterdir():
        data = path.read_bytes()
        if damage == "deleted":
            path.unlink()
        elif damage == "emptied":
            path.write_bytes(b"")
        elif damage == "cut":
            path.write_bytes(data[: len(data) // 3])
        else:
            path.write_bytes(b"\xff" * len(data))
    told = answer_in_the_end(server, project)
    assert set(told) <= {"INDEX_CORRUPT"}
    json.dumps(search(server), allow_nan=False)


def test_a_deleted_database_fills_up_again(server: App, project: Path) -> None:
    folder = server.projects.get(project).folder
    for name in ("index.db", "index.db-wal", "index.db-shm"):
        (folder / name).unlink(missing_ok=True)
    assert answer_in_the_end(server, project) == []
