"""What is related to a place or a passage, and what commits did: by every surface."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.conftest import RawClient
from tests.policy.test_commits import commit, run_git
from tests.web.conftest import Server

import sonde
from sonde.app import App
from sonde.errors import InvalidRequest, NoHistory
from sonde.runtime.work import Work
from sonde.tools.code import find_related, search_code, search_docs, search_history
from sonde.tools.index import create_index

SHOP = Path(__file__).parents[1] / "quality" / "shop"
PASSWORDS = "server/auth/passwords.py"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    shutil.copytree(SHOP, root)
    commit(root, "Serve the shop: orders, sessions, passwords")
    commit(
        root, "Give up after three attempts\n\nThe bank refused us in March.", note__md="# Bank\n"
    )
    return root


@pytest.fixture
def ask(shop: Path, open_app: Callable[..., App]) -> Callable[..., Any]:
    app = open_app(start=shop)
    create_index(app, work=Work())
    return lambda verb, query="", **given: verb(app, query, work=Work(), **given)


def places(answer: Any) -> list[str]:
    return [row["path"] for row in answer["results"]]


def test_a_place_finds_what_is_near_it_and_not_itself(ask: Callable[..., Any]) -> None:
    found = ask(find_related, f"{PASSWORDS}:8", top_k=4)
    assert "tests/test_passwords.py" in places(found)
    assert all(
        row["endLine"] < 7 or row["startLine"] > 10
        for row in found["results"]
        if row["path"] == PASSWORDS
    )
    assert found["metadata"]["scoreType"] == "fused"


def test_a_passage_finds_code_and_docs(ask: Callable[..., Any]) -> None:
    code = "def check_password(text, stored):\n    return compare(hash(text), stored)\n"
    assert places(ask(find_related, code, top_k=2))[0] in (PASSWORDS, "tests/test_passwords.py")
    prose = "Point the link to the release before, if the new one fails."
    assert places(ask(find_related, prose, top_k=3))[0] == "docs/deploy.md"
    assert places(ask(search_docs, prose, mode="related", top_k=1)) == ["docs/deploy.md"]
    assert places(ask(search_code, code, mode="related", top_k=1))[0].endswith(".py")


def test_a_passage_of_the_project_does_not_find_itself(ask: Callable[..., Any]) -> None:
    passage = (SHOP / "docs" / "deploy.md").read_text().split("\n\n")[1]
    assert "docs/deploy.md" not in places(ask(find_related, passage))


def test_a_place_that_is_nowhere_is_an_error(ask: Callable[..., Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"nowhere\.py"):
        ask(find_related, "server/nowhere.py:3")


def test_pages_of_related_hits_do_not_overlap(ask: Callable[..., Any]) -> None:
    first = ask(find_related, f"{PASSWORDS}:8", top_k=20, max_tokens=400)
    second = ask(find_related, cursor=first["nextCursor"], max_tokens=400)
    assert second["results"]
    seen = [(row["path"], row["startLine"]) for row in first["results"]]
    assert not set(seen) & {(row["path"], row["startLine"]) for row in second["results"]}
    assert not any(row.get("stale") for row in first["results"] + second["results"])


def test_commits_are_found_by_words_by_meaning_and_by_what_they_touch(
    ask: Callable[..., Any], shop: Path
) -> None:
    (bank,) = ask(search_history, "refused in March", top_k=1)["results"]
    assert bank["text"].splitlines()[1] == "Give up after three attempts"
    assert "note.md" in bank["text"]
    stopped = ask(search_history, "stop trying again and again", top_k=1)
    assert places(stopped) == [bank["path"]]
    only = ask(search_history, "three attempts", path="server")
    assert [row["text"].splitlines()[1] for row in only["results"]] == [
        "Serve the shop: orders, sessions, passwords"
    ]
    assert not any(row.get("stale") for row in only["results"])


def test_new_commits_are_read_and_rewritten_ones_forgotten(
    ask: Callable[..., Any], shop: Path
) -> None:
    assert len(ask(search_history, "shop sessions bank")["results"]) == 2
    commit(shop, "Measure the walrus", walrus__py="1\n")
    (found,) = ask(search_history, "walrus", top_k=1)["results"]
    run_git(shop, "commit", "-q", "--amend", "--no-gpg-sign", "-m", "Measure the seal")
    again = ask(search_history, "walrus")["results"]
    assert found["path"] not in [row["path"] for row in again]
    assert any("seal" in row["text"] for row in again)


def test_a_commit_of_denied_files_is_not_found(ask: Callable[..., Any], shop: Path) -> None:
    commit(shop, "Rotate the zebra credentials", __env="KEY=zebra\n")
    assert all("zebra" not in row["text"] for row in ask(search_history, "zebra")["results"])


def test_a_shallow_clone_does_not_call_its_history_complete(
    shop: Path, tmp_path: Path, open_app: Callable[..., App]
) -> None:
    for name, depth in (("shallow", ["--depth=1"]), ("whole", [])):
        command = ["git", "clone", "-q", *depth, shop.as_uri(), str(tmp_path / name)]
        subprocess.run(command, check=True)
        app = open_app(f"home-{name}", start=tmp_path / name)
        create_index(app, work=Work())
        said = search_history(app, "bank", work=Work())["metadata"]["freshness"]
        assert said.startswith("incomplete; the clone is shallow" if depth else "complete"), said


def test_history_without_a_repository_says_so(tmp_path: Path, open_app: Callable[..., App]) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "go.mod").write_text("module x\n")
    app = open_app(start=tmp_path / "plain")
    create_index(app, work=Work())
    with pytest.raises(NoHistory):
        search_history(app, "anything", work=Work())


@pytest.mark.slow
def test_every_surface_answers_alike(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {
        "PATH": os.environ["PATH"], "HOME": str(tmp_path), "SONDE_EMBEDDING": "static",
        "SONDE_HOME": str(tmp_path / "home"),
    }  # fmt: skip
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-m", "sonde.cli.main"]

    def type_in(*words: str) -> str:
        return subprocess.run(
            [*command, *words], cwd=shop, env=environ, capture_output=True, text=True, check=True
        ).stdout

    type_in("index")
    place = f"{PASSWORDS}:8"
    wanted = places(json.loads(type_in("related", place, "--json")))
    commits = places(json.loads(type_in("history", "refused in March", "--json")))
    assert wanted
    assert len(commits) == 2
    assert type_in("related", place).startswith(f"{wanted[0]}:")
    assert type_in("history", "refused in March").startswith(commits[0][:10])

    assert [hit.path for hit in sonde.related(place, shop)][:3] == places(
        json.loads(type_in("search", "--mode", "related", place, "--json"))
    )[:3]
    assert [hit.path for hit in sonde.history("refused in March", shop)] == commits

    client = RawClient("-m", "sonde.cli.main", "mcp", cwd=shop, env=environ)
    client.greet()
    for tool, query, paths in (
        ("find_related", place, wanted), ("search_history", "refused in March", commits),
    ):  # fmt: skip
        answer = client.call(tool, query=query)["result"]
        assert places(json.loads(answer["content"][0]["text"])) == paths
    client.finish()

    server = Server([*command, "--json", "serve", "--port", "0"], cwd=shop, env=environ)
    try:
        status, answer = server.read(f"/api/search/related?query={place}")
        assert (status, places(answer)) == (200, wanted)
        status, answer = server.read("/api/search/history?query=refused+in+March")
        assert (status, places(answer)) == (200, commits)
        page = server.ask(f"/?q={place}&tab=related&project={shop}")[2].decode()
        assert f"path={wanted[0].replace('/', '%2F')}" in page
        page = server.ask(f"/?q=refused+in+March&tab=history&project={shop}")[2].decode()
        assert commits[0][:10] in page
        outline = server.ask(f"/view?path={PASSWORDS}&project={shop}")[2].decode()
        assert "tab=related" in outline
    finally:
        server.process.terminate()
        server.process.communicate()
