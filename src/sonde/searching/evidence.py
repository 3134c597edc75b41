"""Candidates of a question, and all that the index knows about them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import PurePosixPath

from sonde.ranking.features import FileEvidence, measure_files, measure_report
from sonde.ranking.question import STOP_WORDS, Question, fold_name
from sonde.ranking.report import Places, Report
from sonde.searching.search import DeepVectors, Search
from sonde.types import Chunk, FileState, Scored

_NEAR = 20
_NAMED_FILES = 60
_MOST_FILES = 120
_LARGEST_POOL = 1_000
_TOLD_TERMS = 48
"""Words of a report that rank; more of them only find what is alike in general."""
_HEADERS = (".h", ".hh", ".hpp", ".hxx")
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".m", ".mm")


@dataclass(slots=True)
class Candidate:
    """A file that may answer, with those of its chunks that were retrieved."""

    state: FileState
    chunks: dict[int, Chunk] = field(default_factory=dict)
    lexical: dict[int, float] = field(default_factory=dict)
    dense: dict[int, float] = field(default_factory=dict)
    near: int = 0
    told_lexical: dict[int, float] = field(default_factory=dict)
    told_dense: dict[int, float] = field(default_factory=dict)
    deep: dict[int, float] = field(default_factory=dict)
    deep_near: int = 0


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A file with its evidence, before weighing; what `training/fit_ranking.py` fits on."""

    candidate: Candidate
    features: dict[str, float]


@dataclass(slots=True)
class _Retrieved:
    lexical: list[Scored] = field(default_factory=list)
    dense: list[Scored] = field(default_factory=list)
    told_lexical: list[Scored] = field(default_factory=list)
    told_dense: list[Scored] = field(default_factory=list)
    deep: list[Scored] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)


def gather_evidence(search: Search, question: Question) -> list[RankedFile]:
    """Every candidate file with its features."""
    store = search.store
    found = _retrieve(search, question)
    states = store.files({chunk.path for chunk in found.chunks})
    candidates: dict[str, Candidate] = {}
    for chunk in found.chunks:
        if chunk.path in states:
            candidate = candidates.setdefault(chunk.path, Candidate(states[chunk.path]))
            candidate.chunks[chunk.id] = chunk
    named = _add_named(search, question, candidates)
    _attach_scores(search, candidates, found)
    # files without any text (an empty `__init__.py`) have nothing to show
    first = [candidates[path] for path in named if candidates[path].chunks]
    rest = [candidate for path, candidate in candidates.items() if path not in named]
    kept = [*first, *rest][:_MOST_FILES]
    evidence = _evidence(search, question, kept)
    features = measure_files(question, evidence)
    if question.report:
        for row, told in zip(features, measure_report(question.report, evidence), strict=True):
            row.update(told)
    return [RankedFile(c, row) for c, row in zip(kept, features, strict=True)]


def _retrieve(search: Search, question: Question) -> _Retrieved:
    """The best chunks by words and by meaning; more of them when a few large files hold all."""
    store, probe, pool = search.store, search.probe, search.pool
    found = _Retrieved()
    if question.report:
        terms = _choose_terms(search, question.report)
        found.told_lexical = store.lexical(terms, pool, search.where)
        if probe and probe.told is not None:
            found.told_dense = store.dense(probe.model, probe.told, pool, search.where)
    deep = search.deep if search.deep and search.deep.is_complete else None
    while True:
        found.lexical = store.lexical(question.terms, pool, search.where)
        found.dense = store.dense(probe.model, probe.vector, pool, search.where) if probe else []
        if deep:
            found.deep = store.dense(deep.model, deep.vector, pool, search.where)
        # by rank in any list: what is cut off later is what all find last
        lists = (
            found.lexical, found.dense, found.deep, found.told_lexical, found.told_dense,
        )  # fmt: skip
        ranked = (item.id for row in zip_longest(*lists) for item in row if item)
        found.chunks = store.chunks(list(dict.fromkeys(ranked)))
        enough = len({chunk.path for chunk in found.chunks}) >= search.limit
        if enough or max(map(len, lists)) < pool or pool > _LARGEST_POOL:
            return found
        pool *= 4


def _choose_terms(search: Search, report: Report) -> list[str]:
    """The report's words that say most: often in it, seldom in the index."""
    terms = [term for term in report.terms if term not in STOP_WORDS and len(term) > 1][:400]
    counts = search.store.term_counts(terms)
    total = search.store.coverage("")[1]
    weights = {
        term: math.log((total + 1) / counts[term]) / (1 + at / 40)
        for at, term in enumerate(terms)
        if counts[term]
    }
    return sorted(weights, key=lambda term: -weights[term])[:_TOLD_TERMS]


