"""One page: find or resume, show the hits as their files are now, keep to size and budget."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Mapping
from typing import Any

from sonde.app import App
from sonde.errors import EmptyQuery
from sonde.paging.budget import count_tokens, fill_page
from sonde.paging.results import ResultSet
from sonde.ranking.words import read_question
from sonde.tools.page_finds import Mode, find_lines, find_ranked, read_scan
from sonde.tools.page_rows import Rows, View, settle_line, settle_ranked
from sonde.tools.scope import ALL
from sonde.tools.searching import find_moved
from sonde.tools.shapes.page import PageAnswer, refuse_oversize, show_parameters, show_query
from sonde.work import Work

_PAGE_SIZE = 50
_SNIPPET = 500
_SHORTEST = 20
"""Characters of text that a row keeps, however small the budget."""
_DEFAULTS: dict[str, Any] = {
    "project": None,
    "path": None,
    "include": (),
    "exclude": (),
    "language": None,
}
_LISTS = ("include", "exclude", "tags", "chunk_types")
_OF_RANKED: dict[str, Any] = {"top_k": 200, "threshold": None, "tags": (), "chunk_types": ()}
_OF_REGEX: dict[str, Any] = {
    "top_k": 10_000,
    "ignore_case": False,
    "whole_word": False,
    "fixed_string": False,
}


def answer_page(
    app: App,
    mode: Mode,
    query: str,
    given: Mapping[str, Any],
    view: Mapping[str, Any],
    cursor: str | None,
    work: Work,
) -> PageAnswer:
    """The first page of a new search, or the page that a cursor points at.

    `given` says what is found and is bound to the cursor; `view` says how it is shown and may
    change from page to page. None stands for what was not given.
    """
    began = time.perf_counter()
    view = {name: value for name, value in view.items() if value is not None}
    named = {name: _tidy(name, value) for name, value in given.items() if value is not None}
    tool = {"tool": f"{mode}_search"}
    if cursor:
        bound = tool | named | ({"query": query} if query else {})
        results, offset = app.results.resume(cursor, bound)
        view = {**results.facts["view"], **view}
    else:
        if not query.strip():
            raise EmptyQuery(f"neither `{'pattern' if mode == 'regex' else 'query'}` nor `cursor`")
        own = _OF_REGEX if mode == "regex" else _OF_RANKED
        asked = tool | {"query": query} | _DEFAULTS | own | named
        find = find_lines if mode == "regex" else find_ranked
        hits, facts = find(app, mode, asked, work)
        # the answer repeats what was given, not what stands for it
        results = app.results.keep(asked, hits, facts | {"view": view, "given": named})
        offset = 0
    return _cut_page(app, mode, results, offset, view, began, read_now=not cursor)


def _tidy(name: str, value: Any) -> Any:
    """One spelling of what can be written in several."""
    if name == "path":
        return posixpath.normpath(value or ".")
    return tuple(value) if name in _LISTS else value


def _cut_page(
    app: App,
    mode: Mode,
    results: ResultSet,
    offset: int,
    view: Mapping[str, Any],
    began: float,
    *,
    read_now: bool,
) -> PageAnswer:
    """As many matches as the page takes; the cursor leads to the next one."""
    asked, facts = results.parameters, results.facts
    size = view.get("page_size", _PAGE_SIZE)
    budget = view.get("max_tokens") or (None if "page_size" in view else app.max_tokens)
    limit = view.get("snippet_length", _SNIPPET)
    wanted = results.hits[offset : offset + size]
    # lines of a search that was just made are those of the files as they are
    moved = set() if read_now and mode == "regex" else find_moved(app, wanted, at_once=read_now)
    rows = _open_rows(app, mode, asked, view, moved)
    number = results.pages.get(offset, 1)

    def answer_with(matches: list[dict[str, Any]]) -> PageAnswer:
        end = offset + len(matches)
        cut = len(matches) < len(wanted)
        metadata = {
            "search_time_ms": round((time.perf_counter() - began) * 1000),
            "index_stats": facts["index_stats"],
            **facts["metadata"],
        }
        return {
            "search": {
                "query": show_query(asked["query"]),
                "mode": mode,
                "parameters": show_parameters({**facts["given"], **view}),
            },
            "results": {
                "matches": matches,
                "count": len(matches),
                "total_count": len(results.hits),
                "has_more": end < len(results.hits),
                "truncated": cut or facts["capped"],
            },
            "pagination": {
                "next_cursor": app.results.cursor_at(results, end),
                "page_size": size,
                "current_page": number,
            },
            "metadata": metadata,
        }

    if budget is None:
        answer = answer_with([rows.show(hit, limit) for hit in wanted])
    else:
        matches = fill_page(wanted, lambda hit: rows.show(hit, limit), budget)
        answer = answer_with(matches)
        # rows are measured apart, and what JSON must escape grows: the whole decides
        while count_tokens(answer) > budget and (
            len(matches) > 1 or (matches and limit > _SHORTEST)
        ):
            if len(matches) > 1:
                matches.pop()
            else:
                limit = limit * 2 // 3
                matches = [rows.show(wanted[0], limit)]
            answer = answer_with(matches)
    refuse_oversize(answer)
    results.pages.setdefault(offset + answer["results"]["count"], number + 1)
    return answer


def _open_rows(
    app: App,
    mode: Mode,
    asked: Mapping[str, Any],
    view: Mapping[str, Any],
    moved: set[tuple[str, str]],
) -> Rows:
    shown = View(
        include_snippet=view.get("include_snippet", True),
        context_lines=view.get("context_lines", 0),
        name_project=asked["project"] == ALL,
    )
    if mode == "regex":
        return Rows(app, mode, shown, settle_line, moved, read_scan(asked, "").compile())
    return Rows(app, mode, shown, settle_ranked(read_question(asked["query"])), moved)
