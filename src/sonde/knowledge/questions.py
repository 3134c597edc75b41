"""A question, read once: the terms to look up."""

from __future__ import annotations

from dataclasses import dataclass

from sonde.prose import query_terms, read_words
from sonde.ranking.words import STOP_WORDS

_MOST_CHARS = 20_000
_MOST_TERMS = 256
_SMALL = STOP_WORDS | frozenset(
    "about after all also am any because been being but could did during each he her here hers him "
    "his ll many much nor not off our ours out over own re s same she should so some such than "
    "they too under until up us ve very were whom while won t d m don".split()
)


@dataclass(frozen=True, slots=True)
class Question:
    """A query and its terms, small words left out unless there is nothing else."""

    text: str
    terms: tuple[str, ...]


def read_question(text: str) -> Question:
    """Take a query apart; any string will do."""
    text = text.strip()[:_MOST_CHARS]
    content: list[str] = []
    every: list[str] = []
    for word in read_words(text):
        said = text[word.start : word.end]
        terms = query_terms(said)
        every.extend(terms)
        if said.casefold() not in _SMALL:
            content.extend(terms)
    terms = list(dict.fromkeys(content or every))[:_MOST_TERMS]
    return Question(text, tuple(terms))
