"""Search modes: hybrid, semantic and lexical rankings of chunks.

Hybrid search ranks files by the evidence about them; each then shows the chunk that answers: the
one that defines the symbol in the question, else the best by words and meaning together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from sonde.ranking.candidate import Candidate
from sonde.ranking.features import list_definition_features
from sonde.ranking.passages import FILES, Group
from sonde.ranking.question import Question
from sonde.ranking.weights import CODE, DEEP, DOCS, DOCS_DEEP, REPORT, choose_share
from sonde.searching.likelihood import weigh_docs
from sonde.searching.passages import deepen_passages, group_passages
from sonde.searching.search import QueryVector, Search, defines_name, gather_files, read_names
from sonde.types import Chunk, Scored, Span, Symbol

_RANK_OFFSET = 60  # of reciprocal rank fusion, as published; the order hardly depends on it


@dataclass(frozen=True, slots=True)
class Ranked:
    """One ranked chunk; `why` lists what made it rank, strongest first."""

    chunk: Chunk
    score: float
    score_type: str
    why: tuple[tuple[str, float], ...] = ()
    definition: Symbol | None = None
    """What the chunk is, where it is one definition."""


def merge_neighbours(found: list[Ranked]) -> list[Ranked]:
    """Chunks that touch or overlap a better one of their file become part of it."""
    kept: list[Ranked] = []
    of_file: dict[str, list[int]] = {}
    for one in found:
        places = of_file.setdefault(one.chunk.path, [])
        span = one.chunk.span
        for place in places:
            near = kept[place].chunk.span
            if span.start_byte > near.end_byte or near.start_byte > span.end_byte:
                continue  # far more often than not
            joined = _join(kept[place].chunk, one.chunk)
            if joined:
                kept[place] = replace(kept[place], chunk=joined)
                break
        else:
            places.append(len(kept))
            kept.append(one)
    return kept


def _join(better: Chunk, other: Chunk) -> Chunk | None:
    """Both as one piece of the file, named after the better; None if a gap lies between."""
    first, last = sorted((better, other), key=lambda c: (c.span.start_byte, c.span.end_byte))
    shared = first.span.end_byte - last.span.start_byte
    if shared < 0:
        return None
    if last.span.end_byte <= first.span.end_byte:
        return replace(first, symbol=better.symbol, id=better.id)
    rest = last.text.encode("utf-8", "surrogatepass")[shared:].decode("utf-8", "surrogatepass")
    start, end = first.span, last.span
    span = Span(start.start_line, end.end_line, start.start_byte, end.end_byte)
    return replace(better, text=first.text + rest, span=span)


_DEFINITION = 3.0  # outweighs three kinds of evidence: the chunk that defines the asked name leads
_FIRST_PASSAGES = 4  # of a file that may come before the best of a worse one
_NEAR_BEST = 3.0  # how far below their file's best they may score
_STEP = 1 - 1e-4  # by which a hit's score is below the one before: the shown digits tell them apart
_SCALE = 4.0  # model scores are about -10..+10; divided by this they spread well over 0..1


def rank_hybrid(search: Search, question: Question) -> list[Ranked]:
    """Best passages first."""
    files = weigh_files(search, question)
    shows_chunks = search.of_views or (files and files[0].state.kind == "docs")
    return (_rank_chunks if shows_chunks else rank_passages)(search, question, files)


def rank_passages(search: Search, question: Question, files: Sequence[Candidate]) -> list[Ranked]:
    """The passages that answer, best first; further passages of good files follow.

    Those of one file stand together where a name or a report is asked for: the file is sure then.
    """
    groups = group_passages(search, question, files)
    is_named = any(group.passages[0].features.get("is_named") for group in groups)
    share = choose_share(question, is_named=is_named)
    is_mixed = not question.is_symbol and not question.report
    if is_mixed:
        deepen_passages(search, groups, share)
    order = sorted(groups, key=lambda group: (-group.score(share), group.file.state.path))
    first: list[tuple[Group, int]] = []
    rest: list[tuple[Group, int]] = []
    for group in order:
        most = _FIRST_PASSAGES if is_mixed or not first else 1
        for at, one in enumerate(group.passages):
            near = is_mixed or group.passages[0].score - one.score < _NEAR_BEST
            (first if at == 0 or (at < most and near) else rest).append((group, at))
    if is_mixed:
        first.sort(key=lambda found: -found[0].score(share, found[1]))
    found: list[Ranked] = []
    for group, at in [*first, *rest][: search.limit]:
        one = group.passages[at]
        relevance = _rate(group.score(share, at if is_mixed else 0))
        if not is_mixed:
            relevance *= math.exp((one.score - group.passages[0].score) / _SCALE)
        # never above the one before, whatever decided the order
        score = min(relevance, found[-1].score * _STEP) if found else relevance
        found.append(Ranked(one.as_chunk(), score, "relevance", group.why(one, share), one.symbol))
    beyond: list[Ranked] = []
    if len(found) < search.limit:
        beyond = _rank_chunks(search, question, settle_files(search, question, files[FILES:]))
    lowest = found[-1].score * _STEP if found else 1.0
    found += [replace(one, score=min(one.score, lowest)) for one in beyond]
    return found[: search.limit]


def _rate(score: float) -> float:
    """A score of the model, from 0 to 1."""
    return (1 + math.tanh(score / _SCALE / 2)) / 2


def _rank_chunks(search: Search, question: Question, files: Sequence[Candidate]) -> list[Ranked]:
    """Best files first, each by its answering chunk; further chunks of good files follow."""
    found: list[Ranked] = []
    extra: list[Ranked] = []
    for file in files:
        best, *others = order_chunks(question, file)
        found.append(Ranked(best, _rate(file.score), "relevance", file.why))
        extra.extend(replace(found[-1], chunk=chunk) for chunk in others[:2])
    tail = found[-1].score if found else 0.0
    # further chunks of a file come after every file's best, so that files are never crowded out
    found.extend(replace(more, score=tail * more.score) for more in extra)
    return merge_neighbours(found)[: search.limit]


def weigh_files(search: Search, question: Question) -> list[Candidate]:
    """Every candidate file with its score, best first."""
    files = gather_files(search, question)
    if files and files[0].state.kind == "docs" and not search.of_views and not question.report:
        weigh_docs(search, question, files)
        return sorted(files, key=_sort_key)
    for file in files:
        file.weigh(_choose_weights(question, file))
    files.sort(key=_sort_key)
    weights = _choose_weights(question, files[0]) if files else {}
    most = sum(weights.get(name, 0.0) for name in list_definition_features(question))
    if files and (most or search.of_views):
        best = settle_files(search, question, files if search.of_views else files[:FILES])
        # of the others, only those that can still come among them: they alone show passages
        least = best[-1].score - most
        settle_files(search, question, [file for file in files[FILES:] if file.score >= least])
    return sorted(files, key=_sort_key)


def settle_files(search: Search, question: Question, files: Sequence[Candidate]) -> list[Candidate]:
    """The files with what their definitions add to their scores, best first."""
    rest = [file for file in files if not file.is_settled]
    read_names(search, question, rest)
    for file in rest:
        file.weigh(_choose_weights(question, file))
        file.is_settled = True
    return sorted(files, key=_sort_key)


def _choose_weights(question: Question, file: Candidate) -> Mapping[str, float]:
    is_deep = "deep_rel" in file.features
    if file.state.kind == "docs":
        return DOCS_DEEP if is_deep else DOCS
    if question.report:
        return REPORT
    return DEEP if is_deep else CODE


def _sort_key(file: Candidate) -> tuple[float, str]:
    return -file.score, file.state.path


def order_chunks(question: Question, candidate: Candidate) -> list[Chunk]:
    """A file's candidate chunks, the answering one first."""
    kinds = candidate.scores.values()
    most = [max(scores.values(), default=0.0) or 1.0 for scores in kinds]

    def strength(chunk: Chunk) -> float:
        shares = (held.get(chunk.id, 0.0) / top for held, top in zip(kinds, most, strict=True))
        return sum(shares) + (_DEFINITION if defines_name(question, chunk.symbol) else 0.0)

    chunks = candidate.chunks.values()
    return sorted(chunks, key=lambda chunk: (-strength(chunk), chunk.span.start_line))


