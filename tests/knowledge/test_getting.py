"""Getting an entry: five modes, anchors, budgets, transcripts."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.drawing import draw_text

from sonde.errors import EntryMissing, InvalidRequest
from sonde.knowledge.retrieval import Retrieval, cut_pieces, show_text
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import Entry, Piece
from sonde.text.cuts import cut_ranges
from sonde.tools.knowledge import (
    characters_get,
    chats_get,
    knowledge_get,
    knowledge_search,
    media_get,
    media_search,
    media_transcript,
    notes_get,
    prompts_get,
)
from sonde.types import Caller

from .shelf import text_entry, work


@pytest.mark.row("004-56", "004-67", "004-93")
def test_a_note_is_a_snippet_until_more_is_asked_for(filled):
    answer = notes_get(filled, "n2", work=work())
    assert list(answer) == ["meta", "content", "attachments"]
    assert answer["content"] == "Otters hold hands. No other animal."
    assert answer["meta"]["uri"] == "notes://n2"
    assert answer["attachments"] is None
    whole = notes_get(filled, "n2", {"mode": "full"}, work=work())
    assert whole["content"] == "Otters hold hands.\n\nNo other animal."


@pytest.mark.row("004-73", "004-74", "004-77", "004-78", "004-81")
def test_the_place_of_a_result_leads_to_its_chunk_and_its_neighbours(filled):
    hit = media_search(filled, "tusks", work=work())["results"][0]
    loc = hit["loc"]
    chunk = media_get(filled, str(hit["id"]), {"mode": "chunk", "loc": loc}, work=work())
    assert "walrus appears with tusks" in chunk["content"]
    assert [part["chunk_index"] for part in chunk["attachments"]] == [loc["chunk_index"]]
    by_uuid = {"mode": "chunk", "loc": {"chunk_uuid": loc["chunk_uuid"]}}
    assert media_get(filled, "1", by_uuid, work=work())["content"] == chunk["content"]
    start = chunk["attachments"][0]["start"]
    by_offset = {"mode": "chunk", "loc": {"approx_offset": start + 5}}
    assert media_get(filled, "1", by_offset, work=work())["content"] == chunk["content"]
    wide = {"mode": "chunk_with_siblings", "loc": loc, "sibling_window": 1, "max_tokens": 5000}
    siblings = media_get(filled, "1", wide, work=work())
    middle = loc["chunk_index"]
    assert [p["chunk_index"] for p in siblings["attachments"]] == [middle - 1, middle, middle + 1]
    assert chunk["content"] in siblings["content"]


@pytest.mark.row("004-13", "004-86")
def test_a_light_search_finds_the_place_when_none_is_given(filled):
    asked = media_get(filled, "1", {"mode": "chunk", "query": "tusks"}, work=work())
    assert "tusks" in asked["content"]
    knowledge_search(filled, "tusks", work=work(session="s"))
    recalled = knowledge_get(filled, "1", "media", {"mode": "chunk"}, work=work(session="s"))
    assert recalled["content"] == asked["content"]


@pytest.mark.row("004-33", "004-80")
def test_auto_means_siblings_within_a_budget_else_a_snippet(filled):
    small = notes_get(filled, "n1", {"mode": "auto"}, work=work())
    assert small["attachments"] is None
    large = notes_get(filled, "n1", {"mode": "auto", "max_tokens": 100}, work=work())
    assert large["attachments"]
    asked = Work(caller=Caller(config={"max_tokens": 100}))
    assert notes_get(filled, "n1", {"mode": "auto"}, work=asked)["content"] == large["content"]
    knowledge_search(filled, "walrus", defaults={"max_tokens": 100}, work=work(session="s"))
    kept = notes_get(filled, "n1", {"mode": "auto"}, work=work(session="s"))
    assert kept["content"] == large["content"]


@pytest.mark.row("004-8", "004-69", "004-70")
@pytest.mark.parametrize("mode", ["snippet", "chunk", "chunk_with_siblings", "full", "auto"])
@pytest.mark.parametrize(
    ("source", "id_"),
    [("notes", "n1"), ("media", "1"), ("chats", "c1"), ("characters", "1"), ("prompts", "1")],
)
def test_every_mode_serves_every_source_within_its_budget(filled, source, id_, mode):
    for tokens, per in ((1, 4), (7, 3), (60, 4), (5000, 1)):
        options = {"mode": mode, "max_tokens": tokens, "charsPerToken": per, "query": "walrus"}
        content = knowledge_get(filled, id_, source, options, work=work())["content"]
        if mode == "snippet":
            assert len(content) <= 300
            continue
        if isinstance(content, dict):
            known = {k: v for k, v in content.items() if k not in ("name", "total_messages")}
            texts = [m["content"] for m in known.pop("messages", [])] + list(known.values())
            length = sum(map(len, texts))
        else:
            length = len(content)
        assert length > 0
        assert math.ceil(length / per) <= tokens


@pytest.mark.row("004-79")
def test_a_long_text_is_read_on_from_where_it_ended(filled):
    got, offset = "", 0
    while True:
        options = {"mode": "full", "max_tokens": 900, "offset": offset}
        answer = media_get(filled, "1", options, work=work())
        got += answer["content"]
        if "next_offset" not in answer:
            break
        offset = answer["next_offset"]
    whole = filled.knowledge.of("local").get("media", "1")
    assert got == "".join(piece.text for piece in whole.pieces)
    assert offset > 0


@pytest.mark.row("004-104")
def test_a_conversation_is_read_by_page(filled):
    first = chats_get(filled, "c1", page_size=2, work=work())
    assert [m["content"] for m in first["content"]["messages"]] == ["Hi", "Seen a walrus?"]
    assert first["content"]["total_messages"] == 6
    assert first["content"]["messages"][1] == {
        "message_id": "m1", "message_index": 1, "sender": "Ann",
        "created_at": "1970-01-02T00:00:00.001Z", "content": "Seen a walrus?",
    }  # fmt: skip
    second = chats_get(filled, "c1", page=2, page_size=2, work=work())
    assert [m["message_index"] for m in second["content"]["messages"]] == [2, 3]
    assert chats_get(filled, "c1", page=9, work=work())["content"]["messages"] == []


@pytest.mark.row("004-73", "004-84", "004-105")
def test_messages_around_one_are_its_neighbours(filled):
    def around(**options: Any) -> list[int]:
        asked = {"mode": "chunk_with_siblings", "loc": {"message_id": "m2"}, **options}
        answer = chats_get(filled, "c1", retrieval=asked, work=work())
        return [m["message_index"] for m in answer["content"]["messages"]]

    assert around(sibling_window=1) == [1, 2, 3]
    assert around(sibling_window=0) == [2]
    assert around(sibling_window=9, max_tokens=9) == [1, 2, 3]
    assert around(loc={"message_index": 5}, sibling_window=1, max_tokens=50) == [5]
    assert around(loc=None, sibling_window=1) == [0, 1]


@pytest.mark.row("004-107", "004-109")
def test_characters_and_prompts_come_whole(filled):
    character = characters_get(filled, "1", work=work())
    assert character["content"] == {
        "name": "Wally", "description": "A grumpy walrus.", "first_mes": "Harumph!",
    }  # fmt: skip
    by_name = prompts_get(filled, "walrus EXPERT", work=work())
    assert by_name == prompts_get(filled, "1", work=work())
    assert by_name["content"]["system_prompt"] == "You know all about walruses."


def test_what_is_not_there_is_said_to_be_missing(filled):
    for source in ("notes", "media", "chats", "characters", "prompts"):
        with pytest.raises(EntryMissing):
            knowledge_get(filled, "404", source, work=work())


@pytest.mark.row("004-67", "004-76")
@pytest.mark.parametrize(
    "wrong", [{"mode": "all"}, {"max_token": 5}, {"loc": "m1"}, {"max_tokens": "many"}]
)
def test_wrong_options_are_refused(filled, wrong):
    with pytest.raises(InvalidRequest):
        notes_get(filled, "n1", wrong, work=work())


@pytest.mark.row("004-98", "004-99")
def test_transcripts_in_every_form(filled):
    lines = (
        Piece("Hello there.\n", 0, 0, uuid="a", sender="Ann", begins=0, ends=1500),
        Piece("Good bye.", 1, 13, uuid="b", begins=3_661_002, ends=3_662_000),
    )
    store = filled.knowledge.of("local")
    (key,) = store.put("media", [Entry("media", "talk", lines, media_type="video")])

    def write(form: str, *, times: bool = False) -> Any:
        return media_transcript(filled, key, form, times, work=work())["content"]

    assert write("text") == "Hello there.\nGood bye."
    assert write("text", times=True) == "[00:00:00.000] Ann: Hello there.\n[01:01:01.002] Good bye."
    assert write("srt") == (
        "1\n00:00:00,000 --> 00:00:01,500\nAnn: Hello there.\n\n"
        "2\n01:01:01,002 --> 01:01:02,000\nGood bye.\n"
    )
    assert write("vtt").startswith("WEBVTT\n\n00:00:00.000 --> 00:00:01.500\n<v Ann>Hello there.\n")
    assert write("json", times=True)["segments"][1] == {
        "start": 3661.002, "end": 3662.0, "text": "Good bye.",
    }  # fmt: skip
    assert "start" not in write("json")["segments"][0]


@pytest.mark.row("004-100")
@pytest.mark.parametrize(("form", "times"), [
    ("text", False), ("text", True), ("srt", False), ("vtt", False), ("json", True),
])  # fmt: skip
def test_a_long_transcript_comes_in_parts_within_the_budget(filled, form, times):
    lines = [f"Line {n} of a very long talk.\n" for n in range(3000)]
    starts = itertools.accumulate(map(len, lines), initial=0)
    pieces = tuple(
        Piece(text, n, start, begins=1000 * n, ends=1000 * n + 900)
        for n, (text, start) in enumerate(zip(lines, starts, strict=False))
    )
    store = filled.knowledge.of("local")
    (key,) = store.put("media", [Entry("media", "talk", pieces, media_type="video")])

    def read(tokens: int | None) -> tuple[list[Any], int]:
        parts, offset, longest = [], 0, 0
        while offset is not None:
            answer = media_transcript(filled, key, form, times, offset, tokens, work=work())
            parts.append(answer["content"])
            text = parts[-1] if isinstance(parts[-1], str) else json.dumps(parts[-1])
            longest, offset = max(longest, len(text)), answer.get("next_offset")
        return parts, longest

    parts, longest = read(None)
    assert 15_000 < longest <= 20_000
    few, _ = read(20_000)
    assert len(few) < len(parts)
    if form == "json":
        segments = [segment for part in parts for segment in part["segments"]]
        assert [segment["text"] for segment in segments] == [line.strip() for line in lines]
    else:
        assert "".join(parts) == "".join(few)
        assert all(line.strip() in "".join(parts) for line in lines)


@pytest.mark.row("004-100")
@pytest.mark.parametrize("form", ["srt", "json"])
def test_one_endless_line_is_cut_and_read_to_its_end(filled, form):
    said = "".join(f"word{n} " for n in range(2000))
    store = filled.knowledge.of("local")
    (key,) = store.put("media", [Entry("media", "talk", (Piece(said, 0),))])
    words, offset, rounds = "", 0, 0
    while offset is not None:
        answer = media_transcript(filled, key, form, offset=offset, max_tokens=500, work=work())
        content, rounds = answer["content"], rounds + 1
        part = content if isinstance(content, str) else content["segments"][0]["text"]
        words += part.strip().splitlines()[-1]
        offset = answer.get("next_offset")
    assert words.replace(" ", "") == said.replace(" ", "")
    assert rounds > 5


TEXT = draw_text("ab .\n!?。é\u0301ก👩\u200d🚀🇩🇪x", 300)


@pytest.mark.row("004-71", "004-72")
@given(text=TEXT, size=st.integers(1, 80), overlap=st.integers(0, 40))
def test_ranges_cover_a_text(text, size, overlap):
    ranges = cut_ranges(text, size, overlap)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == len(text)
    assert all(end - start <= size for start, end in ranges)
    for (first, end), (second, _) in itertools.pairwise(ranges):
        assert first < second <= end
        assert end - second <= overlap
    assert "".join(piece.text for piece in cut_pieces(text)) == text


@pytest.mark.row("004-69", "004-70", "004-78")
@given(
    text=TEXT,
    anchor=st.integers(0, 400),
    tokens=st.integers(1, 60),
    per=st.integers(1, 6),
    window=st.integers(0, 4),
    mode=st.sampled_from(["chunk", "chunk_with_siblings", "full"]),
)
def test_no_retrieval_exceeds_its_budget(text, anchor, tokens, per, window, mode):
    options = Retrieval(
        mode, max_tokens=tokens, chars_per_token=per, chunk_size_tokens=12, sibling_window=window
    )
    shown = show_text(text, options, min(anchor, len(text)))
    assert math.ceil(len(shown.text) / per) <= tokens
    assert shown.text in text
    assert bool(shown.text) == bool(text)


def test_a_very_long_note_is_quick_enough(filled):
    store = filled.knowledge.of("local")
    store.put("notes", [text_entry("notes", "long", "word. " * 100_000 + "walrus", id="long")])
    answer = notes_get(filled, "long", {"mode": "chunk", "query": "walrus"}, work=work())
    assert answer["content"].endswith("walrus")


def test_pages_of_a_conversation_go_on_where_the_budget_ended(filled):
    small = {"mode": "full", "max_tokens": 6}
    seen: list[str] = []
    offset = 0
    for _ in range(20):
        got = chats_get(filled, "c1", retrieval=small | {"offset": offset}, work=work())
        seen += [message["message_id"] for message in got["content"]["messages"]]
        if "next_offset" not in got:
            break
        offset = got["next_offset"]
    assert seen == [f"m{at}" for at in range(6)]
    with pytest.raises(InvalidRequest, match="max_tokens"):
        chats_get(filled, "c1", retrieval={"mode": "full", "max_tokens": "x"}, work=work())


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
"""One character to whoever reads it, five to a computer."""


@pytest.mark.parametrize("tokens", [1, 2, 3, 5])
def test_fields_are_cut_between_characters_and_read_to_their_end(filled, tokens):
    fields = {"description": FAMILY * 3, "personality": f"kind {FAMILY}"}
    pieces = [Piece(text, at, field=name) for at, (name, text) in enumerate(fields.items())]
    store = filled.knowledge.of("local")
    (key,) = store.put("characters", [Entry("characters", "Family", tuple(pieces))])
    got, parts, offset = dict.fromkeys(fields, ""), [], 0
    for _ in range(100):
        options = {"mode": "full", "max_tokens": tokens, "offset": offset}
        answer = characters_get(filled, key, options, work=work())
        for name in fields:
            got[name] += answer["content"].get(name, "")
            parts.append(answer["content"].get(name, ""))
        if "next_offset" not in answer:
            break
        offset = answer["next_offset"]
    assert got == fields
    if tokens > 1:  # there is room for one
        assert not [part for part in parts if part.endswith("\u200d") or part[:1] == "\u200d"]


def test_a_message_is_cut_between_characters(filled):
    store = filled.knowledge.of("local")
    (key,) = store.put("chats", [Entry("chats", "Long", (Piece(FAMILY * 9, 0, uuid="m"),))])
    options = {"mode": "full", "max_tokens": 3}
    (message,) = chats_get(filled, key, retrieval=options, work=work())["content"]["messages"]
    assert message["content"] == FAMILY * 2
