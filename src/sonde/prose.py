"""Prose -> search terms: stems, parts of identifiers, pairs of letters where words have no spaces.

Unlike `tokens`, which reads code, this knows inflected words and every script: combining marks
belong to their word, accents and letter case do not count, and a single ideograph can be found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from sonde.stems import stem_word

# Marks that are no letters to Python and yet do not end a word: accents, vowel signs, joiners.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0df3\u0e00-\u0e4e\u0e50-\u0eff"
    "\u0f18-\u0fbc\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d"
    "\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f"
)
_SYMBOLS = "\u2190-\u21ff\u2300-\u23ff\u2460-\u27bf\u2900-\u2bff\U0001f000-\U0001faff"
_SYMBOL = re.compile(f"[{_SYMBOLS}]")
_WORD = re.compile(f"[\\w{_MARKS}]+|[{_SYMBOLS}]")
_ASCII_WORD = re.compile(r"[A-Za-z0-9_]+")
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]+"
)
_VOICED = "\u3099\u309a"
"""Japanese marks that make another letter, not an accented one."""
_LONGEST = 64
_CACHE_SIZE = 50_000
_REMEMBERED = 40
"""Longer words are data more often than not, and come once."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text: where it is, and the terms it stands for."""

    start: int
    end: int
    terms: tuple[str, ...]


def read_words(text: str) -> Iterator[Word]:
    """The words of a text in order, as an index holds them."""
    pattern = _ASCII_WORD if text.isascii() else _WORD
    for found in pattern.finditer(text):
        yield Word(found.start(), found.end(), _terms[found.group()])


def index_text(text: str) -> list[str]:
    """Every term of a text in order, with repetitions."""
    pattern = _ASCII_WORD if text.isascii() else _WORD
    return [term for word in pattern.findall(text) for term in _terms[word]]


def query_terms(word: str) -> list[str]:
    """The terms by which a word of a question is looked up; `x*` means whatever begins with x."""
    folded = [term for run in _split(word) for term in _look_up(run)]
    whole = _join(word)
    return [*([whole] if whole else []), *folded]


def fold_text(text: str) -> str:
    """The text without accents and letter case, for comparing tags and names."""
    return " ".join(_strip_accents(text).casefold().split())


class _Terms(dict[str, tuple[str, ...]]):
    """Word as written -> its terms; remembers what it has split, since texts repeat themselves."""

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) > _CACHE_SIZE:
            self.clear()
        terms = [term for run in _split(word) for term in _hold(run)]
        whole = _join(word)
        result = tuple([whole, *terms] if whole else terms)
        if len(word) <= _REMEMBERED:
            self[word] = result
        return result


_terms = _Terms()


def _strip_accents(text: str) -> str:
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    kept = (
        c
        for c in decomposed
        if not (unicodedata.combining(c) or c in "\u200c\u200d" or "\ufe00" <= c <= "\ufe0f")
        or c in _VOICED
    )
    return unicodedata.normalize("NFC", "".join(kept))


def _split(word: str) -> list[str]:
    """The folded parts of a word: of an identifier, of a mix of scripts."""
    if _SYMBOL.fullmatch(word):
        return [f"u{ord(word):x}"]  # a symbol or an emoji is found under its number
    plain = _strip_accents(word)
    if plain.isascii():
        return [part.lower() for part in _PART.findall(plain)]
    parts: list[str] = []
    for part in plain.split("_"):
        folded = "".join(c for c in part.casefold() if ord(c) > 127 or c.isalnum())
        at = 0
        for run in _UNSPACED.finditer(folded):
            if run.start() > at:
                parts.append(folded[at : run.start()])
            parts.append(run.group())
            at = run.end()
        if at < len(folded):
            parts.append(folded[at:])
    return [part.encode("utf-8", "ignore").decode() for part in parts]


def _join(word: str) -> str:
    """An identifier of several parts in one piece (`get_user` -> `getuser`)."""
    if not word.isascii():
        return ""
    parts = _PART.findall(word)
    whole = "".join(parts).lower()
    return whole if len(parts) > 1 and len(whole) <= _LONGEST else ""


def _hold(part: str) -> list[str]:
    """Terms of a part: every pair, and the last letter alone, so that each letter begins one."""
    if _UNSPACED.match(part):
        pairs = [part[at : at + 2] for at in range(len(part) - 1)]
        return [*pairs, part[-1]]
    return [_stem(part)] if part else []


def _look_up(part: str) -> list[str]:
    if _UNSPACED.match(part):
        if len(part) == 1:
            return [part + "*"]
        return [part[at : at + 2] for at in range(len(part) - 1)]
    return [_stem(part)] if part else []


def _stem(part: str) -> str:
    if part.isascii() and part.isalpha():
        part = stem_word(part)
    return part[:_LONGEST]
