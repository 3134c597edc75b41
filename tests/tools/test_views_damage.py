"""Views that are damaged or deleted under a running server are made anew."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.waiting import wait_until

from sonde.app import App
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.tools.code import cortex_search
from sonde.tools.index import create_index
from sonde.wiring import build_app


def delete_folder(views: Path) -> None:
    shutil.rmtree(views)


def delete_vectors(views: Path) -> None:
    shutil.rmtree(views / "index.vectors")


def empty_database(views: Path) -> None:
    (views / "index.db").write_bytes(b"")


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    for number in range(20):
        text = f'def f{number}():\n    """The walrus {number}."""\n    return {number}\n'
        (root / f"m{number}.py").write_text(text)
    opened = build_app(load_settings({}, home=tmp_path / "home", assume_yes=True), start=root)
    create_index(opened, str(root), work=Work())
    yield opened
    opened.close()


@pytest.mark.parametrize("damage", [delete_folder, delete_vectors, empty_database])
def test_what_is_lost_of_views_is_made_again(
    app: App, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    def find() -> list[str]:
        answer = cortex_search(app, "walrus", work=Work())
        return [row["chunk"]["id"] for row in answer["results"]]

    before = find()
    assert before
    (views,) = tmp_path.glob("home/indexes/*/views-*")
    damage(views)
    wait_until(lambda: find() == before)
    assert (views / "index.vectors").is_dir()
