"""One view of a user's own store and the collections shared with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sonde.stores.chunks.base import Vectors
from sonde.stores.knowledge.base import (
    ANYTHING,
    Conditions,
    Entry,
    KnowledgeStore,
    Piece,
    RankedPiece,
    Source,
)
from sonde.stores.knowledge.rows import keep_newest
from sonde.types import Scored


class SharedKnowledge:
    """A `KnowledgeStore` over several: reads and vectors reach all, other writes the user's own.

    An entry of a collection has the id `12@handbook`. Keys of pieces are interleaved: key k of the
    store at place p becomes `k * stores + p`.
    """

    def __init__(self, own: KnowledgeStore, collections: Mapping[str, KnowledgeStore]) -> None:
        self._own, self._collections = own, collections
        self._stores = (("", own), *collections.items())

    def __getattr__(self, name: str) -> Any:
        """Methods that are not defined below act on the user's own store."""
        return getattr(self._own, name)

    def _find(self, id: str) -> tuple[str, KnowledgeStore, str]:  # noqa: A002
        """The collection (empty for the user's own), its store, and the id in that store."""
        named = (name for name in self._collections if id.endswith(f"@{name}"))
        name = max(named, key=len, default="")  # anna@example.com, though there is an example.com
        return name, self._collections.get(name, self._own), id.removesuffix(f"@{name}")

    def _interleave(self, number: int, place: int) -> int:
        return number * len(self._stores) + place

    def get(self, source: Source, id: str, *, pieces: bool = True) -> Entry | None:  # noqa: A002
        name, store, plain = self._find(id)
        entry = store.get(source, plain, pieces=pieces)
        return _label(entry, name) if entry else None

    def find_title(self, source: Source, title: str) -> Entry | None:
        found = ((name, store.find_title(source, title)) for name, store in self._stores)
        return next((_label(entry, name) for name, entry in found if entry), None)

    def read_pieces(self, source: Source, id: str, first: int, count: int) -> list[Piece]:  # noqa: A002
        _, store, plain = self._find(id)
        return store.read_pieces(source, plain, first, count)

    def count_pieces(self, source: Source, id: str) -> int:  # noqa: A002
        _, store, plain = self._find(id)
        return store.count_pieces(source, plain)

    def find_piece(self, source: Source, id: str, uuid: str) -> Piece | None:  # noqa: A002
        _, store, plain = self._find(id)
        return store.find_piece(source, plain, uuid)

    def list_media_types(self) -> list[str]:
        return sorted({kind for _, store in self._stores for kind in store.list_media_types()})

    def rank(
        self, source: Source, terms: Sequence[str], limit: int, where: Conditions = ANYTHING
    ) -> list[Scored]:
        found = (store.rank(source, terms, limit, where) for store in self._list(where))
        return self._merge(found, limit)

    def weigh_terms(self, source: Source, terms: Sequence[str]) -> Mapping[str, float]:
        weights = [store.weigh_terms(source, terms) for _, store in self._stores]
        return {term: min(each[term] for each in weights) for term in weights[0]}

    def nearest(
        self, source: Source, model: str, vector: Vectors, limit: int, where: Conditions = ANYTHING
    ) -> list[Scored]:
        stores = self._list(where)
        found = (store.nearest(source, model, vector, limit, where) for store in stores)
        return self._merge(found, limit)

    def compare(
        self, source: Source, model: str, vector: Vectors, numbers: Sequence[int]
    ) -> Mapping[int, float]:
        return {
            self._interleave(key, place): score
            for place, store, own in self._divide(numbers)
            for key, score in store.compare(source, model, vector, own).items()
        }

    def drop_damaged(self, source: Source, model: str) -> int:
        return sum(store.drop_damaged(source, model) for _, store in self._stores)

    def coverage(self, source: Source, model: str) -> tuple[int, int]:
        counts = [store.coverage(source, model) for _, store in self._stores]
        return sum(have for have, _ in counts), sum(total for _, total in counts)

    def _divide(self, numbers: Sequence[int]) -> Iterable[tuple[int, KnowledgeStore, list[int]]]:
        """Each store that has some of these keys: its place, itself, and its own keys."""
        for place, (_, store) in enumerate(self._stores):
            own = [key // len(self._stores) for key in numbers if key % len(self._stores) == place]
            if own:
                yield place, store, own

    def _list(self, where: Conditions) -> list[KnowledgeStore]:
        """The stores to search; characters are looked up in the user's own alone."""
        return [self._own] if where.character else [store for _, store in self._stores]

    def _merge(self, rankings: Iterable[list[Scored]], limit: int) -> list[Scored]:
        every = ((place, one) for place, ranking in enumerate(rankings) for one in ranking)
        merged = [replace(one, id=self._interleave(one.id, place)) for place, one in every]
        return sorted(merged, key=lambda one: (-one.score, one.id))[:limit]

    def locate(self, source: Source, numbers: Sequence[int]) -> Mapping[int, RankedPiece]:
        located: dict[int, RankedPiece] = {}
        for place, store, own in self._divide(numbers):
            for number, found in store.locate(source, own).items():
                key = self._interleave(number, place)
                entry = replace(found.entry, number=self._interleave(found.entry.number, place))
                piece = replace(found.piece, number=key)
                located[key] = RankedPiece(_label(entry, self._stores[place][0]), piece)
        return located

    def list_recent(self, source: Source, where: Conditions, limit: int) -> list[RankedPiece]:
        numbers = [
            self._interleave(found.piece.number, place)
            for place, store in enumerate(self._list(where))
            for found in store.list_recent(source, where, limit)
        ]
        return keep_newest(self.locate(source, numbers).values(), limit)

    def list_newest(self, source: Source, limit: int) -> list[Entry]:
        stores = ((name, store.list_newest(source, limit)) for name, store in self._stores)
        found = [_label(entry, name) for name, entries in stores for entry in entries]
        return sorted(found, key=lambda entry: -entry.last_modified)[:limit]

    def list_bare(
        self, source: Source, model: str, limit: int, before: int | None = None
    ) -> list[RankedPiece]:
        numbers: list[int] = []
        for place, (_, store) in enumerate(self._stores):
            below = None if before is None else -((place - before) // len(self._stores))
            bare = store.list_bare(source, model, limit, below)
            numbers += [self._interleave(found.piece.number, place) for found in bare]
        numbers = sorted(numbers)[-limit:]
        return list(self.locate(source, numbers).values())

    def put_vectors(
        self, source: Source, model: str, numbers: Sequence[int], rows: Vectors
    ) -> None:
        for place, store, own in self._divide(numbers):
            mine = [key % len(self._stores) == place for key in numbers]
            store.put_vectors(source, model, own, rows[mine])


def _label(entry: Entry, name: str) -> Entry:
    """The entry with its collection's name in its id."""
    if not name:
        return entry
    character = entry.character and f"{entry.character}@{name}"
    return replace(entry, id=f"{entry.id}@{name}", character=character)
