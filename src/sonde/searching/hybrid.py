"""Search by everything: candidates from words, meaning and names, ordered by one model.

Files are ranked by the evidence about them; each then shows the chunk that answers: the one
that defines the symbol asked for, else the best by words and meaning together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import PurePosixPath

from sonde.ranking.features import FileEvidence, measure_files
from sonde.ranking.words import Question, fold_name
from sonde.searching.found import Found, Search, merge_neighbours
from sonde.types import Chunk, FileState, Kind, Scored

_NEAR = 20
_NAMED_FILES = 60
_MOST_FILES = 120
_LARGEST_POOL = 1_000
_HEADERS = (".h", ".hh", ".hpp", ".hxx")
_SOURCES = (".c", ".cc", ".cpp", ".cxx", ".m", ".mm")
_SCALE = 4.0
"""Model scores are about -10..+10; divided by this they spread well over 0..1."""


@dataclass(slots=True)
class _Candidate:
    state: FileState
    chunks: dict[int, Chunk] = field(default_factory=dict)
    lexical: dict[int, float] = field(default_factory=dict)
    dense: dict[int, float] = field(default_factory=dict)
    near: int = 0


@dataclass(frozen=True, slots=True)
class RankedFile:
    """A file with its evidence, before weighing; what `training/fit_ranking.py` fits on."""

    candidate: _Candidate
    features: dict[str, float]


def rank_hybrid(
    search: Search, question: Question, weights: Mapping[Kind, Mapping[str, float]]
) -> list[Found]:
    """Best files first, each by its answering chunk; further chunks of good files follow."""
    files = gather_evidence(search, question)
    scored: list[tuple[float, RankedFile, tuple[tuple[str, float], ...]]] = []
    for file in files:
        model = weights[file.candidate.state.kind]
        parts = [(name, model.get(name, 0.0) * value) for name, value in file.features.items()]
        why = tuple(
            sorted(((n, round(v, 3)) for n, v in parts if abs(v) >= 0.05), key=lambda p: -abs(p[1]))
        )
        scored.append((sum(value for _, value in parts), file, why))
    scored.sort(key=lambda row: (-row[0], row[1].candidate.state.path))
    found: list[Found] = []
    extra: list[Found] = []
    for score, file, why in scored:
        best, *others = _order_chunks(question, file.candidate)
        relevance = (1 + math.tanh(score / _SCALE / 2)) / 2
        found.append(Found(best, relevance, "relevance", why))
        extra.extend(Found(chunk, relevance, "relevance", why) for chunk in others[:2])
    tail = found[-1].score if found else 0.0
    # further chunks of a file come after every file's best, so that files are never crowded out
    found.extend(replace(more, score=tail * more.score) for more in extra)
    return merge_neighbours(found)[: search.limit]


def gather_evidence(search: Search, question: Question) -> list[RankedFile]:
    """Every candidate file with its features."""
    store, probe = search.store, search.probe
    lexical, dense, chunks = _retrieve(search, question)
    states = store.states({chunk.path for chunk in chunks})
    candidates: dict[str, _Candidate] = {}
    for chunk in chunks:
        if chunk.path in states:
            candidate = candidates.setdefault(chunk.path, _Candidate(states[chunk.path]))
            candidate.chunks[chunk.id] = chunk
    named = _add_named(search, question, candidates)
    owner = {id_: c for c in candidates.values() for id_ in c.chunks}
    for item in lexical:
        if item.id in owner:
            owner[item.id].lexical[item.id] = item.score
    if probe:
        for item in dense[:_NEAR]:
            if item.id in owner:
                owner[item.id].near += 1
        vectors = store.vectors(probe.model, list(owner))
        for id_, vector in vectors.items():
            owner[id_].dense[id_] = float(vector @ probe.vector)
    first = [candidates[path] for path in named]
    rest = [candidate for path, candidate in candidates.items() if path not in named]
    kept = [*first, *rest][:_MOST_FILES]
    features = measure_files(question, _evidence(search, question, kept))
    return [RankedFile(c, row) for c, row in zip(kept, features, strict=True)]


def _retrieve(search: Search, question: Question) -> tuple[list[Scored], list[Scored], list[Chunk]]:
    """The best chunks by words and by meaning; more of them when a few large files hold all."""
    store, probe, pool = search.store, search.probe, search.pool
    while True:
        lexical = store.lexical(question.terms, pool, search.where)
        dense = store.dense(probe.model, probe.vector, pool, search.where) if probe else []
        # by rank in either list: what is cut off later is what both find last
        ranked = (item.id for pair in zip_longest(lexical, dense) for item in pair if item)
        chunks = store.chunks(list(dict.fromkeys(ranked)))
        enough = len({chunk.path for chunk in chunks}) >= search.limit
        if enough or max(len(lexical), len(dense)) < pool or pool > _LARGEST_POOL:
            return lexical, dense, chunks
        pool *= 4


def _add_named(
    search: Search, question: Question, candidates: dict[str, _Candidate]
) -> dict[str, FileState]:
    """Files named like something in the query, or defining it, are candidates in any case."""
    wanted = question.names | question.joined
    if not wanted:
        return {}
    allowed = search.where.paths
    found = sorted(
        path for path in search.store.paths_named(wanted) if allowed is None or path in allowed
    )
    named = dict(sorted(search.store.states(found[:_NAMED_FILES]).items()))
    for path, state in named.items():
        candidate = candidates.setdefault(path, _Candidate(state))
        for chunk in search.store.chunks_of(path):
            if not candidate.chunks or _defines(question, chunk):
                candidate.chunks.setdefault(chunk.id, chunk)
    return named


def _evidence(
    search: Search, question: Question, candidates: Sequence[_Candidate]
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
            symbols=symbols.get(c.state.path, ()),
            importers=importers.get(stems[c.state.path], 0),
            holds_name=any(
                name in chunk.text for name in question.spelled for chunk in c.chunks.values()
            ),
            has_implementation=c.state.stem in sources,
        )
        for c in candidates
    ]


def _implementations(search: Search, candidates: Sequence[_Candidate]) -> set[str]:
    """Stems of the sources that belong to the headers among the candidates."""
    headers = {c.state.stem for c in candidates if c.state.path.endswith(_HEADERS)}
    if not headers:
        return set()
    named = search.store.paths_named({fold_name(stem) for stem in headers})
    return {PurePosixPath(path).stem for path in named if path.endswith(_SOURCES)}


def _order_chunks(question: Question, candidate: _Candidate) -> list[Chunk]:
    """A file's candidate chunks, the answering one first."""
    most_words = max(candidate.lexical.values(), default=0.0) or 1.0
    most_meaning = max(candidate.dense.values(), default=0.0) or 1.0

    def strength(chunk: Chunk) -> float:
        words = candidate.lexical.get(chunk.id, 0.0) / most_words
        meaning = candidate.dense.get(chunk.id, 0.0) / most_meaning
        return words + meaning + (3.0 if _defines(question, chunk) else 0.0)

    return sorted(
        candidate.chunks.values(), key=lambda chunk: (-strength(chunk), chunk.span.start_line)
    )


def _defines(question: Question, chunk: Chunk) -> bool:
    return bool(chunk.symbol) and (
        fold_name(chunk.symbol.rsplit(".", 1)[-1]) in question.names
        or fold_name(chunk.symbol) in question.names
    )
