import json

from hypothesis import given
from hypothesis import strategies as st

from sonde.paging.budget import count_tokens, fit_page, snippet_limit


@given(st.lists(st.integers(0, 3_000), min_size=1, max_size=30), st.integers(200, 5_000))
def test_a_page_holds_the_first_rows_and_as_many_as_its_budget_allows(
    lengths: list[int], budget: int
) -> None:
    every = [{"text": f"{at}".ljust(length, "x")} for at, length in enumerate(lengths)]
    rows = fit_page(every, lambda row, _: row, list, budget)
    assert rows
    assert rows == every[: len(rows)]
    assert len(rows) == 1 or count_tokens(rows) <= budget
    room = 100 + len(every)  # for the answer's own fields, and the comma after each row
    assert rows == every or count_tokens(every[: len(rows) + 1]) + room > budget


@given(st.integers(1, 50), st.integers(200, 20_000))
def test_rows_of_the_suggested_length_fit_together(rows: int, budget: int) -> None:
    limit = snippet_limit(["x" * 3_000] * rows, budget)
    assert 0 < limit <= 2_500
    if limit > 200:
        assert rows * limit <= budget * 4


def test_tokens_are_a_quarter_of_the_minified_json_rounded_up() -> None:
    value = {"a": ["ü", 1]}
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert count_tokens(value) == -(-len(text) // 4)


@given(st.integers(0, 30), st.integers(50, 5_000), st.booleans())
def test_the_whole_answer_fits_unless_its_shortest_row_does_not(
    count: int, budget: int, exact: bool
) -> None:
    items = [f'"{at}"' * 500 for at in range(count)]
    answer = fit_page(
        items,
        lambda item, length: {"text": item[:length]},
        lambda rows: {"rows": rows, "total": len(items)},
        budget,
        length=2_000,
        shortest=20,
        envelope=None if exact else 100,
    )
    assert bool(answer["rows"]) == bool(items)
    assert count_tokens(answer) <= budget


def test_without_a_budget_a_page_takes_every_row() -> None:
    assert fit_page(["a", "b"], lambda item, length: item * length, tuple, None, length=2) == (
        "aa",
        "bb",
    )


def test_a_row_that_may_not_be_cut_stays_whole() -> None:
    assert fit_page(["x" * 900, "y"], lambda item, _: item, list, 10) == ["x" * 900]
