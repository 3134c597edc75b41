from hypothesis import example, given
from hypothesis import strategies as st
from tests.drawing import draw_text

from sonde.ranking.question import read_question
from sonde.ranking.snippets import _weigh_lines, cut_around, cut_snippet
from sonde.text.words import index_terms
from sonde.types import Span


def span_of(text: str) -> Span:
    lines = text.count("\n") + (0 if text.endswith("\n") else 1)
    return Span(1, max(lines, 1), 0, len(text.encode()))


@given(
    draw_text("abcd( \n\u00e9\u6771", 600, 1),
    st.integers(20, 400),
    st.none() | st.integers(1, 30),
    st.none() | st.tuples(st.integers(0, 600), st.integers(1, 60)),
)
@example("aaaaa(d\n\naaaaaaaaaaa\na", 20, 4, None)
@example("a\n" + "\u00e9b " * 30, 20, None, (60, 9))
def test_a_snippet_is_what_the_file_says_at_its_lines(
    text: str, limit: int, opening: int | None, place: tuple[int, int] | None
) -> None:
    question, answer = read_question("abc d"), None
    if place:
        start, length = min(place[0], len(text) - 1), min(place[1], limit)
        answer = (start, min(start + length, len(text)))
    if answer:
        cut = cut_around(text, span_of(text), limit, answer)
    else:
        cut = cut_snippet(question, text, span_of(text), limit, opening=opening)
    if answer and "\n" not in text[slice(*answer)].strip("\n"):
        assert text[slice(*answer)].strip("\n") in cut.text
    assert len(cut.text) <= limit
    span, lines = cut.span, text.split("\n")
    assert text.encode()[: span.start_byte].count(b"\n") + 1 == span.start_line
    if not cut.parts:
        assert text.encode()[span.start_byte : span.end_byte].decode() == cut.text
        assert span.end_line - span.start_line == cut.text.count("\n")
        return
    (first, end), (start, last) = cut.parts
    assert (first, last) == (span.start_line, span.end_line)
    assert end < start - 1
    shown = [*lines[first - 1 : end], "⋮", *lines[start - 1 : last]]
    assert cut.text == "\n".join(shown)[:limit]


def test_a_snippet_at_the_end_ends_with_its_chunk() -> None:
    text = "x\n" * 60 + "retry with backoff\n\n"
    cut = cut_snippet(read_question("retry"), text, span_of(text), 40)
    assert cut.text.endswith("retry with backoff")
    assert cut.span.end_line == 61


def test_the_lines_with_the_words_are_shown() -> None:
    text = (
        "\n".join(f"filler line {i}" for i in range(60))
        + "\nretry with backoff here\n"
        + "x\n" * 60
    )
    cut = cut_snippet(read_question("retry backoff"), text, span_of(text), 200)
    assert "retry with backoff here" in cut.text
    assert cut.span.start_line <= 61 <= cut.span.end_line


def test_a_long_definition_shows_its_signature_and_the_lines_that_answer() -> None:
    text = "def send(\n    self,\n):\n" + "    pass\n" * 100 + "    retry(backoff)\n"
    question = read_question("retry with backoff")
    cut = cut_snippet(question, text, span_of(text), 150, opening=1)
    assert cut.text.startswith("def send(\n    self,\n):\n⋮\n")
    assert cut.text.endswith("    retry(backoff)")
    assert cut.parts[0] == (1, 3)
    assert cut.parts[1][1] == 104


def test_a_name_shows_its_definition_from_the_beginning() -> None:
    text = "@cached\ndef send(self):\n" + "    pass\n" * 100 + "    send()\n"
    cut = cut_snippet(read_question("send"), text, span_of(text), 150, opening=2)
    assert cut.text.startswith("@cached\ndef send(self):\n    pass\n")
    assert not cut.parts


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
    text = "before = 1\n" * 20 + "redact(text)\n" + "after = 2\n" * 20
    cut = cut_snippet(read_question("redact"), text, span_of(text), 150)
    lines = cut.text.split("\n")
    assert lines[:3] == ["before = 1", "before = 1", "redact(text)"]
    assert lines[3:] == ["after = 2"] * (len(lines) - 3)
    assert len(lines) > 6
    assert cut.span.start_line == 19
