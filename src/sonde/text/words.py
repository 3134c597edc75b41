"""Words of a text and the terms under which an index finds them.

Code and prose are tokenized differently. Code keeps identifiers both whole and in parts; prose also
stems English words, and treats marks and symbols as words. Both fold accents and case, and cut
scripts without spaces into pairs of letters. The lexical index, the static model and the ranking
share these definitions, so that each can score what the others find.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import Any, TypeVar

T = TypeVar("T")
_REMEMBERED = 40
"""Characters. Longer words are mostly data that occur once, and are not cached."""
_CACHED_WORDS = 50_000  # distinct words of a large project; a full cache is cleared
_LONGEST_TERM = 64
"""Characters. Longer terms are cut, so that hashes and keys are found by their beginnings."""

# Marks within words that `\w` does not match: accents, vowel signs, joiners.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0900-\u0963\u0966-\u0df3\u0e00-\u0e4e\u0e50-\u0eff"
    "\u0f18-\u0fbc\u1000-\u1049\u1050-\u109f\u1780-\u17d3\u1ab0-\u1aff\u1dc0-\u1dff\u200c\u200d"
    "\u20d0-\u20ff\u3099\u309a\ufe00-\ufe0f"
)
_PROSE_SYMBOLS = "\u2190-\u21ff\u2300-\u23ff\u2460-\u27bf\u2900-\u2bff\U0001f000-\U0001faff"
_VOICED = "\u3099\u309a"
"""Japanese marks that make another letter, unlike accents."""
_INVISIBLE = "\u200c\u200d" + "".join(map(chr, range(0xFE00, 0xFE10)))
"""Joiners and variation selectors."""

_ASCII_WORD = re.compile(r"[A-Za-z0-9_]+")
_ASCII_SPACED = "".join(c if c.isalnum() or c == "_" else " " for c in map(chr, range(128)))
_ASCII_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ASCII_NAME_PART = re.compile(rf"{_ASCII_PART.pattern}|\n")
_CODE_WORD = re.compile(r"\w+")
_CODE_PART = re.compile(rf"{_ASCII_PART.pattern}|[^\x00-\x7f]+")
_CODE_SYMBOL = re.compile("[\u2190-\u2bff\U0001f000-\U0001faff]")
_PROSE_WORD = re.compile(f"[\\w{_MARKS}]+|[{_PROSE_SYMBOLS}]")
_PROSE_SYMBOL = re.compile(f"[{_PROSE_SYMBOLS}]")
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003134f]+"
)
"""A run of a script without spaces between words."""


class WordCache(dict[str, T]):
    """A cache of a function of words."""

    def __init__(self, read: Callable[[str], T]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, word: str) -> T:
        if len(self) > _CACHED_WORDS:
            self.clear()
        value = self._read(word)
        if len(word) <= _REMEMBERED:
            self[word] = value
        return value


_ASCII_PLAIN = {code: chr(code).lower() if chr(code).isalnum() else None for code in range(128)}

_LETTERS = re.compile(r"[^\W\d_]{2,}")
_GENERIC_WORDS = frozenset(
    "copy doc docs document draft file img new note notes page scan untitled".split()
)


def is_generic(name: str) -> bool:
    """Whether a name does not say what its text is about (`note-012`, `Untitled 3`)."""
    return _GENERIC_WORDS.issuperset(_LETTERS.findall(name.casefold()))


def strip_punctuation(text: str) -> str:
    """The text without ASCII punctuation and lone surrogates, ASCII letters in lower case."""
    return text.translate(_ASCII_PLAIN).encode("utf-8", "ignore").decode()


def fold_name(name: str) -> str:
    """A name without case, accents and separators (`Foo.barBaz` -> `foobarbaz`). Indexes store
    names in this form, so changing it needs a new index format."""
    if name.isascii():
        return name.translate(_ASCII_PLAIN)
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    kept = "".join(c for c in decomposed if c.isalnum() and not unicodedata.combining(c))
    return strip_punctuation(unicodedata.normalize("NFC", kept))


# --- code ---


def find_words(text: str) -> list[str]:
    """The identifiers and words of a text, as written."""
    if text.isascii():
        return text.translate(_ASCII_SPACED).split()  # the expression takes twice as long
    return _CODE_WORD.findall(text)


def find_holding(lines: Sequence[str], terms: Iterable[str]) -> list[int]:
    """Which of these lines can hold one of these terms at all; in ASCII that is cheap to tell, as
    every term is a piece of its line without underscores."""
    text = "\n".join(lines)
    found = set() if text.isascii() else {at for at, one in enumerate(lines) if not one.isascii()}
    text = text.lower().replace("_", "")
    for term in terms:
        at, line, end = text.find(term), 0, 0
        while at >= 0:
            line += text.count("\n", end, at)
            found.add(line)
            end = text.find("\n", at)
            at = text.find(term, end) if end >= 0 else -1
    return sorted(found)


def find_symbols(text: str) -> list[str]:
    """The terms of the arrows, shapes and emoji in a text."""
    return [] if text.isascii() else list(map(_name_symbol, _CODE_SYMBOL.findall(text)))


def index_terms(text: str) -> list[str]:
    """Every term under which a text is found, in order, with repetitions."""
    return [*chain.from_iterable(map(_CODE.__getitem__, find_words(text))), *find_symbols(text)]


def split_identifier(word: str) -> list[str]:
    """The folded parts of an identifier (`getHTTPResponse_2` -> get, http, response, 2)."""
    if word.isascii():
        if word.isalpha() and (word.islower() or word.isupper() or word.istitle()):
            return [word.lower()]  # most words; the expression takes three times as long
        return [part.lower() for part in _ASCII_PART.findall(word)]
    parts: list[str] = []
    for part in _CODE_PART.findall(_strip_accents(word)):
        for run in _split_runs(part.lower() if part.isascii() else part.casefold()):
            pairs = _pair_letters(run) if _UNSPACED.match(run) else []
            parts += pairs or [run]
    return parts


def split_names(names: Sequence[str]) -> list[str]:
    """The parts of all these identifiers, unfolded in ASCII, and a new line after each."""
    text = "\n".join(names)
    if text.isascii() and text.count("\n") == len(names) - 1:
        return _ASCII_NAME_PART.findall(f"{text}\n")
    return [part for name in names for part in (*split_identifier(name), "\n")]


def split_word(word: str) -> list[str]:
    """The terms of a word of code: its parts, preceded by the whole if there are several."""
    parts = [part[:_LONGEST_TERM] for part in split_identifier(word)]
    return _add_whole("".join(parts) if word.isascii() else "", parts)


_CODE = WordCache(lambda word: tuple(split_word(word)))


# --- prose ---


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text: offsets and terms."""

    start: int
    end: int
    terms: tuple[str, ...]


