"""Before the first index every search answers from the files as they are, and says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from string import ascii_letters
from typing import Any

import pytest
from tests.trees import write_files

from sonde.app import App
from sonde.errors import IndexNotFound
from sonde.runtime.work import Work
from sonde.tools.code import search_by_path, search_code, search_docs
from sonde.tools.index import create_index, get_index_status
from sonde.tools.pages import hybrid_search, lexical_search, regex_search, semantic_search
from sonde.tools.research import fetch, search

KEY = "ghp" + "_" + "".join(Random(7).choices(ascii_letters, k=36))
MODES = (hybrid_search, lexical_search, semantic_search, regex_search)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "pyproject.toml": "[project]\n",
        "src/walrus.py": "import sea\n\n\ndef locate_walrus(sea):\n    return sea.find('walrus')\n",
        "src/other.py": "def count_otters():\n    return 2\n",
        "guide.md": "# Walrus guide\n\nWhere a walrus is found.\n",
        "leak.yml": f"walrus: 1\n{KEY}\n",
    }
    return write_files(tmp_path / "project", files)


@pytest.fixture
def app(open_app: Callable[..., App], root: Path) -> App:
    return open_app(start=root, stays=True)


def is_untouched(app: App) -> bool:
    return not list((app.workspace.home / "indexes").glob("*/*.db"))


@pytest.mark.row("001-171", "000-P66")
@pytest.mark.parametrize("find", MODES)
def test_every_mode_answers(app: App, root: Path, find: Callable[..., Any]) -> None:
    query = {"pattern": "locate_walrus"} if find is regex_search else {"query": "locate_walrus"}
    answer = find(app, **query, work=Work())
    rows = answer["results"]["matches"]
    assert rows[0]["file"]["path"] == "src/walrus.py"
    assert "leak.yml" not in [row["file"]["path"] for row in rows]
    if find is not regex_search:
        assert answer["metadata"]["freshness"].startswith("no index; ")
        assert "create_index" in answer["metadata"]["note"]
    assert is_untouched(app)


@pytest.mark.row("001-171", "000-P66")
def test_the_files_are_those_of_this_moment_and_filters_hold(app: App, root: Path) -> None:
    assert search_code(app, "locate_walrus", work=Work())["results"][0]["path"] == "src/walrus.py"
    (root / "src/walrus.py").write_text("def renamed_seal(): pass\n")
    (root / "src/new.py").write_text("def locate_walrus(): pass\n")
    rows = search_code(app, "locate_walrus", mode="lexical", work=Work())["results"]
    assert rows[0]["path"] == "src/new.py"
    assert "src/walrus.py" not in [row["path"] for row in rows if "locate" in row["text"]]
    (row,) = search_docs(app, "walrus", work=Work())["results"]
    assert row["path"] == "guide.md"
    assert not search_code(app, "walrus", path="nowhere", work=Work())["results"]
    assert search_by_path(app, "src/*.py", work=Work())["matches"] == [
        "src/new.py", "src/other.py", "src/walrus.py",
    ]  # fmt: skip
    assert is_untouched(app)


@pytest.mark.row("001-177")
def test_search_finds_files_and_says_what_it_is(app: App) -> None:
    answer = search(app, "locate_walrus", work=Work())
    assert "create_index" in answer["note"]
    pointers = [row.get("uri") or row["id"] for row in answer["results"]]
    texts = [fetch(app, pointer, work=Work())["content"] for pointer in pointers]
    assert any("def locate_walrus" in text for text in texts)


@pytest.mark.row("001-177")
def test_search_outside_of_any_project_is_not_silent(
    open_app: Callable[..., App], tmp_path: Path
) -> None:
    (tmp_path / "plain").mkdir()
    answer = search(open_app(start=tmp_path / "plain"), "walrus", work=Work())
    assert not answer["results"]
    assert answer["note"].startswith("No files were searched: ")


def test_another_folder_is_not_opened_by_naming_it(app: App, tmp_path: Path) -> None:
    other = write_files(tmp_path / "other", {"a.py": "def locate_walrus(): pass\n"})
    for find in (search_code, search_by_path):
        with pytest.raises(IndexNotFound):
            find(app, "*", project=str(other), work=Work())


def test_a_folder_that_moved_keeps_its_index(
    open_app: Callable[..., App], root: Path, tmp_path: Path
) -> None:
    first = open_app(start=root)
    create_index(first, work=Work())
    made = get_index_status(first, work=Work())
    first.close()
    root.rename(tmp_path / "elsewhere")
    moved = open_app(start=tmp_path / "elsewhere")
    status = get_index_status(moved, work=Work())
    assert status["projectPath"] == str(tmp_path / "elsewhere")
    assert (status["totalFiles"], status["lastUpdated"]) == (
        made["totalFiles"],
        made["lastUpdated"],
    )
    # files as young as these are read once more by the first search
    assert search_code(moved, "locate_walrus", work=Work())["results"][0]["path"] == "src/walrus.py"
    assert get_index_status(moved, work=Work())["details"]["freshness"] == "complete"
    assert len(list((moved.workspace.home / "indexes").iterdir())) == 1


def test_a_copy_leaves_the_index_where_it_is(
    open_app: Callable[..., App], root: Path, tmp_path: Path
) -> None:
    create_index(open_app(start=root), work=Work())
    copy = write_files(
        tmp_path / "copy",
        {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*") if p.is_file()},
    )
    with pytest.raises(IndexNotFound):
        get_index_status(open_app(start=copy), work=Work())
