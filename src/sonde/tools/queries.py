"""Verbs on saved queries: filters over metadata and contents that fill resource sets."""

from __future__ import annotations

from typing import Annotated

from sonde.app import App
from sonde.disk.sets import (
    change_query,
    delete_query,
    describe_set,
    explain_query,
    find_query,
    list_queries,
    run_query,
    save_query,
    save_session_query,
)
from sonde.errors import InvalidRequest
from sonde.runtime.work import Work
from sonde.stores.disk.base import ResourceSet
from sonde.stores.disk.filters import Filter, filter_to_json, parse_filter, read_filter_json
from sonde.tools.route import Route
from sonde.tools.schema import ConfirmParam, CursorParam, LimitParam, Param
from sonde.tools.shapes.sets import show_query_detail, show_query_list, show_run, show_set_detail
from sonde.tools.shapes.shell import (
    LISTED,
    Answer,
    FormatParam,
    QueriesAnswer,
    QueryAnswer,
    RunAnswer,
    SessionParam,
    show_plan,
)
from sonde.tools.tool import Tool
from sonde.types import Json

_EXAMPLE = 'size>10MB ext:log not path:"build/**" age>30d is:duplicate content~"TODO"'

QueryParam = Annotated[str, Param("queryId", min_length=1, max_length=64)]


def query_run(
    app: App,
    filter: Annotated[  # noqa: A002 - the word that a caller would use
        str | None, Param(f"E.g. {_EXAMPLE}", max_length=4_000, example="size>10MB age>30d")
    ] = None,
    query_id: Annotated[str | None, Param("Or a saved query", max_length=64)] = None,
    name: Annotated[str | None, Param("To save it under", max_length=200)] = None,
    index_id: Annotated[str | None, Param("Default: the cwd's", max_length=64)] = None,
    session_id: SessionParam = None,
    *,
    work: Work,
) -> RunAnswer:
    """Find files by a filter over metadata and contents, and keep them as a resource set."""
    caller = work.caller
    if (filter is None) == (query_id is None):
        raise InvalidRequest(
            "either `filter` or `query_id`", user_message="Give a filter or a queryId."
        )
    if query_id is not None:
        query = find_query(app.disk, caller, query_id)
    else:
        query = save_session_query(app.disk, caller, filter or "", name, index_id, session_id)
    return show_run(query.id, run_query(app.disk, query, work), caller)


def start_run(app: App, query_id: QueryParam, *, work: Work) -> RunAnswer:
    """Run a query into its resource set."""
    return query_run(app, query_id=query_id, work=work)


def query_list(
    app: App,
    cursor: Annotated[str | None, Param("nextPageUrl of an answer", max_length=8192)] = None,
    *,
    work: Work,
) -> QueriesAnswer:
    """Saved queries, newest first."""
    page = list_queries(app.disk, work.caller, limit=LISTED, cursor=cursor)
    return show_query_list(page, work.caller, limit=LISTED)


def query_get(
    app: App,
    query_id: Annotated[str, Param("queryId of an answer", min_length=1, max_length=64)],
    *,
    work: Work,
) -> QueryAnswer:
    """One saved query; the link leads to its whole filter."""
    return show_query_detail(find_query(app.disk, work.caller, query_id), work.caller)


def read_queries(
    app: App, limit: LimitParam = 50, cursor: CursorParam = None, *, work: Work
) -> QueriesAnswer:
    """Saved queries, newest first."""
    page = list_queries(app.disk, work.caller, limit=limit, cursor=cursor)
    answer = show_query_list(page, work.caller, limit=limit)
    for card in answer["queries"]:
        card["link"] = work.caller.link(f"queries/{card['queryId']}")
    return answer


def make_query(
    app: App,
    index_id: Annotated[str, Param("The index it is about", min_length=1, max_length=64)],
    filter: Annotated[str | None, Param("Its text", max_length=4000)] = None,  # noqa: A002
    ast: Annotated[Json | None, Param("Or its tree")] = None,
    name: Annotated[str | None, Param("Its name", max_length=200)] = None,
    *,
    work: Work,
) -> Answer:
    """A new saved query."""
    where = _read_filter(filter, ast)
    if where is None:
        raise InvalidRequest("either `filter` or `ast`", user_message="Give a filter or an ast.")
    query = save_query(app.disk, work.caller, index_id, where, name)
    return read_query(app, query.id, work=work)


