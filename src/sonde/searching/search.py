"""One search: its store and query vectors, and the candidates with the evidence about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import PurePosixPath
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from sonde.embedding.base import PASSAGE_MODES, Embedder, RecentVectors, Vectors
from sonde.embedding.nearness import list_nearness, measure_spread
from sonde.errors import EmbeddingFailed, MissingExtra, ModelDownloadFailed
from sonde.ranking import features
from sonde.ranking.candidate import EVIDENCE, Candidate, Evidence, NameWords
from sonde.ranking.evidence import choose_read
from sonde.ranking.question import STOP_WORDS, Places, Question, Report
from sonde.stores.chunks.base import ChunkStore
from sonde.text.words import fold_name
from sonde.types import Chunk, FileState, Filter, Kind, Scored

K = TypeVar("K", int, tuple[int, int])
_POOL, _POOL_OF_TOPICS = 100, 60
"""Chunks taken from each retriever; on labelled repositories 60 already hold 99 % of targets."""
_NEAREST_CHUNKS = 20
"""Of the features `dense_many` and `deep_many`; the weights are fitted to this number."""
_NAMED_FILES = 60
"""Files that are candidates for their name alone; a common name must not crowd out the rest."""
_MOST_FILES = 120
"""Candidates that are weighed; those left out were found last by every retriever."""
_LARGEST_POOL = 1_000
"""Chunks of one retriever beyond which no more are taken, however few files hold them."""
_REPORT_TERMS = 48
"""Words of a report that rank; more of them only find what is alike in general."""
_LOOKED_UP_TERMS = 400
"""Words of a report whose frequency in the index is looked up, the most frequent in it first."""
_TERM_DECAY = 40
"""Words of a report said this much later in the order of frequency count half."""
_NAME_WORDS: WeakKeyDictionary[ChunkStore, NameWords] = WeakKeyDictionary()
_HEADERS = (".h", ".hh", ".hpp", ".hxx")
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".m", ".mm")


@dataclass(frozen=True, slots=True)
class QueryVector:
    """The query as one model sees it."""

    model: str
    vector: Vectors
    report: Vectors | None = None
    """A report's sentences, where the query is one."""
    embed: Callable[[Sequence[str]], Vectors] | None = None
    """Embeds passages; None where that takes too long to do while the caller waits."""
    is_static: bool = True
    """Whether it is the static model, or the deeper one alone."""

    def measure(self, texts: Sequence[str]) -> list[float]:
        """How near texts are, by a model that may embed them now."""
        assert self.embed
        return list_nearness(self.model, self.embed(texts) @ self.vector)


@dataclass(frozen=True, slots=True)
class DeepVectors:
    """The query as the deeper model sees it, over the vectors that model has made so far."""

    model: str
    vector: Vectors
    is_complete: bool
    """Every chunk has its vector; otherwise some have, or none."""
    embed: Callable[[Sequence[str]], Vectors] | None = None
    """Embeds passages now; None when that would take too long."""

    def read_now(self, texts: Sequence[str]) -> list[float]:
        """How near the first of these texts are, as many as may be read at once; of none if it
        cannot: the answer stands without."""
        with suppress(EmbeddingFailed):
            if self.embed and texts:
                near: list[float] = (self.embed(choose_read(texts)) @ self.vector).tolist()
                return near
        return []


@dataclass(frozen=True, slots=True)
class Search:
    """One store, and how deep to look into it."""

    store: ChunkStore
    where: Filter
    limit: int
    probe: QueryVector | None = None
    deep: DeepVectors | None = None
    of_views: bool = False
    """Whether the store holds views of files, whose lines are not the files' own."""

    def choose_pool(self, question: Question) -> int:
        """How many chunks to take from each retriever."""
        is_topic = not (question.is_symbol or question.is_description or question.report)
        return max(_POOL_OF_TOPICS if is_topic else _POOL, 2 * self.limit)


_RECENT = RecentVectors(2_000)  # 3 MB


