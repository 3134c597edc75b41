"""Questions about the project itself lead to the files that say it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sonde.app import App
from sonde.ranking.question import read_question
from sonde.ranking.subjects import rate_path
from sonde.runtime.work import Work
from sonde.tools.code import search_code
from sonde.tools.index import create_index


@pytest.mark.parametrize(
    ("question", "path"),
    [
        ("npm script that runs the tests", "package.json"),
        ("which go version is needed to build it", "go.mod"),
        ("minimum supported rust version", "Cargo.toml"),
        ("which python versions are supported", "pyproject.toml"),
        ("where is the version number set", "src/shop/_version.py"),
        ("which linters are enabled", ".golangci.yml"),
        ("which jdk does CI use", ".github/workflows/main.yml"),
        ("make target that runs the tests", "Makefile"),
        ("how is the docker image built", "Dockerfile"),
        ("typescript compiler options", "tsconfig.json"),
        ("how are releases built", ".goreleaser.yml"),
        ("how is the documentation site deployed", "netlify.toml"),
    ],
)
def test_a_question_about_the_project_names_its_file(question: str, path: str) -> None:
    subject = read_question(question).subject
    assert rate_path(path, subject) > 0.5
    assert rate_path("src/main.py", subject) == 0


@pytest.mark.parametrize(
    "question",
    [
        "how are templates loaded",
        "how is the version negotiated",
        "how are events published",
        "where is the retry delay computed",
        "how are messages versioned",
        "commit the transaction",
        "parse the version header",
        "package_version",
        "how are linear layouts made",
    ],
)
def test_a_question_about_code_does_not(question: str) -> None:
    assert read_question(question).subject is None


def test_files_of_the_whole_project_come_before_those_of_a_part() -> None:
    subject = read_question("npm script that runs the tests").subject
    paths = ["package.json", "web/package.json", "a/b/c/d/e/f/package.json"]
    rates = [rate_path(path, subject) for path in paths]
    assert rates == sorted(set(rates), reverse=True)
    assert rates[-1] > 0


def test_such_a_file_is_the_first_answer(open_app: Callable[..., App], tmp_path: Path) -> None:
    files = {
        "package.json": '{"name": "shop", "scripts": {"check": "vitest run"}}\n',
        "src/run.ts": "export function run(command: string[]) { return spawn(command) }\n",
        "src/agents.ts": "export function getRunCommand(script: string) { return ['npm', script] }\n",
    }
    for name, text in files.items():
        (tmp_path / "shop" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "shop" / name).write_text(text)
    app = open_app(start=tmp_path / "shop")
    create_index(app, work=Work())
    found = search_code(app, "npm script that runs the tests", work=Work())["results"]
    assert found[0]["path"] == "package.json"
