"""Filters: text, tree and JSON say the same; what is wrong is told with its place."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.errors import InvalidPattern
from sonde.stores.disk.filters import (
    COMPARISONS,
    EVERYTHING,
    FIELDS,
    KINDS,
    TRAITS,
    And,
    Condition,
    Filter,
    Not,
    Or,
    filter_to_json,
    parse_filter,
    read_filter_json,
    read_moment,
    render_filter,
)

TEXT = st.text(st.characters(blacklist_characters="\0"), min_size=1, max_size=20)
NUMBERS = st.integers(0, 1 << 50)


def make_conditions() -> st.SearchStrategy[Condition]:
    arms: list[st.SearchStrategy[Condition]] = []
    for field, ops in FIELDS.items():
        value: st.SearchStrategy[str | int] = TEXT
        if field == "kind":
            value = st.sampled_from(KINDS)
        elif field == "is":
            value = st.sampled_from(TRAITS)
        elif field == "modified":
            value = st.integers(0, 253_402_300_799_999)
        elif field == "age":
            value = st.integers(0, 100_000_000_000)
        elif ops is COMPARISONS:
            value = NUMBERS
        elif field == "ext":
            value = st.from_regex(r"[a-z0-9_]{1,8}", fullmatch=True)
        arms.append(st.builds(Condition, st.just(field), st.sampled_from(ops), value))
    return st.one_of(arms)


def grow(inner: st.SearchStrategy[Filter]) -> st.SearchStrategy[Filter]:
    several = st.lists(inner, min_size=2, max_size=4).map(tuple)
    return st.builds(And, several) | st.builds(Or, several) | st.builds(Not, inner)


FILTERS = st.recursive(make_conditions(), grow, max_leaves=12) | st.just(EVERYTHING)


@given(FILTERS)
def test_text_and_json_round_trip(tree: Filter) -> None:
    assert parse_filter(render_filter(tree)) == tree
    assert read_filter_json(json.loads(json.dumps(filter_to_json(tree)))) == tree


@given(st.text(max_size=60) | st.lists(st.sampled_from(
    ["size>1", "not", "and", "or", "(", ")", "-", '"', "name:", "ext:py", "kind:file", "~", " "]
)).map(" ".join))  # fmt: skip
def test_any_text_is_a_filter_or_a_clear_refusal(text: str) -> None:
    try:
        tree = parse_filter(text)
    except InvalidPattern as error:
        told = error.user_message
    else:
        assert parse_filter(render_filter(tree)) == tree
        told = "position"
    assert "position" in told


def test_words_bind_as_people_expect() -> None:
    a, b, c = Condition("ext", ":", "a"), Condition("ext", ":", "b"), Condition("ext", ":", "c")
    assert parse_filter("ext:a ext:b or ext:c") == Or((And((a, b)), c))
    assert parse_filter("ext:a (ext:b or ext:c)") == And((a, Or((b, c))))
    assert parse_filter("not ext:a ext:b") == And((Not(a), b))
    assert parse_filter("-ext:.A") == Not(a)
    assert parse_filter("  ") == EVERYTHING


def test_sizes_spans_and_dates_are_read() -> None:
    assert parse_filter("size>=10MB") == Condition("size", ">=", 10 << 20)
    assert parse_filter("size<1k") == Condition("size", "<", 1024)
    assert parse_filter("age>2w") == Condition("age", ">", 14 * 86_400)
    assert parse_filter("modified<1970-01-02") == Condition("modified", "<", 86_400_000)
    assert parse_filter("modified=1970-01-01T01:00:00+01:00") == Condition("modified", "=", 0)
    assert read_moment("1d", 86_400_000) == 0
    assert read_moment("1970-01-01", 5) == 0


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("size>", 5),
        ("size>ten", 5),
        ("colour:red", 0),
        ("ext>py", 0),
        ("ext:py or", 9),
        ("(ext:py", 7),
        ("ext:py)", 6),
        ("kind:thing", 0),
        ("is:thing", 0),
        ('name:""', 0),
        ("name:a\0b", 0),
        ('ext:"."', 0),
        ("modified<2026-99-01", 9),
        ("depth<1MB", 6),
        ("x" * 5000, 4000),
        ("(" * 60 + "ext:a" + ")" * 60, 40),
        ("not " * 60 + "ext:a", 159),
        (" ".join(["ext:a"] * 101), 600),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, at: int) -> None:
    with pytest.raises(InvalidPattern) as told:
        parse_filter(text)
    assert f"(position {at})" in told.value.user_message
    assert told.value.next_action


@pytest.mark.parametrize(
    "value",
    [
        None, [], {}, {"and": [{"field": "ext", "op": ":", "value": "a"}]}, {"field": "ext"},
        {"field": "size", "op": ">", "value": "1"}, {"field": "size", "op": ">", "value": True},
        {"field": "ext", "op": ":", "value": "a", "x": 1}, {"not": None}, {"or": "x"},
        {"field": "size; DROP", "op": ">", "value": 1},
        {"field": "size", "op": "> 0 OR 1", "value": 1},
    ],
)  # fmt: skip
def test_json_that_is_no_filter_is_refused(value: object) -> None:
    with pytest.raises(InvalidPattern):
        read_filter_json(value)
