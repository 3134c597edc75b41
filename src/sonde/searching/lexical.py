"""Search by words: BM25 over paths, names and text."""

from __future__ import annotations

from sonde.ranking.words import Question
from sonde.searching.found import Found, Search, merge_neighbours, order_found


def rank_lexical(search: Search, question: Question) -> list[Found]:
    """Chunks that hold the words, best first."""
    terms = question.report.terms if question.report else question.terms
    scored = search.store.lexical(terms, 2 * search.limit, search.where)
    scores = {item.id: item.score for item in scored}
    chunks = search.store.chunks(list(scores))
    ranked = order_found([Found(chunk, scores[chunk.id], "bm25") for chunk in chunks])
    return merge_neighbours(ranked)[: search.limit]
