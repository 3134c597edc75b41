"""Verbs on a project's contents: search by meaning, words, path and pattern; read a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from sonde.app import App
from sonde.errors import EmptyQuery
from sonde.paging.budget import ENVELOPE_TOKENS, SHORTEST_SNIPPET, fit_page, snippet_limit
from sonde.paging.cursor import ResultSet
from sonde.projects.find import find_project, list_project_names, readable_project
from sonde.projects.freshness import list_current_paths
from sonde.projects.index import list_chunks, list_paths, read_current_text
from sonde.projects.lines import LineScan, scan_project
from sonde.projects.search import open_search_page
from sonde.projects.update import repairing_corruption
from sonde.projects.views import ContextRanking, find_context
from sonde.runtime.work import Work
from sonde.searching.contexts import DEFAULT_LIMIT, MOST, SCORE_TYPE, SearchOptions, SearchResult
from sonde.searching.filters import match_paths, read_folder
from sonde.searching.request import Request, recall_request
from sonde.tools.route import Route
from sonde.tools.schema import Param, ProjectParam, TagsParam, TokensParam, TypesParam
from sonde.tools.shapes.rfc import CortexAnswer, GrepAnswer, PathAnswer, SearchAnswer
from sonde.tools.tool import Tool, declare_signature, declare_tool
from sonde.types import Content, Hit, HitRow, Json, Kind

MAX_COMPLETED_PATHS = 101
"""A client shows at most 100 completions; one more means that there are more."""
_SHORTEST_CHUNK = 200
"""The least text of a chunk, in characters, however small the budget."""

Mode = Literal["auto", "hybrid", "semantic", "lexical", "related", "history"]
ProjectsParam = Annotated[
    str | None, Param("Folder or name, or 'all'; default: here", max_length=4096)
]
CursorParam = Annotated[
    str | None, Param("nextCursor of an answer; suffices alone", max_length=2_000)
]
FileParam = Annotated[str, Param("Path of the file in the project", min_length=1, max_length=4096)]


class ChunksAnswer(TypedDict):
    """The chunks of a file."""

    path: str
    chunks: list[Json]
    stale: NotRequired[bool]


_PARAMETERS: Mapping[str, tuple[Any, Any]] = {
    "top_k": (Annotated[int, Param("Number of results", minimum=1, maximum=50)], 10),
    "project": (ProjectsParam, None),
    "path": (Annotated[str | None, Param("Only below this folder", max_length=4096)], None),
    "mode": (Annotated[Mode, Param("How to search", terse=True, default="auto")], "auto"),
    "max_tokens": (TokensParam, None),
    "explain": (Annotated[bool, Param("Say why each result is there", listed=False)], False),
    "cursor": (CursorParam, None),
    "tags": (TagsParam, None),
    "chunk_types": (TypesParam, None),
}
"""Arguments of a search besides its query: type and default."""
_NOT_OF_ONE_MODE = ("mode", "explain", "tags", "chunk_types")


def _declare_search(
    name: str, kinds: tuple[Kind, ...], about: str, fixed: Mode | None = None
) -> Callable[..., SearchAnswer]:
    def search(
        app: App,
        query: str = "",
        top_k: int = 10,
        project: str | None = None,
        path: str | None = None,
        mode: Mode = fixed or "auto",
        max_tokens: int | None = None,
        cursor: str | None = None,
        *,
        explain: bool = False,
        tags: Sequence[str] | None = None,
        chunk_types: Sequence[str] | None = None,
        work: Work,
    ) -> SearchAnswer:
        folder, labels, views = read_folder(path), tuple(tags or ()), tuple(chunk_types or ())
        request = Request(
            name, query, kinds, top_k, mode, project, folder, tags=labels, chunk_types=views
        )
        budget = max_tokens or app.workspace.max_tokens
        return _answer(app, request, work, budget, cursor, explain=explain)

    taken = {k: each for k, each in _PARAMETERS.items() if not (fixed and k in _NOT_OF_ONE_MODE)}
    asked = (Annotated[str, Param(about, max_length=100_000)], "")
    return declare_signature(search, name, SearchAnswer, {"query": asked, **taken})


search_code = _declare_search(
    "search_code", ("code",), "The question or code concept to search for"
)
search_docs = _declare_search(
    "search_docs", ("docs",), "The question or topic to search for in documentation"
)
find_related = _declare_search(
    "find_related", ("code", "docs"),
    "A place such as `cart.py:120`, or a passage of code or text", "related",
)  # fmt: skip
search_history = _declare_search(
    "search_history", ("code", "docs"), "What a commit did or why, in any words", "history"
)


def _answer(
    app: App, request: Request, work: Work, budget: int, cursor: str | None, *, explain: bool
) -> SearchAnswer:
    began = time.perf_counter()
    workspace = app.workspace
    page = open_search_page(workspace, request, work, cursor)
    trust = {"freshness": page.freshness, "note": page.note}
    if page.hits:
        trust["scoreType"] = page.hits[0].score_type

    def write(hit: Hit, length: int) -> HitRow:
        shown = page.present(workspace, hit, length)
        return shown.as_dict(explain=explain, name_project=page.spans_projects)

    def whole(rows: list[HitRow]) -> SearchAnswer:
        answer: SearchAnswer = {
            "results": rows,
            "totalResults": page.total,
            "searchTimeMs": round((time.perf_counter() - began) * 1000),
            "metadata": {name: text for name, text in trust.items() if text},
        }
        if more := workspace.results.cursor_at(page.results, page.offset + len(rows)):
            answer["truncated"], answer["nextCursor"] = True, more
        return answer

    length = snippet_limit([hit.text for hit in page.hits[: request.top_k]], budget)
    return fit_page(page.hits, write, whole, budget, length=length, shortest=SHORTEST_SNIPPET)


def search_by_path(
    app: App,
    pattern: Annotated[
        str,
        Param("Glob pattern (e.g. '**/auth*.ts', 'src/**/*.md')", min_length=1, max_length=1000),
    ],
    limit: Annotated[int, Param("Maximum results to return", minimum=1, maximum=1000)] = 20,
    project: ProjectParam = None,
    *,
    work: Work,
) -> PathAnswer:
    """Find files by a glob on their path."""
    found = readable_project(app.workspace, project)
    with repairing_corruption(app.workspace, found):
        matches = match_paths(pattern, list_current_paths(found))
    return {"matches": matches[:limit], "totalMatches": len(matches)}


def grep(
    app: App,
    pattern: str,
    *,
    before: int = 0,
    after: int = 0,
    max_count: int | None = None,
    limit: int = 1000,
    project: str | None = None,
    work: Work,
    **filters: Any,
) -> GrepAnswer:
    """Matching lines of a project's current files; needs no index. Filters are `LineScan`'s."""
    found, scan = find_project(app.workspace, project), LineScan(pattern, **filters)
    stream = scan_project(found, scan, work, before=before, after=after, max_count=max_count)
    matches = [line for _, line in islice(stream, limit + 1)]
    shown = matches[:limit]
    return {
        "matches": [match.as_dict(before=before > 0, after=after > 0) for match in shown],
        "totalMatches": len(shown),
        "files": len({match.path for match in shown}),
        "truncated": len(matches) > limit,
    }


def cortex_search(
    app: App,
    query: Annotated[str, Param("What to look for", max_length=100_000, terse=True)] = "",
    limit: Annotated[
        int | None,
        Param("Results", minimum=1, maximum=MOST, clamp=True, terse=True, default=DEFAULT_LIMIT),
    ] = None,
    tags: TagsParam = None,
    chunk_types: Annotated[
        tuple[str, ...] | None,
        Param("Any of documentation, symbols, definitions, data", max_length=100),
    ] = None,
    project: ProjectParam = None,
    max_tokens: TokensParam = None,
    cursor: Annotated[
        str | None, Param("nextCursor of an answer; suffices alone", max_length=2_000, terse=True)
    ] = None,
    *,
    work: Work,
) -> CortexAnswer:
    """Search for relevant context in the project codebase and documentation."""
    workspace, named = app.workspace, {"tool": "cortex_search", "project": project}

    def search(asked: Mapping[str, Any]) -> ResultSet:
        options = recall_request(asked)
        del options["tool"]
        text, where = options.pop("query"), options.pop("project")
        found = find_context(workspace, where, text, SearchOptions(**options), work)
        return workspace.results.freeze(asked, found.results, found, asked)

    if cursor:
        given: Json = {"query": query or None, "limit": limit, "tags": tags, **named}
        given = {k: v for k, v in (given | {"chunk_types": chunk_types}).items() if v is not None}
        kept, offset = workspace.results.resume(cursor, given, search)
    else:
        if not query.strip():
            raise EmptyQuery("neither `query` nor `cursor` was given")
        # a filter alone decides: results need no minimum score
        options = SearchOptions(
            limit or DEFAULT_LIMIT, -1.0, tuple(tags or ()), tuple(chunk_types or ())
        )
        kept, offset = search(named | asdict(options) | {"query": query}), 0
    found: ContextRanking = kept.facts
    page = kept.hits[offset:]
    first = page[0] if page else None
    stale = found.list_stale(workspace)

    def write(result: SearchResult, length: int) -> Json:
        row = result.as_dict(length if result is first else None)
        return row | ({"stale": True} if result.chunk.id in stale else {})

    budget = (max_tokens or workspace.max_tokens) - ENVELOPE_TOKENS
    length = len(first.text) if first else 0
    rows = fit_page(page, write, list, budget, length=length, shortest=_SHORTEST_CHUNK, envelope=0)
    answer: CortexAnswer = {"results": rows, "total": len(kept.hits), "score_type": SCORE_TYPE}
    if next_cursor := workspace.results.cursor_at(kept, offset + len(rows)):
        answer |= {"truncated": True, "nextCursor": next_cursor}
    if found.note:
        answer["note"] = found.note
    return answer


def read_file_text(
    app: App,
    path: FileParam,
    lines: Annotated[str | None, Param("Only these, such as '10-40'", max_length=20)] = None,
    project: ProjectParam = None,
    *,
    work: Work,
) -> Content:
    """The current file of the project, under the same policy as searches."""
    return Content(read_current_text(app.workspace, project, path, lines))


def read_chunks(
    app: App,
    path: FileParam,
    line: Annotated[int | None, Param("Only the chunk around this line", minimum=1)] = None,
    project: ProjectParam = None,
    *,
    work: Work,
) -> ChunksAnswer:
    """The chunks of an indexed file, in order."""
    chunks, stale = list_chunks(app.workspace, project, path, line)
    answer: ChunksAnswer = {"path": path, "chunks": []}
    for chunk in chunks:
        span = {"startLine": chunk.span.start_line, "endLine": chunk.span.end_line}
        symbol = {"symbol": chunk.symbol} if chunk.symbol else {}
        answer["chunks"].append({**span, "text": chunk.text, **symbol})
    if stale:
        answer["stale"] = True
    return answer


def complete_path(app: App, argument: str, prefix: str, given: Mapping[str, str]) -> Sequence[str]:
    """Paths or projects with this prefix."""
    if argument == "project":
        names = list_project_names(app.workspace)
        return [name for name in names if name.startswith(prefix)][:MAX_COMPLETED_PATHS]
    if argument != "path":
        return []
    return list_paths(app.workspace, given.get("project"), prefix, MAX_COMPLETED_PATHS)


_declare = partial(declare_tool, "code")

TOOLS: tuple[Tool, ...] = (
    _declare(
        search_code,
        "Search code",
        "Search code by question, words, symbol, path:line, regex, "
        "glob or error; lang:go file:src -not. "
        "Prefer search_docs for prose and search_by_path for file names. "
        "Modes: related (path:line), history (commits).",
        hint="TIP: Prefer this over reading full files when looking for specific functions, "
        "patterns, or implementations.",
        always_load=True,
    ),
    _declare(
        search_docs,
        "Search docs",
        "Search documentation files. Prefer search_code for source code.",
        hint="TIP: For follow-up questions about a doc already in context, use this tool instead "
        "of re-reading the entire file - more precise results, less context usage.",
        described_by="search_code",
    ),
    _declare(
        search_by_path,
        "Search by path",
        "Find files whose path matches a glob. Prefer search_code when the name is unknown.",
    ),
)
MODE_TOOLS = (
    _declare(
        find_related,
        "Find related",
        "Definitions and sections nearest in words and meaning to a place or a passage, without "
        "itself. The same as mode `related` of search_code, over code and docs.",
        listed=False,
    ),
    _declare(
        search_history,
        "Search history",
        "Commits by their messages and paths, in words and in meaning. "
        "The same as mode `history` of search_code.",
        listed=False,
    ),
)
CONTEXT_TOOLS = (
    _declare(
        cortex_search,
        "Cortex search",
        "Search for relevant context in the project codebase and documentation, by chunk type "
        "and tag (language, folder, #tag). Prefer search_code for whole code.",
    ),
)

ROUTES: tuple[Route, ...] = (
    Route("search/code", search_code, "The best answers in code to a question"),
    Route("search/docs", search_docs, "The best answers in documentation to a question"),
    Route("search/related", find_related, "What is near to a place or a passage"),
    Route("search/history", search_history, "Commits by what they did and why"),
    Route("search/paths", search_by_path, "Files whose path matches a glob"),
)
FILE_ROUTES: tuple[Route, ...] = (
    Route(
        "files/{path:path}",
        read_file_text,
        "A file of a project as it is now",
        mime="text/plain",
        complete=complete_path,
    ),
    Route(
        "chunks/{path:path}",
        read_chunks,
        "The pieces that an indexed file is searched as",
        complete=complete_path,
    ),
)
