"""The recursive splitter: sizes, overlaps and separators exactly as specified."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.drawing import ANY, draw_text

from sonde.chunking.packing import SPLITTINGS, Splitting, split_ranges
from sonde.chunking.parse import parse_source
from sonde.types import Kind

from .test_laws import check_span

SMALL = Splitting(40, 8, ("\n\n", "\n", ". ", " ", ""))
texts = draw_text("ab. \n\r🙂", 500) | draw_text(ANY, 300)


def test_the_parameters_are_the_documented_ones() -> None:
    assert SPLITTINGS["code"] == Splitting(4000, 800, ("\n\n", "\n", " ", ""))
    assert SPLITTINGS["docs"] == Splitting(8000, 2000, ("\n\n", "\n", ". ", " ", ""))


def breaks_of(text: str, separator: str, low: int, high: int) -> list[int]:
    """Every place in [low, high] right behind the separator."""
    return [at for at in range(max(low, 1), high + 1) if text[:at].endswith(separator)]


@given(text=texts)
@settings(max_examples=300)
def test_pieces_cover_the_text_within_size_and_overlap(text: str) -> None:
    ranges = split_ranges(text, SMALL)
    covered = 0
    for start, end in ranges:
        assert 0 < end - start <= SMALL.size
        assert start <= covered < end
        assert covered - start <= SMALL.overlap
        covered = end
    assert covered == len(text)


@given(text=texts)
@settings(max_examples=300)
def test_a_cut_is_as_late_as_its_separator_allows_and_none_coarser_would_do(text: str) -> None:
    passed = 0
    for start, end in split_ranges(text, SMALL)[:-1]:
        for separator in SMALL.separators:
            possible = [
                at
                for at in breaks_of(text, separator, passed + 1, start + SMALL.size)
                if at - len(separator) >= passed
            ]
            if possible:
                assert end == possible[-1]
                break
        passed = end


@given(text=texts)
@settings(max_examples=300)
def test_the_overlap_is_as_large_as_the_separators_allow(text: str) -> None:
    ranges = split_ranges(text, SMALL)
    for (before, end), (start, _) in pairwise(ranges):
        low = max(before + 1, end - SMALL.overlap)
        for separator in SMALL.separators:
            possible = breaks_of(text, separator, low, end - 1)
            if possible:
                assert start == possible[0]
                break
        else:
            assert start == end


@pytest.mark.parametrize("kind", ["code", "docs"])
@given(text=texts, times=st.integers(1, 60))
@settings(max_examples=60)
def test_recursive_chunks_tell_their_exact_place(kind: Kind, text: str, times: int) -> None:
    whole = text * times
    data = whole.encode()
    chunks = parse_source("a.py", whole, kind=kind, method="recursive").chunks
    for chunk in chunks:
        check_span(chunk, data)
        assert len(chunk.text) <= SPLITTINGS[kind].size
    assert bool(chunks) == bool(whole.strip())
    if chunks:
        assert (chunks[0].span.start_byte, chunks[-1].span.end_byte) == (0, len(data))


def test_recursive_chunking_still_knows_symbols() -> None:
    parsed = parse_source("a.py", "def run(): pass\n", kind="code", method="recursive")
    assert [symbol.name for symbol in parsed.symbols] == ["run"]
