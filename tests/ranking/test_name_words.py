"""The words of names that files define: read once per content, within a bound."""

from collections.abc import Collection

from sonde.ranking.name_words import NameWords
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
    found = words.read([state("a", "1"), state("b", "1")], names.read)
    assert [own.names[0][0] for own in found] == ["Cart.aTotal", "Cart.bTotal"]
    words.read([state("b", "1"), state("a", "2")], names.read)
    assert names.asked == ["a", "b", "a"]


def test_no_more_names_are_kept_than_the_bound_and_one_question_more() -> None:
    names, words = Names(), NameWords(1)
    for path in ("a", "b", "c"):
        words.read([state(path, "1")], names.read)
    words.read([state("a", "1")], names.read)
    assert names.asked == ["a", "b", "c", "a"]
