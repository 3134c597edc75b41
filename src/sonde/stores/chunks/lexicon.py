"""Which words stand for a chunk and a file, and how words are weighed; every backend agrees."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from sonde.stores.chunks import grams
from sonde.text.words import (
    REMEMBERED,
    find_symbols,
    find_words,
    fold_name,
    forget_words,
    split_word,
    strip_punctuation,
    unique,
)
from sonde.types import Chunk, FileWords, ParsedFile

WEIGHTS = (2.0, 3.0, 1.0)
"""How much a word counts in a chunk's path, in the name it defines, and in its text."""
K1, B = 1.2, 0.75
LEAST_IDF = 1e-6
"""What a word in more than half of all chunks is worth; FTS5 does the same."""
POSTINGS = 10_000
"""How many matches a query may touch before its commonest words are left out."""
MOST_COUNTED, MOST_USED = 512, 64
"""How many different words of one query are looked up, and how many rank."""

_NAME_PARTS = re.compile(r"[.:#/\\>\-]+")
_CACHE_SIZE = 50_000


def make_plain(terms: Iterable[str]) -> list[str]:
    """The terms as an index holds them: no ASCII but lower case letters and digits."""
    plain = (
        term if term.isascii() and term.isalnum() else strip_punctuation(term) for term in terms
    )
    return [term for term in plain if term]


def list_query_terms(terms: Iterable[str]) -> list[str]:
    """The different terms of a query that are looked up."""
    return unique(make_plain(terms))[:MOST_COUNTED]


class _Spelled(dict[str, str]):
    """Word as written -> its terms as an index holds them; remembers what it has split."""

    def __missing__(self, word: str) -> str:
        if len(self) > _CACHE_SIZE:
            self.clear()
        terms = split_word(word)
        result = " ".join(terms if word.isascii() else make_plain(terms))
        if len(word) <= REMEMBERED:
            self[word] = result
        return result


_spelled = _Spelled()


def spell_terms(text: str) -> str:
    """The terms under which a text is indexed, separated by spaces."""
    return " ".join([*map(_spelled.__getitem__, find_words(text)), *find_symbols(text)])


_spell_path = lru_cache(maxsize=16)(spell_terms)


def rest() -> None:
    """Free what is remembered of words, here and where they are split."""
    _spelled.clear()
    forget_words()


def describe_chunk(chunk: Chunk) -> tuple[str, str, str]:
    """A chunk's terms: of its path, of the name it defines, of its scopes and text."""
    scopes = chunk.header.replace(chunk.path, " ")
    return (
        _spell_path(chunk.path),
        spell_terms(chunk.symbol),
        f"{spell_terms(scopes)} {spell_terms(chunk.text)}",
    )


def choose_terms(counts: Mapping[str, int], postings: float) -> list[str]:
    """The rarest known terms whose matches stay within `postings`, at least one."""
    chosen: list[str] = []
    touched = 0
    for term, count in sorted(counts.items(), key=lambda pair: pair[1]):
        touched += count
        if chosen and (touched > postings or len(chosen) == MOST_USED):
            break
        if count:
            chosen.append(term)
    return chosen


def weigh_term(holders: int, total: int) -> float:
    """The inverse document frequency of a term that `holders` of `total` chunks hold."""
    idf = math.log((max(total - holders, 0) + 0.5) / (holders + 0.5))
    return idf if idf > 0 else LEAST_IDF


def bound_term(holders: int, total: int) -> float:
    """More than such a term can add to any score, however often a chunk holds it."""
    return weigh_term(holders, total) * (K1 + 1.0)


def split_rarest(
    counts: Mapping[str, int], total: int, least: int, times: float
) -> tuple[list[str], list[str]]:
    """The fewest of the rarest terms that together find `least` chunks and can score more than
    all others, which find `times` as many; no terms where there is no such split."""
    terms = sorted(counts, key=lambda term: counts[term])
    for size in range(1, len(terms)):
        rare, common = terms[:size], terms[size:]
        found = sum(counts[term] for term in rare)
        if found * times > sum(counts[term] for term in common):
            break
        most, others = (sum(bound_term(counts[t], total) for t in ts) for ts in (rare, common))
        if found >= least and most > others:
            return rare, common
    return [], terms


def score_term(idf: float, hits: Sequence[int], length: int, mean_length: float) -> float:
    """One term's share of a chunk's BM25 score; `hits` counts it per column."""
    frequency = sum(weight * count for weight, count in zip(WEIGHTS, hits, strict=True))
    damping = K1 * (1.0 - B + B * length / mean_length)
    return idf * ((frequency * (K1 + 1.0)) / (frequency + damping))


def list_names(file: ParsedFile) -> set[str]:
    """The folded names a file is known by: its stem and what it defines, whole and last part."""
    names = {fold_name(file.state.stem)}
    for symbol in file.symbols:
        names.add(fold_name(symbol.name))
        names.add(fold_name(_NAME_PARTS.split(symbol.name)[-1]))
    return names - {""}


def list_imports(file: ParsedFile) -> set[str]:
    """The folded names of what a file imports."""
    return {fold_name(name) for name in file.imports} - {""}


def list_file_terms(file: ParsedFile) -> FileWords:
    """All the words under which a file is found."""
    chunks = sorted(file.chunks, key=lambda chunk: chunk.span.start_byte)
    return FileWords(
        chunks=tuple(map(describe_chunk, chunks)),
        names=" ".join(sorted(list_names(file))),
        imports=" ".join(sorted(list_imports(file))),
        grams=grams.list_file_grams(file),
    )
