"""The text of a passage, from all of its chunks or from the first of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.ranking.candidate import Candidate
from sonde.ranking.passages import Passage
from sonde.types import Chunk, FileState, Span, Symbol

STATE = FileState("shop.py", "0" * 64, 0, 1, "python", "code")


def cut_chunks(lines: list[str], each: int) -> list[Chunk]:
    """Chunks of so many lines, without gaps."""
    chunks, at = [], 0
    for first in range(0, len(lines), each):
        text = "".join(f"{line}\n" for line in lines[first : first + each])
        last = first + text.count("\n")
        chunks.append(Chunk("shop.py", text, Span(first + 1, last, at, at + len(text)), id=first))
        at += len(text)
    return chunks


def make_type(chunks: list[Chunk], start: int, own_lines: int) -> Passage:
    end = chunks[-1].span.end_line
    symbol = Symbol("Shop", "type", start, start, end)
    keys = tuple(chunk.id for chunk in chunks)
    return Passage(Candidate(STATE), symbol, start, end, keys, own_lines=own_lines)


@given(
    lines=st.lists(st.sampled_from(["", "x = 1", "word " * 30]), min_size=3, max_size=120),
    each=st.integers(1, 30),
    start=st.integers(1, 3),
    own_lines=st.integers(0, 40),
    most=st.integers(1, 8),
)
def test_the_first_chunks_are_enough_only_where_all_of_them_give_the_same(
    lines: list[str], each: int, start: int, own_lines: int, most: int
) -> None:
    chunks = cut_chunks(lines, each)
    start = min(start, chunks[0].span.end_line)
    few, whole = (make_type(chunks, start, own_lines) for _ in range(2))
    assert whole.read(chunks)
    if few.read(chunks[:most]):
        assert (few.text, few.start_byte) == (whole.text, whole.start_byte)


@pytest.mark.parametrize(("lines", "enough"), [(400, True), (80, False)])
def test_the_first_chunks_of_a_type_are_enough_if_it_is_too_large_to_be_shown(
    lines: int, enough: bool
) -> None:
    chunks = cut_chunks(["    def sell(self): ..."] * lines, 40)
    assert make_type(chunks, 1, 3).read(chunks[: 4 if enough else 1]) is enough
