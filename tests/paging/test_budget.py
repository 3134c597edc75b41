import json

from hypothesis import given
from hypothesis import strategies as st

from sonde.paging.budget import count_tokens, fill_page, snippet_limit


@given(st.lists(st.text(max_size=3000), max_size=30), st.integers(200, 20_000))
def test_a_page_keeps_its_budget_and_leaves_nothing_out_of_order(
    texts: list[str], budget: int
) -> None:
    rows = fill_page(texts, lambda text: {"text": text}, budget)
    assert [row["text"] for row in rows] == texts[: len(rows)]
    assert len(rows) >= min(1, len(texts))
    if len(rows) > 1:
        assert count_tokens(rows) <= budget


@given(st.integers(1, 50), st.integers(200, 20_000))
def test_rows_of_the_suggested_length_fit_together(rows: int, budget: int) -> None:
    limit = snippet_limit(rows, budget)
    assert 0 < limit <= 2_500
    if limit > 200:
        assert rows * limit <= budget * 4


def test_tokens_are_a_quarter_of_the_minified_json_rounded_up() -> None:
    value = {"a": ["ü", 1]}
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert count_tokens(value) == -(-len(text) // 4)
