"""Why a search found nothing, or nothing that holds its words, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sonde.ranking.question import Question
from sonde.stores.chunks.base import ChunkStore

_MOST_WORDS = 8
"""Of the query that a note mentions."""
_SHORTEST = 4
"""Letters of a word that may be misspelt; any two shorter ones are near each other."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def explain_no_results(
    stores: Sequence[ChunkStore], question: Question, filters: Sequence[str], allowed: int
) -> str:
    """One sentence or two: an empty index, filters that fit no file, or words it does not hold.

    `filters` are the conditions in words, `allowed` how many files pass them.
    """
    files = sum(store.counts().files for store in stores)
    if not files:
        return "Nothing is indexed here yet: the index is being built, or no file is admitted."
    if filters and not allowed:
        return f"No indexed file fits {' and '.join(filters)}; {files:,} files are indexed."
    unknown = [term for term in _list_terms(question) if not _holds(stores, term)]
    said = _describe_unknown(stores, unknown)
    if filters:
        said.append(f"Only {allowed:,} of {files:,} files fit {' and '.join(filters)}.")
    return " ".join(said) or "Other words, or mode `semantic`, may find more."


def explain_missing_words(stores: Sequence[ChunkStore], question: Question) -> str:
    """A note for hits when the index holds none of the query's words; empty otherwise."""
    terms = _list_terms(question)
    if not terms or any(_holds(stores, term) for term in terms):
        return ""
    return " ".join([*_describe_unknown(stores, terms), "Showing semantically similar results."])


def _list_terms(question: Question) -> Sequence[str]:
    return (question.report.terms if question.report else question.terms)[:_MOST_WORDS]


def _holds(stores: Sequence[ChunkStore], term: str) -> bool:
    return any(count_in(stores, [term]).values())


def _describe_unknown(stores: Sequence[ChunkStore], unknown: Sequence[str]) -> list[str]:
    said = [f"No exact match for: {', '.join(unknown)}."] if unknown else []
    near = [word for term in unknown for word in find_nearest_names(stores, term)]
    return [*said, f"Similar words in the index: {', '.join(near)}."] if near else said


def count_in(stores: Iterable[ChunkStore], terms: Sequence[str]) -> dict[str, int]:
    """How many chunks of all these stores hold each term."""
    counted = dict.fromkeys(terms, 0)
    for store in stores:
        for term, count in store.term_counts(terms).items():
            counted[term] += count
    return counted


def find_nearest_names(stores: Sequence[ChunkStore], term: str, most: int = 2) -> list[str]:
    """Words of the index that are one slip of the pen away, the commonest first."""
    if len(term) < _SHORTEST or not term.isascii():
        return []
    counted = count_in(stores, sorted(_slips(term) - {term}))
    known = [word for word, count in counted.items() if count]
    return sorted(known, key=lambda word: (-counted[word], word))[:most]


def _slips(term: str) -> set[str]:
    """Everything that differs by one letter left out, put in, changed or swapped."""
    slips = set()
    for at in range(len(term) + 1):
        head, tail = term[:at], term[at:]
        slips |= {head + letter + tail for letter in _LETTERS}
        if tail:
            slips.add(head + tail[1:])
            slips |= {head + letter + tail[1:] for letter in _LETTERS}
        if len(tail) > 1:
            slips.add(head + tail[1] + tail[0] + tail[2:])
    return slips
