import base64
import json
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import wait_until

from sonde.errors import BadCursor
from sonde.paging.cursor import (
    HIT_BYTES,
    MOST_BYTES,
    MOST_SETS,
    TTL_S,
    Cursor,
    ResultSets,
    decode_cursor,
    encode_cursor,
)
from sonde.types import FileState, Hit, Span

KEY = b"k" * 32


def hits(count: int) -> list[Hit]:
    span = Span(1, 1, 0, 1)
    return [Hit("/p", "code", f"f{i}.py", span, "x", 1.0, "bm25") for i in range(count)]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.text(max_size=40), st.integers(0, 10**9))
def test_a_cursor_comes_back_as_it_went_out(session: str, offset: int) -> None:
    cursor = Cursor(session, offset, "h")
    assert decode_cursor(encode_cursor(cursor, KEY), KEY) == cursor


@pytest.mark.row("000-P26", "000-P27", "000-P28", "000-P29")
def test_a_cursor_is_the_documented_json_in_base64url() -> None:
    text = encode_cursor(Cursor("s", 50, "hash"), KEY)
    payload = text.split(".")[0]
    body = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert body.keys() == {"session_id", "offset", "search_params_hash", "timestamp", "version"}
    assert body["offset"] == 50
    assert body["timestamp"] > 1_600_000_000_000  # milliseconds


@pytest.mark.row("000-P42", "000-P60")
@given(st.data())
def test_one_changed_character_is_refused(data: st.DataObject) -> None:
    text = encode_cursor(Cursor("session", 10, "hash"), KEY)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda c: c != text[at]))
    with pytest.raises(BadCursor):
        decode_cursor(text[:at] + other + text[at + 1 :], KEY)


@pytest.mark.row("000-P42")
@given(st.text(max_size=200))
def test_any_text_that_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(BadCursor):
        decode_cursor(text, KEY)


@pytest.mark.row("000-P42")
def test_a_cursor_of_another_installation_is_refused() -> None:
    text = encode_cursor(Cursor("s", 0, "h"), b"other" * 8)
    with pytest.raises(BadCursor, match="another installation"):
        decode_cursor(text, KEY)


@given(st.integers(1, 60), st.integers(1, 20))
def test_pages_rebuild_the_ranking(total: int, size: int) -> None:
    sets = ResultSets(KEY)
    everything = hits(total)
    results = sets.keep({"query": "q"}, everything)
    seen = list(everything[:size])
    cursor = sets.cursor_at(results, size)
    while cursor:
        same, offset = sets.resume(cursor, {})
        assert offset < total, "no page is empty"
        seen.extend(same.hits[offset : offset + size])
        cursor = sets.cursor_at(same, offset + size)
    assert seen == everything


@pytest.mark.row("000-P30", "000-P41", "000-P43")
def test_a_set_lives_five_minutes_from_its_last_use() -> None:
    clock = Clock()
    sets = ResultSets(KEY, clock)
    cursor = sets.cursor_at(sets.keep({"query": "q"}, hits(3)), 1)
    assert cursor
    clock.now = TTL_S - 1
    sets.resume(cursor, {})
    clock.now += TTL_S - 1
    sets.resume(cursor, {})
    clock.now += TTL_S + 1
    with pytest.raises(BadCursor, match="5 minutes"):
        sets.resume(cursor, {})
    assert len(sets) == 0


@pytest.mark.row("000-P31", "000-P43")
def test_the_hundred_and_first_set_puts_out_the_least_recently_used() -> None:
    sets = ResultSets(KEY)
    cursors = [sets.cursor_at(sets.keep({"query": str(i)}, hits(2)), 1) for i in range(MOST_SETS)]
    assert all(cursors)
    sets.resume(cursors[0] or "", {})
    sets.keep({"query": "one more"}, hits(2))
    sets.resume(cursors[0] or "", {})
    with pytest.raises(BadCursor, match="made room"):
        sets.resume(cursors[1] or "", {})