def fill_up(search: Search, question: Question, found: list[Ranked]) -> list[Ranked]:
    """The ranking, filled up to its limit with what words and meaning find beyond it."""
    if not found or len(found) >= search.limit:
        return found
    store, probe, pool = search.store, search.probe, search.choose_pool(question)
    lexical = store.lexical(question.terms, pool, search.where)
    dense = store.dense(probe.model, probe.vector, pool, search.where) if probe else []
    ranked = (item.id for pair in zip_longest(lexical, dense) for item in pair if item)
    covered: dict[str, list[Chunk]] = {}
    for one in found:
        covered.setdefault(one.chunk.path, []).append(one.chunk)
    rest = [
        Ranked(chunk, 0.0, found[-1].score_type)
        for chunk in store.chunks(list(dict.fromkeys(ranked)))
        if not any(_overlap(chunk, other) for other in covered.get(chunk.path, ()))
    ]
    more = merge_neighbours(rest)[: search.limit - len(found)]
    # each a little less than the one before, and all less than what was weighed
    step = min(one.score for one in found) / (len(more) + 1)
    return found + [
        Ranked(one.chunk, step * (len(more) - place), one.score_type)
        for place, one in enumerate(more)
    ]


def _overlap(one: Chunk, other: Chunk) -> bool:
    return (
        one.span.start_byte < other.span.end_byte and other.span.start_byte < one.span.end_byte
    ) or one.span == other.span