class QueryVectors:
    """What the models make of one question; `notes` says what they could not."""

    def __init__(
        self,
        question: Question,
        static: Mapping[Kind, Embedder],
        deep: Embedder | None,
        *,
        may_load: bool = False,
    ) -> None:
        self.question = question
        self._static, self._deep, self._may_load = static, deep, may_load
        self._vectors: dict[str, Vectors | None] = {}
        self.notes: list[str] = []

    def probe(self, store: ChunkStore) -> QueryVector | None:
        """The query for the model that has seen the store first; the static one where there is."""
        for embedder in (*self._static.values(), self._deep):
            if embedder and store.coverage(embedder.name)[0]:
                vectors = self._embed(embedder)
                if vectors is None:
                    return None
                is_static = embedder is not self._deep
                embed = partial(embedder.embed, mode="passage") if is_static else None
                report = vectors[1] if len(vectors) > 1 else None
                return QueryVector(embedder.name, vectors[0], report, embed, is_static)
        return None

    def deep(self, store: ChunkStore, kind: Kind, probe: QueryVector) -> DeepVectors | None:
        """The query for the deeper model, where it can say more than the probe does.

        Before it knows every chunk, it reads the best documents, and the best passages of code
        where a function is asked for. Reports go without: they are found by places and names, and
        its use there is not measured.
        """
        embedder, question = self._deep, self.question
        if embedder is None or probe.model == embedder.name or (kind == "code" and question.report):
            return None
        have, total = store.coverage(embedder.name)
        complete = 0 < total == have
        may_read = question.is_description if kind == "code" else question.report is None
        if not complete and not (may_read and (self._may_load or embedder.is_loaded)):
            return None
        vectors = self._embed(embedder)
        if vectors is None:
            return None
        embed = partial(_RECENT.embed, embedder, PASSAGE_MODES[kind])
        return DeepVectors(embedder.name, vectors[0], complete, embed)

    def list_models(self, kind: Kind) -> tuple[Embedder | None, Embedder | None]:
        """The static model of a kind, and the deeper one."""
        return self._static.get(kind), self._deep

    def read(self, embedder: Embedder) -> Vectors | None:
        """The query as this model sees it; None where it cannot."""
        vectors = self._embed(embedder)
        return None if vectors is None else vectors[0]

    def _embed(self, embedder: Embedder) -> Vectors | None:
        if embedder.name not in self._vectors:
            try:
                measure_spread(embedder)
                self._vectors[embedder.name] = embedder.embed(self.question.asked, "query")
            except (EmbeddingFailed, ModelDownloadFailed, MissingExtra) as error:
                without = embedder is self._deep and self._static
                how = "without the deeper model" if without else "by words alone"
                self.notes.append(f"answered {how}: {error.user_message}")
                self._vectors[embedder.name] = None
        return self._vectors[embedder.name]


def read_names(search: Search, question: Question, files: Sequence[Candidate]) -> None:
    """The features of the names that files define."""
    if question.is_symbol:  # who defines it, the index of names has said
        found = search.store.symbols_of([file.state.path for file in files if file.bears_name])
        for file in files:
            file.features |= features.measure_symbol(question, found.get(file.state.path))
        return
    compare_names(search, question, files)


