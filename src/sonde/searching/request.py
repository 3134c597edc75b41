"""One search as it is asked for: its query, its filters, and the files that pass them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sonde.chunking.tags import fold_tag, tag_file
from sonde.ranking.question import Question, read_question
from sonde.searching.filters import filter_paths, split_view, wants_views
from sonde.searching.query_language import QueryCondition, compile_conditions, parse_query
from sonde.stores.chunks.base import ChunkStore
from sonde.text.globs import compose
from sonde.text.languages import find_language
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

    def narrow(self, store: ChunkStore, kind: Kind | None) -> Filter:
        """The files of a store that pass all of its filters; views of files where it is of views.

        Without a kind, the store holds views in any case, and those of every kind pass.
        """
        views = kind is None or self.of_views
        fits = compile_conditions(self.conditions)
        paths = self.under or self.include or self.exclude
        kinds = self.language or self.tags or self.chunk_types
        if self.held is None and not (paths or kinds or self.conditions):
            return Filter()
        named = store.tags() if self.tags else {}
        wanted = {fold_tag(tag) for tag in self.tags}
        spoken = find_language(self.language) if self.language else None
        types_of: dict[str, list[str]] = {}
        under = "" if views else compose(self.under).strip("/")
        for path, state in store.files(under=under).items():
            type_, file = split_view(path) if views else ("", path)
            if (
                (spoken is None or state.language == spoken)
                and (self.held is None or file in self.held)
                and (not self.conditions or fits(file, state.kind))
                and (not views or kind in (None, state.kind))
                and (not self.chunk_types or type_ in self.chunk_types)
                and not (
                    wanted
                    and wanted - {*tag_file(file, kind or state.kind, named.get(path, ())), type_}
                )
            ):
                types_of.setdefault(file, []).append(path)
        where = filter_paths(types_of, under=self.under, include=self.include, exclude=self.exclude)
        kept = types_of if where.paths is None else where.paths
        return Filter(paths=frozenset(path for file in kept for path in types_of[file]))


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
