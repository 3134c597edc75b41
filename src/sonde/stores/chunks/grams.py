"""Trigrams of a file, so that a regular expression is tried only on files that can match.

A gram is three neighbouring bytes of the case-folded text, hashed into a small set of short
words. A file may seem to hold a gram it does not hold, never the other way round.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sonde.types import AllOf, Needs, ParsedFile

UNSURE = "unsure"
"""The word of a file whose chunks do not show all of it: it is always a candidate."""
_LETTERS = string.digits + string.ascii_lowercase
_WORDS = len(_LETTERS) ** 3
_MOST_WORDS = 48
"""Of a very long string so many grams are asked for; they tell enough."""
_UNSEEN_TAIL = 256
"""Bytes after the last chunk that can still be blank lines and not text left out."""


@cache
def _word_table() -> NDArray[np.bytes_]:
    words = [f"{a}{b}{c} " for a in _LETTERS for b in _LETTERS for c in _LETTERS]
    return np.array(words, dtype="S4")


def _hash_grams(text: str) -> NDArray[np.intp]:
    folded = text.casefold().encode("utf-8", "surrogatepass")
    codes = np.frombuffer(folded, np.uint8).astype(np.uint32)
    if len(codes) < 3:
        return np.empty(0, np.intp)
    hashed = (codes[:-2] * 5003 + codes[1:-1] * 331 + codes[2:]) % _WORDS
    seen = np.zeros(_WORDS, np.bool_)
    seen[hashed] = True
    return np.flatnonzero(seen)


def spell_grams(texts: Sequence[str]) -> str:
    """The words of all grams of these texts, each once, separated by spaces."""
    if not texts:
        return ""
    codes = _hash_grams(texts[0]) if len(texts) == 1 else _hash_each(texts)
    return _word_table()[codes].tobytes().decode("ascii")


def _hash_each(texts: Sequence[str]) -> NDArray[np.intp]:
    return np.unique(np.concatenate([_hash_grams(text) for text in texts]))


def list_file_grams(file: ParsedFile) -> str:
    """The gram words of a file, from its chunks put together again."""
    pieces, complete = join_chunks(file)
    words = spell_grams(pieces)
    return words if complete else f"{words}{UNSURE}"


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


def spell_query(needs: Needs) -> str:
    """An FTS5 query for files that can hold what is needed; empty when it excludes nothing."""
    query = _spell(needs)
    return f"({query}) OR {UNSURE}" if query else ""


def _spell(needs: Needs) -> str:
    if isinstance(needs, str):
        words = spell_grams([needs]).split()
        return " AND ".join(words[:: len(words) // _MOST_WORDS + 1])
    parts = [_spell(part) for part in needs.parts]
    if isinstance(needs, AllOf):
        return " AND ".join(f"({part})" for part in dict.fromkeys(parts) if part)
    # one that excludes nothing, and all of them together exclude nothing
    return " OR ".join(f"({part})" for part in dict.fromkeys(parts)) if all(parts) else ""


def may_hold(file_words: frozenset[str], needs: Needs) -> bool:
    """Whether a file with these gram words can hold what is needed."""
    return UNSURE in file_words or _fits(file_words, needs)


def _fits(file_words: frozenset[str], needs: Needs) -> bool:
    if isinstance(needs, str):
        return file_words.issuperset(spell_grams([needs]).split())
    fitting: Iterable[bool] = (_fits(file_words, part) for part in needs.parts)
    return all(fitting) if isinstance(needs, AllOf) else any(fitting)
