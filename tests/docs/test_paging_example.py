"""What the documentation shows of pages can be called as it is."""

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
from sonde.tools import TOOLS
from sonde.tools.index import create_index
from sonde.tools.tool import bind_arguments, find_tool

PLACES = ("README.md", "docs/agents.md")


@pytest.mark.row("000-P53", "000-P54", "000-P55")
@pytest.mark.parametrize("place", PLACES)
def test_the_calls_that_are_shown_lead_from_page_to_page(
    place: str, tmp_path: Path, open_app: Callable[..., App]
) -> None:
    files = {f"m{n:02}.py": f"def retry_{n}():\n    pass  # TODO\n" for n in range(60)}
    app = open_app(start=write_files(tmp_path / "project", {"go.mod": "module x\n", **files}))
    create_index(app, work=Work())
    text = (Path(__file__).parents[2] / place).read_text("utf-8")
    (block,) = re.findall(r"```jsonl\n(.*?)```", text, re.DOTALL)
    cursor, seen, number = "", list[Any](), 0
    for line in block.splitlines():
        call = json.loads(line)
        arguments = call["arguments"]
        if "cursor" in arguments:
            arguments["cursor"] = cursor
        else:
            seen, number = [], 0
        tool = find_tool(TOOLS, call["name"])
        page = tool.call(app, **bind_arguments(tool, arguments), work=Work())
        number += 1
        assert page["pagination"]["current_page"] == number
        found = [
            (row["file"]["path"], row["match"]["span"]["line_start"])
            for row in page["results"]["matches"]
        ]
        assert found
        assert not set(found) & set(seen)
        seen, cursor = seen + found, page["pagination"]["next_cursor"]


@pytest.mark.row("000-P54")
def test_agents_are_told_how_much_to_ask_for() -> None:
    text = (Path(__file__).parents[2] / "docs/agents.md").read_text("utf-8")
    for advice in ("25 to 50", "include_snippet: false", "snippet_length: 200"):
        assert advice in text
