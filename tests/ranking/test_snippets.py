from hypothesis import given
from hypothesis import strategies as st
from tests.drawing import draw_text

from sonde.ranking.question import read_question
from sonde.ranking.snippets import _weigh_lines, cut_snippet
from sonde.text.words import index_terms
from sonde.types import Span


def span_of(text: str) -> Span:
    lines = text.count("\n") + (0 if text.endswith("\n") else 1)
    return Span(1, max(lines, 1), 0, len(text.encode()))


@given(
    draw_text("abcd \n\u00e9\u6771", 600, 1),
    st.integers(20, 400),
    st.booleans(),
)
def test_a_snippet_is_what_the_file_says_at_its_span(text: str, limit: int, opens: bool) -> None:
    question = read_question("abc d")
    shown, span = cut_snippet(question, text, span_of(text), limit, symbol="b" if opens else "")
    assert len(shown) <= limit
    assert text.encode()[span.start_byte : span.end_byte].decode() == shown
    first_line = text.encode()[: span.start_byte].count(b"\n") + 1
    assert span.start_line == first_line
    assert span.end_line - span.start_line == shown.count("\n")
    assert span.end_line <= max(span_of(text).end_line, 1)


def test_a_snippet_at_the_end_ends_with_its_chunk() -> None:
    text = "x\n" * 60 + "retry with backoff\n\n"
    shown, span = cut_snippet(read_question("retry"), text, span_of(text), 40)
    assert shown.endswith("retry with backoff")
    assert span.end_line == 61


def test_the_lines_with_the_words_are_shown() -> None:
    text = (
        "\n".join(f"filler line {i}" for i in range(60))
        + "\nretry with backoff here\n"
        + "x\n" * 60
    )
    shown, span = cut_snippet(read_question("retry backoff"), text, span_of(text), 200, symbol="")
    assert "retry with backoff here" in shown
    assert span.start_line <= 61 <= span.end_line


def test_a_definition_keeps_its_first_line() -> None:
    text = "def send(self):\n" + "    pass\n" * 100 + "    retry()\n"
    shown, _ = cut_snippet(read_question("retry"), text, span_of(text), 150, symbol="Client.send")
    assert shown.startswith("def send(self):")


@given(st.lists(st.text("aAbB_1 .-é", max_size=12), min_size=1, max_size=8))
def test_lines_that_cannot_hold_a_term_are_told_without_splitting_them(lines: list[str]) -> None:
    question = read_question("aBa_b1 bb a1 AB")
    wanted = set(question.terms)
    seen: set[str] = set()
    expected = []
    for line in lines:
        found = wanted.intersection(index_terms(line))
        expected.append(sum(1.0 if term not in seen else 0.3 for term in found))
        seen |= found
    assert _weigh_lines(question, lines) == expected


def test_what_follows_a_match_is_shown_rather_than_what_stands_before_it() -> None:
    text = "before = 1\n" * 20 + "def redact(text):\n" + "    body = 2\n" * 20
    shown, span = cut_snippet(read_question("redact"), text, span_of(text), 150, symbol="redact")
    lines = shown.split("\n")
    assert lines[:3] == ["before = 1", "before = 1", "def redact(text):"]
    assert lines[3:] == ["    body = 2"] * (len(lines) - 3)
    assert len(lines) > 6
    assert span.start_line == 19