@pytest.mark.row("000-P61")
def test_a_set_of_one_page_takes_no_room() -> None:
    sets = ResultSets(KEY)
    cursor = sets.cursor_at(sets.freeze({"query": "long"}, hits(3)), 2)
    for number in range(2 * MOST_SETS):
        assert sets.cursor_at(sets.freeze({"query": str(number)}, hits(3)), 3) is None
        sets.keep({"query": f"one hit {number}"}, hits(1))
    assert len(sets) == 1
    assert sets.resume(cursor or "", {})[1] == 2


@pytest.mark.row("000-P45")
def test_a_cursor_sent_to_another_tool_names_its_own() -> None:
    sets = ResultSets(KEY)
    cursor = sets.cursor_at(sets.freeze({"tool": "lexical_search"}, hits(3)), 2)
    with pytest.raises(BadCursor) as refused:
        sets.resume(cursor or "", {"tool": "regex_search"})
    assert refused.value.next_action == "Pass it to lexical_search instead."


def test_a_ranking_is_found_by_its_parameters_and_the_newest_first() -> None:
    sets = ResultSets(KEY)
    sets.keep({"query": "q"}, hits(1))
    newest = sets.keep({"query": "q"}, hits(2))
    sets.keep({"query": "other"}, hits(3))
    assert sets.find({"query": "q"}) is newest
    assert sets.find({"query": "none"}) is None


@pytest.mark.row("000-P44")
def test_parameters_given_with_a_cursor_must_agree() -> None:
    sets = ResultSets(KEY)
    cursor = sets.cursor_at(sets.keep({"query": "one"}, hits(2)), 1)
    assert cursor
    sets.resume(cursor, {"query": "one"})
    with pytest.raises(BadCursor, match="query"):
        sets.resume(cursor, {"query": "two"})


@pytest.mark.row("000-P32")
def test_expired_sets_are_swept_though_nobody_asks() -> None:
    clock = Clock()
    sets = ResultSets(KEY, clock)
    sets.start_sweeping(0.01)
    sets.keep({"query": "q"}, hits(3))
    clock.now = TTL_S + 1
    wait_until(lambda: len(sets) == 0, "swept")
    sets.close()


@pytest.mark.row("000-P37")
def test_rankings_of_many_short_lines_count_for_what_they_take() -> None:
    sets = ResultSets(KEY)
    lines = hits(1) * 10_000
    for number in range(40):
        sets.keep({"query": str(number)}, lines)
    assert len(sets) == MOST_BYTES // sets.freeze({}, lines).size < 20


@pytest.mark.row("000-P37")
def test_rankings_with_much_text_put_out_the_least_recently_used() -> None:
    sets = ResultSets(KEY)
    large = [replace(hits(1)[0], text="x" * (MOST_BYTES // 2 + 1))] * 2
    cursor = sets.cursor_at(sets.keep({"query": "small"}, hits(2)), 1)
    newest = sets.cursor_at(sets.keep({"query": "large"}, large), 1)
    assert len(sets) == 1
    sets.resume(newest or "", {})
    with pytest.raises(BadCursor, match="made room"):
        sets.resume(cursor or "", {})


def test_memory_is_counted_in_bytes_of_text_in_any_script_and_of_what_is_beside_it() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        made = [
            Hit(
                "/p", "code", f"src/module{n}/file{n}.py", Span(n + 9, n + 10, n + 999, n + 9999),
                text * 10, n / 7, "rrf", "python", f"symbol_{n}",
                tuple((name, n * 1.1) for name in ("words", "vector", "name", "path", "rerank")),
                state=FileState(f"src/{n}/file{n}.py", f"{n:064x}", n + 999, n, "python", "code"),
            )
            for n, text in ((n, f"{n} \U0001f40b") for n in range(3_000))
        ]  # fmt: skip
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    counted = ResultSets(KEY).keep({}, made).size
    assert 0.7 * counted < used < 1.1 * counted


def test_many_small_hits_put_out_others_as_few_large_ones_do() -> None:
    sets = ResultSets(KEY)
    sets.keep({"query": "small"}, hits(2))
    sets.keep({"query": "many"}, hits(1) * (MOST_BYTES // HIT_BYTES))
    assert len(sets) == 1
