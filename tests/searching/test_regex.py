import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonde.errors import InvalidPattern
from sonde.runtime.work import Work
from sonde.searching.lines.grep import compile_pattern, grep_text
from sonde.types import AllOf, FileText, Needs


def grep(
    pattern: str, text: str, **options: bool
) -> list[tuple[int, str, tuple[tuple[int, int], ...]]]:
    expression = compile_pattern(pattern, **options)
    matches = grep_text(expression, FileText("f", text.encode(), len(text), 0), Work())
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


@pytest.mark.parametrize(
    ("pattern", "lines"), [("get-", [1, 3]), ("-get", [2, 3]), ("get", [1, 2, 3, 4, 5])]
)
def test_a_whole_word_may_begin_or_end_with_another_character(
    pattern: str, lines: list[int]
) -> None:
    found = grep(pattern, "get- it\nthe -get\n-get-\nget-it\nthe-get\n", whole_word=True)
    assert [line for line, *_ in found] == lines


def test_flags_in_a_pattern_hold_from_where_they_stand() -> None:
    assert [line for line, *_ in grep("a(?i)b c", "ab c\naB C\nAb c\n")] == [1, 2]
    with pytest.raises(InvalidPattern, match="a repetition of nothing"):
        compile_pattern("a(?i)*")


def test_a_range_goes_from_a_character_to_itself_or_a_larger_one() -> None:
    assert [line for line, *_ in grep("x[b-b]", "xa\nxb\nxc\n")] == [2]
    with pytest.raises(InvalidPattern, match="from the larger to the smaller"):
        compile_pattern("[c-b]")


def test_columns_count_characters_not_bytes() -> None:
    assert grep("b", "äöb") == [(1, "äöb", ((2, 3),))]


@pytest.mark.parametrize(
    ("pattern", "name", "position"),
    [
        (r"x(?=a)", "look-ahead", 1),
        (r"(?!a)", "look-ahead", 0),
        (r"(?<=a)b", "look-behind", 0),
        (r"xy(?<!a)b", "look-behind", 2),
        (r"(a)\1", "back-references", 3),
        (r"(?P<x>a)(?P=x)", "back-reference", 8),
        (r"(?>a)", "atomic", 0),
        (r"a(?-u:.)", "bytes", 6),
        (r"(?R)a$", "CRLF", 2),
        (r"a{1001}", "more than 1000 repetitions", 1),
    ],
)
def test_what_is_not_supported_is_refused_by_name(pattern: str, name: str, position: int) -> None:
    with pytest.raises(InvalidPattern) as refused:
        compile_pattern(pattern)
    told = refused.value.developer_message
    assert name in told
    assert "not supported" in told
    assert f"at position {position}" in told
    # who does not see the developers' message is told the same
    assert f"at position {position}: " in refused.value.next_action
    assert name in refused.value.next_action
    compile_pattern(pattern, fixed_string=True)


@pytest.mark.row("000-P65")
@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        ("ab(", 2), ("a)b", 1), ("[a", 0), ("a[]", 1), ("a{2,1}", 1), ("*a", 0), (r"x\p{Nope}", 1),
        ("a{", 2), ("(?z)", 2), (r"ab\q", 2), ("a\\", 1), ("[z-a]", 1), (r"[a-\d]", 1),
        ("(?P<1>a)", 4), (r"\x{zz}", 0), ("a\nb", 1), (r"ab\n", 2),
    ],
)  # fmt: skip
def test_a_broken_pattern_says_where(pattern: str, position: int) -> None:
    with pytest.raises(InvalidPattern, match=rf"at position {position}\b"):
        compile_pattern(pattern)


@pytest.mark.row("000-P65")
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(a+)+$", "a" * 50_000 + "!"),
        (r"(a|a)*\b\B", "é" + "a" * 3_000),
        (r"(?:\w*){50}é!", "é" * 2_000),
    ],
)
def test_an_explosive_pattern_is_answered_at_once(pattern: str, text: str) -> None:
    assert grep(pattern, text) == []


def test_a_pattern_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(InvalidPattern, match="too large"):
        compile_pattern(r"(?:\w{1000}){1000}")
    with pytest.raises(InvalidPattern, match="deep"):
        compile_pattern("(" * 500 + ")" * 500)


def test_lines_around_a_match_are_those_of_the_file() -> None:
    content = FileText("f", b"one\ntwo\nthree x\nfour\nfive", 0, 0)
    for wide, before, after in ((1, ("two",), ("four",)), (9, ("one", "two"), ("four", "five"))):
        (match,) = grep_text(compile_pattern("x"), content, Work(), before=wide, after=wide)
        assert (match.before, match.after) == (before, after)
    first = grep_text(compile_pattern("one"), content, Work(), before=2, after=2)
    assert [(m.before, m.after) for m in first] == [((), ("two", "three x"))]
    ended = FileText("f", b"a\n\nx\n\n", 0, 0)
    last = grep_text(compile_pattern("x"), ended, Work(), before=2, after=3)
    assert [(m.before, m.after) for m in last] == [(("a", ""), ("",))]


PIECES = st.sampled_from(
    [
        "abc", "x", ".", "[a-c]", "[^b]", r"\d", r"\.", "d?", "e*", "fgh+", "^", "$", " ", r"\w+",
        "[]x]", "(abc|def)", "(?:gh|i?)", "(ab|cde)+", "(?i:ABC)", "(?:abcd){2}", "(a|b)(cd|ef)gh",
        r"\bab", "abc??",
    ]
)  # fmt: skip


@settings(max_examples=400)
@given(
    st.lists(PIECES, min_size=1, max_size=6).map("".join),
    st.text(alphabet=string.ascii_lowercase[:10] + "AB .1]\n", max_size=60),
)
def test_what_is_needed_is_in_every_line_that_matches(pattern: str, text: str) -> None:
    expression = compile_pattern(pattern)
    if expression.needs is None:
        return
    for line in grep(pattern, text):
        assert holds(line[1].casefold(), expression.needs)


def holds(line: str, needs: Needs) -> bool:
    if isinstance(needs, str):
        return needs.casefold() in line
    parts = [holds(line, part) for part in needs.parts]
    return all(parts) if isinstance(needs, AllOf) else any(parts)


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        ("hello", "hello"),
        (r"def \w+_test", "AllOf(parts=('def ', '_test'))"),
        ("(get|set)_name", "AnyOf(parts=('get_name', 'set_name'))"),
        ("colou?r", "AnyOf(parts=('color', 'colour'))"),
        ("import.*(numpy|torch)", "AllOf(parts=('import', AnyOf(parts=('numpy', 'torch'))))"),
        (r"(?:one.two|three)", "AnyOf(parts=(AllOf(parts=('one', 'two')), 'three'))"),
        (r"\bclass\s+Foo\b", "AllOf(parts=('class', 'Foo'))"),
        ("(abc)+x", "abc"),
        ("abc|x", "None"),
        (r"\w+", "None"),
    ],
)
def test_what_a_pattern_needs_is_read_from_it(pattern: str, needed: str) -> None:
    assert str(compile_pattern(pattern).needs).startswith(needed)


def test_half_a_character_in_a_line_is_no_part_of_a_word() -> None:
    data = "\ud800x é".encode("utf-8", "surrogatepass")
    assert [line.spans for line in compile_pattern(r"\bx").find_lines(data)] == [((3, 4),)]
