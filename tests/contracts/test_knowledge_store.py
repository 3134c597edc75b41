"""What every store of personal knowledge does, whatever keeps the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.stores.knowledge.base import (
    ANYTHING,
    SOURCES,
    Conditions,
    Entry,
    KnowledgeStore,
    Piece,
    Source,
)
from sonde.text.words import index_text, query_terms, read_words

from .postgres import needs_postgres, open_knowledge

Opener = Callable[[str], KnowledgeStore]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=needs_postgres)])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_store(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens the store of a user."""
    opened: list[KnowledgeStore] = []
    database = request.getfixturevalue("empty_database") if backend == "postgres" else None

    def open_one(user: str = "ann") -> KnowledgeStore:
        opened.append(open_knowledge(backend, tmp_path, user, database))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Opener) -> KnowledgeStore:
    return open_store("ann")


def note(text: str, title: str = "", source: Source = "notes", **facts: object) -> Entry:
    pieces = (Piece(text),) if text else ()
    return Entry(source, title, pieces, created_at=1, last_modified=2, **facts)  # type: ignore[arg-type]


def ask(text: str) -> list[str]:
    return [term for word in read_words(text) for term in query_terms(text[word.start : word.end])]


def titles(store: KnowledgeStore, query: str, where: Conditions = ANYTHING, source="notes"):
    found = store.rank(source, ask(query), 50, where)
    places = store.locate(source, [one.id for one in found])
    return [places[one.id].entry.title for one in found]


@pytest.mark.parametrize("source", SOURCES)
def test_an_entry_comes_back_as_it_was_put(store, source):
    entry = Entry(
        source,
        "A title ✓",
        (
            Piece("one ", 0, 0, "text", "u-1", "ann", 5, 10, 20),
            Piece("two", 1, 4, "text", "u-2", "bob"),
        ),
        id="7" if source in ("media", "characters", "prompts") else "seven",
        created_at=11,
        last_modified=12,
        version=3,
        tags=("Größe", "b"),
        media_type="pdf",
        url="https://example.org/ü",
        character="4",
        facts={"author": "Zoë", "deep": {"list": [1, None, 2.5]}},
        origin="vault",
        path="a/b.md",
        hash="abc",
    )
    assert store.put(source, [entry]) == [entry.id]
    back = store.get(source, entry.id)
    assert back is not None
    assert [piece.number > 0 for piece in back.pieces] == [True, True]
    plain = [replace_number(piece) for piece in back.pieces]
    assert (plain, back.facts, back.tags) == (list(entry.pieces), entry.facts, entry.tags)
    for name in ("id", "title", "created_at", "last_modified", "version", "media_type", "url"):
        assert getattr(back, name) == getattr(entry, name)
    head = store.get(source, entry.id, pieces=False)
    assert head is not None
    assert head.pieces == ()
    assert store.list_origin(source, "vault")["a/b.md"].hash == "abc"
    assert store.list_origin(source, "") == {}
    assert store.list_marks(source, "vault") == {"a/b.md": (entry.id, "abc")}


def replace_number(piece: Piece) -> Piece:
    from dataclasses import replace

    return replace(piece, number=0)


@pytest.mark.parametrize("source", SOURCES)
def test_ids_are_given_out_and_never_again(store, source):
    first, second = store.put(source, [note("x", source=source), note("y", source=source)])
    assert first != second
    assert (first.isdecimal() and second.isdecimal()) == (
        source in ("media", "characters", "prompts")
    )
    assert store.remove(source, [second]) == 1
    assert store.remove(source, [second]) == 0
    (third,) = store.put(source, [note("z", source=source)])
    assert third not in (first, second)
    assert store.get(source, second) is None


def test_putting_an_id_again_replaces_what_it_had(store):
    (key,) = store.put("notes", [note("walrus herd", "old")])
    store.put("notes", [note("otter raft", "new", id=key, version=2)])
    assert titles(store, "walrus") == []
    assert titles(store, "otters") == ["new"]
    assert store.count("notes")[0] == 1


@pytest.mark.row("004-122")
@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Die Übungsgröße ist groß", "ubungsgrosse"),
        ("naïve CAFÉ culture", "NAIVE cafe"),
        ("黒猫が好きです", "黒猫"),
        ("黒猫が好きです", "好き"),
        ("一匹の猫", "猫"),
        ("猫が一匹", "猫"),
        ("ภาษาไทยน่าเรียน", "ไทย"),
        ("كِتَابٌ جميل", "كتاب"),
        ("أحمد في البيت", "احمد"),
        ("हिन्दी में लिखो", "हिन्दी"),
        ("שָׁלוֹם לכולם", "שלום"),
        ("ship it 🎉 today", "🎉"),
        ("call getHTTPResponse_2 first", "http response"),
        ("call get_user_name first", "getUserName"),
        ("the runners were running", "run"),
        ("photosynthesis in leaves", "photosyn"),
        ("Elektrofotosynthese", "fotosynthese"),
        ("Straße nach Süden", "STRASSE"),
        ("Привет, Мир", "мир"),
    ],
)
def test_a_text_is_found_by_its_words_in_any_script(store, text, query):
    store.put("notes", [note(text, "it"), note("nothing of the kind", "other")])
    assert titles(store, query) == ["it"]