def _attach_scores(search: Search, candidates: dict[str, Candidate], found: _Retrieved) -> None:
    owner = {id_: c for c in candidates.values() for id_ in c.chunks}
    for item in found.lexical:
        if item.id in owner:
            owner[item.id].lexical[item.id] = item.score
    for item in found.told_lexical:
        if item.id in owner:
            owner[item.id].told_lexical[item.id] = item.score
    if search.probe:
        for item in found.dense[:_NEAR]:
            if item.id in owner:
                owner[item.id].near += 1
        told = search.probe.told
        for id_, vector in search.store.vectors(search.probe.model, list(owner)).items():
            owner[id_].dense[id_] = float(vector @ search.probe.vector)
            if told is not None:
                owner[id_].told_dense[id_] = float(vector @ told)
    if search.deep and search.deep.is_complete:
        _attach_deep(search, search.deep, owner, found.deep)


def _attach_deep(
    search: Search, deep: DeepVectors, owner: dict[int, Candidate], nearest: list[Scored]
) -> None:
    for item in nearest[:_NEAR]:
        if item.id in owner:
            owner[item.id].deep_near += 1
    for id_, vector in search.store.vectors(deep.model, list(owner)).items():
        owner[id_].deep[id_] = float(vector @ deep.vector)


def _add_named(
    search: Search, question: Question, candidates: dict[str, Candidate]
) -> dict[str, FileState]:
    """Files named like something in the query, or defining it, are candidates in any case."""
    wanted = question.names | question.joined
    allowed = search.where.paths
    found = sorted(
        path
        for path in (search.store.paths_named(wanted) if wanted else ())
        if allowed is None or path in allowed
    )
    if question.report:
        found = [*_find_places(search, question.report), *found]
    named = dict(search.store.files(found[:_NAMED_FILES]))
    named = {path: named[path] for path in dict.fromkeys(found) if path in named}
    for path, state in named.items():
        candidate = candidates.setdefault(path, Candidate(state))
        for chunk in search.store.chunks_of(path):
            if not candidate.chunks or defines_name(question, chunk):
                candidate.chunks.setdefault(chunk.id, chunk)
    return named


def _find_places(search: Search, report: Report) -> list[str]:
    """Files that a report names by path, dotted name or frame."""
    places = Places([*report.frames, *report.paths])
    allowed = search.where.paths
    known = search.store.paths_named(places.names) if places.names else ()
    found = [path for path in known if allowed is None or path in allowed]
    return sorted(path for path in found if places.rate(path) == 2)[: _NAMED_FILES // 2]


def _evidence(
    search: Search, question: Question, candidates: Sequence[Candidate]
) -> list[FileEvidence]:
    paths = [c.state.path for c in candidates]
    symbols = search.store.symbols_of(paths)
    stems = {path: fold_name(c.state.stem) for path, c in zip(paths, candidates, strict=True)}
    importers = search.store.importers(set(stems.values()))
    sources = _implementations(search, candidates)
    return [
        FileEvidence(
            state=c.state,
            lexical=list(c.lexical.values()),
            dense=list(c.dense.values()),
            dense_near=c.near,
            told_lexical=list(c.told_lexical.values()),
            told_dense=list(c.told_dense.values()),
            deep=list(c.deep.values()),
            deep_near=c.deep_near,
            symbols=symbols.get(c.state.path, ()),
            importers=importers.get(stems[c.state.path], 0),
            holds_name=any(
                name in chunk.text for name in question.spelled for chunk in c.chunks.values()
            ),
            has_implementation=c.state.stem in sources,
        )
        for c in candidates
    ]


def _implementations(search: Search, candidates: Sequence[Candidate]) -> set[str]:
    """Stems of the sources that belong to the headers among the candidates."""
    headers = {c.state.stem for c in candidates if c.state.path.endswith(_HEADERS)}
    if not headers:
        return set()
    named = search.store.paths_named({fold_name(stem) for stem in headers})
    return {PurePosixPath(path).stem for path in named if path.endswith(_SOURCES)}


def defines_name(question: Question, chunk: Chunk) -> bool:
    """Whether the chunk opens a definition that the question names."""
    return bool(chunk.symbol) and (
        fold_name(chunk.symbol.rsplit(".", 1)[-1]) in question.names
        or fold_name(chunk.symbol) in question.names
    )
