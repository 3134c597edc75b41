"""Verbs that answer in pages: by meaning, by words, by both, by regular expression."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, TypedDict

from sonde.app import App
from sonde.errors import InvalidRequest
from sonde.paging.budget import SHORTEST_SNIPPET, fit_page
from sonde.projects.pages import (
    MOST_CHUNKS,
    PAGE_SIZE,
    SNIPPET_CHARS,
    MatchPage,
    PageMatch,
    PageMode,
    PageRequest,
    PageView,
    open_match_page,
    round_score,
)
from sonde.runtime.work import Work
from sonde.tools.route import Route
from sonde.tools.schema import Param, TagsParam, TypesParam
from sonde.tools.tool import Tool, declare_signature, declare_tool
from sonde.types import Hit, Json

_MOST_BYTES = 1_000_000
"""Of a page, as documented."""
_LONGEST_QUERY = 200
"""Characters of the query that an answer repeats."""
_LONGEST_PARAMETERS, _SHORT_VALUE = 400, 40
"""Characters of all parameters in an answer, and of each value once they have more: enough to tell
searches apart."""


def _terse(kind: Any, about: str, **facts: Any) -> Any:
    """An optional argument whose schema lists only its type."""
    return Annotated[kind | None, Param(about, terse=True, **facts)]


_FILTERS: Mapping[str, Any] = {
    "path": _terse(str, "Only below this folder or in this file", max_length=4096),
    "include": _terse(tuple[str, ...], "Only paths that fit one of these globs", max_length=100),
    "exclude": _terse(tuple[str, ...], "No paths that fit one of these globs", max_length=100),
    "language": _terse(str, "Only files in this language (`python`)", max_length=100),
}
_PAGE_SIZE = "Matches in a page; when given without max_tokens it alone decides, up to 1 MB"
_VIEW: Mapping[str, Any] = {
    "page_size": _terse(int, _PAGE_SIZE, minimum=1, maximum=200, default=PAGE_SIZE),
    "include_snippet": _terse(bool, "Show the text of each match", default=True),
    "snippet_length": _terse(
        int, "Characters of text in each match", minimum=1, maximum=2000, default=SNIPPET_CHARS
    ),
    "context_lines": _terse(
        int, "Lines before and after each match", minimum=0, maximum=10, default=0
    ),
    "max_tokens": _terse(
        int, "Size of the answer; the rest comes by cursor", minimum=400, maximum=20_000
    ),
    "project": _terse(str, "Folder or name, or `all`; default: here", max_length=4096),
    "cursor": _terse(str, "next_cursor of an earlier answer; needs nothing else", max_length=2_000),
}
_RANKED: Mapping[str, Any] = {
    "query": Annotated[
        str, Param("The question or the words to search for", max_length=100_000, terse=True)
    ],
    **_FILTERS,
    "top_k": _terse(
        int, "The best so many, over all pages", minimum=1, maximum=1000, default=MOST_CHUNKS
    ),
    "threshold": _terse(float, "No matches with a lower score"),
    **_VIEW,
    "tags": TagsParam,
    "chunk_types": TypesParam,
}
_SCANNED: Mapping[str, Any] = {
    "pattern": _terse(
        str, "Regular expression as in ripgrep", max_length=10_000, example=r"fn \w+_test"
    ),
    "ignore_case": _terse(bool, "Letter case does not matter"),
    "whole_word": _terse(bool, "Only whole words"),
    "fixed_string": _terse(bool, "The pattern is plain text"),
    **_FILTERS,
    "top_k": Annotated[
        int | None,
        Param("At most so many lines, 10,000 by default", minimum=1, maximum=10_000, listed=False),
    ],
    **_VIEW,
    "query": Annotated[
        str | None, Param("Another name of `pattern`", max_length=10_000, listed=False)
    ],
}


_SHOWN = ("query", "path", "page_size", "tags", "chunk_types", "max_tokens", "project", "cursor")
"""What the schema lists of a tool that takes all that semantic_search lists."""


class PageAnswer(TypedDict):
    """What every search with pages answers."""

    search: Json
    """The query, the mode and the parameters that were given."""
    results: Json
    pagination: Json
    metadata: Json
    """How long it took, over how much, and how far it can be trusted."""


def _declare_search(mode: PageMode, parameters: Mapping[str, Any]) -> Callable[..., PageAnswer]:
    """The verb of one search mode; they differ only in their parameters."""

    def search(
        app: App, query: str = "", *, cursor: str | None = None, work: Work, **given: Any
    ) -> PageAnswer:
        query = given.pop("pattern", None) or query or ""
        shown = {name: given.pop(name) for name in PageView.__dataclass_fields__ if name in given}
        return _answer(app, PageRequest(mode, query, **given), PageView(**shown), cursor, work)

    optional: dict[str, tuple[Any, Any]] = {name: (hint, None) for name, hint in parameters.items()}
    if mode != "regex":
        optional["query"] = (parameters["query"], "")
    return declare_signature(search, f"{mode}_search", PageAnswer, optional)


semantic_search = _declare_search("semantic", _RANKED)
lexical_search = _declare_search("lexical", _RANKED)
hybrid_search = _declare_search("hybrid", _RANKED)
regex_search = _declare_search("regex", _SCANNED)
"""In the files as they are now; needs no index."""


def _answer(
    app: App, request: PageRequest, view: PageView, cursor: str | None, work: Work
) -> PageAnswer:
    began = time.perf_counter()
    workspace = app.workspace
    page = open_match_page(workspace, request, view, work, cursor)

    def write(hit: Hit, length: int) -> Json:
        return _show_match(page, page.present(hit, length))

    def whole(rows: list[Json]) -> PageAnswer:
        took_ms = round((time.perf_counter() - began) * 1000)
        more = workspace.results.cursor_at(page.results, page.offset + len(rows), page.number + 1)
        return _show_page(page, rows, more, took_ms)

    budget, length = page.view.budget(workspace.max_tokens), page.view.length
    answer = fit_page(page.hits, write, whole, budget, length=length, shortest=SHORTEST_SNIPPET)
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    size = len(text.encode("utf-8", "surrogatepass"))  # a query may hold half a character
    if size > _MOST_BYTES:
        raise InvalidRequest(
            f"the page has {size} bytes, at most {_MOST_BYTES}",
            user_message="This page would be larger than 1 MB.",
            next_action=(
                "Ask again with a smaller page_size, snippet_length or context_lines, or with "
                "include_snippet=false; a cursor may be used again with these."
            ),
        )
    page.results.pages.setdefault(page.offset + answer["results"]["count"], page.number + 1)
    return answer


def _show_page(
    page: MatchPage, rows: list[Json], next_cursor: str | None, took_ms: int
) -> PageAnswer:
    ranking, end, total = page.ranking, page.offset + len(rows), len(page.results.hits)
    request, stats = ranking.request, ranking.stats
    trust = {"freshness": ranking.freshness, "note": ranking.note}
    if ranking.hits and request.mode != "regex":
        trust["score_type"] = ranking.hits[0].score_type
    return {
        "search": {
            "query": _shorten_text(request.query, _LONGEST_QUERY),
            "mode": request.mode,
            "parameters": _show_parameters({**request.given(), **page.view.given()}),
        },
        "results": {
            "matches": rows,
            "count": len(rows),
            "total_count": None if ranking.is_capped else total,
            **({"capped_at": total} if ranking.is_capped else {}),
            "has_more": end < total,
            "truncated": len(rows) < len(page.hits) or ranking.is_capped,
        },
        "pagination": {
            "next_cursor": next_cursor,
            "page_size": page.view.size,
            "current_page": page.number,
        },
        "metadata": {
            "search_time_ms": took_ms,
            "index_stats": {"total_files": stats.files, "total_chunks": stats.chunks},
            **{name: text for name, text in trust.items() if text},
        },
    }


def _show_match(page: MatchPage, found: PageMatch) -> Json:
    """One match: bytes from 0, half-open; lines from 1, inclusive."""
    hit, mode = found.hit, page.ranking.request.mode
    span, lines = found.span, (hit.span.start_line, hit.span.end_line)
    match: Json = {
        "span": {
            "byte_start": span.start_byte,
            "byte_end": span.end_byte,
            "line_start": span.start_line,
            "line_end": span.end_line,
        }
    }
    if page.include_snippet:
        match["content"] = hit.text
    if found.is_clipped:
        match["clipped"] = True
        if lines != (span.start_line, span.end_line):
            match["content_lines"] = list(lines)
    if mode == "regex":
        match["line_number"] = span.start_line
        match["columns"] = [list(pair) for pair in found.columns]
    else:
        match["score"] = round_score(hit.score)
    if found.around:
        match["before"], match["after"] = found.around
    if hit.stale:
        match["stale"] = True
    file = {"path": hit.path, "language": hit.language}
    if page.spans_projects:
        file["project"] = hit.project
    return {"file": file, "match": match, "type": f"{mode}_match"}


def _show_parameters(parameters: Mapping[str, Any]) -> Json:
    """Parameters as the answer repeats them: shortened when together they are very long."""
    shown = {name: list(v) if isinstance(v, tuple) else v for name, v in parameters.items()}
    if len(json.dumps(shown)) <= _LONGEST_PARAMETERS:
        return shown
    return {name: _shorten(value) for name, value in shown.items()}


def _shorten(value: Any) -> Any:
    if isinstance(value, str):
        return _shorten_text(value, _SHORT_VALUE)
    if isinstance(value, list):
        return [_shorten(item) for item in value[:2]] + ["…"] * (len(value) > 2)
    return value


def _shorten_text(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


_declare = partial(declare_tool, "code")

TOOLS: tuple[Tool, ...] = (
    _declare(
        semantic_search,
        "Semantic search",
        "Page through semantically similar code and docs. Prefer search_code for the best few.",
    ),
    _declare(
        regex_search,
        "Regex search",
        "Page through lines that match a regular expression; needs no index. "
        "Prefer search_code when the text is unknown.",
    ),
    _declare(
        hybrid_search,
        "Hybrid search",
        "Page through code and docs by meaning, words and names, filtered as in "
        "semantic_search. Prefer regex_search for exact text.",
        shown=_SHOWN,
    ),
    _declare(
        lexical_search,
        "Lexical search",
        "Page through code and docs that hold the words, filtered as in semantic_search. "
        "Prefer semantic_search when they are unknown.",
        shown=_SHOWN,
    ),
)

ROUTES: tuple[Route, ...] = (
    Route("search/lines", regex_search, "Lines that match a regular expression, in pages"),
)
