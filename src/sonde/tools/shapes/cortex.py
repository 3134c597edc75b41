"""The answer of `cortex_search`, field by field."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from sonde.searching.contexts import ContextChunk, SearchResult


class CortexAnswer(TypedDict):
    """What cortex_search answers."""

    results: list[dict[str, Any]]
    total: int
    truncated: NotRequired[bool]
    nextCursor: NotRequired[str]
    note: NotRequired[str]


def show_result(result: SearchResult) -> dict[str, Any]:
    """One result: the whole chunk without its embedding, and its score."""
    return {"chunk": show_chunk(result.chunk), "combined_score": result.combined_score}


def show_chunk(chunk: ContextChunk) -> dict[str, Any]:
    """A chunk; what is empty is left out as the document does."""
    return {
        "id": chunk.id,
        **({"chunk_type": chunk.chunk_type} if chunk.chunk_type else {}),
        "title": chunk.title,
        "text": chunk.text,
        **({"tags": list(chunk.tags)} if chunk.tags else {}),
        **({"metadata": dict(chunk.metadata)} if chunk.metadata else {}),
        "created_at": chunk.created_at,
        "updated_at": chunk.updated_at,
    }
