from hypothesis import given
from hypothesis import strategies as st

from sonde.searching.modes import Ranked, merge_neighbours
from sonde.types import Chunk, Span

TEXT = "".join(f"line {number} é\n" for number in range(40))
STARTS = [0]
for line in TEXT.splitlines(keepends=True):
    STARTS.append(STARTS[-1] + len(line.encode()))


def piece(first: int, last: int, path: str = "a.py") -> Chunk:
    data = TEXT.encode()[STARTS[first] : STARTS[last + 1]]
    span = Span(first + 1, last + 1, STARTS[first], STARTS[last + 1])
    return Chunk(path, data.decode(), span, symbol=f"s{first}")


def ranked(*chunks: Chunk) -> list[Ranked]:
    return [Ranked(chunk, 1.0 - at / 100, "bm25") for at, chunk in enumerate(chunks)]


def test_a_neighbour_becomes_part_of_the_better_chunk() -> None:
    (merged,) = merge_neighbours(ranked(piece(5, 9), piece(10, 12)))
    assert merged.score == 1.0
    assert (merged.chunk.span.start_line, merged.chunk.span.end_line) == (6, 13)
    assert merged.chunk.symbol == "s5"


def test_a_gap_or_another_file_keeps_chunks_apart() -> None:
    apart = ranked(piece(0, 3), piece(5, 6), piece(4, 4, "b.py"))
    assert merge_neighbours(apart) == apart


ranges = st.tuples(st.integers(0, 35), st.integers(0, 4)).map(lambda r: (r[0], r[0] + r[1]))


@given(st.lists(ranges, max_size=8))
def test_merged_chunks_say_what_the_file_says_there(pieces: list[tuple[int, int]]) -> None:
    found = ranked(*(piece(first, last) for first, last in pieces))
    merged = merge_neighbours(found)
    covered = {line for first, last in pieces for line in range(first, last + 1)}
    shown = set()
    for one in merged:
        span = one.chunk.span
        assert one.chunk.text == TEXT.encode()[span.start_byte : span.end_byte].decode()
        assert TEXT.encode()[: span.start_byte].count(b"\n") + 1 == span.start_line
        shown |= set(range(span.start_line - 1, span.end_line))
    assert shown == covered
    assert [one.score for one in merged] == sorted((o.score for o in merged), reverse=True)
