"""Finding personal knowledge: shapes, scores, filters, pages, sessions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sonde.embedding.static import EVERYDAY_NAME
from sonde.errors import EmptyQuery, InvalidRequest, UnknownArgument
from sonde.mcp.listing import Listing
from sonde.stores.knowledge.base import Entry, Piece
from sonde.tools import TOOLS
from sonde.tools.knowledge import (
    chats_search,
    knowledge_search,
    media_search,
    notes_search,
    prompts_search,
)
from sonde.tools.shapes.know import list_recent
from sonde.tools.tool import bind_arguments, find_tool

from .shelf import text_entry, work

COMMON = [
    "id", "source", "title", "snippet", "uri", "score", "score_type", "created_at",
    "last_modified", "version", "tags",
]  # fmt: skip


def uris(answer: Any) -> list[str]:
    return [row["uri"] for row in answer["results"]]


def call(app: Any, name: str, arguments: dict[str, Any], **who: str) -> Any:
    tool = find_tool(TOOLS, name)
    return tool.call(app, **bind_arguments(tool, arguments), work=work(**who))


@pytest.mark.row(
    "004-7", "004-38", "004-39", "004-40", "004-41", "004-42", "004-43", "004-44", "004-45",
    "004-46", "004-47", "004-48", "004-49", "004-51", "004-52", "004-53", "004-54", "004-55",
    "004-85", "004-110",
)  # fmt: skip
def test_every_result_has_the_documented_fields(filled):
    answer = knowledge_search(filled, "walrus", work=work())
    assert list(answer)[:4] == ["results", "has_more", "next_offset", "total_estimated"]
    by_source = {row["source"]: row for row in answer["results"]}
    assert set(by_source) == {"notes", "media", "chats", "characters", "prompts"}
    extra = {
        "notes": [],
        "media": ["media_type", "url"],
        "chats": ["conversation_id", "message_id", "sender"],
        "characters": [],
        "prompts": [],
    }
    for source, row in by_source.items():
        assert list(row) == [*COMMON, *extra[source], "loc"]
        assert 0 <= row["score"] <= 1
        assert row["score_type"] == "fts"
        assert len(row["snippet"]) <= 300
    assert by_source["notes"]["id"] == "n1"
    assert by_source["notes"]["created_at"] == "1970-01-02T00:00:00Z"
    assert by_source["media"]["id"] in (1, 2)
    assert by_source["chats"]["uri"] == "chats://c1#m1"
    assert by_source["chats"]["loc"] == {
        "conversation_id": "c1", "message_id": "m1", "message_index": 1,
    }  # fmt: skip
    assert by_source["characters"]["loc"] == {"approx_offset": 9, "field": "description"}
    json.dumps(answer)


@pytest.mark.row("004-6", "004-55", "004-58", "004-62")
def test_scores_run_from_one_to_zero_over_the_whole_set(filled):
    store = filled.knowledge.of("local")
    store.put("notes", [text_entry("notes", f"w{n}", "walrus " * n + "x " * 99) for n in range(9)])
    whole = notes_search(filled, "walrus", limit=100, work=work())["results"]
    assert whole[0]["score"] == 1.0
    assert whole[-1]["score"] == 0.0
    assert [row["score"] for row in whole] == sorted((r["score"] for r in whole), reverse=True)
    pages: list[Any] = []
    offset: int | None = 0
    while offset is not None:
        page = notes_search(filled, "walrus", limit=4, offset=offset, work=work())
        assert page["total_estimated"] == len(whole)
        assert page["has_more"] == (page["next_offset"] is not None)
        pages += page["results"]
        offset = page["next_offset"]
    assert pages == whole


@pytest.mark.row("004-132")
def test_later_pages_show_the_set_as_it_was(filled):
    store = filled.knowledge.of("local")
    store.put("notes", [text_entry("notes", f"w{n}", "walrus", id=f"w{n}") for n in range(6)])
    first = notes_search(filled, "walrus", limit=3, work=work())
    store.put("notes", [text_entry("notes", "walrus walrus", "walrus", id="new", day=99)])
    store.remove("notes", ["w5"])
    second = notes_search(filled, "walrus", limit=9, offset=3, work=work())
    assert not set(uris(first)) & set(uris(second))
    assert len(uris(first) + uris(second)) == first["total_estimated"]
    assert "notes://new" not in uris(second)
    assert "notes://new" in uris(notes_search(filled, "walrus", limit=9, work=work()))


@pytest.mark.row("004-61", "004-96")
def test_the_newest_come_first_on_request(filled):
    recent = media_search(filled, "walrus", order_by="recent", work=work())
    assert [row["title"] for row in recent["results"]] == ["Web page", "Sea book"]
    every = knowledge_search(filled, "walrus", order_by="recent", work=work())["results"]
    times = [row["last_modified"] or "" for row in every]
    assert times == sorted(times, reverse=True)


@pytest.mark.row(
    "004-92", "004-94", "004-95", "004-101", "004-103", "004-108", "004-110", "004-111"
)
def test_filters_narrow_each_source(filled):
    assert uris(media_search(filled, "walrus", media_types=("PDF",), work=work())) == ["media://1"]
    assert uris(media_search(filled, "walrus", date_from="1970-01-05", work=work())) == [
        "media://2"
    ]
    assert uris(media_search(filled, "walrus", date_to="1970-01-02", work=work())) == ["media://1"]
    assert uris(notes_search(filled, "walrus", keywords=("no",), work=work())) == []
    assert uris(notes_search(filled, "walrus", keywords=("SEA",), work=work())) == ["notes://n1"]
    assert uris(chats_search(filled, "sea walrus", by="title", work=work())) == ["chats://c1"]
    assert uris(chats_search(filled, "walrus beach", sender="bob", work=work())) == [
        "chats://c1#m2"
    ]
    assert uris(prompts_search(filled, "walrus", fields=("user_prompt",), work=work())) == []
    assert uris(prompts_search(filled, "walrus", fields=("name",), work=work())) == ["prompts://1"]
    answer = call(
        filled,
        "knowledge.search",
        {
            "query": "walrus",
            "sources": ["media", "notes"],
            "filters": {"media": {"mediaTypes": ["html"]}, "notes": {"keywords": ["nope"]}},
        },
    )
    assert uris(answer) == ["media://2"]


@pytest.mark.row("004-95", "004-101", "004-108", "004-111")
@pytest.mark.parametrize(
    ("filters", "error"),
    [
        ({"media": {"media_type": ["pdf"]}}, UnknownArgument),
        ({"music": {}}, InvalidRequest),
        ({"media": {"date_from": "yesterday"}}, InvalidRequest),
        ({"chats": {"by": "heart"}}, InvalidRequest),
        ({"prompts": {"fields": ["colour"]}}, InvalidRequest),
        ({"characters": {"x": 1}}, InvalidRequest),
        ({"media": []}, InvalidRequest),
    ],
)
def test_a_wrong_filter_is_refused_never_ignored(filled, filters, error):
    with pytest.raises(error):
        call(filled, "knowledge_search", {"query": "walrus", "filters": filters})


@pytest.mark.row("004-124")
def test_an_empty_question_is_refused(filled):
    with pytest.raises(EmptyQuery):
        call(filled, "notes_search", {"query": "  "})


@pytest.mark.row("004-122")
@pytest.mark.parametrize("query", ["?!", "*", '"', "' OR 1=1 --", "AND", "x" * 100_000, "\ud800"])
def test_any_question_is_answered(filled, query):
    assert call(filled, "knowledge_search", {"query": query})["results"] is not None


@pytest.mark.row("004-63", "004-64", "004-65", "004-66", "004-68")
def test_snippets_show_the_match_whole_and_short(filled):
    row = media_search(filled, "tusks", snippet_length=80, work=work())["results"][0]
    assert "walrus appears with tusks" in row["snippet"]
    assert len(row["snippet"]) <= 80
    assert "\n" not in row["snippet"]
    short = media_search(filled, "tusks", snippet_length=1, work=work())["results"][0]["snippet"]
    assert 10 < len(short) <= 50  # clamped
    title = chats_search(filled, "trip", work=work())["results"][0]
    assert title["snippet"] == "Trip to the sea: Hi"


@pytest.mark.row("004-91")
def test_an_answer_keeps_its_budget_and_says_so(filled):
    store = filled.knowledge.of("local")
    store.put("notes", [text_entry("notes", f"n{n}", "walrus " + "é" * 500) for n in range(50)])
    answer = notes_search(filled, "walrus", limit=50, max_tokens=700, work=work())
    assert len(json.dumps(answer, ensure_ascii=False, separators=(",", ":"))) <= 700 * 4
    assert answer["truncated"]
    assert answer["next_offset"] == len(answer["results"]) > 1


@pytest.mark.row("004-10", "004-115")
def test_a_session_is_not_shown_the_same_twice_until_it_has_seen_all(filled):
    me = {"session": "s1"}
    first = knowledge_search(filled, "walrus", limit=3, work=work(**me))
    second = knowledge_search(filled, "walrus", limit=3, work=work(**me))
    assert first["session_id"] == "s1"
    assert "suppressed" not in first
    assert second["suppressed"] == 3
    assert not set(uris(first)) & set(uris(second))
    seen = set(uris(first)) | set(uris(second))
    while len(seen) < first["total_estimated"]:
        page = knowledge_search(filled, "walrus", limit=3, work=work(**me))
        assert not seen & set(uris(page))
        seen |= set(uris(page))
    again = knowledge_search(filled, "walrus", limit=3, work=work(**me))
    assert uris(again) == uris(first)
    other = knowledge_search(filled, "walrus", limit=3, work=work(session="s2"))
    assert uris(other) == uris(first)
    off = knowledge_search(filled, "walrus", limit=3, dedupe=False, work=work(**me))
    assert uris(off) == uris(first)


@pytest.mark.row("004-115")
def test_pages_of_one_set_hide_nothing(filled):
    me = {"session": "s"}
    first = knowledge_search(filled, "walrus", limit=2, work=work(**me))
    rest = knowledge_search(filled, "walrus", limit=50, offset=2, work=work(**me))
    assert len(uris(first) + uris(rest)) == first["total_estimated"]


def test_handles_serve_clients_without_sessions(filled):
    first = call(filled, "knowledge_search", {"query": "walrus", "session_id": "new", "limit": 2})
    handle = first["session_id"]
    second = call(filled, "knowledge_search", {"query": "walrus", "sessionId": handle, "limit": 2})
    assert second["suppressed"] == 2
    assert "session_id" not in call(filled, "knowledge_search", {"query": "walrus"})


@pytest.mark.row("004-113", "004-116")
def test_explicit_wins_over_the_session_over_the_default(filled):
    asked = {"query": "slept", "session_id": "h", "dedupe": False}
    plain = call(filled, "knowledge_search", asked)["results"][0]["snippet"]
    assert len(plain) > 60
    call(filled, "knowledge_search", asked | {"defaults": {"snippet_length": 60}})
    assert len(call(filled, "knowledge_search", asked)["results"][0]["snippet"]) <= 60
    wide = call(filled, "knowledge_search", asked | {"snippet_length": 200})
    assert wide["results"][0]["snippet"] == plain
    with pytest.raises(InvalidRequest):
        call(filled, "knowledge_search", asked | {"defaults": {"user": "bob"}})


@pytest.mark.row("004-13")
def test_earlier_questions_pull_snippets(filled):
    store = filled.knowledge.of("local")
    text = "Seals. " + "a " * 200 + "seals and glaciers " + "b " * 200
    store.put("notes", [text_entry("notes", "S", text)])
    knowledge_search(filled, "glaciers", dedupe=False, work=work(session="g"))
    biased = knowledge_search(filled, "seals", dedupe=False, work=work(session="g"))
    assert "glaciers" in biased["results"][0]["snippet"]


@pytest.mark.row("004-9", "004-44")
def test_vectors_join_in_and_say_so(open_app):
    app = open_app(embedding="static")
    store = app.knowledge.of("local")
    store.put("notes", [text_entry("notes", "Car", "My automobile broke down", id="car")])
    store.put("notes", [text_entry("notes", "Tea", "Boil water", id="tea")])
    answer = notes_search(app, "automobile repair", work=work())
    assert uris(answer)[0] == "notes://car"
    assert answer["results"][0]["score_type"] == "fts+vector"
    assert store.list_bare("notes", EVERYDAY_NAME, 10) == []


@pytest.mark.row("004-60")
def test_sources_are_merged_by_rank_and_ties_by_time(filled):
    store = filled.knowledge.of("local")
    store.put("notes", [text_entry("notes", "tie", "zebra", day=5)])
    store.put("prompts", [Entry("prompts", "tie", (Piece("zebra", 0, 0, "details"),),
                                last_modified=6 * 86_400_000)])  # fmt: skip
    answer = knowledge_search(filled, "zebra", work=work())
    assert [row["source"] for row in answer["results"]] == ["prompts", "notes"]


def test_a_message_gains_from_a_match_right_beside_it(filled):
    store = filled.knowledge.of("local")
    asked = (Piece("the zebra", 0, uuid="a0"), Piece("a zebra", 1, uuid="a1"))
    apart = (Piece("my zebra", 0, uuid="b0"), Piece("Oh", 1, uuid="b1"))
    store.put("chats", [Entry("chats", "Asked", asked, id="a", last_modified=1)])
    store.put("chats", [Entry("chats", "Apart", apart, id="b", last_modified=2)])
    rows = chats_search(filled, "zebra", work=work())["results"]
    assert [row["uri"] for row in rows] == ["chats://a#a0", "chats://a#a1", "chats://b#b0"]
    assert rows[1]["score"] > rows[2]["score"]


@pytest.mark.row("004-1", "004-2", "004-37")
def test_the_tools_are_listed_small_and_called_by_their_documented_names(filled):
    entries = Listing(TOOLS, ("knowledge",)).entries
    names = [entry["name"] for entry in entries]
    assert {"knowledge_search", "media_transcript", "prompts_get"} <= set(names)
    for entry in entries:
        assert entry["annotations"]["readOnlyHint"]
        assert len(json.dumps(entry, separators=(",", ":"))) < 1_150
    assert uris(call(filled, "notes.search", {"query": "walrus"})) == ["notes://n1"]


@pytest.mark.row("004-106")
def test_characters_are_found_by_tags_as_a_list_or_with_commas(filled):
    store = filled.knowledge.of("local")
    store.put("characters", [Entry("characters", "Otto", tags=("animal", "sea otter"))])

    def find(query: Any) -> list[str]:
        rows = call(filled, "characters.search", {"query": query})["results"]
        return [row["title"] for row in rows]

    assert sorted(find(["animal"])) == ["Otto", "Wally"]
    assert find(["animal", "sea otter"])[0] == "Otto"
    assert find("animal, sea otter") == find(["animal", "sea otter"])
    with pytest.raises(EmptyQuery):
        find([])
    with pytest.raises(InvalidRequest, match=r"query\[1\]"):
        find(["animal", 3])


@pytest.mark.row("004-96")
def test_media_can_be_newest_first_among_other_sources(filled):
    asked = {"query": "walrus", "sources": ["media", "notes"]}
    usual = call(filled, "knowledge.search", asked)
    newest = call(
        filled, "knowledge.search", asked | {"filters": {"media": {"order_by": "recent"}}}
    )
    media = [row["title"] for row in newest["results"] if row["source"] == "media"]
    assert media == ["Web page", "Sea book"]
    assert sorted(uris(usual)) == sorted(uris(newest))


@pytest.mark.parametrize("name", ["order_by", "orderBy"])
def test_the_order_of_a_source_is_read_in_both_letter_cases(filled, name):
    filters = {"media": {name: "recent"}}
    assert call(filled, "knowledge.search", {"query": "walrus", "filters": filters})["results"]
    assert list_recent(filters) == ("media",)
