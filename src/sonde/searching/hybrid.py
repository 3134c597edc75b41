"""Search by everything: candidates from words, meaning and names, ordered by one model.

Files are ranked by the evidence about them; each then shows the chunk that answers: the one
that defines the symbol asked for, else the best by words and meaning together.
"""

from __future__ import annotations

import math
from dataclasses import replace

from sonde.ranking.weights import choose_weights
from sonde.ranking.words import Question
from sonde.searching.evidence import Candidate, RankedFile, defines_name, gather_evidence
from sonde.searching.found import Found, Search, merge_neighbours
from sonde.types import Chunk

_SCALE = 4.0
"""Model scores are about -10..+10; divided by this they spread well over 0..1."""


def rank_hybrid(search: Search, question: Question) -> list[Found]:
    """Best files first, each by its answering chunk; further chunks of good files follow."""
    files = gather_evidence(search, question)
    scored: list[tuple[float, RankedFile, tuple[tuple[str, float], ...]]] = []
    for file in files:
        model = choose_weights(file.candidate.state.kind, is_report=question.report is not None)
        parts = [(name, model.get(name, 0.0) * value) for name, value in file.features.items()]
        why = tuple(
            sorted(((n, round(v, 3)) for n, v in parts if abs(v) >= 0.05), key=lambda p: -abs(p[1]))
        )
        scored.append((sum(value for _, value in parts), file, why))
    scored.sort(key=lambda row: (-row[0], row[1].candidate.state.path))
    found: list[Found] = []
    extra: list[Found] = []
    for score, file, why in scored:
        best, *others = order_chunks(question, file.candidate)
        relevance = (1 + math.tanh(score / _SCALE / 2)) / 2
        found.append(Found(best, relevance, "relevance", why))
        extra.extend(Found(chunk, relevance, "relevance", why) for chunk in others[:2])
    tail = found[-1].score if found else 0.0
    # further chunks of a file come after every file's best, so that files are never crowded out
    found.extend(replace(more, score=tail * more.score) for more in extra)
    return merge_neighbours(found)[: search.limit]


def order_chunks(question: Question, candidate: Candidate) -> list[Chunk]:
    """A file's candidate chunks, the answering one first."""
    kinds = (candidate.lexical, candidate.dense, candidate.told_lexical, candidate.told_dense)
    most = [max(scores.values(), default=0.0) or 1.0 for scores in kinds]

    def strength(chunk: Chunk) -> float:
        share = sum(
            scores.get(chunk.id, 0.0) / top for scores, top in zip(kinds, most, strict=True)
        )
        return share + (3.0 if defines_name(question, chunk) else 0.0)

    return sorted(
        candidate.chunks.values(), key=lambda chunk: (-strength(chunk), chunk.span.start_line)
    )
