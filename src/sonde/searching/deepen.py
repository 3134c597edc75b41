"""The deeper model's word on the best files while its vectors are still being made.

Only a run of best files all of which it has seen is ordered anew, so that no file moves for want of
a vector; the rest stays as it was.
"""

import time
from collections.abc import Callable, Sequence

from sonde.embedding.base import Vectors
from sonde.errors import EmbeddingFailed
from sonde.ranking.snippets import cut_snippet
from sonde.ranking.words import Question
from sonde.searching.evidence import Candidate
from sonde.searching.found import Deep, Search
from sonde.types import Chunk

BUDGET_S = 0.1
"""How long passages may be embedded while somebody waits for the answer."""
_FILES = 15
_FRESH_FILES = 3
"""Where vectors are missing: more files gain nothing (docs/quality.md)."""
_LEAST_FILES = 3
"""To order two alone is as often wrong as right."""
_CHUNKS = 2
"""Of each file; one says nothing more than the static model does."""
_SLOWER = 8.0
"""The passages of one file against a query: how much longer they take, at first a guess."""
_SNIPPET = 350
"""Characters of a passage embedded now: a third of the time, and as good."""


def deepen(
    search: Search,
    question: Question,
    candidates: Sequence[Candidate],
    order: Callable[[Candidate], Sequence[Chunk]],
) -> list[float]:
    """`deep_rel` of the first candidates, as many as the model has seen; none if few."""
    deep = search.deep
    if deep is None or deep.is_complete:
        return []
    wanted = [list(order(candidate))[:_CHUNKS] for candidate in candidates[:_FILES]]
    ids = [chunk.id for chunks in wanted for chunk in chunks]
    seen = {
        id_: float(vector @ deep.vector)
        for id_, vector in search.store.vectors(deep.model, ids).items()
    }
    best: list[float] = []
    ends = time.perf_counter() + BUDGET_S
    took = _SLOWER * deep.pace_s
    fresh = deep.embed if time.perf_counter() + _LEAST_FILES * took < ends else None
    for at, chunks in enumerate(wanted):
        lacking = [chunk for chunk in chunks if chunk.id not in seen]
        if lacking:
            began = time.perf_counter()
            if fresh is None or at >= _FRESH_FILES or began + took > ends:
                break
            try:
                seen |= _embed_now(fresh, deep, question, lacking)
            except EmbeddingFailed:
                break  # the answer stands without it
            took = time.perf_counter() - began
        best.append(max(seen[chunk.id] for chunk in chunks))
    top = max(best, default=0.0)
    return [score / top for score in best] if len(best) >= _LEAST_FILES and top > 0 else []


def _embed_now(
    embed: Callable[[Sequence[str]], Vectors],
    deep: Deep,
    question: Question,
    chunks: Sequence[Chunk],
) -> dict[int, float]:
    texts = []
    for chunk in chunks:
        shown, _ = cut_snippet(question, chunk.text, chunk.span, _SNIPPET, symbol=chunk.symbol)
        texts.append(f"{chunk.header}\n{shown}")
    vectors = embed(texts)
    return {
        chunk.id: float(vector @ deep.vector) for chunk, vector in zip(chunks, vectors, strict=True)
    }
