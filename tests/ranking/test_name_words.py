"""The names that files define are compared with a question by their words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.ranking.features import list_name_words, rate_names
from sonde.ranking.question import Matches, overlap_of, read_question

PARTS = ("Order", "URLs", "parsed", "migration", "db", "_", ".", "ordinal", "Über", "索引", "\n")
NAMES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("".join)


def test_names_are_rated_by_the_words_they_share_with_the_question() -> None:
    names = [("Cart.addItem", "function"), ("Cart.items", "value"), ("Order", "type")]
    rates, features = rate_names(names, Matches(["add", "item", "cart"]))
    assert rates == {0: pytest.approx(0.8), 1: pytest.approx(0.5)}
    # a member that holds a value says nothing about the file
    assert features == {"definitions_recall": pytest.approx(2 / 3), "definition_f1": rates[0]}


@given(st.lists(NAMES), st.lists(st.sampled_from([*PARTS, "parsing", "database", "uber"])))
def test_the_same_names_are_found_as_when_each_is_taken_apart(
    names: list[str], asked: list[str]
) -> None:
    matches = read_question(" ".join(asked)).matches
    apart = [overlap_of(matches, list_name_words(name.rpartition(".")[2])[1])[2] for name in names]
    rates, _ = rate_names([(name, "function") for name in names], matches)
    # in the order of the file, so that equal names are chosen alike in every process
    assert list(rates.items()) == [(at, rate) for at, rate in enumerate(apart) if rate]
