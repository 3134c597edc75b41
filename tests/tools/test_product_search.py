"""Answers show the files as they are when they are asked, and no more than was asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.trees import write_files

from sonde.app import App
from sonde.errors import BadCursor, OutsideRoots
from sonde.runtime.work import Work
from sonde.tools.code import grep, search_by_path, search_code, search_docs
from sonde.tools.index import create_index, delete_index, reindex_project

PIECE = "def locate_walrus(sea):\n    return sea.find('walrus')\n"


def keep_fresh(app: App, seconds: float) -> App:
    """The same app, whose index counts as fresh for this long after a comparison."""
    workspace = replace(app.workspace, fresh_s=(seconds, seconds))
    return App(workspace, app.disk, app.knowledge, app.grounds)


@pytest.fixture
def app(open_app: Callable[..., App]) -> App:
    """An app that compares the files at each search, as they follow each other fast here."""
    made = keep_fresh(open_app(), 0.0)
    create_index(made, work=Work())
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "pyproject.toml": "[project]\n",
        "src/walrus.py": "import sea\n\n\n" + PIECE,
        "src/other.py": "def count_otters():\n    return 2\n",
        "guide.md": "# Walrus guide\n\nWhere a walrus is found.\n",
    }
    return write_files(tmp_path / "project", files)


def search(app: App, query: str = "locate_walrus", **options: Any) -> Any:
    return search_code(app, query, work=Work(), **options)


def lines_of(path: Path, row: dict[str, Any]) -> str:
    return "\n".join(path.read_text().split("\n")[row["startLine"] - 1 : row["endLine"]])


def assert_true_to_files(root: Path, rows: list[dict[str, Any]]) -> None:
    """Every row that is not marked stale shows exactly the lines it names."""
    for row in rows:
        if not row.get("stale"):
            assert lines_of(root / row["path"], row) == row["text"], row


@pytest.mark.parametrize("fresh_for", [0.0, 3600.0], ids=["refreshed", "mended"])
def test_text_that_moved_down_is_shown_where_it_is_now(
    app: App, root: Path, fresh_for: float
) -> None:
    app = keep_fresh(app, fresh_for)
    path = root / "src" / "walrus.py"
    path.write_text("# one more line\n" * 10 + path.read_text())
    (row, *_) = search(app)["results"]
    assert "def locate_walrus" in row["text"]
    assert lines_of(path, row) == row["text"]
    assert row["endLine"] == 15


@pytest.mark.parametrize("fresh_for", [0.0, 3600.0], ids=["refreshed", "mended"])
@pytest.mark.parametrize("gone", ["text", "file", "link"])
def test_what_is_gone_is_not_found(
    app: App, root: Path, tmp_path: Path, fresh_for: float, gone: str
) -> None:
    app = keep_fresh(app, fresh_for)
    path = root / "src" / "walrus.py"
    if gone == "text":
        path.write_text("import sea\n")
    else:
        path.unlink()
    if gone == "link":
        secret = tmp_path / "secret.txt"
        secret.write_text("def locate_walrus(): 'top secret'\n")
        path.symlink_to(secret)
    answer = search(app)
    assert "locate_walrus" not in json.dumps(answer["results"])
    assert "top secret" not in json.dumps(grep(app, "secret", work=Work()))


def test_the_second_page_shows_files_as_they_are_when_it_is_asked_for(
    app: App, root: Path, tmp_path: Path
) -> None:
    for number in range(12):
        text = f"def walrus_{number}():\n    return '{'walrus ' * 60}'\n"
        (root / f"w{number:02}.py").write_text(text)
    first = search(app, "walrus", top_k=12, max_tokens=300)
    seen = [row["path"] for row in first["results"]]
    rest = sorted({f"w{number:02}.py" for number in range(12)} - set(seen))
    moved, deleted, changed, linked = (root / name for name in rest[:4])
    moved.write_text("# line\n" * 5 + moved.read_text())
    deleted.unlink()
    changed.write_text("nothing = 1\n")
    linked.unlink()
    (tmp_path / "secret.txt").write_text("def walrus(): 'top secret'\n")
    linked.symlink_to(tmp_path / "secret.txt")
    # another search brings the index in step with the files; the pages must not be fooled
    search(app, "otters")
    rows: list[dict[str, Any]] = []
    page = first
    while cursor := page.get("nextCursor"):
        page = search(app, "", cursor=cursor, max_tokens=300)
        rows += page["results"]
    assert len(seen) + len(rows) == first["totalResults"] == 12
    stale = {row["path"] for row in rows if row.get("stale")}
    assert stale == {deleted.name, changed.name, linked.name}
    (shifted,) = (row for row in rows if row["path"] == moved.name)
    assert shifted["startLine"] > 5
    assert "top secret" not in json.dumps(rows)
    assert_true_to_files(root, rows)


def test_pages_outlive_the_index_and_the_project(app: App, root: Path) -> None:
    for number in range(6):
        (root / f"w{number}.py").write_text(f"walrus = '{'walrus ' * 90}{number}'\n")
    page = search(app, "walrus", max_tokens=300)
    folder = app.workspace.projects.get(root).folder
    delete_index(app, work=Work())
    assert_true_to_files(root, search(app, "", cursor=page["nextCursor"])["results"])
    assert not folder.exists()
    root.rename(root.with_name("elsewhere"))
    later = search(app, "", cursor=page["nextCursor"], max_tokens=300)
    assert all(row["stale"] for row in later["results"])


def test_a_cursor_with_another_query_is_refused(app: App, root: Path) -> None:
    for number in range(6):
        (root / f"w{number}.py").write_text(f"walrus = '{'walrus ' * 90}{number}'\n")
    page = search(app, "walrus", max_tokens=300)
    with pytest.raises(BadCursor):
        search(app, "otters", cursor=page["nextCursor"])
    assert search(app, "walrus", cursor=page["nextCursor"])["results"]


def test_a_folder_with_one_file_in_a_thousand_is_searched_as_if_alone(
    open_app: Callable[..., App], root: Path
) -> None:
    many = root / "many"
    many.mkdir()
    for number in range(1000):
        (many / f"f{number}.py").write_text(f"def walrus_{number}():\n    return 'walrus'\n")
    (root / "rare").mkdir()
    (root / "rare" / "one.py").write_text("# mentions a walrus once\n")
    app = open_app()
    create_index(app, work=Work())
    for mode in ("auto", "lexical", "semantic"):
        for path in ("rare", "./rare/", "rare/one.py"):
            rows = search(app, "walrus", path=path, mode=mode, top_k=1)["results"]
            assert [row["path"] for row in rows] == ["rare/one.py"], (mode, path)
    assert search(app, "walrus", path="rar")["results"] == []
    assert len(search(app, "walrus", path=".", top_k=50)["results"]) > 1
    with pytest.raises(OutsideRoots):
        search(app, "walrus", path="../project")


NASTY = {
    "quotes": '"\\"' * 400,
    "control": "\x01\x02\x7f" * 400,
    "emoji": "🦭👩‍👩‍👧" * 300,
    "cjk": "海象在哪里" * 300,
    "one long line": "walrus" * 20_000,
    "many lines": "walrus \\ \" '\n" * 3000,
    "tabs": "\t\t\twalrus\n" * 500,
}


@pytest.mark.parametrize("content", NASTY.values(), ids=NASTY.keys())
@pytest.mark.parametrize("max_tokens", [200, 500, 2000])
def test_no_answer_is_larger_than_its_budget(
    open_app: Callable[..., App], root: Path, content: str, max_tokens: int
) -> None:
    for number in range(8):
        (root / f"nasty{number}.py").write_text(f"walrus = {number}\n{content}\n", "utf-8")
    app = open_app()
    create_index(app, work=Work())
    page = search(app, "walrus", top_k=20, max_tokens=max_tokens, explain=True)
    shown = 0
    for _ in range(40):
        text = json.dumps(page, ensure_ascii=False, separators=(",", ":"))
        assert math.ceil(len(text) / 4) <= max_tokens
        text.encode()
        shown += len(page["results"])
        if "nextCursor" not in page:
            break
        assert page["truncated"] is True
        page = search(app, "", cursor=page["nextCursor"], max_tokens=max_tokens, explain=True)
    assert shown == page["totalResults"] >= 8


def test_two_apps_on_one_index_see_what_the_other_did(
    app: App, open_app: Callable[..., App], root: Path
) -> None:
    other = open_app(stays=True)
    assert search(other)["results"]
    delete_index(app, work=Work())
    (root / "src" / "walrus.py").write_text("def locate_walrus():\n    return 'moved'\n")
    create_index(app, work=Work())
    assert "moved" in search(other)["results"][0]["text"]


def test_all_projects_are_searched_together_and_a_broken_one_is_named(
    app: App, open_app: Callable[..., App], tmp_path: Path, root: Path
) -> None:
    second = tmp_path / "second"
    second.mkdir()
    (second / "walrus2.py").write_text("def locate_walrus_too():\n    pass\n")
    create_index(app, project=str(second), work=Work())
    rows = search(app, "locate_walrus", project="all")["results"]
    assert {row["project"] for row in rows} == {str(root), str(second)}
    docs = search_docs(app, "walrus", project="all", work=Work())["results"]
    assert [row["path"] for row in docs] == ["guide.md"]
    broken = app.workspace.projects.get(second).folder / "index.db"
    app.workspace.projects.forget(second)
    broken.write_bytes(b"garbage" * 1000)
    answer = search(app, "locate_walrus", project="all")
    assert {row["path"] for row in answer["results"]} >= {"src/walrus.py"}
    assert str(second) in answer["metadata"]["note"]


def test_a_rebuild_while_the_index_is_refreshed_is_a_rebuild(
    open_app: Callable[..., App], root: Path
) -> None:
    app = open_app(stays=True)
    create_index(app, work=Work())
    before = app.workspace.projects.get(root).stores()["code"].generation()
    search(app)  # begins a refresh in the background
    assert reindex_project(app, work=Work())["filesIndexed"] == 4
    assert app.workspace.projects.get(root).stores()["code"].generation() > before


@pytest.mark.row("001-36")
def test_paths_are_found_by_glob(app: App) -> None:
    answer = search_by_path(app, "src/**/*.py", limit=1, work=Work())
    assert answer == {"matches": ["src/other.py"], "totalMatches": 2}


def test_a_result_is_named_after_the_lines_shown_of_it(app: App, root: Path) -> None:
    head = "# where a walrus is found\n" + "run('of one kind or another')\n" * 60
    (root / "src" / "both.py").write_text(head + PIECE)
    reindex_project(app, work=Work())
    query, below = "one kind or another", head.count("\n")
    for mode in ("hybrid", "lexical", "semantic"):
        part = search(app, query, path="src/both.py", mode=mode, max_tokens=200)["results"][0]
        assert part["endLine"] <= below, mode
        assert "symbol" not in part, mode


def test_a_file_named_with_ideographs_is_found_by_its_name(
    open_app: Callable[..., App], tmp_path: Path
) -> None:
    # the crowd fills what retrieval by words returns, so that only the name can find the file
    crowd = {
        f"notes/n{at}.py": f"# load 数据库 数据 据库 load 数据库\ncount = {at}\n"
        for at in range(250)
    }
    files = {
        "pyproject.toml": "[project]\n",
        "store/load_数据库.py": "\n".join(f"step_{at} = {at}" for at in range(60)),
        "store/user.py": "import load_数据库\n\n\ndef use():\n    return load_数据库\n",
    }
    app = open_app(start=write_files(tmp_path / "ideographs", files | crowd))
    create_index(app, work=Work())
    best = search(app, "load_数据库", mode="hybrid", explain=True)["results"][0]
    assert best["path"] == "store/load_数据库.py"
    assert best["why"]["importers"] > 0
    found = search(app, "steps of load_数据库.py", mode="hybrid")["results"]
    assert "store/load_数据库.py" in {row["path"] for row in found}
