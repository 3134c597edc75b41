"""The words, names and trigrams under which every backend indexes chunks and files, and how much a
word weighs.

Rare words say most about a chunk or piece and cost least to look up, so queries begin with them.
What a common word can add to a score is bounded: often its matches need not be ranked at all.
A trigram is three neighbouring bytes of the case-folded text, hashed into a small set of short
words, so that a regular expression is tried only on files that can match. A file may seem to hold
a trigram it does not hold, never the other way round.
"""

from __future__ import annotations

import math
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from sonde.text import words
from sonde.types import AllOf, Chunk, FileWords, Needs, ParsedFile

K1, B = 1.2, 0.75  # the parameters of FTS5's bm25(), which other backends reproduce
MIN_IDF = 1e-6  # the weight of a word in more than half of all rows, as in FTS5
MAX_COUNTED_TERMS, MAX_RANKED_TERMS = 512, 64  # different words of a query: looked up, and ranked

WEIGHTS = (2.0, 3.0, 1.0)  # of a word in a chunk's path, in the name it defines, in its text
_NAME_PARTS = re.compile(r"[.:#/\\>\-]+")
UNSURE = "unsure"  # of a file whose chunks do not cover all of it: always a candidate
_LETTERS = string.digits + string.ascii_lowercase
_GRAM_WORDS = len(_LETTERS) ** 3
_MAX_QUERY_GRAMS = 48  # of one very long string: enough to exclude nearly all files
_UNSEEN_TAIL = 256  # bytes after the last chunk that may be blank lines, not text left out


def make_plain(terms: Iterable[str]) -> list[str]:
    """The terms as an index holds them: no ASCII but lower case letters and digits."""
    strip = words.strip_punctuation
    plain = (term if term.isascii() and term.isalnum() else strip(term) for term in terms)
    return [term for term in plain if term]


def list_query_terms(terms: Iterable[str]) -> list[str]:
    """The distinct terms of a query that are looked up."""
    return words.unique(make_plain(terms))[:MAX_COUNTED_TERMS]


def _spell_word(word: str) -> str:
    """The terms of a word as an index holds them."""
    terms = words.split_word(word)
    return " ".join(terms if word.isascii() else make_plain(terms))


_spelled = words.WordCache(_spell_word)


def spell_terms(text: str) -> str:
    """The terms under which a text is indexed, separated by spaces."""
    found = map(_spelled.__getitem__, words.find_words(text))
    return " ".join([*found, *words.find_symbols(text)])


_spell_path = lru_cache(maxsize=16)(spell_terms)


def forget_terms() -> None:
    """Empty the caches of words, here and where they are split."""
    _spelled.clear()
    words.forget_words()


def describe_chunk(chunk: Chunk) -> tuple[str, str, str]:
    """A chunk's terms: of its path, of the name it defines, of its scopes and text."""
    scopes = chunk.header.replace(chunk.path, " ")
    return (
        _spell_path(chunk.path),
        spell_terms(chunk.symbol),
        f"{spell_terms(scopes)} {spell_terms(chunk.text)}",
    )


def list_names(file: ParsedFile) -> set[str]:
    """The folded names a file is known by: its stem and what it defines, whole and last parts."""
    names = {file.state.stem}
    for symbol in file.symbols:
        parts = _NAME_PARTS.split(symbol.name)
        names |= {symbol.name, ".".join(parts[-2:]), parts[-1]}
    return {words.fold_name(name) for name in names} - {""}


def list_file_terms(file: ParsedFile) -> FileWords:
    """All words under which a file is found."""
    chunks = sorted(file.chunks, key=lambda chunk: chunk.span.start_byte)
    return FileWords(
        chunks=tuple(map(describe_chunk, chunks)),
        names=" ".join(sorted(list_names(file))),
        imports=" ".join(sorted({words.fold_name(name) for name in file.imports} - {""})),
        grams=list_file_grams(file),
    )


@cache
def _word_table() -> NDArray[np.bytes_]:
    spelled = [f"{a}{b}{c} " for a in _LETTERS for b in _LETTERS for c in _LETTERS]
    return np.array(spelled, dtype="S4")


