"""Rows of entries and pieces, terms of a piece, and reads whose SQL all backends share."""

from __future__ import annotations

import contextlib
import json
import re
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from sonde.stores.knowledge.base import (
    TITLE,
    TITLED,
    Conditions,
    Entry,
    Piece,
    Place,
    RankedPiece,
    Source,
)
from sonde.text.words import fold_text, index_text

HEAD = (
    "title, id, created_at, last_modified, version, tags, media_type, url, character, facts,"
    " origin, path, hash"
)
PIECE = "text, place, start, field, uuid, sender, created_at, begins, ends"
"""Columns, named and ordered as the fields of `Entry` and `Piece`."""
HEADS = ", ".join(f"e.{name}" for name in (*HEAD.split(", "), "number"))
PIECES = ", ".join(f"p.{name}" for name in (*PIECE.split(", "), "number"))
"""The same columns with the key, of tables named e and p in a query."""
WEIGHTS = (2.0, 2.0, 1.0)  # how much a term counts in a title, in a tag and in the text


def list_head(entry: Entry) -> list[Any]:
    """The values of the columns of `HEAD`, then the folded title."""
    row = {name: getattr(entry, name) for name in HEAD.split(", ")}
    row |= {"tags": json.dumps(list(entry.tags)), "facts": json.dumps(dict(entry.facts))}
    return [*row.values(), fold_text(entry.title)]


def read_entry_head(source: Source, row: Sequence[Any]) -> Entry:
    """An entry without its pieces, from a row of `HEADS`."""
    tags = tuple(json.loads(row[5])) if row[5] != "[]" else ()
    facts = json.loads(row[9]) if row[9] != "{}" else {}
    fields: list[Any] = [source, row[0], (), *row[1:5], tags, *row[6:9], facts, *row[10:]]
    return Entry(*fields)


def list_piece(piece: Piece) -> list[Any]:
    """The values of the columns of `PIECE`."""
    return [getattr(piece, name) for name in PIECE.split(", ")]


def list_stored(entry: Entry) -> Iterator[Piece]:
    """The pieces to store: the entry's, each with a uuid, and its title if that is separate."""
    if entry.source not in TITLED and entry.title:
        yield Piece(entry.title, place=-1, field=TITLE, uuid="")
    for piece in entry.pieces:
        yield piece if piece.uuid else replace(piece, uuid=str(uuid.uuid4()))
    if not entry.pieces and entry.source in TITLED:
        yield Piece("", uuid=str(uuid.uuid4()))  # carries the title of an empty note


def list_terms(entry: Entry, piece: Piece) -> tuple[list[str], list[str], list[str]]:
    """The terms of a piece by weight: of the title, of tags and authors, of the text."""
    if piece.field != TITLE and entry.source not in TITLED:
        return [], [], index_text(piece.text)
    front = entry.facts.get("front_matter") or {}
    names = [entry.facts.get("author") or front.get("author"), front.get("aliases")]
    names += [entry.url] if entry.source == "notes" else []
    known = [*entry.tags, *(str(each) for each in names if each)]
    tags = [term for each in known for term in index_text(each)]
    if piece.field == TITLE:
        return index_text(piece.text), tags, []
    return index_text(entry.title), tags, index_text(piece.text)


@dataclass(slots=True)
class Tally:
    """Changes of a write to the statistics: holders of each term, number and length of pieces."""

    terms: Counter[str] = field(default_factory=Counter)
    pieces: int = 0
    length: int = 0

    def count(
        self, entry: Entry, piece: Piece, sign: int = 1
    ) -> tuple[list[str], list[str], list[str]]:
        """Count a new piece, or a removed one with sign -1. Returns its terms."""
        terms = list_terms(entry, piece)
        for term in set().union(*terms):
            self.terms[term] += sign
        self.pieces += sign
        self.length += sign * sum(map(len, terms))
        return terms


_ESCAPED = "\ue000"  # first character of a text that is stored as JSON


