"""Words, stems, cuts and snippets."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.drawing import ANY, draw_list, draw_text

from sonde.knowledge.ranking import read_knowledge_query
from sonde.knowledge.retrieval import cut_excerpt, find_run
from sonde.text.cuts import floor_boundary, is_boundary
from sonde.text.formats import read_day_end, read_time, show_time
from sonde.text.words import fold_text, index_text, query_terms, stem_word

# from the tables of Porter's paper; the last row from his later rules
STEMS = """
caresses caress ponies poni ties ti cats cat feed feed agreed agre plastered plaster bled bled
motoring motor sing sing conflated conflat troubled troubl sized size hopping hop tanned tan
falling fall hissing hiss fizzed fizz failing fail filing file happy happi sky sky relational relat
conditional condit rational ration digitizer digit operator oper feudalism feudal decisiveness decis
hopefulness hope formaliti formal sensitiviti sensit triplicate triplic formative form electrical
electr goodness good revival reviv allowance allow inference infer airliner airlin adjustable adjust
replacement replac adoption adopt communism commun activate activ effective effect probate probat
rate rate cease ceas controll control roll roll generalizations gener oscillators oscil
technology technolog technologies technolog possible possibl possibly possibl
""".split()


@pytest.mark.parametrize(("word", "stem"), list(zip(STEMS[::2], STEMS[1::2], strict=True)))
def test_stems_are_porters(word, stem):
    assert stem_word(word) == stem


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ÜBUNG", "übung"),
        ("Straße", "strasse"),
        ("كِتَاب", "كتاب"),
        ("Ａｂｃ", "abc"),
        ("ﬁne", "fine"),
    ],
)
def test_spellings_of_one_word_share_their_terms(one, other):
    assert index_text(one) == index_text(other)


def test_japanese_letters_stay_apart():
    assert index_text("かき") != index_text("がき")


def test_small_words_count_only_when_there_is_nothing_else():
    assert read_knowledge_query("what is the walrus").terms == ("walru",)
    assert read_knowledge_query("to be or not to be").terms


@given(draw_text(ANY, 80))
def test_any_text_has_terms_that_an_index_can_hold(text):
    for term in index_text(text):
        assert term
        assert all(c.isalnum() or ord(c) > 127 for c in term)
        term.encode()
    for term in query_terms(text):
        assert '"' not in term
    fold_text(text)


CLUSTERS = ["e\u0301", "👩‍🚀", "🇩🇪", "👍🏽", "각", "한", "กำ", "นี้", "a", " ", "क्षि", "\r\n"]


@given(draw_list(st.sampled_from(CLUSTERS), 30))
def test_no_cut_falls_inside_a_character(parts):
    text = "".join(parts)
    cuts = {sum(map(len, parts[:n])) for n in range(len(parts) + 1)}
    for at in range(len(text) + 1):
        assert is_boundary(text, at) == (at in cuts)
        assert is_boundary(text, floor_boundary(text, at))


@pytest.mark.row("004-63", "004-65")
@given(
    parts=draw_list(st.sampled_from([*CLUSTERS, "walrus ", "sea ", "\n\n"]), 200),
    length=st.integers(50, 200),
)
def test_snippets_are_short_flat_and_whole(parts, length):
    text = "".join(parts)
    snippet = cut_excerpt(text, find_run(text, ("walru",), length=length), length)
    assert len(snippet) <= length
    assert snippet == " ".join(snippet.split())
    flat = " ".join(text.split())
    inner = snippet.strip("…").strip()
    assert inner in flat
    if "walrus" in flat.split(" "):
        assert "walrus" in snippet
    start = flat.find(inner)
    assert is_boundary(flat, start)
    assert is_boundary(flat, start + len(inner)) or flat.find(inner, start + 1) >= 0


@pytest.mark.row("004-64")
def test_a_snippet_prefers_the_place_with_most_of_the_words():
    text = "walrus " + "x " * 300 + "the walrus and the sea " + "y " * 300
    assert "walrus and the sea" in cut_excerpt(text, find_run(text, ("walru", "sea")), 60)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1_700_000_000, "2023-11-14T22:13:20Z"),
        (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
        ("2024-02-29", "2024-02-29T00:00:00Z"),
        ("2024-02-29T10:00:00+02:00", "2024-02-29T08:00:00Z"),
        ("20240229T101112Z", "2024-02-29T10:11:12Z"),
        ("soon", None),
        (float("nan"), None),
        (None, None),
    ],
)
def test_times_are_read_from_what_formats_give(value, shown):
    assert show_time(read_time(value)) == shown


def test_a_day_ends_with_its_last_millisecond():
    assert show_time(read_day_end("2024-02-29")) == "2024-02-29T23:59:59.999Z"


def test_long_words_are_not_kept_in_memory() -> None:
    index_text("warm up")
    tracemalloc.start()
    try:
        for number in range(100):
            assert index_text(f"{'ab' * 50_000}{number}")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1_000_000
