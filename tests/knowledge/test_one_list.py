"""One list over code, docs and notes: the best answer first, wherever it lives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sonde.app import App
from sonde.ranking.evidence import LIKELY_ENOUGH
from sonde.tools.code import search_code
from sonde.tools.index import create_index
from sonde.tools.research import search

from .shelf import text_entry, work

CODE = {
    "security.py": '''"""Security schemes."""


class OAuth2PasswordBearer:
    """OAuth2 flow for authentication using a bearer token obtained with a password."""

    def __call__(self, request):
        return request.headers.get("Authorization")
''',
    "routing.py": '''"""Routing of requests to endpoints."""


def match_path(path, pattern):
    """Match the path of a request against a route's pattern."""
    return pattern.match(path)
''',
    "docs/deployment.md": "# Deployment\n\nRun several workers behind a proxy. Set a root.\n",
    "docs/testing.md": "# Testing\n\nUse the test client to call endpoints without a server.\n",
}
NOTES = {
    "bread": "Sourdough bread: feed the starter at 8, fold four times, bake covered at 240 C.",
    "tickets": "Concert tickets were 180 for both, Ella still owes me half of the money.",
    "knee": "Physiotherapy for the knee: three sets of wall sits, twice a day.",
    "coat": "Coat: size 38 fits, sleeves a little short, the navy one.",
}
FIRST = {
    "OAuth2 password bearer": "security.py",
    "match a request path against a pattern": "routing.py",
    "run several workers behind a proxy": "deployment.md",
    "test client without a server": "testing.md",
    "concert tickets money": "tickets",
    "sourdough starter": "bread",
}


@pytest.fixture
def mixed(open_app: Callable[..., App], tmp_path: Path) -> App:
    root = tmp_path / "start"
    (root / "docs").mkdir()
    (root / "pyproject.toml").write_text("[project]\n")
    for name, text in CODE.items():
        (root / name).write_text(text)
    app = open_app(embedding="static")
    create_index(app, work=work())
    entries = [text_entry("notes", "", text, id=name) for name, text in NOTES.items()]
    app.knowledge.of("local").put("notes", entries)
    return app


def places(answer: Any) -> list[str]:
    return [row["uri"] for row in answer["results"]]


def test_the_best_answer_leads_whichever_source_it_is_in(mixed: App) -> None:
    wrong = {}
    for question, wanted in FIRST.items():
        found = places(search(mixed, question, work=work()))
        if wanted not in found[0]:
            wrong[question] = found
    assert not wrong


def test_a_source_without_an_answer_is_left_out(mixed: App) -> None:
    found = places(search(mixed, "OAuth2 password bearer", work=work()))
    assert not any(uri.startswith("notes://") for uri in found)
    found = places(search(mixed, "concert tickets money", work=work()))
    assert found == ["notes://tickets"]


@pytest.mark.parametrize("question", [*FIRST, "who borrowed the blue ladder", "endpoint of a tax"])
def test_the_list_ends_where_nothing_comes_near_its_best(mixed: App, question: str) -> None:
    scores = [row["score"] for row in search(mixed, question, limit=50, work=work())["results"]]
    assert min(scores) >= scores[0] / (10 if scores[0] >= LIKELY_ENOUGH else 2) - 1e-4


def test_an_answer_from_code_says_which_language_it_does_not_understand(
    open_app: Callable[..., App], tmp_path: Path
) -> None:
    (tmp_path / "start" / "routing.py").write_text(CODE["routing.py"])
    app = open_app(embedding="auto")
    create_index(app, work=work())
    found = search_code(app, "wie wird der Pfad mit einem Muster verglichen", work=work())
    assert "seems to be in German" in found["metadata"]["note"]
    found = search_code(app, "how is a path matched with a pattern", work=work())
    assert "note" not in found["metadata"]


def test_scores_are_not_one_per_source(mixed: App) -> None:
    rows = search(mixed, "test client without a server", work=work())["results"]
    assert sum(row["score"] == 1.0 for row in rows) <= 1
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
