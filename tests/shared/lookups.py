"""Answers from the tables of a shared index themselves: words, names, trigrams and vectors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from sonde.shared.index import SharedIndex
from sonde.shared.manifest import name_rows
from sonde.shared.rows import name_vectors
from sonde.stores.chunks.base import Vectors
from sonde.stores.chunks.lexicon import UNSURE, WEIGHTS, list_query_terms, spell_grams
from sonde.text.words import fold_name
from sonde.types import AllOf, AnyOf, Needs

_SPARE = 4  # times as many rows are asked for: some belong to other commits
_PROBES, _REFINED = 20, 10  # of the vector index: nearly all true neighbours, in some ms
_WORD_COLUMNS = ("path_words", "name_words", "words")


class FoundChunk(NamedTuple):
    """A chunk that was found, by its place in the commit."""

    path: str
    start_line: int
    end_line: int
    score: float


class SharedLookups:
    """Lookups in one commit, answered by the indexes of the tables.

    Scores of words count over the whole shared index, those of a local one over the project.
    """

    def __init__(self, shared: SharedIndex, repository: str, commit: str) -> None:
        self._tables = shared.tables
        found = shared.read_commit(repository, commit)
        self._paths = {name_rows(found.recipe, path, f): path for path, f in found.files.items()}

    def lexical(self, terms: Sequence[str], limit: int) -> list[FoundChunk]:
        """The chunks that hold most of these terms, by BM25 over path, names and text."""
        from lancedb.query import FullTextOperator, MultiMatchQuery

        spelled = " ".join(list_query_terms(terms))
        if not spelled:
            return []
        columns, weights, either = list(_WORD_COLUMNS), list(WEIGHTS), FullTextOperator.OR
        query = MultiMatchQuery(spelled, columns, boosts=weights, operator=either)
        return self._rank(lambda count: self._find_chunks(query, count), limit)

    def dense(self, model: str, vector: Vectors, limit: int) -> list[FoundChunk]:
        """The chunks nearest to a vector."""
        table = self._tables.open(name_vectors(model))
        if table is None:
            return []

        def find(count: int) -> list[Mapping[str, Any]]:
            with self._tables.translating():
                search = table.search(vector, vector_column_name="vector").distance_type("dot")
                search = search.nprobes(_PROBES).refine_factor(_REFINED).limit(count)
                near = search.select(["digest", "_distance"]).to_list()
            scores = {row["digest"]: 1.0 - row["_distance"] for row in near}
            columns = ["file", "place", "start_line", "end_line", "digest"]
            rows = self._tables.read_among("chunks", columns, "digest", scores)
            return [{**row, "_score": scores[row["digest"]]} for row in rows]

        return self._rank(find, limit)

    def paths_named(self, names: Collection[str]) -> set[str]:
        """Files whose stem, or a symbol they define, equals one of these names."""
        folded = sorted({fold_name(name) for name in names} - {""})
        return self._find_files("names", " ".join(folded), "OR") if folded else set()

    def trigram_candidates(self, needs: Needs) -> set[str]:
        """Files that may contain the needed strings; none that does is missing."""
        if isinstance(needs, str):
            grams = spell_grams([needs])
            if not grams:
                return set(self._paths.values())
            return self._find_files("grams", grams, "AND") | self._find_files("grams", UNSURE, "OR")
        found = [self.trigram_candidates(part) for part in needs.parts]
        if isinstance(needs, AnyOf):
            return set[str]().union(*found)
        assert isinstance(needs, AllOf)
        return set(self._paths.values()).intersection(*found)

    def _find_files(self, column: str, words: str, operator: str) -> set[str]:
        from lancedb.query import FullTextOperator, MatchQuery

        table, make = self._tables.open("files"), cast("Any", MatchQuery)
        with self._tables.translating():
            query = make(words, column, operator=FullTextOperator(operator))
            found = table.search(query, query_type="fts").select(["key", "_score"])
            keys = found.limit(table.count_rows() + 1).to_arrow()["key"].to_pylist()
        return {self._paths[key] for key in keys if key in self._paths}

    def _find_chunks(self, query: Any, count: int) -> list[Mapping[str, Any]]:
        columns = ["file", "place", "start_line", "end_line", "_score"]
        table = self._tables.open("chunks")
        with self._tables.translating():
            found = table.search(query, query_type="fts").select(columns).limit(count).to_list()
        return list(found)

    def _rank(self, find: Callable[[int], list[Mapping[str, Any]]], limit: int) -> list[FoundChunk]:
        """Ask for more rows until enough of them are of this commit, or there are no more."""
        count = limit * _SPARE
        while True:
            rows = find(count)
            places = sorted(set(self._place(rows)), key=lambda p: (-p.score, p.path, p.start_line))
            if len(places) >= limit or len(rows) < count:
                return places[:limit]
            count *= _SPARE

    def _place(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[FoundChunk]:
        for row in rows:
            if path := self._paths.get(row["file"]):
                yield FoundChunk(path, row["start_line"], row["end_line"], float(row["_score"]))
