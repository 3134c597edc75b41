"""Hits after ranking: brought up to date with their files, and explained when there are none."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from sonde.embedding.nearness import knows_any
from sonde.ranking.question import Question, shorten_word
from sonde.stores.chunks.base import ChunkStore
from sonde.text.words import find_words, fold_name, index_terms, unique
from sonde.types import FileContent, FileState, Hit, ListedFile, Skipped, Span

_MOST_WORDS = 8  # of the query that a note mentions
_SHORTEST = 4  # letters of a word that may be misspelt; any two shorter ones are near each other
_MOST_SIMILAR = 2  # words that a note offers instead of each unknown one
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ENDINGS = ("", "e", "s", "es", "ed", "er", "or", "ing", "ion", "ate", "ation", "y", "ies")
_LIKENESS = 0.75  # of a name that is offered instead: one letter in four may differ
_MOST_NAMES = 3  # that are offered
_MOST_NEAR = 30  # that are looked up: some name files, imports or scopes

Read = Callable[[str], FileContent | Skipped]


def find_changed(
    verdicts: Mapping[str, ListedFile | Skipped], states: Mapping[str, FileState]
) -> set[str]:
    """Which of these files, as they are found now, are no longer as they were when indexed."""
    return {
        path
        for path, found in verdicts.items()
        if isinstance(found, Skipped)
        or (state := states.get(path)) is None
        or found.stamp != state.stamp
    }


def refresh_hit(hit: Hit, read: Read) -> Hit:
    """Move a hit to where its text is now; mark it stale when the text is gone."""
    content = read(hit.path)
    if isinstance(content, Skipped):
        return replace(hit, stale=True)
    position = _find_nearest(content.text, hit.text, hit.span)
    if position < 0:
        return replace(hit, stale=True)
    old, before = hit.span, content.text[:position]
    down, on = before.count("\n") + 1 - old.start_line, len(before.encode()) - old.start_byte
    span = Span(old.start_line + down, old.end_line + down, old.start_byte + on, old.end_byte + on)
    return replace(
        hit,
        span=span,
        definition=hit.definition and hit.definition.move(down),
        symbols=tuple(one.move(down) for one in hit.symbols),
        focus=hit.focus and hit.focus + down,
    )


def _find_nearest(text: str, piece: str, span: Span) -> int:
    """The occurrence of `piece` nearest to its old line; -1 when there is none."""
    best, best_distance = -1, 0
    position = text.find(piece)
    while position >= 0:
        distance = abs(text.count("\n", 0, position) + 1 - span.start_line)
        if best < 0 or distance < best_distance:
            best, best_distance = position, distance
        position = text.find(piece, position + 1)
    return best


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
    counted = _count_terms(stores, _list_terms(question))
    said = _describe_unknown(stores, question, [t for t, count in counted.items() if not count])
    if occurs_nowhere(stores, question):
        names = _find_names(stores, question.text)
        said += [f"Names like it: {', '.join(names)}."] if names else []
        said.append("Mode `semantic` searches by meaning alone.")
    if filters:
        said.append(f"Only {allowed:,} of {files:,} files fit {' and '.join(filters)}.")
    return " ".join(said) or "Other words, or mode `semantic`, may find more."


def explain_missing_words(stores: Sequence[ChunkStore], question: Question) -> str:
    """A note for hits when the index holds none of the query's words, or not the name that is
    the query; empty otherwise."""
    terms = _list_terms(question)
    counted = _count_terms(stores, terms)
    if len(terms) > 1 and terms[0] == fold_name(question.text) and not counted[terms[0]]:
        return f"No exact match for: {question.text}. Showing results for its parts."
    if not terms or any(counted.values()):
        return ""
    return " ".join(
        [*_describe_unknown(stores, question, terms), "Showing semantically similar results."]
    )


def occurs_nowhere(stores: Sequence[ChunkStore], question: Question) -> bool:
    """Whether the query is one word, and the index holds less than half of it in any form; or
    several of which it holds none, that no model knows and that are no slips of the pen.

    Such words mean nothing to a model: they are names from elsewhere, or misspelt.
    """
    text = question.text
    if question.report or not text.isascii():
        return False
    if len(text.split()) > 1:
        terms, words = _list_terms(question), unique(map(str.lower, find_words(text)))
        if any(_count_terms(stores, terms).values()) or knows_any(words):
            return False
        return not any(_find_similar(stores, term) for term in terms)
    counted = _count_terms(stores, question.terms)
    unknown = [term for term, count in counted.items() if not count]
    if 2 * len(unknown) <= len(counted):
        return False
    roots = {term: shorten_word(term) for term in unknown}
    forms = _count_terms(stores, [root + end for root in roots.values() for end in _ENDINGS])
    alien = [term for term in unknown if not any(forms[roots[term] + end] for end in _ENDINGS)]
    return 2 * len(alien) > len(counted)


def _list_terms(question: Question) -> Sequence[str]:
    return (question.report.terms if question.report else question.terms)[:_MOST_WORDS]


def _describe_unknown(
    stores: Sequence[ChunkStore], question: Question, unknown: Sequence[str]
) -> list[str]:
    lacking = (w for w in find_words(question.text) if not set(unknown).isdisjoint(index_terms(w)))
    words = ", ".join(unique(lacking) or unknown)  # a report's are in its body
    said = [f"No exact match for: {words}."] if unknown else []
    near = [word for term in unknown for word in _find_similar(stores, term)]
    return [*said, f"Similar words in the index: {', '.join(near)}."] if near else said


def _count_terms(stores: Sequence[ChunkStore], terms: Sequence[str]) -> dict[str, int]:
    """How many chunks of all these stores hold each term."""
    counted = dict.fromkeys(terms, 0)
    for store in stores:
        for term, count in store.term_counts(terms).items():
            counted[term] += count
    return counted


def _find_similar(stores: Sequence[ChunkStore], term: str) -> list[str]:
    """Words of the index that are one slip of the pen away, the commonest first."""
    if len(term) < _SHORTEST or not term.isascii():
        return []
    counted = _count_terms(stores, sorted(_slips(term) - {term}))
    known = [word for word, count in counted.items() if count]
    return sorted(known, key=lambda word: (-counted[word], word))[:_MOST_SIMILAR]


def _find_names(stores: Sequence[ChunkStore], asked: str) -> list[str]:
    """Definitions whose names begin with this one, or else differ least from it."""
    wanted = fold_name(asked)
    names = _list_names((store, store.paths_beginning(asked, _MOST_NAMES)) for store in stores)
    near = sorted(name for name in names if name.startswith(wanted))
    if not near:
        known = sorted({name for store in stores for name in _list_fitting(store, wanted)})
        near = difflib.get_close_matches(wanted, known, _MOST_NEAR, _LIKENESS)
        names = _list_names((store, sorted(store.paths_named(near))) for store in stores)
    return [names[name] for name in near if name in names][:_MOST_NAMES]


def _list_fitting(store: ChunkStore, wanted: str) -> Iterable[str]:
    """The names of an index that have the length and enough of the letters to be near."""
    letters, length = frozenset(wanted), len(wanted)
    least = _LIKENESS * len(letters)
    # two texts are as alike as the shorter is long, at most
    shortest = math.ceil(length * _LIKENESS / (2 - _LIKENESS))
    longest = int(length * (2 - _LIKENESS) / _LIKENESS)
    known = store.known_names(shortest, longest)
    return (name for name in known if len(letters.intersection(name)) >= least)


def _list_names(chosen: Iterable[tuple[ChunkStore, Collection[str]]]) -> dict[str, str]:
    """The names of definitions in these files, not headings, by their last part, folded."""
    ends: dict[str, str] = {}  # many names are in many files: each is folded once
    for store, paths in chosen:
        for known in store.symbols_of(paths).values():
            ends |= {name.rpartition(".")[2]: name for name in known.names if " " not in name}
    return {fold_name(end): name for end, name in ends.items()}


def _slips(term: str) -> set[str]:
    """Everything that differs by one letter left out, put in, changed or swapped."""
    slips = set()
    for at in range(len(term) + 1):
        head, tail = term[:at], term[at:]
        slips |= {head + letter + rest for letter in _LETTERS for rest in (tail, tail[1:])}
        slips |= {head + tail[1:], head + tail[1:2] + tail[:1] + tail[2:]}
    return slips
