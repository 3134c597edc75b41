import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.cli.commands.search import choose_window, find_opening
from sonde.text.highlight import find_query_words


@pytest.mark.parametrize(
    ("query", "line", "expected"),
    [
        ("parse header", "def parse_header(raw):", ["parse", "header"]),
        ("where is the response parsed?", "getHTTPResponse(parsed)", ["Response", "parsed"]),
        ("indexes", "build_index()", ["index"]),
        ("getUser", "get_user", ["get", "user"]),
        ("the", "the cat", []),
        ("to", "token", []),
        ("retry", "retries", []),
        ("café", "Cafe CAFÉ", ["Cafe", "CAFÉ"]),
        ("cafe", "un café", ["café"]),
        ("检索", "代码检索器", ["检索"]),
        ("sqlite3", "import sqlite3", ["sqlite"]),
        ("", "anything", []),
    ],
)
def test_query_words_are_found_in_identifiers(query: str, line: str, expected: list[str]) -> None:
    assert [line[a:b] for a, b in find_query_words(query)(line)] == expected


@given(st.text(), st.text())
def test_spans_lie_inside_the_line_for_any_query(query: str, line: str) -> None:
    for start, end in find_query_words(query)(line):
        assert 0 <= start < end <= len(line)


@given(st.lists(st.sampled_from(["", "cat", "cat dog", "x"]), max_size=30), st.integers(1, 8))
def test_the_window_holds_as_many_different_words_as_any_other(lines: list[str], size: int) -> None:
    find = find_query_words("cat dog")
    start, end = choose_window(lines, find, size)
    assert end - start == min(size, len(lines))
    found = [{line[a:b] for a, b in find(line)} for line in lines]
    runs = [set().union(*found[i : i + size]) for i in range(max(1, len(lines) - size + 1))]
    assert len(set().union(*found[start:end])) == max(map(len, runs))


def test_the_window_starts_a_little_above_what_was_found() -> None:
    lines = ["x"] * 20 + ["def load_settings():"] + ["settings = load()"] * 20
    start, end = choose_window(lines, find_query_words("load_settings"), 10)
    assert (start, end) == (18, 28)


@pytest.mark.parametrize(
    ("symbol", "opening"),
    [("Client.memory_map", 2), ("Client.other", None), ("Client.only_said", 3), ("", None)],
)
def test_a_definition_opens_where_code_names_it(symbol: str, opening: int | None) -> None:
    lines = ["/// Set how memory_map is used.", "///", "pub fn memory_map(", "// only_said"]
    assert find_opening(lines, symbol) == opening


def test_the_window_shows_a_definition_from_its_opening_on() -> None:
    lines = ["text"] * 12 + ["def redact(text):", "    return secrets"] + ["x"] * 20
    assert choose_window(lines, find_query_words("secrets text"), 10, 12) == (10, 20)