def read_words(text: str) -> Iterator[Word]:
    """The words of a prose text in order, with their terms in an index."""
    for found in (_ASCII_WORD if text.isascii() else _PROSE_WORD).finditer(text):
        yield Word(found.start(), found.end(), _PROSE[found.group()])


def index_text(text: str) -> list[str]:
    """Every term of a prose text in order, with repetitions."""
    found = find_words(text) if text.isascii() else _PROSE_WORD.findall(text)
    return list(chain.from_iterable(map(_PROSE.__getitem__, found)))


def query_terms(word: str) -> list[str]:
    """The terms of a word of a query; `x*` stands for every term with the prefix x."""
    return _split_prose(word, lambda run: _pair_letters(run) or [f"{run}*"])


def fold_text(text: str) -> str:
    """The text without accents, case and repeated spaces, for comparing tags and names."""
    return " ".join(_strip_marks(text).casefold().split())


def _split_prose(word: str, split_run: Callable[[str], list[str]]) -> list[str]:
    """The terms of a word of prose; `split_run` splits runs of unspaced scripts."""
    terms: list[str] = []
    for part in _fold_parts(word):
        if _UNSPACED.match(part):
            terms += split_run(part)
        elif part:
            stem = stem_word(part) if part.isascii() and part.isalpha() else part
            terms.append(stem[:_LONGEST_TERM])
    parts = _ASCII_PART.findall(word) if word.isascii() else []
    return _add_whole("".join(parts).lower() if len(parts) > 1 else "", terms)


def _fold_parts(word: str) -> list[str]:
    """The folded parts of a word: of an identifier, or of a mix of scripts."""
    if _PROSE_SYMBOL.fullmatch(word):
        return [_name_symbol(word)]
    plain = _strip_marks(word)
    if plain.isascii():
        return [part.lower() for part in _ASCII_PART.findall(plain)]
    parts: list[str] = []
    for part in plain.split("_"):
        parts += _split_runs("".join(c for c in part.casefold() if ord(c) > 127 or c.isalnum()))
    return [part.encode("utf-8", "ignore").decode() for part in parts]


def _strip_marks(text: str) -> str:
    return _strip_accents(text, keep=_VOICED, drop=_INVISIBLE)


# in an index, every letter of an unspaced run starts a term
_PROSE = WordCache(
    lambda word: tuple(_split_prose(word, lambda run: [*_pair_letters(run), run[-1]]))
)


# --- both ---


def forget_words() -> None:
    """Clear the caches of words."""
    _CODE.clear()
    _PROSE.clear()


def unique(terms: Iterable[str]) -> list[str]:
    """The distinct terms, in order of first occurrence."""
    return list(dict.fromkeys(terms))


def _strip_accents(text: str, *, keep: str = "", drop: str = "") -> str:
    """The text without accents, its letter case unchanged (`Übung` -> `Ubung`)."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    kept = (c for c in decomposed if c in keep or not (unicodedata.combining(c) or c in drop))
    return unicodedata.normalize("NFC", "".join(kept))


def _split_runs(text: str) -> Iterator[str]:
    """Runs of unspaced scripts and the text between them, in order."""
    position = 0
    for run in _UNSPACED.finditer(text):
        if run.start() > position:
            yield text[position : run.start()]
        yield run.group()
        position = run.end()
    if position < len(text):
        yield text[position:]


def _pair_letters(run: str) -> list[str]:
    return [run[at : at + 2] for at in range(len(run) - 1)]


def _add_whole(whole: str, parts: list[str]) -> list[str]:
    """The parts of an identifier, preceded by the joined whole (`get_user` -> `getuser`)."""
    return [whole, *parts] if len(parts) > 1 and 0 < len(whole) <= _LONGEST_TERM else parts


def _name_symbol(symbol: str) -> str:
    """The term of a symbol or an emoji: its code point."""
    return f"u{ord(symbol):x}"


# --- English stems, by Porter's rules ---


@cache
def _load_stemmer() -> Callable[[bytes], Any]:
    """The stemmer of SQLite, as a tokenizer of one word."""
    import apsw

    return partial(
        apsw.Connection(":memory:").fts5_tokenizer("porter", ["ascii"]),
        flags=apsw.FTS5_TOKENIZE_DOCUMENT,
        locale=None,
        include_offsets=False,
        include_colocated=False,
    )


def stem_word(word: str) -> str:
    """The Porter stem of a lower-case English word; one or two letters stay as they are."""
    (stem,) = _load_stemmer()(word.encode())
    return str(stem)
