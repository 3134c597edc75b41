"""Text -> word pieces as the models were trained: identifiers split, lower case, no accents.

The public `tokenizers` package gives the same ids (a test compares them) but brings a network
client and 40 MB along.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

UNKNOWN = "[UNK]"
_CASE_CHANGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ASCII_TOKEN = re.compile(r"[A-Za-z0-9]+|[^\s]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)
_LONGEST_WORD = 100
_CACHE_SIZE = 50_000


class _Normalised(dict[int, str]):
    """Code point -> what BERT makes of it; filled as characters are met, for `str.translate`."""

    def __missing__(self, point: int) -> str:
        self[point] = result = _normalise(chr(point))
        return result


def _normalise(char: str) -> str:
    kind = unicodedata.category(char)[0]
    if char in "\t\n\r" or kind == "Z":
        return " "
    if char == "\ufffd" or kind == "C":
        return ""
    if any(low <= ord(char) <= high for low, high in _IDEOGRAPHS):
        return f" {unicodedata.normalize('NFD', char)} "
    out = []
    for part in unicodedata.normalize("NFD", char):
        if unicodedata.category(part) == "Mn":
            continue
        punctuation = unicodedata.category(part)[0] == "P" or (
            part.isascii() and not part.isalnum()
        )
        out.append(f" {part} " if punctuation else part.lower())
    return "".join(out)


_normalised = _Normalised()


class WordPiece:
    """Greedy longest-match pieces over a vocabulary, remembered word by word."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._ids: Mapping[str, int] = {piece: i for i, piece in enumerate(vocabulary)}
        self._unknown = (self._ids[UNKNOWN],)
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
        """The pieces of one lower-case word."""
        if len(word) > _LONGEST_WORD:
            return self._unknown
        ids: list[int] = []
        start, end = 0, len(word)
        while start < end:
            for stop in range(end, start, -1):
                piece = self._ids.get("##" + word[start:stop] if start else word[start:stop])
                if piece is not None:
                    ids.append(piece)
                    start = stop
                    break
            else:
                return self._unknown
        return tuple(ids)

    def _remember(self, word: str) -> tuple[int, ...]:
        if len(self._cache) > _CACHE_SIZE:
            self._cache = {}
        parts = _CASE_CHANGE.sub(" ", word).lower().split(" ") if word.isascii() else [word]
        ids = tuple(piece for part in parts for piece in self.split_word(part))
        self._cache[word] = ids
        return ids


def _find_tokens(text: str) -> Iterator[str]:
    """Words and marks; ASCII ones still as written, so that the cache also spares their split."""
    if text.isascii() and not _CONTROL.search(text):
        return (match.group() for match in _ASCII_TOKEN.finditer(text))
    return iter(_CASE_CHANGE.sub(" ", text).translate(_normalised).split())
