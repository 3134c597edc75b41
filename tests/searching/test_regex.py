import re
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.errors import InvalidPattern
from sonde.policy.read import FileContent
from sonde.searching.regex import compile_pattern, grep_files, required_literals
from sonde.work import Work


def grep(
    pattern: str, text: str, **options: bool
) -> list[tuple[int, str, tuple[tuple[int, int], ...]]]:
    expression = compile_pattern(pattern, **options)
    content = FileContent("f", text, "", len(text), 0)
    matches = grep_files(expression, ["f"], lambda _: content, Work())
    return [(match.line, match.text, match.spans) for match in matches]


def test_lines_come_with_their_numbers_and_columns() -> None:
    assert grep(r"b+", "abba\nxx\nb") == [(1, "abba", ((1, 3),)), (3, "b", ((0, 1),))]


def test_a_match_never_crosses_a_line() -> None:
    assert grep(r"a\s+b", "a\nb\na b\n") == [(3, "a b", ((0, 3),))]


@pytest.mark.parametrize(
    ("pattern", "options", "lines"),
    [
        ("FOO", {"ignore_case": True}, [1, 2, 3]),
        ("foo", {"whole_word": True}, [1]),
        ("f.o", {"fixed_string": True}, []),
        ("^foo$", {}, [1]),
        ("ö", {}, [4]),
    ],
)
def test_switches_do_what_they_say(
    pattern: str, options: dict[str, bool], lines: list[int]
) -> None:
    found = grep(pattern, "foo\nfoobar\nFOO\nö foo_\n", **options)
    expected = lines + ([4] if pattern == "FOO" else [])
    assert [line for line, *_ in found] == expected


def test_columns_count_characters_not_bytes() -> None:
    assert grep("b", "äöb") == [(1, "äöb", ((2, 3),))]


@pytest.mark.parametrize("pattern", [r"(?=a)", r"(?<!a)b", r"(a)\1", r"(?P=x)"])
def test_what_cannot_be_matched_in_linear_time_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(InvalidPattern, match="at position"):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", "*a", r"\p{Nope}"])
def test_a_broken_pattern_says_what_is_wrong(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        compile_pattern(pattern)


def test_an_explosive_pattern_is_answered_at_once() -> None:
    assert grep("(a+)+$", "a" * 50_000 + "!") == []


PIECES = st.sampled_from(
    [
        "abc",
        "x",
        ".",
        "[a-c]",
        "[^b]",
        r"\d",
        r"\.",
        "d?",
        "e*",
        "fgh+",
        "^",
        "$",
        " ",
        r"\w+",
        "[]x]",
    ]
)


@settings(max_examples=300)
@given(
    st.lists(PIECES, min_size=1, max_size=6).map("".join),
    st.text(alphabet=string.ascii_lowercase[:10] + " .1]\n", max_size=60),
)
def test_what_is_required_is_in_every_match(pattern: str, text: str) -> None:
    for line in text.split("\n"):
        for match in re.finditer(pattern, line):
            for literal in required_literals(pattern):
                assert literal in match.group()