def _read_filter(text: str | None, ast: Json | None) -> Filter | None:
    if text is not None and ast is not None:
        raise InvalidRequest("both `filter` and `ast`", user_message="Give a filter or an ast.")
    if text is not None:
        return parse_filter(text)
    return read_filter_json(ast) if ast is not None else None


def read_query(
    app: App,
    query_id: QueryParam,
    format: FormatParam = "json",  # noqa: A002 - the document's word
    *,
    work: Work,
) -> Answer:
    """A saved query with its whole filter, or with its query plan."""
    query = find_query(app.disk, work.caller, query_id)
    answer: dict[str, object] = dict(show_query_detail(query, work.caller))
    answer |= {"filter": query.filter, "ast": filter_to_json(parse_filter(query.filter))}
    if format == "explain":
        answer |= show_plan(explain_query(app.disk, query))
    if query.selection:
        answer["entriesUrl"] = work.caller.link(f"resource-sets/{query.selection}/entries")
    return answer


def edit_query(
    app: App,
    query_id: QueryParam,
    filter: Annotated[str | None, Param("Another text", max_length=4000)] = None,  # noqa: A002
    ast: Annotated[Json | None, Param("Or another tree")] = None,
    name: Annotated[str | None, Param("Another name", max_length=200)] = None,
    *,
    work: Work,
) -> Answer:
    """Change a saved query; the sets that it filled stay."""
    where = _read_filter(filter, ast)
    query = change_query(app.disk, find_query(app.disk, work.caller, query_id), where, name)
    return read_query(app, query.id, work=work)


def read_run(app: App, query_id: QueryParam, *, work: Work) -> Answer:
    """The result of a query's last run; the first read runs it."""
    query = find_query(app.disk, work.caller, query_id)
    last = app.disk.saved.get(ResourceSet, query.selection, work.caller.user)
    if last is None:
        return dict(start_run(app, query_id, work=work))
    card = show_set_detail(describe_set(app.disk, last), work.caller)
    return {"queryId": query.id, **card, "sampleUrl": card["entriesUrl"]}


def remove_query(
    app: App, query_id: QueryParam, confirm: ConfirmParam = None, *, work: Work
) -> Answer:
    """Delete a saved query; the sets that it filled stay."""
    query = find_query(app.disk, work.caller, query_id)
    delete_query(app.disk, query, work, confirm)
    return {"queryId": query.id, "status": "deleted"}


TOOLS: tuple[Tool, ...] = (
    Tool(
        name="query_run",
        call=query_run,
        toolset="files",
        title="Run a query",
        description=(
            "Find files by size, time, name, duplicates or contents and keep them as a resource "
            "set. Prefer search_code for passages of text."
        ),
        read_only=False,
        aliases=("query-run",),
    ),
    Tool(
        name="query_list",
        call=query_list,
        toolset="files",
        title="List queries",
        description="List saved queries.",
        aliases=("query-list",),
    ),
    Tool(
        name="query_get",
        call=query_get,
        toolset="files",
        title="Get a query",
        description="Show one saved query and links to its filter and plan.",
        aliases=("query-get",),
    ),
)
_QUERY = "queries/{queryId}"
ROUTES: tuple[Route, ...] = (
    Route("queries", read_queries, "Saved queries, the newest first"),
    Route("queries", make_query, "A new saved query", method="POST", status=201),
    Route(_QUERY, read_query, "A saved query with its whole filter"),
    Route(_QUERY, edit_query, "Change a saved query", method="PATCH"),
    Route(_QUERY, remove_query, "Forget a saved query", method="DELETE"),
    Route(f"{_QUERY}/run", read_run, "What the last run of a query found"),
    Route(f"{_QUERY}/run", start_run, "Run a query", method="POST"),
)
