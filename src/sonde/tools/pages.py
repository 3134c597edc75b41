"""Verbs that answer in pages: by meaning, by words, by both, by regular expression."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Literal

from sonde.app import App
from sonde.paging.budget import SHORTEST_SNIPPET, fit_page
from sonde.projects.pages import PageRequest, PageView, open_match_page
from sonde.runtime.work import Work
from sonde.tools.route import Route
from sonde.tools.schema import Param, TagsParam, TypesParam
from sonde.tools.shapes.page import (
    MatchRow,
    PageAnswer,
    refuse_oversize,
    show_match,
    show_page,
)
from sonde.tools.tool import Tool
from sonde.types import Hit

QueryParam = Annotated[
    str, Param("The question or the words to search for", max_length=100_000, terse=True)
]
PathParam = Annotated[
    str | None, Param("Only below this folder or in this file", max_length=4096, terse=True)
]
IncludeParam = Annotated[
    tuple[str, ...] | None,
    Param("Only paths that fit one of these globs", max_length=100, terse=True),
]
ExcludeParam = Annotated[
    tuple[str, ...] | None,
    Param("No paths that fit one of these globs", max_length=100, terse=True),
]
LanguageParam = Annotated[
    str | None, Param("Only files in this language (`python`)", max_length=100, terse=True)
]
TopParam = Annotated[
    int | None,
    Param("The best so many, over all pages; 200 by default", minimum=1, maximum=1000, terse=True),
]
ThresholdParam = Annotated[float | None, Param("No matches with a lower score", terse=True)]
SizeParam = Annotated[
    int | None,
    Param(
        "Matches in a page, 50 by default; when given without max_tokens it alone decides, up to "
        "1 MB",
        minimum=1,
        maximum=200,
        terse=True,
    ),
]
SnippetParam = Annotated[
    bool | None, Param("Show the text of each match, true by default", terse=True)
]
LengthParam = Annotated[
    int | None,
    Param("Characters of text in each match, 500 by default", minimum=1, maximum=2000, terse=True),
]
ContextParam = Annotated[
    int | None,
    Param("Lines before and after each match, 0 by default", minimum=0, maximum=10, terse=True),
]
TokensParam = Annotated[
    int | None,
    Param("Size of the answer; the rest comes by cursor", minimum=400, maximum=20_000, terse=True),
]
ProjectParam = Annotated[
    str | None,
    Param("Folder of the project, or `all`; default: here", max_length=4096, terse=True),
]
CursorParam = Annotated[
    str | None,
    Param("next_cursor of an earlier answer; needs nothing else", max_length=2_000, terse=True),
]


def _rank_by(mode: Literal["semantic", "lexical", "hybrid"]) -> Callable[..., PageAnswer]:
    """The verb for one way of ranking; they differ in nothing else."""

    def search(
        app: App,
        query: QueryParam = "",
        path: PathParam = None,
        include: IncludeParam = None,
        exclude: ExcludeParam = None,
        language: LanguageParam = None,
        top_k: TopParam = None,
        threshold: ThresholdParam = None,
        page_size: SizeParam = None,
        include_snippet: SnippetParam = None,
        snippet_length: LengthParam = None,
        context_lines: ContextParam = None,
        max_tokens: TokensParam = None,
        project: ProjectParam = None,
        cursor: CursorParam = None,
        tags: TagsParam = None,
        chunk_types: TypesParam = None,
        *,
        work: Work,
    ) -> PageAnswer:
        request = PageRequest(
            mode,
            query,
            tags=tags,
            chunk_types=chunk_types,
            path=path,
            include=include,
            exclude=exclude,
            language=language,
            top_k=top_k,
            threshold=threshold,
            project=project,
        )
        view = PageView(page_size, include_snippet, snippet_length, context_lines, max_tokens)
        return _answer(app, request, view, cursor, work)

    search.__name__ = f"{mode}_search"
    return search


semantic_search = _rank_by("semantic")
lexical_search = _rank_by("lexical")
hybrid_search = _rank_by("hybrid")


def regex_search(
    app: App,
    pattern: Annotated[
        str | None,
        Param(
            "Regular expression as in ripgrep",
            max_length=10_000,
            example=r"fn \w+_test",
            terse=True,
        ),
    ] = None,
    ignore_case: Annotated[bool | None, Param("Letter case does not matter", terse=True)] = None,
    whole_word: Annotated[bool | None, Param("Only whole words", terse=True)] = None,
    fixed_string: Annotated[bool | None, Param("The pattern is plain text", terse=True)] = None,
    path: PathParam = None,
    include: IncludeParam = None,
    exclude: ExcludeParam = None,
    language: LanguageParam = None,
    top_k: Annotated[
        int | None,
        Param("At most so many lines, 10,000 by default", minimum=1, maximum=10_000, listed=False),
    ] = None,
    page_size: SizeParam = None,
    include_snippet: SnippetParam = None,
    snippet_length: LengthParam = None,
    context_lines: ContextParam = None,
    max_tokens: TokensParam = None,
    project: ProjectParam = None,
    cursor: CursorParam = None,
    query: Annotated[
        str | None, Param("Another name of `pattern`", max_length=10_000, listed=False)
    ] = None,
    *,
    work: Work,
) -> PageAnswer:
    """Find lines by regular expression, in the files as they are now; needs no index."""
    request = PageRequest(
        "regex",
        pattern or query or "",
        path=path,
        include=include,
        exclude=exclude,
        language=language,
        top_k=top_k,
        project=project,
        ignore_case=ignore_case,
        whole_word=whole_word,
        fixed_string=fixed_string,
    )
    view = PageView(page_size, include_snippet, snippet_length, context_lines, max_tokens)
    return _answer(app, request, view, cursor, work)


def _answer(
    app: App, request: PageRequest, view: PageView, cursor: str | None, work: Work
) -> PageAnswer:
    """One page as documented, cut to its size and budget."""
    began = time.perf_counter()
    workspace = app.workspace
    page = open_match_page(workspace, request, view, work, cursor)

    def write(hit: Hit, length: int) -> MatchRow:
        return show_match(page, page.present(hit, length))

    def whole(rows: list[MatchRow]) -> PageAnswer:
        took_ms = round((time.perf_counter() - began) * 1000)
        more = workspace.results.cursor_at(page.results, page.offset + len(rows))
        return show_page(page, rows, more, took_ms)

    answer = fit_page(
        page.hits,
        write,
        whole,
        page.view.budget(workspace.max_tokens),
        length=page.view.length,
        shortest=SHORTEST_SNIPPET,
    )
    refuse_oversize(answer)
    page.results.number_next(page.offset, page.offset + answer["results"]["count"])
    return answer


TOOLS: tuple[Tool, ...] = (
    Tool(
        name="semantic_search",
        call=semantic_search,
        toolset="code",
        title="Semantic search",
        description=(
            "Page through semantically similar code and docs. "
            "Prefer search_code for the few best answers."
        ),
    ),
    Tool(
        name="regex_search",
        call=regex_search,
        toolset="code",
        title="Regex search",
        description=(
            "Page through the lines that match a regular expression; needs no index. "
            "Prefer search_code when the exact text is unknown."
        ),
    ),
    Tool(
        name="hybrid_search",
        call=hybrid_search,
        toolset="code",
        title="Hybrid search",
        description=(
            "Page through code and docs by meaning, words and names together. "
            "Prefer regex_search for exact text."
        ),
        shown=(
            "query",
            "path",
            "include",
            "exclude",
            "language",
            "top_k",
            "page_size",
            "context_lines",
            "project",
            "cursor",
        ),
    ),
    Tool(
        name="lexical_search",
        call=lexical_search,
        toolset="code",
        title="Lexical search",
        description=(
            "Page through code and docs that hold the words, filtered as in semantic_search. "
            "Prefer semantic_search when the wording is unknown."
        ),
        shown=("query", "path", "page_size", "cursor"),
    ),
)

ROUTES: tuple[Route, ...] = (
    Route("search/lines", regex_search, "Lines that match a regular expression, in pages"),
)
