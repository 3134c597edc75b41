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


def show_result(result: SearchResult, length: int | None = None) -> dict[str, Any]:
    """One result: the chunk without its embedding, and its score; its text cut to `length`."""
    return {"chunk": show_chunk(result.chunk, length), "combined_score": result.combined_score}


def show_chunk(chunk: ContextChunk, length: int | None = None) -> dict[str, Any]:
    """A chunk; what is empty is left out as the document does."""
    return {
        "id": chunk.id,
        **({"chunk_type": chunk.chunk_type} if chunk.chunk_type else {}),
        "title": chunk.title,
        "text": chunk.text[:length],
        **({"tags": list(chunk.tags)} if chunk.tags else {}),
        **({"metadata": dict(chunk.metadata)} if chunk.metadata else {}),
        "created_at": chunk.created_at,
        "updated_at": chunk.updated_at,
    }
