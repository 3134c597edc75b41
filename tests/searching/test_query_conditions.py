"""Conditions in a query, through the verbs and the command line: what they leave, and what they
leave out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sonde.app import App
from sonde.errors import InvalidRequest
from sonde.knowledge.editing import import_knowledge
from sonde.runtime.work import Work
from sonde.tools.code import search_code, search_docs
from sonde.tools.index import create_index
from sonde.tools.pages import hybrid_search
from sonde.tools.research import search

FILES = {
    "src/retry.py": "def retry_call(action):\n    # connection refused\n    return action()\n",
    "src/retry.go": "package retry\n\nfunc RetryCall(action func()) {\n\taction()\n}\n",
    "src/queue.py": "def retry_queue(items):\n    return [retry_call(each) for each in items]\n",
    "tests/test_retry.py": "def test_retry_call():\n    assert retry_call(int) == 0\n",
    "docs/retry.md": "# Retry\n\nHow a call is tried again: retry.\n",
    "retry.toml": "[retry]\ntimes = 3\n",
}


@pytest.fixture
def app(open_app: Callable[..., App], tmp_path: Path) -> App:
    root = tmp_path / "shop"
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    app = open_app(start=root)
    create_index(app, str(root), work=Work())
    return app


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("retry lang:go", {"src/retry.go"}),
        ("retry lang:go lang:toml", {"src/retry.go", "retry.toml"}),
        ("retry -kind:test lang:python", {"src/retry.py", "src/queue.py"}),
        ("retry kind:test", {"tests/test_retry.py"}),
        ("retry kind:config", {"retry.toml"}),
        ("retry kind:docs", {"docs/retry.md"}),
        ("retry file:src/ -file:*.go", {"src/retry.py", "src/queue.py"}),
        ('retry "connection refused"', {"src/retry.py"}),
        ("retry -action", {"src/queue.py", "tests/test_retry.py", "retry.toml"}),
        (r"retry /return \w+\(\)/", {"src/retry.py"}),
        (r"lang:python /def retry_\w+/", {"src/retry.py", "src/queue.py"}),
        ("sym:queue", {"src/queue.py"}),
        ("lang:go", {"src/retry.go"}),
        ("retry repo:shop lang:go", {"src/retry.go"}),
        ("retry lang:haskell", set()),
    ],
)
def test_only_what_fits_is_found(app, query, expected):
    answer = search_code(app, query, work=Work())
    assert {row["path"] for row in answer["results"]} == expected
    if not expected:
        assert "lang:haskell" in answer["metadata"]["note"]


def test_other_verbs_take_the_same_queries(app):
    work = Work()
    assert search_docs(app, "retry file:docs/", work=work)["totalResults"] == 1
    found = hybrid_search(app, "retry -kind:docs lang:go", work=work)["results"]["matches"]
    assert [each["file"]["path"] for each in found] == ["src/retry.go"]
    first = search_code(app, "retry -lang:go", top_k=3, max_tokens=400, work=work)
    if cursor := first.get("nextCursor"):
        more = search_code(app, cursor=cursor, work=work)["results"]
        assert not {"src/retry.go"} & {row["path"] for row in more}


def test_the_search_of_everything_asks_only_where_conditions_can_hold(app, tmp_path):
    work = Work()
    (tmp_path / "note.md").write_text("# Retry\n\nWe retry every call.\n")
    import_knowledge(app.knowledge, str(tmp_path / "note.md"), work=work)

    def find(query: str) -> set[str]:
        found = search(app, query, dedupe=False, work=work)["results"]
        return {each["source"] for each in found}

    assert find("retry call") >= {"code", "notes"}
    assert find("retry lang:go") == {"code"}
    assert find("retry kind:docs") == {"docs"}
    assert find("retry kind:notes") == {"notes"}


def test_a_project_that_is_not_there_is_named(app):
    with pytest.raises(InvalidRequest, match="repo:attic") as caught:
        search_code(app, "retry repo:attic", work=Work())
    assert "repo:attic" in caught.value.user_message


def test_the_command_line_takes_them(app, tmp_path):
    command = [sys.executable, "-m", "sonde.cli.main", "--json", "search", "lang:go retry"]
    environ = {
        "SONDE_HOME": str(tmp_path / "home"),
        "SONDE_EMBEDDING": "static",
        "HOME": str(tmp_path),
    }
    done = subprocess.run(command, cwd=tmp_path / "shop", env=environ, capture_output=True)
    assert [row["path"] for row in json.loads(done.stdout)["results"]] == ["src/retry.go"]


def test_the_words_of_a_condition_are_no_words_of_the_question(app: App) -> None:
    scores = {
        query: [row["score"] for row in search(app, query, dedupe=False, work=Work())["results"]]
        for query in ("retry lang:go", "retry file:retry.go")
    }
    assert scores["retry lang:go"] == scores["retry file:retry.go"] != []
