"""Text -> byte pairs as the deep model was trained: identifiers split, lower case, no accents.

Every word is taken as if a space stood before it, wherever it stands, so that `read(file)` and
"read a file" share their pieces. The public `tokenizers` package gives the same ids for such text
(a test compares them) but brings a network client and 40 MB along.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

OPENING, CLOSING = "<s>", "</s>"
_SPACE = "\u0120"
_CASE_CHANGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ASCII_TOKEN = re.compile(r"[A-Za-z]+|[0-9]+|[^\sA-Za-z0-9_]+")
_TOKEN = re.compile(r"[^\W\d_]+|\d+|[^\w\s]+")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_LONGEST_WORD = 100
_CACHE_SIZE = 50_000


def list_bytes() -> list[str]:
    """The printable character that stands for each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    chars = {byte: chr(byte) for byte in printable}
    chars |= {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [chars[byte] for byte in range(256)]


_CHARS = list_bytes()


class BytePairs:
    """Pieces by merging the pair that comes first in the vocabulary, remembered word by word."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._ids: Mapping[str, int] = {piece: i for i, piece in enumerate(vocabulary)}
        self._cache: dict[str, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def id_of(self, piece: str) -> int:
        """The number of one piece of the vocabulary."""
        return self._ids[piece]

    def encode(self, text: str, limit: int) -> list[int]:
        """The ids of the first `limit` pieces of a text, without any special token."""
        ids: list[int] = []
        for word in _find_tokens(text):
            known = self._cache.get(word)
            ids.extend(self._remember(word) if known is None else known)
            if len(ids) >= limit:
                return ids[:limit]
        return ids

    def split_word(self, word: str) -> tuple[int, ...]:
        """The pieces of one lower-case word and the space before it."""
        text = word[:_LONGEST_WORD].encode("utf-8", "replace")
        pieces = [_SPACE, *(_CHARS[byte] for byte in text)]
        last = len(self._ids)
        while len(pieces) > 1:
            ranks = [self._ids.get(a + b, last) for a, b in pairwise(pieces)]
            best = min(ranks)
            if best == last:
                break
            at = ranks.index(best)
            pieces[at : at + 2] = [pieces[at] + pieces[at + 1]]
        return tuple(self._ids[piece] for piece in pieces)

    def _remember(self, word: str) -> tuple[int, ...]:
        if len(self._cache) > _CACHE_SIZE:
            self._cache = {}
        parts = _CASE_CHANGE.sub(" ", word).lower().split(" ") if word.isascii() else [word]
        ids = tuple(piece for part in parts for piece in self.split_word(part))
        if len(word) <= _LONGEST_WORD:
            self._cache[word] = ids
        return ids


def _find_tokens(text: str) -> Iterator[str]:
    """Words, numbers and runs of marks; ASCII ones as written, so that the cache spares a split."""
    if text.isascii() and not _CONTROL.search(text):
        return (match.group() for match in _ASCII_TOKEN.finditer(text))
    bare = "".join(
        char
        for char in unicodedata.normalize("NFD", _CASE_CHANGE.sub(" ", _CONTROL.sub("", text)))
        if unicodedata.category(char) != "Mn"
    )
    return (match.group() for match in _TOKEN.finditer(unicodedata.normalize("NFC", bare.lower())))
