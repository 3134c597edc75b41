"""The names that files define are compared with a question by their words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonde.ranking.candidate import NameWords
from sonde.ranking.question import Matches, overlap_of, read_question, shorten_word
from sonde.text.words import split_identifier

PARTS = ("Order", "URLs", "parsed", "migration", "db", "_", ".", "ordinal", "Über", "索引", "\n")
NAMES = st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("".join)
ASKED = st.lists(st.sampled_from([*PARTS, "parsing", "database", "uber"]))


def test_names_are_rated_by_the_words_they_share_with_the_question() -> None:
    names = [("Cart.addItem", "function"), ("Cart.items", "value"), ("Order", "type")]
    matches = Matches(["add", "item", "cart"])
    ((rates, features),) = NameWords().compare({"a.py": "1"}, lambda _: {"a.py": names}, matches)
    precise, exact = (1.0, pytest.approx(0.8)), (1.0, pytest.approx(0.5))
    assert rates == {0: precise, 1: exact}
    # a member that holds a value says nothing about the file
    assert features == {"definitions_recall": pytest.approx(2 / 3), "definition_f1": rates[0][1]}


@given(st.lists(st.lists(NAMES), min_size=1), ASKED)
def test_the_same_names_are_found_as_when_each_is_taken_apart(
    files: list[list[str]], asked: list[str]
) -> None:
    matches = read_question(" ".join(asked)).matches
    hashes = {str(at): "1" for at in range(len(files))}
    known = {str(at): [(name, "function") for name in names] for at, names in enumerate(files)}
    words = NameWords()
    words.compare(hashes, lambda paths: {path: known[path] for path in paths}, Matches(["url"]))
    # the second question finds all of them known
    found = words.compare(hashes, lambda _: {}, matches)
    for names, (rates, features) in zip(files, found, strict=True):
        parts = [split_identifier(name.rpartition(".")[2]) for name in names]
        apart = [overlap_of(matches, list(map(shorten_word, own))) for own in parts]
        # in the order of the file, so that equal names are chosen alike in every process
        assert list(rates.items()) == [(at, (p, f1)) for at, (p, _, f1) in enumerate(apart) if f1]
        said = {shorten_word(part) for own in parts for part in own}
        recall, best = overlap_of(matches, said)[1], max([f1 for *_, f1 in apart], default=0.0)
        assert features == {"definitions_recall": recall, "definition_f1": best}


def test_names_are_read_again_when_a_file_has_another_hash() -> None:
    words, matches, asked = NameWords(), Matches(["cart"]), list[list[str]]()

    def read(paths):
        asked.append(list(paths))
        return {path: [("Cart" if len(asked) == 1 else "Order", "type")] for path in paths}

    assert words.compare({"a.py": "1"}, read, matches)[0][0]
    assert words.compare({"a.py": "1", "b.py": "1"}, read, matches)[0][0]
    assert not words.compare({"a.py": "2"}, read, matches)[0][0]
    assert asked == [["a.py"], ["b.py"], ["a.py"]]


def test_what_could_not_be_read_is_asked_for_again() -> None:
    words, matches = NameWords(), Matches(["cart"])
    assert not words.compare({"a.py": "1"}, lambda _: {}, matches)[0][0]
    assert words.compare({"a.py": "1"}, lambda _: {"a.py": [("Cart", "type")]}, matches)[0][0]
