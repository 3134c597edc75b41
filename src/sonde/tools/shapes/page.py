"""PAGE's answer, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from sonde.errors import InvalidRequest
from sonde.projects.pages import MatchPage, PageMatch, round_score

_MOST_BYTES = 1_000_000
"""Of a page, as documented."""
_LONGEST_QUERY = 200
"""Characters of the query that an answer repeats."""
_LONGEST_PARAMETERS = 400
_SHORT_VALUE = 40
"""Characters of the parameters together and, where they have more, of each value."""


class SpanRow(TypedDict):
    """A piece of a file: bytes from 0, half-open; lines from 1, inclusive."""

    byte_start: int
    byte_end: int
    line_start: int
    line_end: int


class MatchFacts(TypedDict):
    """Where and how well a file matches."""

    span: SpanRow
    content: NotRequired[str]
    line_number: NotRequired[int]
    columns: NotRequired[list[list[int]]]
    score: NotRequired[float]
    before: NotRequired[list[str]]
    after: NotRequired[list[str]]
    stale: NotRequired[bool]


class MatchFile(TypedDict):
    """The file of a match."""

    path: str
    language: str
    project: NotRequired[str]


class MatchRow(TypedDict):
    """One match."""

    file: MatchFile
    match: MatchFacts
    type: str


class PageSearch(TypedDict):
    """The search, as the answer repeats it."""

    query: str
    mode: str
    parameters: dict[str, Any]


class PageMatches(TypedDict):
    """The matches of one page."""

    matches: list[MatchRow]
    count: int
    total_count: int
    has_more: bool
    truncated: bool


class Pagination(TypedDict):
    """Where the page is among its kind."""

    next_cursor: str | None
    page_size: int
    current_page: int


class PageMetadata(TypedDict):
    """How long it took, over how much, and how far it can be trusted."""

    search_time_ms: int
    index_stats: dict[str, int]
    freshness: NotRequired[str]
    note: NotRequired[str]


class PageAnswer(TypedDict):
    """What every search with pages answers."""

    search: PageSearch
    results: PageMatches
    pagination: Pagination
    metadata: PageMetadata


def show_page(
    page: MatchPage, rows: list[MatchRow], next_cursor: str | None, took_ms: int
) -> PageAnswer:
    """The page with those of its matches that fit."""
    ranking, end = page.ranking, page.offset + len(rows)
    request, stats = ranking.request, ranking.stats
    metadata: PageMetadata = {
        "search_time_ms": took_ms,
        "index_stats": {"total_files": stats.files, "total_chunks": stats.chunks},
    }
    if ranking.freshness:
        metadata["freshness"] = ranking.freshness
    if ranking.note:
        metadata["note"] = ranking.note
    return {
        "search": {
            "query": show_search_query(request.query),
            "mode": request.mode,
            "parameters": show_parameters({**request.given(), **page.view.given()}),
        },
        "results": {
            "matches": rows,
            "count": len(rows),
            "total_count": len(page.results.hits),
            "has_more": end < len(page.results.hits),
            "truncated": len(rows) < len(page.hits) or ranking.is_capped,
        },
        "pagination": {
            "next_cursor": next_cursor,
            "page_size": page.view.size,
            "current_page": page.number,
        },
        "metadata": metadata,
    }


def show_match(page: MatchPage, found: PageMatch) -> MatchRow:
    """One match of a page."""
    hit, mode = found.hit, page.ranking.request.mode
    match: MatchFacts = {
        "span": {
            "byte_start": hit.span.start_byte,
            "byte_end": hit.span.end_byte,
            "line_start": hit.span.start_line,
            "line_end": hit.span.end_line,
        }
    }
    if page.include_snippet:
        match["content"] = hit.text
    if mode == "regex":
        match["line_number"] = hit.span.start_line
        match["columns"] = [list(pair) for pair in found.columns]
    else:
        match["score"] = round_score(hit.score)
    if found.around:
        match["before"], match["after"] = found.around
    if hit.stale:
        match["stale"] = True
    file: MatchFile = {"path": hit.path, "language": hit.language}
    if page.spans_projects:
        file["project"] = hit.project
    return {"file": file, "match": match, "type": f"{mode}_match"}


def show_search_query(query: str) -> str:
    """The query as the answer repeats it: its beginning, when it is very long."""
    return query if len(query) <= _LONGEST_QUERY else query[: _LONGEST_QUERY - 1] + "…"


def show_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as the answer repeats them: shortened when together they are very long."""
    shown = {name: list(v) if isinstance(v, tuple) else v for name, v in parameters.items()}
    if len(json.dumps(shown)) <= _LONGEST_PARAMETERS:
        return shown
    return {name: _shorten(value) for name, value in shown.items()}


def _shorten(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _SHORT_VALUE else value[: _SHORT_VALUE - 1] + "…"
    if isinstance(value, list):
        return [_shorten(item) for item in value[:2]] + ["…"] * (len(value) > 2)
    return value


def refuse_oversize(answer: Mapping[str, Any]) -> None:
    """`InvalidRequest` with a way on when a page is over 1 MB."""
    size = len(json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode())
    if size > _MOST_BYTES:
        raise InvalidRequest(
            f"the page has {size} bytes, at most {_MOST_BYTES}",
            user_message="This page would be larger than 1 MB.",
            next_action=(
                "Ask again with a smaller page_size, snippet_length or context_lines, or with "
                "include_snippet=false; a cursor may be used again with these."
            ),
        )
