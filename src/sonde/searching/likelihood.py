"""How likely the hits of one project answer a question, on the scale that every source has.

The order within a project is learned from what tells its files apart; it says nothing about another
project. Between projects and sources, the best hits are weighed by the evidence that knowledge is
weighed by: how much of the question they contain, and how near they are by the models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from heapq import nlargest
from operator import attrgetter

from sonde.embedding.base import Embedder
from sonde.embedding.nearness import find_nearness
from sonde.ranking.candidate import Candidate
from sonde.ranking.evidence import (
    OPENING_CHARS,
    READ_CHARS,
    READ_TEXTS,
    Evidence,
    count_covered,
    split_evidence,
    weigh_best,
)
from sonde.ranking.question import Question, read_prose_terms, shorten_word
from sonde.ranking.snippets import DEFAULT_LENGTH, find_answer
from sonde.ranking.weights import DOCS_NAMES
from sonde.searching.search import DeepVectors, QueryVector, QueryVectors, Search
from sonde.stores.chunks.base import ChunkStore
from sonde.stores.chunks.lexicon import weigh_term
from sonde.text.words import index_terms
from sonde.types import Hit

_CONSTANT, _SLOPE, _LEAST = -3.3, 1.35, 1e-6
"""From the score of code within a project to a likelihood: fitted on 371 questions on four
projects, of which 104 were answered first; the least keeps logarithms finite."""
_NAMED = 0.6  # of the evidence of documents beside their names; fitted on links of seven projects
_WEIGHED = 3  # hits, the best: the first may name what the second explains


def rate_hits(store: ChunkStore | None, vectors: QueryVectors, hits: Sequence[Hit]) -> list[Hit]:
    """The hits of one store, best first, with scores that say how likely each is an answer.

    Without a store, before the first index, they are weighed by their words.
    """
    if not hits:
        return []
    weights = _weigh_terms(store, vectors.question)
    gathered = [_gather(store, weights, vectors, hit) for hit in hits[:_WEIGHED]]
    best = max(map(weigh_best, gathered))
    top = min(max(hits[0].score, _LEAST), 1 - _LEAST)
    # a file that defines the name, or is called so, ranks far above what is only near
    level = _CONSTANT + _SLOPE * math.log(top / (1 - top))
    if hits[0].kind == "code" and any(each.covered for each in gathered):
        best = max(best, 1.0 / (1.0 + math.exp(-level)))
    return [replace(hit, score=best * min(hit.score / top, 1.0)) for hit in hits]


def weigh_docs(search: Search, question: Question, files: Sequence[Candidate]) -> None:
    """Weigh documents by the evidence that knowledge is weighed by, beside what their names say."""
    weights = _weigh_terms(search.store, question)
    best = sorted(files, key=lambda file: -file.features["lexical_rel"])[:_WEIGHED]
    # by the very words, as they are ranked
    covered = max((_cover(weights, _join_words(file), str) for file in best), default=0.0)
    _weigh_evidence(search, files, covered)
    if search.deep and not search.deep.is_complete:
        _read_best(search, question, search.deep, files)
        _weigh_evidence(search, files, covered)


def _weigh_evidence(search: Search, files: Sequence[Candidate], covered: float) -> None:
    """Give every file its parts by the evidence about it."""
    for file in files:
        static = _find_nearest(search.probe, file.scores["dense"])
        deep = _find_nearest(search.deep, file.scores["deep"])
        if search.probe and not search.probe.is_static:
            static, deep = None, static
        evidence = Evidence(file.features["lexical_rel"], covered, static, deep)
        words, meaning, beside = (_NAMED * part for part in split_evidence(evidence))
        names = {name: weight * file.features.get(name, 0.0) for name, weight in DOCS_NAMES.items()}
        nearest = "dense_rel" if deep is None else "deep_rel"
        file.add_up({"lexical_rel": words, "dense_rel": beside, **names, nearest: meaning})


def _read_best(
    search: Search, question: Question, deep: DeepVectors, files: Sequence[Candidate]
) -> None:
    """Let the deeper model read what answers in the best chunk of each of the best files."""
    best = nlargest(READ_TEXTS, files, key=attrgetter("score"))
    chosen = [max(file.scores["dense"], key=file.scores["dense"].__getitem__) for file in best]
    terms, probe = read_prose_terms(question.text), search.probe
    texts: list[str] = []
    for file, id_ in zip(best, chosen, strict=True):
        header, text = file.chunks[id_].header, file.chunks[id_].text
        start, room = 0, OPENING_CHARS - len(header)
        if probe and len(text) > room:
            start = find_answer(text, terms, (), DEFAULT_LENGTH, probe.measure)[0]
        start = min(start, max(0, len(text) - room))
        texts.append(f"{header}\n{text[start:]}".strip()[:OPENING_CHARS])
        if sum(map(len, texts)) >= READ_CHARS:
            break
    near = deep.read_now(texts)
    for file, id_, value in zip(best, chosen, near, strict=False):
        file.scores["deep"][id_] = value


def _find_nearest(
    model: QueryVector | DeepVectors | None, scores: Mapping[int, float]
) -> float | None:
    return find_nearness(model.model, max(scores.values())) if model and scores else None


def _join_words(file: Candidate) -> str:
    lexical = file.scores["lexical"]
    best = max(lexical, key=lambda id_: lexical[id_], default=None)
    chunk = file.chunks.get(best) if best is not None else None
    return f"{file.state.path} {chunk.header} {chunk.text}" if chunk else file.state.path


def _cover(
    weights: dict[str, float], text: str, fold: Callable[[str], str] = shorten_word
) -> float:
    """How much of a question a text holds in its words, whatever their endings."""
    held, total = frozenset(map(fold, index_terms(text))), sum(weights.values())
    share = sum(each for term, each in weights.items() if fold(term) in held) / (total or 1.0)
    return count_covered(share, len(weights))


def _weigh_terms(store: ChunkStore | None, question: Question) -> dict[str, float]:
    if store is None:
        return dict.fromkeys(question.terms, 1.0)
    counts, total = store.term_counts(question.terms), store.coverage("")[1]
    return {term: weigh_term(counts.get(term, 0), total) for term in question.terms}


def _gather(
    store: ChunkStore | None, weights: dict[str, float], vectors: QueryVectors, hit: Hit
) -> Evidence:
    known = _cover(weights, f"{hit.path} {hit.symbol} {hit.text}")
    if store is None:
        return Evidence(1.0, known)
    lines = store.chunk_lines([hit.path]).get(hit.path, [])
    shown = range(hit.start_line, hit.end_line + 1)
    ids = [key for key, first, last, _ in lines if first < shown.stop and last >= shown.start]

    def measure(model: Embedder | None) -> float | None:
        if model is None:
            return None
        have, total = store.coverage(model.name)
        found = store.vectors(model.name, ids) if have == total or model.is_loaded else {}
        vector = vectors.read(model) if found else None
        if vector is None:
            return None
        return find_nearness(model.name, max(float(row @ vector) for row in found.values()))

    static, deep = (measure(model) for model in vectors.list_models(hit.kind))
    return Evidence(1.0, known, static, deep)