def rank_lexical(search: Search, question: Question) -> list[Ranked]:
    """Chunks that hold the words, best first."""
    terms = question.report.terms if question.report else question.terms
    scored = search.store.lexical(terms, 2 * search.limit, search.where)
    return _rank_scored(search, scored, "bm25")


def rank_semantic(search: Search, question: Question) -> list[Ranked]:
    """Semantically similar chunks, nearest first."""
    probe = search.probe
    if probe is None:
        return rank_lexical(search, question)  # no model can embed it; a note says so
    return _rank_scored(search, _find_nearest(search, probe), "cosine")


def _find_nearest(search: Search, probe: QueryVector) -> list[Scored]:
    model, vector = probe.model, probe.vector if probe.report is None else probe.report
    if search.deep and search.deep.is_complete:
        model, vector = search.deep.model, search.deep.vector
    return search.store.dense(model, vector, 2 * search.limit, search.where)


def rank_related(search: Search, question: Question) -> list[Ranked]:
    """Chunks near in words and in meaning, by reciprocal rank: for a text that asks nothing."""
    terms = question.report.terms if question.report else question.terms
    lexical = search.store.lexical(terms, 2 * search.limit, search.where)
    nearest = _find_nearest(search, search.probe) if search.probe else []
    scores: dict[int, float] = {}
    for ranking in filter(None, (lexical, nearest)):
        for place, item in enumerate(ranking):
            scores[item.id] = scores.get(item.id, 0.0) + _RANK_OFFSET / (_RANK_OFFSET + place) / 2
    # ranks in a small store say little: the cosine makes code and docs comparable
    cosines = {item.id: max(item.score, 0.0) for item in nearest}
    least = min(cosines.values(), default=1.0)
    scored = [Scored(id_, score * cosines.get(id_, least)) for id_, score in scores.items()]
    return _order_scored(search, scored, "fused")[: search.limit]


def _rank_scored(search: Search, scored: Sequence[Scored], score_type: str) -> list[Ranked]:
    return merge_neighbours(_order_scored(search, scored, score_type))[: search.limit]


def _order_scored(search: Search, scored: Sequence[Scored], score_type: str) -> list[Ranked]:
    """The scored chunks in a total order: score, path, line."""
    scores = {item.id: item.score for item in scored}
    chunks = search.store.chunks(list(scores))
    ranked = [Ranked(chunk, scores[chunk.id], score_type) for chunk in chunks]
    return sorted(ranked, key=lambda one: (-one.score, one.chunk.path, one.chunk.span.start_line))


MODES: Mapping[str, Callable[[Search, Question], list[Ranked]]] = {
    "hybrid": rank_hybrid,
    "semantic": rank_semantic,
    "lexical": rank_lexical,
    "related": rank_related,
}