def compare_names(search: Search, question: Question, files: Sequence[Candidate]) -> None:
    """Compare the names that files define with the question."""
    hashes, store = {file.state.path: file.state.hash for file in files}, search.store

    def read(paths: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
        known = store.symbols_of(paths).items()  # without files that were replaced in between
        return {path: own.list_names() for path, own in known if own.of_hash == hashes[path]}

    compared = _NAME_WORDS.setdefault(store, NameWords()).compare(hashes, read, question.matches)
    for file, (named, measured) in zip(files, compared, strict=True):
        file.named = named
        file.features |= {} if question.is_symbol else measured


def gather_files(search: Search, question: Question) -> list[Candidate]:
    """Every candidate file with its evidence and features, without those of its definitions."""
    retrieved, chunks = _retrieve(search, question)
    states = search.store.files({chunk.path for chunk in chunks})
    candidates: dict[str, Candidate] = {}
    for chunk in chunks:
        if chunk.path in states:
            candidate = candidates.get(chunk.path)
            if candidate is None:
                candidate = candidates[chunk.path] = Candidate(states[chunk.path])
            candidate.chunks[chunk.id] = chunk
    named = _add_named(search, question, candidates)
    _attach_scores(search, candidates, retrieved)
    # files without any text (an empty `__init__.py`) have nothing to show
    first = [candidates[path] for path in named if candidates[path].chunks]
    rest = [candidate for path, candidate in candidates.items() if path not in named]
    kept = [*first, *rest][:_MOST_FILES]
    _attach_facts(search, question, kept)
    for candidate, row in zip(kept, features.measure_files(question, kept), strict=True):
        candidate.features = row
    if question.report:
        named_in = _find_spelled(search, question.report, kept)
        rows = features.measure_report(question.report, kept, named_in)
        for candidate, row in zip(kept, rows, strict=True):
            candidate.features |= row
    return kept


def _find_spelled(
    search: Search, report: Report, files: Sequence[Candidate]
) -> dict[str, Collection[str]]:
    """What files define of the names that a report spells, by their paths."""
    wanted = {fold_name(name.rsplit(".", 1)[-1]) for name in report.spelled} - {""}
    holders = search.store.paths_named(wanted) & {file.state.path for file in files}
    return {
        path: wanted & {fold_name(name.rpartition(".")[2]) for name in outline.names}
        for path, outline in search.store.symbols_of(holders).items()
    }


Retrieved = dict[Evidence, list[Scored]]
"""Per kind of evidence, the best chunks of the store."""


def _retrieve(search: Search, question: Question) -> tuple[Retrieved, list[Chunk]]:
    """The best chunks by words and by meaning; more of them when a few large files hold all."""
    store, probe, pool = search.store, search.probe, search.choose_pool(question)
    found: Retrieved = {kind: [] for kind in EVIDENCE}
    if question.report:
        terms = choose_report_terms(search, question.report)
        found["report_lexical"] = store.lexical(terms, pool, search.where)
        if probe and probe.report is not None:
            found["report_dense"] = store.dense(probe.model, probe.report, pool, search.where)
    deep = search.deep if search.deep and search.deep.is_complete else None
    while True:
        found["lexical"] = store.lexical(question.terms, pool, search.where)
        if probe:
            found["dense"] = store.dense(probe.model, probe.vector, pool, search.where)
        if deep:
            found["deep"] = store.dense(deep.model, deep.vector, pool, search.where)
        # by rank in any list: what is cut off later is what all find last
        ranked = (item.id for row in zip_longest(*found.values()) for item in row if item)
        chunks = store.chunks(list(dict.fromkeys(ranked)))
        enough = len({chunk.path for chunk in chunks}) >= search.limit
        if enough or max(map(len, found.values())) < pool or pool > _LARGEST_POOL:
            return found, chunks
        pool *= 4


def choose_report_terms(search: Search, report: Report) -> list[str]:
    """The report's words that say most: often in it, seldom in the index."""
    terms = [term for term in report.terms if term not in STOP_WORDS and len(term) > 1]
    terms = terms[:_LOOKED_UP_TERMS]
    counts = search.store.term_counts(terms)
    total = search.store.coverage("")[1]
    weights = {
        term: math.log((total + 1) / counts[term]) / (1 + at / _TERM_DECAY)
        for at, term in enumerate(terms)
        if counts[term]
    }
    return sorted(weights, key=lambda term: -weights[term])[:_REPORT_TERMS]


def _attach_scores(search: Search, candidates: dict[str, Candidate], found: Retrieved) -> None:
    """Give each candidate the scores of its chunks: by words those that were retrieved, by meaning
    all of them."""
    owner = {id_: c for c in candidates.values() for id_ in c.chunks}
    words: tuple[Evidence, ...] = ("lexical", "report_lexical")
    for kind in words:
        for item in found[kind]:
            if item.id in owner:
                owner[item.id].scores[kind][item.id] = item.score
    near, deep_near = (
        {item.id for item in found[kind][:_NEAREST_CHUNKS]} for kind in ("dense", "deep")
    )
    for candidate in candidates.values():
        candidate.dense_near = len(near & candidate.chunks.keys())
        candidate.deep_near = len(deep_near & candidate.chunks.keys())
    asked: list[tuple[Evidence, str, Vectors | None]] = []
    if probe := search.probe:
        asked += [("dense", probe.model, probe.vector), ("report_dense", probe.model, probe.report)]
    if (deep := search.deep) and deep.is_complete:
        asked.append(("deep", deep.model, deep.vector))
    for kind, model, vector in asked:
        if vector is not None:
            for id_, score in compare_chunks(search, model, list(owner), vector).items():
                owner[id_].scores[kind][id_] = score


def compare_chunks(
    search: Search, model: str, keys: Sequence[int], vector: Vectors
) -> Mapping[int, float]:
    """How similar these chunks are to a vector, where they have one of this model."""
    return compare_rows(search.store.vectors(model, keys), vector)


def compare_rows(rows: Mapping[K, Vectors], vector: Vectors) -> Mapping[K, float]:
    """How similar each row is to a vector."""
    # row by row: equal rows must have equal scores, whatever stands beside them
    scores = np.einsum("ij,j->i", np.stack(list(rows.values())), vector) if rows else ()
    return dict(zip(rows, map(float, scores), strict=True))


def _add_named(
    search: Search, question: Question, candidates: dict[str, Candidate]
) -> dict[str, FileState]:
    """Files named like something in the query, or defining it, are candidates in any case."""
    found = sorted(_list_named(search, question.names | question.joined))
    if question.report:
        places = Places([*question.report.frames, *question.report.paths])
        reported = [path for path in _list_named(search, places.names) if places.rate(path) == 2]
        found = [*sorted(reported)[: _NAMED_FILES // 2], *found]
    states = search.store.files(found[:_NAMED_FILES])
    named = {path: states[path] for path in dict.fromkeys(found) if path in states}
    for path, state in named.items():
        candidates.setdefault(path, Candidate(state))
    for path in candidates.keys() & set(found):
        candidates[path].bears_name = True
    lines = search.store.chunk_lines(named)
    wanted = [
        key
        for path in named
        for at, (key, _, _, symbol) in enumerate(lines.get(path, ()))
        if (at == 0 and not candidates[path].chunks) or defines_name(question, symbol)
    ]
    for chunk in search.store.chunks(wanted):
        candidates[chunk.path].chunks.setdefault(chunk.id, chunk)
    return named


def _list_named(search: Search, names: Collection[str]) -> list[str]:
    """Files with one of these names that the filter lets through."""
    known = search.store.paths_named(names) if names else ()
    allowed = search.where.paths
    return [path for path in known if allowed is None or path in allowed]


def _attach_facts(search: Search, question: Question, candidates: Sequence[Candidate]) -> None:
    """What the index knows of the files beyond the scores of their chunks."""
    places = [features.read_place(c.state.path) for c in candidates]
    importers = search.store.importers({place.folded for place in places})
    sources = _implementations(search, candidates)
    for c, place in zip(candidates, places, strict=True):
        c.importers = importers.get(place.folded, 0)
        c.holds_name = any(
            name in chunk.text for name in question.spelled for chunk in c.chunks.values()
        )
        c.has_implementation = place.stem in sources and c.state.path.endswith(_HEADERS)


def _implementations(search: Search, candidates: Sequence[Candidate]) -> set[str]:
    """Stems of the sources that belong to the headers among the candidates."""
    headers = {c.state.stem for c in candidates if c.state.path.endswith(_HEADERS)}
    if not headers:
        return set()
    named = search.store.paths_named({fold_name(stem) for stem in headers})
    return {PurePosixPath(path).stem for path in named if path.endswith(_SOURCES)}


def defines_name(question: Question, symbol: str) -> bool:
    """Whether the question names the definition that a chunk opens."""
    return bool(symbol and question.names) and (
        fold_name(symbol.rsplit(".", 1)[-1]) in question.names
        or fold_name(symbol) in question.names
    )
