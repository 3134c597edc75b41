"""Search by meaning: nearest vectors."""

from __future__ import annotations

from sonde.ranking.words import Question
from sonde.searching.found import Found, Search, merge_neighbours, order_found
from sonde.searching.lexical import rank_lexical


def rank_semantic(search: Search, question: Question) -> list[Found]:
    """Chunks that mean the like, nearest first."""
    probe = search.probe
    if probe is None:
        return rank_lexical(search, question)  # nothing can say what it means; a note says that
    model, vector = probe.model, probe.vector if probe.told is None else probe.told
    if search.deep and search.deep.is_complete:
        model, vector = search.deep.model, search.deep.vector
    scored = search.store.dense(model, vector, 2 * search.limit, search.where)
    scores = {item.id: item.score for item in scored}
    chunks = search.store.chunks(list(scores))
    ranked = order_found([Found(chunk, scores[chunk.id], "cosine") for chunk in chunks])
    return merge_neighbours(ranked)[: search.limit]
