"""The RFC's answers, field by field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.trees import write_files

from sonde.app import App
from sonde.runtime.work import Work
from sonde.tools.code import search_by_path, search_code, search_docs
from sonde.tools.index import (
    create_index,
    delete_index,
    get_index_status,
    list_projects,
    reindex_file,
    reindex_project,
)
from sonde.tools.tool import read_answer

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
ANY = object()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {
        "pyproject.toml": "",
        "src/auth/login.py": "def log_in(email, password):\n    return check(email, password)\n",
        "docs/authentication.md": "## Authentication\n\nTokens are used.\n",
    }
    return write_files(tmp_path / "project", files)


@pytest.fixture
def app(open_app: Callable[..., App]) -> App:
    return open_app()


def call(app: App, verb: Any, *args: Any) -> dict[str, Any]:
    """The answer, checked against the declared output schema."""
    answer = verb(app, *args, work=Work())
    schema = read_answer(verb)
    kinds = {"string": str, "integer": int, "array": list, "object": dict, "boolean": bool}
    for key in schema["required"]:
        assert key in answer
    for key, value in answer.items():
        allowed = schema["properties"][key].get("type")
        names = allowed if isinstance(allowed, list) else [allowed]
        assert any(name == "null" or isinstance(value, kinds[name]) for name in names), key
    return json.loads(json.dumps(answer))


def assert_shape(answer: dict[str, Any], golden: dict[str, Any]) -> None:
    assert list(answer) == list(golden)
    for key, wanted in golden.items():
        if isinstance(wanted, re.Pattern):
            assert wanted.fullmatch(answer[key]), key
        elif isinstance(wanted, type):
            assert isinstance(answer[key], wanted), key
        elif wanted is not ANY:
            assert answer[key] == wanted, key


@pytest.mark.row("001-31", "001-39", "001-41")
def test_indexing_answers_as_documented(app: App, root: Path) -> None:
    golden = {
        "status": "success",
        "projectPath": str(root),
        "filesIndexed": 3,
        "chunksCreated": 2,
        "duration": re.compile(r"\d+(\.\d)?s"),
    }
    assert_shape(call(app, create_index), golden)
    rebuilt = call(app, reindex_project)
    assert_shape(rebuilt, golden | {"message": "Index rebuilt successfully"})
    assert_shape(
        call(app, reindex_file, "src/auth/login.py"),
        {
            "status": "success",
            "path": "src/auth/login.py",
            "chunksCreated": 1,
            "message": "File re-indexed successfully",
        },
    )
    assert_shape(
        call(app, delete_index),
        {"status": "success", "projectPath": str(root), "message": "Index deleted successfully"},
    )


@pytest.mark.row("001-34", "001-37", "001-44")
def test_searching_answers_as_documented(app: App) -> None:
    call(app, create_index)
    answer = call(app, search_code, "log_in")
    assert list(answer) == ["results", "totalResults", "searchTimeMs", "metadata"]
    assert_shape(
        answer["results"][0],
        {
            "path": "src/auth/login.py",
            "text": "def log_in(email, password):\n    return check(email, password)",
            "score": float,
            "startLine": 1,
            "endLine": 2,
            "symbol": "log_in",
        },
    )
    assert 0 <= answer["results"][0]["score"] <= 1
    docs = call(app, search_docs, "authentication")
    assert docs["totalResults"] == 1
    assert docs["results"][0]["path"] == "docs/authentication.md"
    assert docs["results"][0]["text"] == "## Authentication\n\nTokens are used."
    assert (docs["results"][0]["startLine"], docs["results"][0]["endLine"]) == (1, 3)
    assert call(app, search_by_path, "src/**/*.py") == {
        "matches": ["src/auth/login.py"],
        "totalMatches": 1,
    }


@pytest.mark.row("001-38", "001-166")
def test_status_and_list_answer_as_documented(app: App, root: Path) -> None:
    call(app, create_index)
    size = re.compile(r"\d+(\.\d)?(B|KB|MB|GB)")
    golden = {
        "status": "ready",
        "projectPath": str(root),
        "totalFiles": 3,
        "totalChunks": 2,
        "lastUpdated": STAMP,
        "storageSize": size,
    }
    status = call(app, get_index_status)
    assert_shape(status, golden | {"watcherActive": bool, "details": dict})
    assert status["details"]["store"] == "sqlite"
    listed = call(app, list_projects)
    assert listed["totalProjects"] == 1
    (row,) = listed["projects"]
    assert row["storageSize"] == status["storageSize"]
    assert {key: row[key] for key in sorted(row)} | {"storageSize": ANY} == {
        "lastUpdated": status["lastUpdated"],
        "projectPath": str(root),
        "status": "ready",
        "storageSize": ANY,
        "totalChunks": 2,
        "totalFiles": 3,
    }


@pytest.mark.row("001-8", "001-12", "001-22", "001-23", "001-24")
def test_the_files_of_an_index_are_as_documented(app: App, root: Path) -> None:
    call(app, create_index)
    folder = app.workspace.projects.get(root).folder
    assert re.fullmatch("[0-9a-f]{32}", folder.name)
    assert folder.parent == app.workspace.home / "indexes"
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata["version"] == "1.0.0"
    assert metadata["projectPath"] == str(root)
    assert all(STAMP.fullmatch(metadata[key]) for key in ("createdAt", "lastFullIndex"))
    assert metadata["stats"]["totalFiles"] == 2
    assert metadata["docsStats"]["totalDocs"] == 1
    prints = json.loads((folder / "fingerprints.json").read_text())
    assert set(prints) == {"pyproject.toml", "src/auth/login.py"}
    assert set(json.loads((folder / "docs-fingerprints.json").read_text())) == {
        "docs/authentication.md"
    }
    config = json.loads((folder / "config.json").read_text())
    assert config["maxFileSize"] == "1MB"
    assert config["maxFiles"] == 50_000
    assert config["docPatterns"][:2] == ["**/*.md", "**/*.txt"]
    assert any("node_modules" in line for line in config["_hardcodedExcludes"])


@pytest.mark.row("001-26")
def test_the_project_around_the_folder_is_indexed(open_app: Callable[..., App], root: Path) -> None:
    answer = call(open_app(start=root / "src" / "auth"), create_index)
    assert (answer["projectPath"], answer["filesIndexed"]) == (str(root), 3)


@pytest.mark.row("001-35")
def test_code_is_found_by_meaning_without_a_common_word(app: App, root: Path) -> None:
    others = {
        "src/money.py": "def total_price(cart):\n    return sum(cart)\n",
        "src/photo.py": "def resize_image(picture):\n    return picture\n",
    }
    write_files(root, others)
    call(app, create_index)
    for question, path in (
        ("credentials of a user", "src/auth/login.py"),
        ("cost of a purchase", "src/money.py"),
        ("shrink a photograph", "src/photo.py"),
    ):
        answer = search_code(app, question, mode="semantic", work=Work())
        assert answer["results"][0]["path"] == path


@pytest.mark.row("001-46")
def test_only_files_of_the_doc_patterns_are_docs(open_app: Callable[..., App], root: Path) -> None:
    text = "Tokens are used.\n"
    names = ("notes.txt", "notes.rst", "notes.py", "notes.json")
    write_files(root, dict.fromkeys(names, text))
    app = open_app(doc_patterns=("**/*.md", "**/*.txt"))
    call(app, create_index)
    found = {row["path"] for row in call(app, search_docs, "tokens are used")["results"]}
    assert found == {"docs/authentication.md", "notes.txt"}
