"""One search as it is asked for: its query, its filters, and the files that pass them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sonde.ranking.question import Question, read_question
from sonde.searching.filters import narrow_store, wants_views
from sonde.searching.query_language import QueryCondition, parse_query
from sonde.stores.chunks.base import ChunkStore
from sonde.types import Filter, Kind


@dataclass(frozen=True, slots=True)
class Request:
    """One search; equal requests share a ranking."""

    tool: str
    query: str = ""
    kinds: tuple[Kind, ...] = ("code", "docs")
    top_k: int = 10
    mode: str = "auto"
    project: str | None = None
    under: str = ""
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    language: str | None = None
    tags: tuple[str, ...] = ()
    chunk_types: tuple[str, ...] = ()
    whole: bool = False
    """Whether to fill up to `top_k` with chunks of files that were not weighed."""
    of_each_kind: bool = False
    """Whether `top_k` counts hits of each kind: code and docs are scored on different scales."""
    conditions: tuple[QueryCondition, ...] = ()
    """Those of the query once it is read, and others."""
    held: frozenset[str] | None = None
    """Files that hold the texts which the conditions ask for; None for any."""

    def read(self, *, named_only: bool = False) -> Request:
        """The request with the conditions that its query holds, and the rest as its query."""
        query = parse_query(self.query, named_only=named_only)
        conditions = (*self.conditions, *query.conditions)
        wanted = [one.value for one in conditions if one.field == "kind" and not one.negated]
        kinds: set[Kind] = {"docs" if each == "docs" else "code" for each in wanted}
        if "test" in wanted:
            kinds |= set(self.kinds)
        text = query.text if query.conditions else self.query
        return replace(
            self, query=text, conditions=conditions, kinds=tuple(sorted(kinds)) or self.kinds
        )

    @property
    def of_views(self) -> bool:
        """Whether to search views of files, not the files themselves."""
        return wants_views(self.tags, self.chunk_types)

    @property
    def is_open(self) -> bool:
        """Whether to read the query in whatever way answers it; other modes say how."""
        return self.mode in ("auto", "hybrid") and not self.of_views

    def parameters(self) -> dict[str, object]:
        """What a cursor is bound to."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def given(self) -> dict[str, object]:
        """What may be given with a cursor: the parameters that differ from their defaults."""
        fields = self.__dataclass_fields__
        return {k: value for k, value in self.parameters().items() if value != fields[k].default}

    def narrow(self, store: ChunkStore, kind: Kind) -> Filter:
        """The files of a store that pass all of its filters."""
        return narrow_store(
            store,
            kind,
            under=self.under,
            include=self.include,
            exclude=self.exclude,
            language=self.language,
            tags=self.tags,
            chunk_types=self.chunk_types,
            conditions=self.conditions,
            held=self.held,
        )


def recall_request(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request that a cursor carried as JSON."""
    fields = {name: tuple(v) if isinstance(v, list) else v for name, v in recipe.items()}
    if "conditions" in fields:
        fields["conditions"] = tuple(QueryCondition(**one) for one in fields["conditions"])
    return fields


def read_asked(query: str) -> Question:
    """The question of a query, without its conditions."""
    parsed = parse_query(query)
    return read_question(parsed.text if parsed.conditions else query)
