"""What a page says of its matches: where each is, how much is shown, what a score means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.tools.test_pages import ALL_FOUR, matches_of
from tests.trees import write_files

from sonde.app import App
from sonde.runtime.work import Work
from sonde.tools.pages import regex_search


@pytest.fixture
def root(tmp_path: Path) -> Path:
    body = "".join(f"    step_{number}(otter)  # {'x' * 40}\n" for number in range(40))
    return write_files(
        tmp_path / "project",
        {
            "go.mod": "module zoo\n",
            "src/w07.py": "def walrus():\n    return 7\n",
            "src/otter.py": f"def otter():\n{body}{'y' * 900} = otter\n",
        },
    )


@pytest.mark.row("000-P12")
@pytest.mark.parametrize("verb", ALL_FOUR)
def test_a_span_is_that_of_the_match_however_much_of_it_is_shown(
    app: App, root: Path, verb: Callable[..., Any]
) -> None:
    def show(**options: Any) -> list[Any]:
        page = verb(app, "otter", path="src/otter.py", page_size=200, work=Work(), **options)
        return [row["match"] for row in matches_of(page)]

    bare = show(include_snippet=False)
    assert not any("clipped" in match for match in bare)
    lines = (root / "src" / "otter.py").read_text().splitlines()
    for length in (20, 500, 2000):
        found = show(snippet_length=length)
        assert [match["span"] for match in found] == [match["span"] for match in bare]
        for match in found:
            span = match["span"]
            first, last = match.get("content_lines", (span["line_start"], span["line_end"]))
            assert span["line_start"] <= first <= last <= span["line_end"]
            assert match["content"] in "\n".join(lines[first - 1 : last])
    assert any(match.get("clipped") for match in show(snippet_length=20))


@pytest.mark.row("000-P67")
@pytest.mark.parametrize("verb", ALL_FOUR)
def test_an_answer_says_what_its_scores_are(app: App, verb: Callable[..., Any]) -> None:
    facts = verb(app, "walrus", work=Work())["metadata"]
    assert ("score_type" in facts) == (verb is not regex_search)
    assert facts.get("score_type", "x")


@pytest.mark.row("000-P68")
def test_a_path_that_holds_nothing_is_said_to(app: App) -> None:
    for path in ("scr/", "~", "src/none.py"):
        page = regex_search(app, "walrus", path=path, work=Work())
        assert "at or below" in page["metadata"]["note"]
    for path in ("src", "src/w07.py"):
        assert "note" not in regex_search(app, "no such line", path=path, work=Work())["metadata"]