def pack_text(text: str) -> str:
    """The text as PostgreSQL can store it: as JSON if it has NUL or invalid Unicode."""
    if "\0" not in text and not text.startswith(_ESCAPED):
        with contextlib.suppress(UnicodeEncodeError):
            text.encode()
            return text
    return _ESCAPED + json.dumps(text)


def unpack_text(text: str) -> str:
    """The text that was passed to `pack_text`."""
    return str(json.loads(text[1:])) if text.startswith(_ESCAPED) else text


def fold_tags(tags: Sequence[str]) -> list[str]:
    """Tags in the form in which they are compared."""
    return list(dict.fromkeys(pack_text(fold_text(tag.lstrip("#"))) for tag in tags))


_CREATED = "coalesce(p.created_at, e.created_at)"  # messages have times of their own


def spell_conditions(
    where: Conditions, any_of: str, same_sender: str, pack: Callable[[Any], Any]
) -> tuple[list[str], list[Any]]:
    """Conditions other than tags as SQL on a piece p and its entry e, and the values of `?`."""
    kinds, fields = [kind.casefold() for kind in where.media_types], list(where.fields)
    rows = (
        (bool(kinds), any_of.format("e.media_type"), pack(kinds)),
        (where.since is not None, f"{_CREATED} >= ?", where.since),
        (where.until is not None, f"{_CREATED} <= ?", where.until),
        (bool(fields), any_of.format("p.field"), pack(fields)),
        (bool(where.sender), same_sender, pack(where.sender)),
        (bool(where.character), "e.character = ?", pack(where.character)),
    )
    used = [(sql, value) for needed, sql, value in rows if needed]
    return [sql for sql, _ in used], [value for _, value in used]


def find_number(id: str) -> int | None:  # noqa: A002
    """The number of a canonical decimal id; None for any other id."""
    return int(id) if re.fullmatch("[1-9][0-9]{0,14}", id) else None


def read_ranked(source: Source, row: Sequence[Any]) -> RankedPiece:
    """A piece and the head of its entry, from a row of `PIECES` and `HEADS`."""
    width = PIECES.count(",") + 1
    return RankedPiece(read_entry_head(source, row[width:]), Piece(*row[:width]))


MOST_LISTED = 2_000  # newest pieces considered by `list_recent`


def keep_newest(found: Iterable[RankedPiece], limit: int) -> list[RankedPiece]:
    """The newest pieces by their own or their entry's time, without titles."""
    said = [each for each in found if each.piece.field != TITLE]
    said.sort(
        key=lambda each: (-(each.piece.created_at or each.entry.created_at), each.piece.place)
    )
    return said[:limit]


Select = Callable[..., list[list[Any]]]
"""Runs a query with `?` for each value and returns its rows. `:e` and `:p`, written as the first
condition, stand for "entries e (pieces p) of this owner"."""


