"""Cursors of searches with pages: complete alone, bound to their search, true to changed files."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.trees import write_files

from sonde.app import App
from sonde.errors import BadCursor
from sonde.paging.cursor import TTL_S, ResultSets
from sonde.runtime.work import Work
from sonde.tools.code import search_code
from sonde.tools.index import delete_index
from sonde.tools.pages import hybrid_search, lexical_search, regex_search, semantic_search

ALL_FOUR = (semantic_search, lexical_search, hybrid_search, regex_search)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    modules = {f"w{n:03}.py": f"def walrus_{n}(sea):\n    return sea[{n}]\n" for n in range(120)}
    return write_files(tmp_path / "project", modules | {"pyproject.toml": "[project]\n"})


def find(app: App, verb: Callable[..., Any], query: str = "walrus_", **options: Any) -> Any:
    return verb(app, query, work=Work(), **options)


def paths_of(page: Any) -> list[str]:
    return [match["file"]["path"] for match in page["results"]["matches"]]


def cursor_of(page: Any) -> str:
    cursor = page["pagination"]["next_cursor"]
    assert isinstance(cursor, str)
    return cursor


@pytest.mark.row("000-P2", "000-P39", "000-P55")
@pytest.mark.parametrize("verb", ALL_FOUR)
def test_a_cursor_alone_is_a_complete_call(app: App, verb: Callable[..., Any]) -> None:
    whole = paths_of(find(app, verb, page_size=200))
    options = {"page_size": 50, "snippet_length": 10, "context_lines": 1}
    first = find(app, verb, **options)
    second = verb(app, cursor=cursor_of(first), work=Work())
    assert paths_of(first) + paths_of(second) == whole[:100]
    assert second["search"] == first["search"]
    assert second["search"]["parameters"] == options
    assert second["pagination"]["current_page"] == 2
    assert all("before" in match["match"] for match in second["results"]["matches"])
    # the same cursor again, shown otherwise
    plain = verb(app, cursor=cursor_of(first), include_snippet=False, page_size=5, work=Work())
    assert paths_of(plain) == whole[50:55]
    assert "content" not in plain["results"]["matches"][0]["match"]


@pytest.mark.row("000-P38", "000-P39", "000-P40")
@pytest.mark.parametrize("verb", ALL_FOUR)
def test_the_second_page_is_items_51_to_100_whatever_happened_to_the_files(
    app: App, root: Path, verb: Callable[..., Any]
) -> None:
    whole = paths_of(find(app, verb, page_size=200))
    first = find(app, verb, page_size=50)
    moved, deleted, changed = whole[50], whole[60], whole[99]
    (root / moved).write_text("# größer\n\n" + (root / moved).read_text())
    (root / deleted).unlink()
    (root / changed).write_text("nothing = 1\n")
    (root / "w0000.py").write_text("def walrus_new(): pass\n")
    find(app, verb)  # brings the index in step with the files
    delete_index(app, work=Work())
    second = verb(app, cursor=cursor_of(first), work=Work())
    assert paths_of(second) == whole[50:100]
    stale = {m["file"]["path"] for m in second["results"]["matches"] if m["match"].get("stale")}
    assert stale == {deleted, changed}
    for row in second["results"]["matches"]:
        span = row["match"]["span"]
        if row["file"]["path"] not in stale:
            data = (root / row["file"]["path"]).read_bytes()
            shown = data[span["byte_start"] : span["byte_end"]].decode()
            assert shown == row["match"]["content"]
            assert data[: span["byte_start"]].count(b"\n") + 1 == span["line_start"]
    (shifted,) = (row for row in second["results"]["matches"] if row["file"]["path"] == moved)
    assert shifted["match"]["span"]["line_start"] == 3


@pytest.mark.row("000-P44")
@pytest.mark.parametrize(
    "other",
    [
        {"query": "otter"},
        {"language": "rust"},
        {"include": ["*.md"]},
        {"path": "src"},
        {"top_k": 7},
        {"project": "elsewhere"},
    ],
    ids=str,
)
def test_what_is_given_with_a_cursor_must_be_what_was_searched_for(
    app: App, other: dict[str, Any]
) -> None:
    options: dict[str, Any] = {"include": ["*.py"], "path": ".", "language": "python"}
    for verb in (lexical_search, regex_search):
        cursor = cursor_of(find(app, verb, page_size=10, **options))
        again = find(app, verb, cursor=cursor, **(options | {"path": "./"}))
        assert again["pagination"]["current_page"] == 2
        with pytest.raises(BadCursor, match=next(iter(other))):
            verb(app, cursor=cursor, work=Work(), **other)
    with pytest.raises(BadCursor, match="ignore_case"):
        regex_search(app, cursor=cursor, ignore_case=True, work=Work())


@pytest.mark.row("000-P45")
def test_a_cursor_is_refused_by_another_tool(app: App) -> None:
    cursors = {verb: cursor_of(find(app, verb, page_size=10)) for verb in ALL_FOUR}
    for verb, cursor in cursors.items():
        for other in {*ALL_FOUR, search_code} - {verb}:
            with pytest.raises(BadCursor) as refused:
                other(app, cursor=cursor, work=Work())
            assert refused.value.next_action == f"Pass it to {verb.__name__} instead."


@pytest.mark.row("000-P42", "000-P43", "000-P60")
def test_forged_foreign_and_expired_cursors_are_refused(
    app: App, open_app: Callable[..., App]
) -> None:
    cursor = cursor_of(find(app, regex_search, page_size=10))
    payload, signature = cursor.split(".")
    body = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    forged = base64.urlsafe_b64encode(json.dumps(body | {"offset": 0}).encode()).decode()
    flipped = ("A" if cursor[0] != "A" else "B") + cursor[1:]
    for bad in (f"{forged.rstrip('=')}.{signature}", flipped, cursor[:-3], "nonsense"):
        with pytest.raises(BadCursor) as refused:
            regex_search(app, cursor=bad, work=Work())
        assert "without a cursor" in refused.value.next_action
    with pytest.raises(BadCursor, match="another installation"):
        regex_search(open_app("other"), cursor=cursor, work=Work())
    now = [0.0]
    aging = replace(
        app, workspace=replace(app.workspace, results=ResultSets(app.workspace.key, lambda: now[0]))
    )
    cursor = cursor_of(find(aging, regex_search, page_size=10))
    now[0] = TTL_S + 1
    with pytest.raises(BadCursor, match="5 minutes"):
        regex_search(aging, cursor=cursor, work=Work())


@pytest.mark.row("000-P31", "000-P43")
def test_the_hundred_and_first_search_puts_out_the_least_recently_used(app: App) -> None:
    first, second = (find(app, regex_search, f"walrus_|{n}x", page_size=1) for n in (1, 2))
    for number in range(3, 101):
        find(app, regex_search, f"walrus_|{number}x", page_size=1)
    again = regex_search(app, cursor=cursor_of(first), work=Work())
    assert again["pagination"]["current_page"] == 2
    find(app, regex_search, "walrus_|101x", page_size=1)
    assert len(app.workspace.results) == 100
    with pytest.raises(BadCursor, match="made room"):
        regex_search(app, cursor=cursor_of(second), work=Work())
    assert regex_search(app, cursor=cursor_of(first), work=Work()) != {}


def test_the_tools_of_all_documents_page_through_the_same_sets(app: App) -> None:
    rfc = search_code(app, "walrus_", top_k=50, max_tokens=400, work=Work())
    page = find(app, hybrid_search, page_size=5)
    assert len(app.workspace.results) == 2
    following = search_code(app, cursor=rfc["nextCursor"], work=Work())
    shown = [row["path"] for answer in (rfc, following) for row in answer["results"]]
    assert len(shown) == len(set(shown))
    assert len(shown) > 5
    with pytest.raises(BadCursor, match="belongs to hybrid_search"):
        search_code(app, cursor=cursor_of(page), work=Work())


@pytest.mark.row("000-P32")
def test_a_server_sweeps_until_it_is_closed(open_app: Callable[..., App]) -> None:
    def sweepers() -> int:
        return sum(thread.name == "sonde-sweep" for thread in threading.enumerate())

    before = sweepers()
    open_app()
    assert sweepers() == before
    server = open_app(stays=True)
    assert sweepers() == before + 1
    find(server, regex_search)
    assert len(server.workspace.results) == 1
    server.close()
    for thread in threading.enumerate():
        if thread.name == "sonde-sweep":
            thread.join(10)
    assert (sweepers(), len(server.workspace.results)) == (before, 0)


@pytest.mark.parametrize(
    "other",
    [{"query": "otter"}, {"path": "src"}, {"top_k": 7}, {"project": "elsewhere"}, {"tags": ["x"]}],
    ids=str,
)
def test_what_is_given_with_a_cursor_of_search_code_must_be_what_was_searched_for(
    app: App, other: dict[str, Any]
) -> None:
    asked: dict[str, Any] = {"query": "walrus_", "top_k": 50, "path": "."}
    cursor = search_code(app, **asked, max_tokens=400, work=Work())["nextCursor"]
    assert search_code(app, **asked, cursor=cursor, work=Work())["results"]
    with pytest.raises(BadCursor):
        search_code(app, cursor=cursor, work=Work(), **other)