def test_titles_and_tags_count(store):
    store.put(
        "notes", [note("a walrus here", "far"), note("some text", "Walrus", tags=("Sea Life",))]
    )
    assert titles(store, "walrus")[0] == "Walrus"
    assert titles(store, "sea life") == ["Walrus"]
    assert store.find_title("notes", "WALRUS").title == "Walrus"
    assert store.find_title("notes", "wal") is None


def test_conditions_act_inside_retrieval(store):
    many = [note(f"walrus number {at}", f"n{at}", "media", media_type="txt") for at in range(300)]
    one = note("walrus number among many", "the one", "media", media_type="pdf", tags=("Rare",))
    store.put("media", [*many, one])
    assert titles(store, "walrus", Conditions(media_types=("PDF",)), "media") == ["the one"]
    assert titles(store, "walrus", Conditions(tags=("#rare",)), "media") == ["the one"]
    assert titles(store, "walrus", Conditions(tags=("rare", "no such")), "media") == []
    assert titles(store, "walrus", Conditions(media_types=("epub",)), "media") == []
    assert titles(store, "walrus", Conditions(since=2), "media") == []
    assert len(titles(store, "walrus", Conditions(since=1, until=1), "media")) == 50


def test_fields_senders_and_characters_narrow(store):
    chat = Entry(
        "chats",
        "Walrus talk",
        (Piece("hello walrus", 0, 0, "", "m1", "Ann"), Piece("hello", 1, 0, "", "m2", "Bob")),
        character="3",
    )
    store.put("chats", [chat])

    def find(**narrow: object) -> list[str]:
        found = store.rank("chats", ask("walrus hello"), 9, Conditions(**narrow))  # type: ignore[arg-type]
        places = store.locate("chats", [one.id for one in found])
        return sorted(place.piece.uuid or "title" for place in places.values())

    assert find() == ["m1", "m2", "title"]
    assert find(fields=("title",)) == ["title"]
    assert find(sender="ann") == ["m1"]
    assert find(character="3", sender="BOB") == ["m2"]
    assert find(character="4") == []


def test_pieces_are_read_by_place_and_by_name(store):
    pieces = tuple(Piece(f"p{at}", at, at * 2, uuid=f"u{at}") for at in range(5))
    (key,) = store.put("media", [Entry("media", "long", pieces)])
    assert [piece.text for piece in store.read_pieces("media", key, 1, 3)] == ["p1", "p2", "p3"]
    assert store.count_pieces("media", key) == 5
    assert store.find_piece("media", key, "u4").place == 4
    assert store.find_piece("media", key, "nope") is None
    assert store.read_pieces("media", "999", 0, 9) == []


def test_entries_are_listed_in_order_without_gap(store):
    keys = store.put("notes", [note(str(at), str(at)) for at in range(7)])
    seen: list[str] = []
    while page := store.list_entries("notes", seen[-1] if seen else "", 3):
        seen += [entry.id for entry in page]
    assert seen == keys


def test_what_is_removed_is_not_found_by_anything(store):
    keys = store.put("notes", [note(f"walrus {at}") for at in range(1200)])
    bare = sorted(found.piece.number for found in store.list_bare("notes", "m", 2000))
    rows = np.random.default_rng(1).normal(size=(1200, 4)).astype(np.float32)
    store.put_vectors("notes", "m", bare, rows)
    store.remove("notes", keys[:900])
    assert len(store.rank("notes", ask("walrus"), 2000)) == 300
    near = store.nearest("notes", "m", rows[1000], 400)
    assert len(near) == 300
    assert near[0].id == bare[1000]
    assert near[0].score == pytest.approx(float(np.linalg.norm(rows[1000])), rel=0.02)


def test_places_of_what_was_deleted_are_kept_per_user(store, open_store):
    places = {("/vault", "a.md"): "1:2:3", ("/vault", "b.json#x\udc80"): "4"}
    store.bury("notes", places)
    store.bury("notes", {("/vault", "a.md"): "9"})
    assert store.list_buried("notes") == places | {("/vault", "a.md"): "9"}
    assert store.list_buried("chats") == {}
    other = open_store("bob")
    other.unbury("notes", places)
    assert (len(store.list_buried("notes")), other.list_buried("notes")) == (2, {})
    store.unbury("notes", [("/vault", "a.md"), ("/vault", "never.md")])
    assert set(store.list_buried("notes")) == {("/vault", "b.json#x\udc80")}


