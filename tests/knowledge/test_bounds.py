"""Bounds and defaults of knowledge: arguments, preferences, sessions, and where things are kept."""

from __future__ import annotations

from typing import Any

import pytest

from sonde.errors import InvalidRequest, UnknownArgument
from sonde.knowledge.library import MAX_RECENT_QUERIES, MAX_SEEN_URIS, MAX_SESSIONS
from sonde.runtime.work import Work
from sonde.tools import TOOLS
from sonde.tools.knowledge import knowledge_get, media_get, media_search, notes_get, notes_search
from sonde.tools.tool import bind_arguments, find_tool
from sonde.types import Caller

from .shelf import text_entry, work

KNOWLEDGE = [tool for tool in TOOLS if tool.toolset in ("knowledge", "research")]


def preferring(**config: Any) -> Work:
    return Work(caller=Caller(config=config))


@pytest.mark.row("004-21")
@pytest.mark.parametrize("tool", KNOWLEDGE, ids=lambda tool: tool.name)
@pytest.mark.parametrize("name", ["user_id", "_context", "user", "db_paths"])
def test_nobody_names_a_user(tool, name):
    with pytest.raises(UnknownArgument):
        bind_arguments(tool, {name: "carl"})


@pytest.mark.row("004-24", "004-25")
def test_every_user_has_three_databases(filled):
    filled.knowledge.of("anna").put("notes", [text_entry("notes", "t", "walrus")])
    for user in ("local", "anna"):
        folder = filled.workspace.home / "knowledge" / user
        assert {path.name for path in folder.glob("*.db")} == {
            "media.db",
            "chacha.db",
            "prompts.db",
        }
    assert notes_search(filled, "walrus", work=Work())["total_estimated"] == 1
    assert notes_search(filled, "walrus", work=work(user="anna"))["total_estimated"] == 1


@pytest.mark.row("004-30")
def test_a_request_prefers_how_many_siblings_are_read(filled):
    options = {"mode": "chunk_with_siblings", "query": "tusks"}
    few = media_get(filled, "1", options, work=preferring(sibling_window=0))
    many = media_get(filled, "1", options, work=preferring(sibling_window=3))
    assert len(few["attachments"]) == 1
    assert len(many["attachments"]) == 7


@pytest.mark.row("004-29", "004-32")
def test_a_request_prefers_what_a_token_is(filled):
    def read(**config: int) -> int:
        full = {"mode": "full"}
        return len(media_get(filled, "1", full, work=preferring(**config))["content"])

    assert read(max_tokens=100) == 400
    assert read(max_tokens=100, chars_per_token=2) == 200


@pytest.mark.row("004-31")
def test_a_request_prefers_an_order(filled):
    found = media_search(filled, "walrus", work=preferring(order_by="recent"))["results"]
    assert [row["title"] for row in found] == ["Web page", "Sea book"]


@pytest.mark.row("004-89", "004-90")
@pytest.mark.parametrize("tool", [tool for tool in KNOWLEDGE if tool.name.endswith("_search")],
                         ids=lambda tool: tool.name)  # fmt: skip
def test_pages_have_bounds(tool):
    assert bind_arguments(tool, {"query": "x", "limit": 100, "offset": 10**9})
    for wrong in ({"limit": 0}, {"limit": 101}, {"limit": "5"}, {"offset": -1}):
        with pytest.raises(InvalidRequest):
            bind_arguments(tool, {"query": "x", **wrong})
    defaults = {argument.name: argument.default for argument in tool.arguments}
    assert defaults["limit"] == (20 if tool.name == "knowledge_search" else 10)
    assert defaults["offset"] == 0


@pytest.mark.row("004-97")
def test_numbers_and_strings_name_the_same_medium(filled):
    tool = find_tool(TOOLS, "media.get")
    by_number, by_text = (
        tool.call(filled, **bind_arguments(tool, {"media_id": id_}), work=work())
        for id_ in (1, "1")
    )
    assert by_number == by_text


@pytest.mark.row("004-83")
def test_an_offset_is_a_place_in_a_note(filled):
    store = filled.knowledge.of("local")
    store.put("notes", [text_entry("notes", "L", "filler words. " * 900 + "xylophone", id="long")])
    hit = notes_search(filled, "xylophone", work=work())["results"][0]
    options = {"mode": "chunk", "loc": hit["loc"], "chunk_size_tokens": 20}
    assert "xylophone" in notes_get(filled, "long", options, work=work())["content"]


@pytest.mark.row("004-12", "004-114")
def test_a_session_and_their_number_are_bounded(filled):
    library, caller = filled.knowledge, Caller(session="s")
    session = library.open_session(caller, None)
    session.mark_seen(f"notes://{n}" for n in range(MAX_SEEN_URIS + 10))
    assert len(session.seen) == MAX_SEEN_URIS
    assert "notes://0" not in session.seen
    for n in range(MAX_RECENT_QUERIES + 5):
        session.add_query(f"question {n}")
    assert len(session.recent) == MAX_RECENT_QUERIES
    assert library.open_session(caller, None) is session
    for n in range(MAX_SESSIONS):
        library.open_session(Caller(session=f"other {n}"), None)
    assert library.open_session(caller, None) is not session, "the least recently used one went"


@pytest.mark.row("004-112")
def test_one_tool_reads_every_source(filled):
    for source, id_ in (("notes", "n1"), ("media", "1"), ("chats", "c1"), ("characters", "1")):
        assert knowledge_get(filled, id_, source, work=work())["meta"]["source"] == source
