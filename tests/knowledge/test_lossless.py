"""Everything that can be kept comes back from an export as it was, for every source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.knowledge.editing import export_lines, restore_lines
from sonde.knowledge.formats import File
from sonde.knowledge.parsing import parse_file
from sonde.knowledge.retrieval import Retrieval
from sonde.knowledge.transcripts import write_transcript
from sonde.stores.knowledge.base import NUMBERED, SOURCES, Entry, Piece, Source
from sonde.stores.knowledge.sqlite import SqliteKnowledge

words = st.text(max_size=40)
lines = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)
times = st.integers(-(10**12), 10**13)
spans = st.none() | st.integers(0, 10**9)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)


@st.composite
def entries(draw: st.DrawFn, source: Source) -> Entry:
    """Anything a store may hold, with every field filled by chance."""
    pieces: list[Piece] = []
    fields = draw(st.lists(words.filter(lambda name: name != "title"), max_size=3, unique=True))
    for field in fields if source in ("characters", "prompts") else [""]:
        start = 0
        for text in draw(st.lists(words, max_size=4)):
            place = len(pieces)
            uuid = draw(words) or f"u{place}"
            pieces.append(
                Piece(text, place, start, field, uuid, draw(words), draw(st.none() | times),
                      draw(spans), draw(spans))
            )  # fmt: skip
            start += len(text)
    if not pieces and source in ("notes", "media"):
        pieces.append(Piece("", uuid="u"))  # the store gives an empty one its place
    number = draw(st.integers(1, 2**40))
    return Entry(
        source, draw(words), tuple(pieces),
        id=str(number) if source in NUMBERED else draw(words) or f"id{number}",
        created_at=draw(times), last_modified=draw(times), version=draw(st.integers(1, 2**31)),
        tags=tuple(draw(st.lists(words, max_size=3))), media_type=draw(words), url=draw(words),
        character=draw(words), facts=draw(st.dictionaries(words, values, max_size=4)),
        origin=draw(words), path=draw(words), hash=draw(words),
    )  # fmt: skip


def forget_numbers(entry: Entry) -> Entry:
    return replace(entry, number=0, pieces=tuple(replace(p, number=0) for p in entry.pieces))


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = [SqliteKnowledge(tmp_path_factory.mktemp("s") / name) for name in ("one", "two")]
    yield made
    for store in made:
        store.close()


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=40)
@given(data=st.data())
def test_an_export_holds_everything_and_restoring_it_adds_nothing(stores, source, data):
    one, two = stores
    for store in stores:
        for each in SOURCES:
            store.remove(each, [entry.id for entry in store.list_entries(each)])
            store.unbury(each, list(store.list_buried(each)))
    given_entries = data.draw(st.lists(entries(source), max_size=4, unique_by=lambda e: e.id))
    one.put(source, given_entries)
    gone = data.draw(st.dictionaries(st.tuples(words, words), st.just("hash"), max_size=2))
    places = {(entry.origin, entry.path) for entry in given_entries}
    one.bury(source, {place: text for place, text in gone.items() if place not in places})
    written = list(export_lines(one))
    assert all("\n" not in line for line in written)
    assert restore_lines(two, written) == len(given_entries)
    kept = {entry.id: forget_numbers(entry) for entry in two.list_entries(source)}
    assert kept == {entry.id: entry for entry in given_entries}
    assert two.list_buried(source) == one.list_buried(source)
    assert list(export_lines(two)) == written
    restore_lines(one, written)  # back to where it came from: nothing doubles
    assert list(export_lines(one)) == written


BOOK = {
    "name": "lore", "scan_depth": 4, "token_budget": 100, "recursive_scanning": True,
    "extensions": {"x": [1]},
    "entries": [{"keys": ["sea"], "content": "The sea is cold.", "extensions": {}, "enabled": True,
                 "insertion_order": 1, "use_regex": False, "selective": True, "id": 7,
                 "secondary_keys": ["ice"], "constant": False, "position": "before_char"}],
}  # fmt: skip
CARD = {
    "spec": "chara_card_v3", "spec_version": "3.0",
    "data": {
        "name": "Wally", "description": "A walrus.", "personality": "grumpy", "scenario": "ice",
        "first_mes": "Harumph.", "mes_example": "<START>", "creator_notes": "notes",
        "system_prompt": "be", "post_history_instructions": "after", "tags": ["sea"],
        "alternate_greetings": ["Hm.", "Oh."], "group_only_greetings": ["All."], "creator": "me",
        "character_version": "2", "nickname": "W", "source": ["http://x"],
        "creation_date": 1700000000, "modification_date": 1700000001,
        "creator_notes_multilingual": {"de": "Hinweis"},
        "assets": [{"type": "icon", "uri": "ccdefault:", "name": "main", "ext": "png"}],
        "extensions": {"depth_prompt": {"prompt": "p", "depth": 4}}, "character_book": BOOK,
    },
}  # fmt: skip


def send_through(tmp_path: Path, *made: Entry) -> list[Entry]:
    """Entries that were parsed, stored, exported and restored."""
    one, two = (SqliteKnowledge(tmp_path / name) for name in ("one", "two"))
    try:
        for entry in made:
            one.put(entry.source, [entry])
        restore_lines(two, list(export_lines(one)))
        return [entry for source in SOURCES for entry in two.list_entries(source)]
    finally:
        one.close()
        two.close()


def test_a_card_keeps_every_field_of_v3_and_can_be_read_again(tmp_path):
    file = File("wally.json", json.dumps(CARD).encode(), 1)
    (kept,) = send_through(tmp_path, *parse_file(file))
    assert kept.facts["card"] == CARD
    fields = {piece.field for piece in kept.pieces}
    assert fields >= {"description", "character_book", "alternate_greetings", "system_prompt"}
    again = File("wally.json", json.dumps(kept.facts["card"]).encode(), 1)
    assert parse_file(again)[0].pieces == parse_file(file)[0].pieces


def test_a_conversation_keeps_its_branches(tmp_path):
    def node(parent: str | None, text: str) -> dict[str, Any]:
        message = {"author": {"role": "user"}, "content": {"parts": [text]}, "create_time": 1.5}
        return {"parent": parent, "message": message}

    mapping = {"a": node(None, "root"), "b": node("a", "left"), "c": node("a", "right")}
    export = [{"title": "T", "conversation_id": "c1", "mapping": mapping, "current_node": "c"}]
    kept = send_through(tmp_path, *parse_file(File("x.json", json.dumps(export).encode(), 1)))
    told = {entry.title: [(p.uuid, p.text, p.created_at) for p in entry.pieces] for entry in kept}
    assert told == {
        "T": [("a", "root", 1500), ("c", "right", 1500)],
        "T (branch 2)": [("b", "left", 1500)],
    }
    assert kept[1].facts["branches_from"] == "a"


@settings(max_examples=40)
@given(
    cues=st.lists(
        st.tuples(
            st.integers(0, 10**8),
            st.integers(0, 10**6),
            st.text("abc é漢😀.,!?", min_size=1, max_size=30).filter(str.strip),
        ),
        min_size=1,
        max_size=6,
    ),
    form=st.sampled_from(["srt", "vtt"]),
)
def test_subtitles_that_are_written_are_read_back(cues, form):
    pieces = tuple(
        Piece(f"{text.strip()}\n", at, begins=begins, ends=begins + length)
        for at, (begins, length, text) in enumerate(cues)
    )
    entry = Entry("media", "t", pieces)
    written = write_transcript(entry, form, Retrieval(), timestamps=True)[0]
    assert isinstance(written, str)
    (read,) = parse_file(File(f"t.{form}", written.encode(), 1))
    assert [(p.begins, p.ends, p.text) for p in read.pieces] == [
        (p.begins, p.ends, p.text) for p in pieces
    ]


def test_an_export_of_ours_is_not_taken_for_a_log(tmp_path):
    from sonde.knowledge.formats import RefusedFormat

    store = SqliteKnowledge(tmp_path / "s")
    store.put("notes", [Entry("notes", "n", (Piece("x"),))])
    text = "\n".join(export_lines(store))
    store.close()
    with pytest.raises(RefusedFormat, match="restore"):
        parse_file(File("backup.jsonl", text.encode(), 1))