class EntryReader(ABC):
    """The reads of a `KnowledgeStore` whose SQL is the same in every backend."""

    equals = "{0} = ?"
    """Comparison of a column with a text of any length, supported by an index."""

    @abstractmethod
    def _reading(self, source: Source) -> AbstractContextManager[Select]:
        """A function that queries one committed state of a source."""

    def count(self, source: Source) -> tuple[int, int]:
        with self._reading(source) as select:
            ((entries,),) = select(f"SELECT count(*) FROM {source} AS e WHERE :e")
            ((pieces,),) = select(f"SELECT count(*) FROM {source}_pieces AS p WHERE :p")
        return entries, pieces

    def get(self, source: Source, id: str, *, pieces: bool = True) -> Entry | None:  # noqa: A002
        with self._reading(source) as select:
            for head in _select_heads(select, source, "e.id = ?", id):
                return _complete(select, head) if pieces else head
        return None

    def find_title(self, source: Source, title: str) -> Entry | None:
        condition, values = self._compare("e.folded", fold_text(title))
        newest = f"{condition} ORDER BY e.last_modified DESC, e.number DESC LIMIT 1"
        with self._reading(source) as select:
            return next(iter(_select_heads(select, source, newest, *values)), None)

    def read_pieces(self, source: Source, id: str, first: int, count: int) -> list[Piece]:  # noqa: A002
        condition = "p.place >= ? ORDER BY p.place LIMIT ?"
        return self._select_pieces(source, condition, id, max(first, 0), count)

    def find_piece(self, source: Source, id: str, uuid: str) -> Piece | None:  # noqa: A002
        found = self._select_pieces(source, "p.uuid = ? AND p.place >= 0", id, uuid)
        return found[0] if found else None

    def count_pieces(self, source: Source, id: str) -> int:  # noqa: A002
        query = f"SELECT count(*) FROM {_join(source)} WHERE :e AND e.id = ? AND p.place >= 0"
        with self._reading(source) as select:
            return int(select(query, id)[0][0])

    def list_entries(self, source: Source, after: str = "", limit: int = 1000) -> list[Entry]:
        query = f"SELECT e.number FROM {source} AS e WHERE :e AND e.id = ?"
        behind = "e.number > ? ORDER BY e.number LIMIT ?"
        with self._reading(source) as select:
            found = select(query, after)
            heads = _select_heads(select, source, behind, found[0][0] if found else 0, limit)
            return [_complete(select, head) for head in heads]

    def list_newest(self, source: Source, limit: int) -> list[Entry]:
        newest = "e.number > 0 ORDER BY e.last_modified DESC, e.number DESC LIMIT ?"
        with self._reading(source) as select:
            return _select_heads(select, source, newest, limit)

    def list_origin(self, source: Source, origin: str) -> Mapping[str, Entry]:
        condition, values = self._compare("e.origin", origin)
        with self._reading(source) as select:
            heads = _select_heads(select, source, f"{condition} AND e.origin <> ''", *values)
        return {head.path: head for head in heads}

    def list_marks(self, source: Source, origin: str) -> Mapping[str, tuple[str, str]]:
        condition, values = self._compare("e.origin", origin)
        query = f"SELECT e.path, e.id, e.hash FROM {source} AS e WHERE :e AND {condition}"
        with self._reading(source) as select:
            return {path: (id_, text) for path, id_, text in select(query, *values)}

    def list_buried(self, source: Source) -> Mapping[Place, str]:
        query = "SELECT origin, path, hash FROM buried AS e WHERE :e AND source = ? ORDER BY 1, 2"
        with self._reading(source) as select:
            return {(origin, path): text for origin, path, text in select(query, source)}

    def list_media_types(self) -> list[str]:
        condition = "WHERE :e AND e.media_type <> '' ORDER BY 1"
        with self._reading("media") as select:
            rows = select(f"SELECT DISTINCT e.media_type FROM media AS e {condition}")
        return [kind for (kind,) in rows]

    def _compare(self, column: str, text: str) -> tuple[str, list[str]]:
        condition = self.equals.format(column)
        return condition, [text] * condition.count("?")

    def _select_pieces(self, source: Source, condition: str, *values: str | int) -> list[Piece]:
        query = f"SELECT {PIECES} FROM {_join(source)} WHERE :e AND e.id = ? AND {condition}"
        with self._reading(source) as select:
            return [Piece(*row) for row in select(query, *values)]


def _join(source: Source) -> str:
    return f"{source} AS e JOIN {source}_pieces AS p ON p.item = e.number"


def _select_heads(
    select: Select, source: Source, condition: str, *values: str | int
) -> list[Entry]:
    query = f"SELECT {HEADS} FROM {source} AS e WHERE :e AND {condition}"
    return [read_entry_head(source, row) for row in select(query, *values)]


def _complete(select: Select, head: Entry) -> Entry:
    query = (
        f"SELECT {PIECES} FROM {head.source}_pieces AS p WHERE :p AND p.item = ? AND p.field <> ?"
        " ORDER BY p.place"
    )
    rows = select(query, head.number, TITLE)
    return replace(head, pieces=tuple(Piece(*row) for row in rows))
