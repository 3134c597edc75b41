"""Entries and pieces as rows of plain values, and the terms of a piece, for every backend."""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sonde.stores.knowledge.base import TITLE, TITLED, Entry, Piece, RankedPiece, Source
from sonde.text.words import fold_text, index_text

HEAD = (
    "number, id, title, created_at, last_modified, version, tags, media_type, url, character,"
    " facts, origin, path, hash"
)
PIECE = "number, place, start, field, uuid, sender, created_at, begins, ends, text"
HEADS = ", ".join(f"e.{name.strip()}" for name in HEAD.split(","))
PIECES = ", ".join(f"p.{name.strip()}" for name in PIECE.split(","))
"""The same columns where entries are called e and pieces p."""
WEIGHTS = (2.0, 2.0, 1.0)
"""How much a term counts in a title, in a tag and in the text."""


def list_head(entry: Entry) -> tuple[str | int, ...]:
    """The columns of `HEAD` after the number, with the folded title after the title."""
    return (
        entry.id,
        entry.title,
        fold_text(entry.title),
        entry.created_at,
        entry.last_modified,
        entry.version,
        json.dumps(list(entry.tags)),
        entry.media_type,
        entry.url,
        entry.character,
        json.dumps(dict(entry.facts)),
        entry.origin,
        entry.path,
        entry.hash,
    )


def read_entry_head(source: Source, row: Sequence[Any]) -> Entry:
    """An entry without its pieces."""
    return Entry(
        source,
        row[2],
        id=row[1],
        created_at=row[3],
        last_modified=row[4],
        version=row[5],
        tags=tuple(json.loads(row[6])) if row[6] != "[]" else (),
        media_type=row[7],
        url=row[8],
        character=row[9],
        facts=json.loads(row[10]) if row[10] != "{}" else {},
        origin=row[11],
        path=row[12],
        hash=row[13],
        number=row[0],
    )


def list_piece(piece: Piece) -> tuple[str | int | None, ...]:
    """The columns of `PIECE` after the number."""
    return (
        piece.place,
        piece.start,
        piece.field,
        piece.uuid,
        piece.sender,
        piece.created_at,
        piece.begins,
        piece.ends,
        piece.text,
    )


def read_piece(row: Sequence[Any]) -> Piece:
    """A piece as it was stored."""
    return Piece(
        row[9],
        place=row[1],
        start=row[2],
        field=row[3],
        uuid=row[4],
        sender=row[5],
        created_at=row[6],
        begins=row[7],
        ends=row[8],
        number=row[0],
    )


def list_stored(entry: Entry) -> Iterator[Piece]:
    """The pieces to store: those of the entry, each with a uuid, and a title of its own."""
    if entry.source not in TITLED and entry.title:
        yield Piece(entry.title, place=-1, field=TITLE, uuid="")
    for piece in entry.pieces:
        yield piece if piece.uuid else replace(piece, uuid=str(uuid.uuid4()))
    if not entry.pieces and entry.source in TITLED:
        yield Piece("", uuid=str(uuid.uuid4()))  # an empty note is still found by its title


def list_terms(entry: Entry, piece: Piece) -> tuple[list[str], list[str], list[str]]:
    """The terms of a piece: of its title, of its tags, of its text."""
    if piece.field == TITLE:
        return index_text(piece.text), _tag_terms(entry), []
    if entry.source in TITLED:
        return index_text(entry.title), _tag_terms(entry), index_text(piece.text)
    return [], [], index_text(piece.text)


class Tally:
    """What a write changes: holders of each term, number of pieces, and their length in terms."""

    def __init__(self) -> None:
        self.terms: Counter[str] = Counter()
        self.pieces = 0
        self.length = 0

    def add(self, entry: Entry, piece: Piece) -> tuple[list[str], list[str], list[str]]:
        """Count a new piece. Returns its terms."""
        terms = list_terms(entry, piece)
        self._count(terms, 1)
        return terms

    def drop(self, entry: Entry, piece: Piece) -> None:
        """Count a removed piece."""
        self._count(list_terms(entry, piece), -1)

    def _count(self, terms: tuple[list[str], ...], sign: int) -> None:
        for term in set().union(*terms):
            self.terms[term] += sign
        self.pieces += sign
        self.length += sign * sum(map(len, terms))


def _tag_terms(entry: Entry) -> list[str]:
    return [term for tag in entry.tags for term in index_text(tag)]


_ESCAPED = "\ue000"
"""The first character of a text that is stored with escapes."""


def pack_text(text: str) -> str:
    """The text itself, or with escapes where it holds NUL or is not valid Unicode."""
    if "\0" not in text and not text.startswith(_ESCAPED):
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return _ESCAPED + json.dumps(text)


def unpack_text(text: str) -> str:
    """The text that was passed to `pack_text`."""
    return str(json.loads(text[1:])) if text.startswith(_ESCAPED) else text


def fold_tags(tags: Sequence[str]) -> list[str]:
    """Tags as every backend compares them."""
    return list(dict.fromkeys(pack_text(fold_text(tag.lstrip("#"))) for tag in tags))


def find_number(id: str) -> int | None:  # noqa: A002
    """The number that an id spells in canonical form; None for any other id."""
    return int(id) if re.fullmatch("[1-9][0-9]{0,14}", id) else None


def read_ranked(source: Source, row: Sequence[Any]) -> RankedPiece:
    """A piece and the head of its entry, out of `PIECES` and `HEADS`."""
    width = PIECE.count(",") + 1
    return RankedPiece(read_entry_head(source, row[width:]), read_piece(row))
