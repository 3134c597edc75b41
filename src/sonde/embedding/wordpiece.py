"""One word -> the pieces of a vocabulary, longest first, as BERT cuts words."""

from __future__ import annotations

from collections.abc import Iterable

UNKNOWN = "[UNK]"
_LONGEST_WORD = 100
_INNER = "##"


class _Table:
    """Pieces that may stand at one kind of place, and how long they get by their first letter."""

    def __init__(self, ids: dict[str, int]) -> None:
        self.ids = ids
        self.longest: dict[str, int] = {}
        for piece in ids:
            letter = piece[:1]
            self.longest[letter] = max(len(piece), self.longest.get(letter, 0))


class WordPiece:
    """Greedy longest-match pieces; all but a word's first begin with `##`."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        ids = {piece: i for i, piece in enumerate(vocabulary)}
        self.unknown = ids[UNKNOWN]
        cut = len(_INNER)
        self._first = _Table(ids)
        self._inner = _Table({p[cut:]: i for p, i in ids.items() if p.startswith(_INNER)})

    def split_word(self, word: str) -> tuple[int, ...]:
        """The pieces of one lower-case word; only the unknown one where some part is none."""
        if len(word) > _LONGEST_WORD:
            return (self.unknown,)
        ids: list[int] = []
        start, end = 0, len(word)
        table = self._first
        while start < end:
            reach = min(end, start + table.longest.get(word[start], 0))
            for stop in range(reach, start, -1):
                piece = table.ids.get(word[start:stop])
                if piece is not None:
                    ids.append(piece)
                    start = stop
                    break
            else:
                return (self.unknown,)
            table = self._inner
        return tuple(ids)