def _hash_grams(text: str) -> NDArray[np.intp]:
    folded = text.casefold().encode("utf-8", "surrogatepass")
    codes = np.frombuffer(folded, np.uint8).astype(np.uint32)
    if len(codes) < 3:
        return np.empty(0, np.intp)
    hashed = (codes[:-2] * 5003 + codes[1:-1] * 331 + codes[2:]) % _GRAM_WORDS
    seen = np.zeros(_GRAM_WORDS, np.bool_)
    seen[hashed] = True
    return np.flatnonzero(seen)


def spell_grams(texts: Sequence[str]) -> str:
    """The words of all grams of these texts, each once, separated by spaces."""
    if not texts:
        return ""
    each = [_hash_grams(text) for text in texts]
    codes = each[0] if len(each) == 1 else np.unique(np.concatenate(each))
    return _word_table()[codes].tobytes().decode("ascii")


def list_file_grams(file: ParsedFile) -> str:
    """The gram words of a file, from its chunks put together again."""
    pieces, complete = join_chunks(file)
    return spell_grams(pieces) + ("" if complete else UNSURE)


def join_chunks(file: ParsedFile) -> tuple[list[str], bool]:
    """The stretches of text that the chunks cover, and whether every line is in one of them."""
    stretches: list[list[str]] = []
    end = end_line = 0
    complete = True
    for chunk in sorted(file.chunks, key=lambda chunk: chunk.span.start_byte):
        span = chunk.span
        if span.end_byte <= end:
            continue
        if stretches and span.start_byte <= end:
            encoded = chunk.text.encode("utf-8", "surrogatepass")
            tail = encoded[end - span.start_byte :].decode("utf-8", "replace")
            stretches[-1].append(tail)
        else:
            complete = complete and span.start_line > end_line
            stretches.append([chunk.text])
        end, end_line = span.end_byte, span.end_line
    complete = complete and file.state.size - end <= _UNSEEN_TAIL
    return ["".join(parts) for parts in stretches], complete


def spell_gram_query(needs: Needs) -> str:
    """An FTS5 query for files that can hold what is needed; empty when it excludes nothing."""
    query = _spell_needs(needs)
    return f"({query}) OR {UNSURE}" if query else ""


def _spell_needs(needs: Needs) -> str:
    if isinstance(needs, str):
        grams = spell_grams([needs]).split()
        return " AND ".join(grams[:: len(grams) // _MAX_QUERY_GRAMS + 1])
    parts = [_spell_needs(part) for part in needs.parts]
    if isinstance(needs, AllOf):
        return " AND ".join(f"({part})" for part in dict.fromkeys(parts) if part)
    # one that excludes nothing, and all of them together exclude nothing
    return " OR ".join(f"({part})" for part in dict.fromkeys(parts)) if all(parts) else ""


def weigh_term(holders: int, total: int) -> float:
    """The inverse document frequency of a term that `holders` of `total` rows hold."""
    idf = math.log((max(total - holders, 0) + 0.5) / (holders + 0.5))
    return idf if idf > 0 else MIN_IDF


def bound_term(holders: int, total: int) -> float:
    """An upper bound of what such a term adds to any score, however often a row holds it."""
    return weigh_term(holders, total) * (K1 + 1.0)


def order_terms(counts: Mapping[str, int]) -> list[str]:
    """The terms that rank, rarest first; terms that nothing holds are left out."""
    held = (term for term in counts if counts[term] > 0)
    return sorted(held, key=lambda term: counts[term])[:MAX_RANKED_TERMS]


def take_within(order: Sequence[str], counts: Mapping[str, int], postings: float) -> list[str]:
    """The first of these terms whose matches together stay within `postings`."""
    touched = accumulate(counts.get(term, 0) for term in order)
    return [term for term, sum_ in zip(order, touched, strict=True) if sum_ <= postings]


def choose_terms(counts: Mapping[str, int], postings: float) -> list[str]:
    """The rarest known terms whose matches stay within `postings`, at least one."""
    order = order_terms(counts)
    return take_within(order, counts, postings) or order[:1]


def spell_match(terms: Iterable[str], operator: str = "OR") -> str:
    """An FTS5 query for these terms."""
    return f" {operator} ".join(f'"{term}"' for term in terms)
