"""The answer of `cortex_search`, field by field."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from sonde.searching.contexts import SearchResult


class CortexAnswer(TypedDict):
    """What cortex_search answers."""

    results: list[dict[str, Any]]
    total: int
    truncated: NotRequired[bool]
    nextCursor: NotRequired[str]
    note: NotRequired[str]


def show_result(result: SearchResult) -> dict[str, Any]:
    """One result: the whole chunk without its embedding, and its score."""
    return {"chunk": result.chunk.as_dict(), "combined_score": result.combined_score}
