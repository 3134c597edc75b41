"""One word -> the pieces of a vocabulary, longest first, as BERT cuts words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

UNKNOWN = "[UNK]"
_LONGEST_WORD = 100


class WordPiece:
    """Greedy longest-match pieces; all but a word's first begin with `##`."""

    def __init__(self, vocabulary: Iterable[str]) -> None:
        self._ids: Mapping[str, int] = {piece: i for i, piece in enumerate(vocabulary)}
        self.unknown = self._ids[UNKNOWN]

    def split_word(self, word: str) -> tuple[int, ...]:
        """The pieces of one lower-case word; only the unknown one where some part is none."""
        if len(word) > _LONGEST_WORD:
            return (self.unknown,)
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
                return (self.unknown,)
        return tuple(ids)
