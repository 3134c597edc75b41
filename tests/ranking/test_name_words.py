"""The words of names that files define: compared with a question, read once per content."""

from collections.abc import Collection

import pytest

from sonde.ranking.name_words import FileNames, NameWords
from sonde.ranking.question import Matches
from sonde.types import FileState


class Names:
    """Names by path, and which of them were read."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def read(self, paths: Collection[str]) -> dict[str, list[tuple[str, str]]]:
        self.asked += paths
        return {path: [(f"Cart.{path}Total", "function"), ("Cart.key", "key")] for path in paths}


def state(path: str, content: str) -> FileState:
    return FileState(path, content, 1, 1, "python", "code")


def test_names_are_read_again_when_the_content_is_another() -> None:
    names, words = Names(), NameWords(100)
    a, b = words.read([state("a", "1"), state("b", "1")], names.read)
    assert (a.rate(Matches(["a"])).best, b.rate(Matches(["a"])).best) == (pytest.approx(2 / 3), 0)
    words.read([state("b", "1"), state("a", "2")], names.read)
    assert names.asked == ["a", "b", "a"]


def test_no_more_names_are_kept_than_the_bound_and_one_question_more() -> None:
    names, words = Names(), NameWords(1)
    for path in ("a", "b", "c"):
        words.read([state(path, "1")], names.read)
    words.read([state("a", "1")], names.read)
    assert names.asked == ["a", "b", "c", "a"]


def test_names_are_rated_by_the_words_they_share_with_the_question() -> None:
    names = [("Cart.addItem", "function"), ("Cart.items", "value"), ("Order", "type")]
    rates = FileNames(names).rate(Matches(["add", "item", "cart"]))
    assert rates.each == {0: pytest.approx(0.8), 1: pytest.approx(0.5)}
    assert rates.best == rates.each[0]
    assert rates.recall == pytest.approx(2 / 3)  # a member that holds a value does not count