def test_every_change_is_counted(store):
    assert store.coverage("notes", "any") == (0, 0)
    (key,) = store.put("notes", [note("a")])
    assert store.coverage("notes", "any") == (0, 1)
    store.remove("notes", [key])
    assert store.coverage("notes", "any") == (0, 0)


def test_what_was_written_is_there_for_the_next_opener(open_store):
    one = open_store("ann")
    (key,) = one.put("prompts", [note("be brief", "Style", "prompts")])
    assert open_store("ann").get("prompts", key).title == "Style"


@pytest.mark.row("004-3")
def test_users_share_nothing(open_store):
    ann, bob = open_store("ann"), open_store("bob")
    (key,) = ann.put("notes", [note("secret walrus", "hers")])
    assert bob.get("notes", key) is None
    assert bob.rank("notes", ask("walrus"), 10) == []
    assert bob.count("notes") == (0, 0)
    assert bob.remove("notes", [key]) == 0
    assert bob.find_title("notes", "hers") is None
    (other,) = bob.put("notes", [note("his", id=key)])
    assert other == key
    assert ann.get("notes", key).title == "hers"


ANY_TEXT = st.text(max_size=60) | st.sampled_from(
    ['"', "AND", "NOT (", "a*", "-x", "NEAR(", "col:", "'; DROP TABLE notes", "\0", "\ud800", "🎉"]
)


@pytest.mark.row("004-122")
@settings(max_examples=150)
@given(text=ANY_TEXT, query=ANY_TEXT)
def test_no_text_and_no_question_breaks_anything(shared, text, query):
    """Whatever is stored comes back, and is found by each of its own words."""
    (key,) = shared.put("notes", [note(text, text)])
    back = shared.get("notes", key)
    assert "".join(piece.text for piece in back.pieces) == text
    assert back.title == text
    shared.rank("notes", ask(query), 10)
    numbers = {piece.number for piece in back.pieces}
    for word in list(read_words(text))[:3]:
        terms = query_terms(text[word.start : word.end])
        if terms and all(term in index_text(text) for term in terms):
            assert numbers <= {one.id for one in shared.rank("notes", terms, 10_000)}
    shared.remove("notes", [key])


@pytest.fixture(scope="module")
def shared(
    backend: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[KnowledgeStore]:
    database = request.getfixturevalue("database") if backend == "postgres" else None
    store = open_knowledge(backend, tmp_path_factory.mktemp("shared"), "shared", database)
    yield store
    store.close()


def test_small_things_are_remembered_for_a_while(open_store):
    one = open_store("ann")
    one.remember("k", "v\0\ud800", 60)
    one.remember("old", "v", -1)
    assert (one.recall("k"), one.recall("old"), one.recall("none")) == ("v\0\ud800", None, None)
    assert open_store("bob").recall("k") is None


@pytest.mark.parametrize("odd", ["\0", "\ud800", "a\udc80b"])
def test_odd_names_and_conditions_find_nothing(store, odd):
    for source in ("notes", "media"):
        (key,) = store.put(source, [note("hello walrus", "walrus", source)])
        assert store.get(source, odd) is None
        assert store.find_title(source, odd) is None
        assert store.find_piece(source, odd, odd) is None
        assert store.find_piece(source, key, odd) is None
        assert (store.read_pieces(source, odd, 0, 9), store.count_pieces(source, odd)) == ([], 0)
        assert [entry.id for entry in store.list_entries(source, odd)] == [key]
        assert store.list_origin(source, odd) == {}
        assert store.remove(source, [odd]) == 0
        bare = [found.piece.number for found in store.list_bare(source, "m", 9)]
        store.put_vectors(source, "m", bare, np.ones((len(bare), 4), np.float32))
        for where in (
            Conditions(tags=(odd,)), Conditions(sender=odd), Conditions(character=odd),
            Conditions(media_types=(odd,)), Conditions(fields=(odd,)),
        ):  # fmt: skip
            assert store.rank(source, ask("walrus"), 9, where) == []
            assert store.nearest(source, "m", np.ones(4, np.float32), 9, where) == []
        (again,) = store.put(source, [note("odd", id=odd, source=source, tags=(odd,))])
        assert (again, store.get(source, odd).tags) == (odd, (odd,))
        assert len(store.rank(source, ask("odd"), 9, Conditions(tags=(odd,)))) == 1
        assert store.remove(source, [odd]) == 1


def test_ids_that_are_no_plain_numbers_keep_theirs_and_take_nobody_elses_place(store):
    ids = ["9" * 30, "\u0663", "007", "3", "7", "x"]
    for name in ids:
        assert store.put("media", [note(f"text {name}", name, "media", id=name)]) == [name]
    (fresh,) = store.put("media", [note("new", "new", "media")])
    assert fresh not in ids
    assert {name: store.get("media", name).title for name in ids} == {name: name for name in ids}
