"""A server of a shared index: it answers for every repository and branch without a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.shared.conftest import Clone, run_git
from tests.trees import write_files
from tests.waiting import wait_until

from sonde.app import App
from sonde.projects.find import find_project
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.shared.mirrors import IN_USE_S
from sonde.tools import TOOLS
from sonde.tools.tool import find_tool
from sonde.types import Caller
from sonde.wiring import build_app

SONDE = (sys.executable, "-m", "sonde.cli.main")
PATTERNS = (r"def \w+", "order", "import", r"^#", "é", r"\bNo\w*thing\b", r"$^", "return$")


@pytest.fixture
def index(ci: Clone, tmp_path: Path) -> Path:
    """A shared index with two repositories; one of them has two branches."""
    place = tmp_path / "index"
    run_git(ci.root, "remote", "add", "origin", "https://git.example/acme/shop.git")
    ci.commit({".gitignore": "made/\n", "latin.py": "word = 'café'\n".encode("latin-1"),
               "mark.py": b"\xef\xbb\xbforder = 1\n"})  # fmt: skip
    write_files(ci.root, {"made/kept.py": "def kept():\n    return 'order'\n"})
    run_git(ci.root, "add", "-f", "made/kept.py")
    ci.commit()
    ci.push(place)
    run_git(ci.root, "checkout", "-qb", "feature/refunds")
    ci.commit({"src/refunds.py": "def refund(order):\n    return -order.total()\n"})
    ci.push(place)
    run_git(ci.root, "checkout", "-q", "main")
    ci.push(place)
    other = Clone(tmp_path / "ci" / "ledger", ci._open_app, "ci-home")
    write_files(other.root, {"books.py": "def balance():\n    return 'sealed ledger'\n"})
    run_git(other.root, "init", "-q", "-b", "main")
    other.commit()
    other.push(place)
    return place


@pytest.fixture
def open_team(index: Path, tmp_path: Path) -> Iterator[Callable[..., App]]:
    opened: list[App] = []

    def open_one(name: str = "one", **explicit: Any) -> App:
        home = tmp_path / name / "home"
        given = {"embedding": "static", "serve_from": str(index),
                 "cache_folder": str(tmp_path / name / "cache"), **explicit}  # fmt: skip
        clock = given.pop("clock", time.monotonic)
        settings = load_settings({}, home=home, **given)
        app = build_app(settings, start=tmp_path, stays=True, clock=clock)
        opened.append(app)
        return app

    yield open_one
    for app in opened:
        app.close()


def use(app: App, tool: str, caller: Caller | None = None, **given: Any) -> Any:
    who = caller or Caller()
    return find_tool(TOOLS, tool).call(app.seen_by(who), **given, work=Work(caller=who))


def list_lines(answer: Any) -> list[tuple[str, int]]:
    rows = answer["results"]["matches"]
    return [(row["file"]["path"], row["match"]["line_number"]) for row in rows]


def test_lines_are_those_of_git_grep_of_that_commit(open_team: Any, ci: Clone) -> None:
    app = open_team()
    for branch, name in (("main", "shop"), ("feature/refunds", "acme/shop@feature/refunds")):
        for pattern in PATTERNS:
            command = ["git", "-C", str(ci.root), "grep", "-nIP", pattern, branch]
            environ = {**os.environ, "LC_ALL": "C.UTF-8"}
            done = subprocess.run(command, capture_output=True, env=environ)
            expected = []
            for line in done.stdout.decode("utf-8", "replace").splitlines():
                path, number, _ = line.removeprefix(f"{branch}:").split(":", 2)
                if path != "latin.py":  # git reads its bytes, sonde its text
                    expected.append((path, int(number)))
            answer = use(app, "regex_search", pattern=pattern, project=name, page_size=100)
            found = [each for each in list_lines(answer) if each[0] != "latin.py"]
            assert found == sorted(expected), (branch, pattern)


def test_a_call_without_a_project_is_about_all_default_branches(open_team: Any) -> None:
    app = open_team()
    found = use(app, "search_code", query="sealed ledger or order total", max_tokens=9_000)
    assert {row["path"] for row in found["results"]} >= {"books.py", "src/orders.py"}
    assert "src/refunds.py" not in {row["path"] for row in found["results"]}
    assert found["metadata"]["freshness"] == "complete"
    assert ("books.py", 1) in list_lines(use(app, "regex_search", pattern="def"))
    named = use(app, "search_code", query="refund branch:feature/refunds")
    assert named["results"][0]["path"] == "src/refunds.py"
    only = use(app, "search_code", query="order repo:ledger")
    assert {row["path"] for row in only["results"]} <= {"books.py"}
    listed = use(app, "list_projects")["projects"]
    names = sorted(row["projectPath"] for row in listed)
    assert names == ["acme/shop@main", "ledger@main"]


def test_the_ranking_is_that_of_a_checkout(open_team: Any, ci: Clone) -> None:
    app = open_team()
    own, project = ci.open(embedding="static")
    use(own, "create_index", Caller(is_person=True), project=str(ci.root), confirm=None)
    where = ((app, "shop"), (own, str(project.root)))
    for query in ("order total", "find the user", "how to get refunds", "café"):
        mine, theirs = (
            use(each, "search_code", query=query, project=name)["results"] for each, name in where
        )
        keys = ("path", "startLine", "endLine", "text")
        for one, other in zip(mine, theirs, strict=True):
            assert [one[key] for key in keys] == [other[key] for key in keys], query
            assert one["score"] == pytest.approx(other["score"], abs=0.005)


def test_a_push_is_seen_and_open_pages_go_on(open_team: Any, ci: Clone, index: Path) -> None:
    files = {f"many/m{number:02}.py": f"def many_{number}():\n    pass\n" for number in range(30)}
    ci.commit(dict(files))
    ci.push(index)
    app = open_team(refs_interval=1)
    first = use(app, "regex_search", pattern="def many", project="shop", page_size=10)
    old = find_project(app.workspace, "shop").root
    app.workspace.mirrors.start()
    kept = {"many/m15.py": "import os\n\n" + files["many/m15.py"]}
    gone = files.keys() - kept.keys()
    ci.commit({"src/late.py": "def latecomer():\n    return 1\n", **kept}, *gone)
    ci.push(index)
    wait_until(
        lambda: list_lines(use(app, "regex_search", pattern="latecomer", project="shop")), "push"
    )
    assert len(list_lines(use(app, "regex_search", pattern="def many", project="shop"))) == 1
    second = use(app, "regex_search", cursor=first["pagination"]["next_cursor"])
    stale = {
        row["file"]["path"] for row in second["results"]["matches"] if row["match"].get("stale")
    }
    assert stale == {f"many/m{number}.py" for number in range(10, 20)} - kept.keys()
    assert ("many/m15.py", 3) in list_lines(second), "a line that has moved is shown where it is"
    assert find_project(app.workspace, "shop").root != old
    assert old.is_dir(), "it was used just now"


@pytest.mark.parametrize("tool", ["create_index", "reindex_project", "delete_index"])
def test_nothing_is_changed_here(open_team: Any, tool: str) -> None:
    from sonde.errors import ReadOnlyProject

    app = open_team()
    before = use(app, "get_index_status", project="ledger")
    with pytest.raises(ReadOnlyProject) as refusal:
        use(app, tool, Caller(is_person=True), project="ledger")
    assert "push" in refusal.value.next_action
    with pytest.raises(ReadOnlyProject):
        use(app, "reindex_file", Caller(is_person=True), project="ledger", path="books.py")
    assert use(app, "get_index_status", project="ledger")["totalFiles"] == before["totalFiles"]


def test_the_cache_is_bounded_and_what_is_in_use_stays(open_team: Any) -> None:
    now = [1_000.0]
    app = open_team(cache_size=0, clock=lambda: now[0])
    names = ("shop", "ledger", "shop@feature/refunds")
    roots = [find_project(app.workspace, name).root for name in names]
    assert all(root.is_dir() for root in roots), "each was used just now"
    now[0] += IN_USE_S / 2
    use(app, "regex_search", pattern="def", project="ledger")
    now[0] += IN_USE_S / 2 + 1
    use(app, "regex_search", pattern="def", project="shop@feature/refunds")
    now[0] += 1
    app.workspace.mirrors.evict()
    assert [root.is_dir() for root in roots] == [False, True, True]
    state = app.workspace.mirrors.describe()
    assert state.evictions == 1
    assert state.cache_bytes == sum(one.bytes for one, ready in state.mirrors if ready)
    found = use(app, "regex_search", pattern="class", project="shop")
    assert list_lines(found) == [("src/orders.py", 1)], "it is written again when it is asked for"


def test_a_cache_outlives_its_server_and_what_was_half_written_goes(
    open_team: Any, tmp_path: Path
) -> None:
    from sonde.errors import InvalidRequest

    app = open_team()
    root = find_project(app.workspace, "ledger").root
    other = find_project(app.workspace, "shop").root
    with pytest.raises(InvalidRequest, match="in use"):
        open_team()
    home = app.workspace.home
    app.close()
    for folder in (home / "indexes").iterdir():
        if (folder / "mirror.json").exists() and str(other) in (folder / "mirror.json").read_text():
            (folder / "mirror.json").unlink()
    again = open_team()
    assert root.is_dir()
    assert not other.exists()
    assert list_lines(use(again, "regex_search", pattern="balance", project="ledger"))
    assert list_lines(use(again, "regex_search", pattern="class", project="shop"))


def test_a_damaged_index_is_written_again(open_team: Any) -> None:
    from sonde.errors import IndexCorrupt
    from sonde.stores.records import project_folder

    app = open_team()
    root = find_project(app.workspace, "ledger").root
    folder = project_folder(app.workspace.home, root)
    app.workspace.projects.forget(root)
    (folder / "index.db").write_bytes(b"\0" * 8192)
    with pytest.raises(IndexCorrupt):
        use(app, "search_code", query="balance", project="ledger")
    assert use(app, "search_code", query="balance", project="ledger")["results"]
