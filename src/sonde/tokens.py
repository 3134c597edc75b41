"""Text -> search words: identifiers whole and in parts, accents folded, CJK as bigrams.

One definition of "word" serves the lexical index, the static model and the ranking, so that
what one finds the other can score.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import chain

_WORD = re.compile(r"\w+", re.UNICODE)
_ASCII_WORD = re.compile(r"[A-Za-z0-9_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\x00-\x7f]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]+"
)
_SYMBOL = re.compile("[\u2190-\u2bff\U0001f000-\U0001faff]")
_LONGEST = 64
_CACHE_SIZE = 50_000
REMEMBERED = 40
"""Longer words are data more often than not, come once, and would fill what words are kept in."""


def _strip_accents(text: str) -> str:
    """The text without accents, its letter case as it was (`Übung` -> `Ubung`)."""
    decomposed = unicodedata.normalize("NFKD", text)
    kept = "".join(c for c in decomposed if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", kept)


def _bigrams(run: str) -> list[str]:
    return [run] if len(run) < 2 else [run[i : i + 2] for i in range(len(run) - 1)]


def split_identifier(word: str) -> list[str]:
    """The folded parts of an identifier (`getHTTPResponse_2` -> get, http, response, 2)."""
    if word.isascii():
        if word.isalpha() and (word.islower() or word.isupper() or word.istitle()):
            return [word.lower()]  # most words; the expression below takes three times as long
        return [part.lower() for part in _PART.findall(word)]
    word = _strip_accents(word)
    parts: list[str] = []
    for part in _PART.findall(word):
        folded = part.lower() if part.isascii() else part.casefold()
        position = 0
        for run in _UNSPACED.finditer(folded):
            if run.start() > position:
                parts.append(folded[position : run.start()])
            parts.extend(_bigrams(run.group()))
            position = run.end()
        if position < len(folded):
            parts.append(folded[position:])
    return parts


class _Terms(dict[str, tuple[str, ...]]):
    """Word as written -> its terms; remembers what it has split, since code repeats itself."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) > _CACHE_SIZE:
            self.clear()
        result = tuple(split_word(word))
        if len(word) <= REMEMBERED:
            self[word] = result
        return result


_terms = _Terms()


def forget_words() -> None:
    """Free what is remembered of words; they are split again when they come."""
    _terms.clear()


def split_word(word: str) -> list[str]:
    """The terms of one word as written: the whole and its parts."""
    parts = [part[:_LONGEST] for part in split_identifier(word)]
    if len(parts) > 1 and word.isascii():
        whole = "".join(parts)
        if len(whole) <= _LONGEST:
            parts.insert(0, whole)
    return parts


def find_words(text: str) -> list[str]:
    """The identifiers and words of a text, as written."""
    return (_ASCII_WORD if text.isascii() else _WORD).findall(text)


def index_terms(text: str) -> list[str]:
    """Every term under which a text is found, in order, with repetitions."""
    return [*chain.from_iterable(map(_terms.__getitem__, find_words(text))), *find_symbols(text)]


def find_symbols(text: str) -> list[str]:
    """The terms of the arrows, shapes and emoji in a text."""
    return [] if text.isascii() else [f"u{ord(each):x}" for each in _SYMBOL.findall(text)]


def unique(terms: Iterable[str]) -> list[str]:
    """The distinct terms, first come first."""
    return list(dict.fromkeys(terms))
