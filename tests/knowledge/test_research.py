"""`search` and `fetch`: knowledge, code and docs at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sonde.app import App
from sonde.errors import IndexNotFound, InvalidRequest, OutsideRoots
from sonde.knowledge.editing import import_knowledge
from sonde.tools import TOOLS
from sonde.tools.index import create_index
from sonde.tools.tool import bind_arguments, find_tool

from .shelf import text_entry, work


def call(app: App, name: str, arguments: dict[str, Any], **who: str) -> Any:
    tool = find_tool(TOOLS, name)
    return tool.call(app, **bind_arguments(tool, arguments), work=work(**who))


@pytest.fixture
def everything(open_app: Callable[..., App], tmp_path: Path) -> App:
    """Notes about walruses, and a project that counts them."""
    root = tmp_path / "start"
    (root / "pyproject.toml").write_text("[project]\n")
    (root / "walrus.py").write_text("import sea\n\n\ndef count_walruses():\n    return 3\n")
    (root / "guide.md").write_text("# Guide\n\nHow to count a walrus.\n")
    app = open_app(embedding="static")
    create_index(app, work=work())
    store = app.knowledge.of("local")
    store.put("notes", [text_entry("notes", "Walrus", "A walrus on the ice.", id="n1")])
    store.put("media", [text_entry("media", "Book", "walrus " * 900, media_type="pdf")])
    return app


@pytest.mark.row("004-19", "004-20")
def test_one_question_reaches_all_of_it_and_each_result_can_be_fetched(everything):
    answer = call(everything, "search", {"query": "count walrus"})
    rows = {row["source"]: row for row in reversed(answer["results"])}
    assert set(rows) == {"notes", "media", "code", "docs"}
    assert rows["code"]["loc"] == {"path": "walrus.py", "start_line": 4, "end_line": 5}
    for row in rows.values():
        got = call(everything, "fetch", {"id": row["id"]})
        assert got["meta"]["uri"] == row["uri"]
        assert "walrus" in str(got["content"]).lower()
    code = call(everything, "fetch", {"id": rows["code"]["uri"]})["content"]
    assert code == "def count_walruses():\n    return 3"
    lines = rows["code"]["uri"].replace("#L4-L5", "#L4-L4")
    assert call(everything, "fetch", {"id": lines})["content"] == "def count_walruses():"
    whole = call(everything, "fetch", {"id": rows["code"]["uri"], "retrieval": {"mode": "full"}})
    assert whole["content"].startswith("import sea")


@pytest.mark.row("004-117")
def test_the_compact_shape_has_five_fields(everything):
    answer = call(
        everything, "search", {"query": "walrus", "mode": "compact", "sources": ["notes"]}
    )
    (row,) = answer["results"]
    assert list(row) == ["id", "title", "text", "url", "metadata"]
    assert (row["id"], row["title"], row["url"]) == ("notes://n1", "Walrus", "notes://n1")
    got = call(everything, "fetch", {"id": row["id"], "mode": "compact"})
    assert list(got) == ["id", "title", "text", "url", "metadata"]
    assert got["text"] == "A walrus on the ice."


def test_a_long_text_is_fetched_in_parts(everything):
    first = call(everything, "fetch", {"id": "media://1", "retrieval": {"max_tokens": 100}})
    assert len(first["content"]) == 400
    options = {"max_tokens": 100, "offset": first["next_offset"], "mode": "full"}
    second = call(everything, "fetch", {"source": "media", "id": 1, "retrieval": options})
    assert (first["content"] + second["content"])[:800] == ("walrus " * 900)[:800]


def test_without_a_project_knowledge_is_still_found(filled):
    assert call(filled, "search", {"query": "walrus"})["results"]


@pytest.mark.parametrize("wrong", ["nonsense", "ftp://x", "notes", "://"])
def test_what_points_nowhere_is_refused(filled, wrong):
    with pytest.raises(InvalidRequest):
        call(filled, "fetch", {"id": wrong})


@pytest.mark.parametrize("uri", ["code:////etc//passwd", "code://..//../../etc/passwd#L1-L2"])
def test_a_pointer_reaches_no_folder_that_is_no_project(everything, uri):
    with pytest.raises(IndexNotFound):
        call(everything, "fetch", {"id": uri})


@pytest.mark.parametrize(
    ("path", "refusal"),
    [("../outside.py", OutsideRoots), ("/etc/passwd", InvalidRequest), ("link.py", InvalidRequest)],
)
def test_a_pointer_reaches_no_file_outside_its_project(everything, tmp_path, path, refusal):
    (tmp_path / "outside.py").write_text("x = 1\n")
    (tmp_path / "start" / "link.py").symlink_to(tmp_path / "outside.py")
    code = call(everything, "search", {"query": "count", "sources": ["code"]})["results"][0]
    assert "walrus.py#L4-L5" in code["uri"]
    with pytest.raises(refusal):
        call(everything, "fetch", {"id": code["uri"].replace("walrus.py#L4-L5", path)})


def test_an_entry_whose_own_data_look_like_code_is_still_an_entry(everything, tmp_path):
    (tmp_path / "prompts").mkdir()
    prompt = {"name": "Coder", "prompt": "Draw a walrus.", "kind": "code", "path": "walrus.py"}
    (tmp_path / "prompts" / "p.json").write_text(json.dumps(prompt))
    import_knowledge(everything.knowledge, str(tmp_path / "prompts"), work=work())
    answer = call(everything, "search", {"query": "walrus"}, session="s")
    (row,) = [row for row in answer["results"] if row["title"] == "Coder"]
    assert (row["source"], row["uri"]) == ("prompts", "prompts://1")
    assert call(everything, "fetch", {"id": row["uri"]})["content"]["kind"] == "code"
    again = call(everything, "search", {"query": "walrus", "limit": 1}, session="s")
    assert again["total_estimated"] == answer["total_estimated"], "all seen: shown again"


def test_an_answer_that_is_cut_to_its_budget_says_so(everything):
    whole = call(everything, "search", {"query": "walrus"})
    cut = call(everything, "search", {"query": "walrus", "max_tokens": 200})
    assert "truncated" not in whole
    assert cut["truncated"]
    assert cut["next_offset"] == len(cut["results"]) < len(whole["results"])
    rest = call(everything, "search", {"query": "walrus", "offset": cut["next_offset"]})
    shown = [row["uri"] for row in cut["results"] + rest["results"]]
    assert shown == [row["uri"] for row in whole["results"]]


@pytest.mark.row("004-115")
def test_sessions_hold_back_what_was_shown(everything):
    first = call(everything, "search", {"query": "walrus", "limit": 2}, session="s")
    second = call(everything, "search", {"query": "walrus", "limit": 2}, session="s")
    assert second["suppressed"] == 2
    assert not {r["uri"] for r in first["results"]} & {r["uri"] for r in second["results"]}


def test_lines_that_no_file_can_have_name_the_whole_file(everything):
    (row, *_) = call(everything, "search", {"query": "walrus", "sources": ["code"]})["results"]
    pointer = row["uri"].partition("#")[0]
    got = call(everything, "fetch", {"id": f"{pointer}#L{'9' * 4500}-L2"})
    assert got["meta"]["source"] == "code"


@pytest.mark.parametrize(
    ("query", "path", "line"),
    [
        ("walrus.py:5", "walrus.py", 5),
        ("guide.md", "guide.md", 1),
        (r"def \w+_wal", "walrus.py", 4),
    ],
)
def test_what_the_query_names_or_spells_leads(everything, query, path, line):
    rows = call(everything, "search", {"query": query})["results"]
    loc = rows[0]["loc"]
    assert (loc["path"], rows[0]["score"], rows[0]["score_type"]) == (path, 1.0, "exact")
    assert loc["start_line"] <= line <= loc["end_line"]
    assert len({row["uri"] for row in rows}) == len(rows)
