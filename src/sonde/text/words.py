"""Text -> search words: identifiers whole and in parts, accents folded, CJK as bigrams.

One definition of "word" serves the lexical index, the static model and the ranking, so that
what one finds the other can score.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
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


_ASCII_PLAIN = {code: chr(code).lower() if chr(code).isalnum() else None for code in range(128)}


def strip_punctuation(text: str) -> str:
    """The text without ASCII punctuation and lone surrogates, ASCII letters in lower case."""
    return text.translate(_ASCII_PLAIN).encode("utf-8", "ignore").decode()


def fold_name(name: str) -> str:
    """A name without case, accents and separators (`Foo.barBaz` -> `foobarbaz`).

    Indexes store names in this form, so changing it needs a new index format.
    """
    if name.isascii():
        return strip_punctuation(name)
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    kept = "".join(c for c in decomposed if c.isalnum() and not unicodedata.combining(c))
    return strip_punctuation(unicodedata.normalize("NFC", kept))


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


_VOWEL = "(?:[aeiou]|(?<=[^aeiou])y)"
_CONSONANT = "(?:[^aeiouy]|(?<=[aeiou])y|^y)"
_MEASURE_1 = re.compile(f"^{_CONSONANT}*{_VOWEL}+{_CONSONANT}")
_MEASURE_2 = re.compile(f"^{_CONSONANT}*(?:{_VOWEL}+{_CONSONANT}+){{2}}")
_ONCE = re.compile(f"^{_CONSONANT}*{_VOWEL}+{_CONSONANT}+(?:{_VOWEL}+)?$")
_HAS_VOWEL = re.compile(_VOWEL)
_DOUBLE = re.compile(r"([^aeiouylsz])\1$")
_SHORT = re.compile(f"^.*{_CONSONANT}[aeiouy][^aeiouwxy]$")

_STEP_2 = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"),
    ("abli", "able"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"),
    ("ization", "ize"), ("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"),
    ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"),
)  # fmt: skip
_STEP_3 = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""),
    ("ness", ""),
)  # fmt: skip
_STEP_4 = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous",
    "ive", "ize", "ion", "al", "er", "ic", "ou",
)  # fmt: skip


def stem_word(word: str) -> str:
    """The stem of a lower case English word; words of one or two letters stay."""
    if len(word) < 3:
        return word
    word = _cut_plural(word)
    word = _cut_past(word)
    if word.endswith("y") and _HAS_VOWEL.search(word[:-1]):
        word = word[:-1] + "i"
    word = _put_ending(word, _STEP_2)
    word = _put_ending(word, _STEP_3)
    word = _cut_suffix(word)
    return _cut_last(word)


def _cut_plural(word: str) -> str:
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _cut_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _MEASURE_1.match(word[:-3]) else word
    for ending in ("ed", "ing"):
        root = word[: -len(ending)]
        if not word.endswith(ending):
            continue
        if not _HAS_VOWEL.search(root):
            return word
        if root.endswith(("at", "bl", "iz")):
            return root + "e"
        if _DOUBLE.search(root):
            return root[:-1]
        return root + "e" if _ONCE.match(root) and _SHORT.match(root) else root
    return word


def _put_ending(word: str, endings: tuple[tuple[str, str], ...]) -> str:
    for ending, put in endings:
        if word.endswith(ending):
            root = word[: -len(ending)]
            return root + put if _MEASURE_1.match(root) else word
    return word


def _cut_suffix(word: str) -> str:
    for ending in _STEP_4:
        if word.endswith(ending):
            root = word[: -len(ending)]
            fits = _MEASURE_2.match(root) and (ending != "ion" or root.endswith(("s", "t")))
            return root if fits else word
    return word


def _cut_last(word: str) -> str:
    if word.endswith("e"):
        root = word[:-1]
        if _MEASURE_2.match(root) or (
            _MEASURE_1.match(root) and not (_ONCE.match(root) and _SHORT.match(root))
        ):
            word = root
    if word.endswith("ll") and _MEASURE_2.match(word[:-1]):
        word = word[:-1]
    return word


# Marks that are no letters to Python and yet do not end a word: accents, vowel signs, joiners.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0df3\u0e00-\u0e4e\u0e50-\u0eff"
    "\u0f18-\u0fbc\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d"
    "\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f"
)
_SYMBOLS = "\u2190-\u21ff\u2300-\u23ff\u2460-\u27bf\u2900-\u2bff\U0001f000-\U0001faff"
_SYMBOL_PROSE = re.compile(f"[{_SYMBOLS}]")
_WORD_PROSE = re.compile(f"[\\w{_MARKS}]+|[{_SYMBOLS}]")
_PART_PROSE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_VOICED = "\u3099\u309a"
"""Japanese marks that make another letter, not an accented one."""
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
    pattern = _ASCII_WORD if text.isascii() else _WORD_PROSE
    for found in pattern.finditer(text):
        yield Word(found.start(), found.end(), _prose_terms[found.group()])


def index_text(text: str) -> list[str]:
    """Every term of a text in order, with repetitions."""
    pattern = _ASCII_WORD if text.isascii() else _WORD_PROSE
    return [term for word in pattern.findall(text) for term in _prose_terms[word]]


def query_terms(word: str) -> list[str]:
    """The terms by which a word of a question is looked up; `x*` means whatever begins with x."""
    folded = [term for run in _split(word) for term in _look_up(run)]
    whole = _join(word)
    return [*([whole] if whole else []), *folded]


def fold_text(text: str) -> str:
    """The text without accents and letter case, for comparing tags and names."""
    return " ".join(_strip_accents_prose(text).casefold().split())


class _ProseTerms(dict[str, tuple[str, ...]]):
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


_prose_terms = _ProseTerms()


def _strip_accents_prose(text: str) -> str:
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
    if _SYMBOL_PROSE.fullmatch(word):
        return [f"u{ord(word):x}"]  # a symbol or an emoji is found under its number
    plain = _strip_accents_prose(word)
    if plain.isascii():
        return [part.lower() for part in _PART_PROSE.findall(plain)]
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
    parts = _PART_PROSE.findall(word)
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
