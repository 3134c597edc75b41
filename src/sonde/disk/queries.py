"""Saved queries: filters under a name, and the resource sets that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from sonde.app import App
from sonde.disk.contents import gather_context
from sonde.disk.reports import show_row
from sonde.disk.scope import SessionParam, find_index, find_shell_session, now_ms, read_cursor
from sonde.disk.sets import show_member
from sonde.errors import HandleUnknown, InvalidRequest
from sonde.paging.cursor import decode_key, encode_key
from sonde.runtime.jobs import mint_handle
from sonde.runtime.work import Work
from sonde.stores.disk.base import Context, DiskIndex, Node, ResourceSet, SavedQuery
from sonde.stores.disk.filters import Filter, parse_filter, render_filter
from sonde.tools.schema import Param
from sonde.tools.shapes.shell import (
    MOST_BYTES,
    MOST_SAMPLE,
    QueriesAnswer,
    QueryAnswer,
    RunAnswer,
    fit_rows,
    show_saved_query,
)
from sonde.types import Caller

_LISTED = 10
_MOST_QUERIES = 1_000
_EXAMPLE = 'size>10MB ext:log not path:"build/**" age>30d is:duplicate content~"TODO"'


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
        query = find_query(app, caller, query_id)
    else:
        handle = index_id or find_shell_session(app, caller, session_id).index
        if not handle:
            raise InvalidRequest(
                "no index is current", user_message="Pass indexId, or cd into a scanned folder."
            )
        query = save_query(app, caller, handle, parse_filter(filter or ""), name)
    return run_query(app, query, work)


def save_query(
    app: App, caller: Caller, index: str, where: Filter, name: str | None = None
) -> SavedQuery:
    """The query for this filter on an index, made if there is none."""
    found = find_index(app, caller, index)
    text = render_filter(where)
    known = [
        query
        for query in app.disk.saved.queries(caller.user, _MOST_QUERIES)
        if query.index == found.id and query.filter == text and name in (None, query.name)
    ]
    if known:
        return known[0]
    title = name or text or "everything"
    query = SavedQuery(mint_handle(), caller.user, found.id, title[:200], text, now_ms())
    app.disk.saved.put_query(query)
    return query


def change_query(
    app: App, query: SavedQuery, where: Filter | None = None, name: str | None = None
) -> SavedQuery:
    """The query under another name or with another filter; the set of the old filter stays."""
    text = query.filter if where is None else render_filter(where)
    changed = replace(query, filter=text, name=(name or query.name)[:200])
    if text != query.filter:
        changed = replace(changed, executed_ms=0, selection="")
    app.disk.saved.put_query(changed)
    return changed


def find_query(app: App, caller: Caller, handle: str) -> SavedQuery:
    """A saved query of this caller."""
    found = app.disk.saved.query(handle, caller.user)
    if found is None:
        raise HandleUnknown(f"query {handle!r}", what="query", handle=handle)
    return found


def run_query(app: App, query: SavedQuery, work: Work) -> RunAnswer:
    """Make the query's resource set anew, and say what is in it."""
    caller = work.caller
    index = find_index(app, caller, query.index)
    where = parse_filter(query.filter)
    context = gather_context(app, index, where, work)
    saved, tree = app.disk.saved, app.disk.tree(index.id)
    made = saved.set(query.selection, caller.user) if query.selection else None
    if made is None:
        made = ResourceSet(mint_handle(), caller.user, index.id, query.name, now_ms())
        saved.put_set(made)
    tree.select(made.id, where, context)
    saved.put_query(replace(query, executed_ms=now_ms(), selection=made.id))
    totals = tree.totals(made.id)
    sample = tree.members(made.id, MOST_SAMPLE)
    entries = f"resource-sets/{made.id}/entries"

    def shape(rows: Sequence[Any]) -> RunAnswer:
        return {
            "queryId": query.id,
            "selectionId": made.id,
            "sampleUrl": caller.link(f"{entries}?limit=10"),
            "report": {
                "matches": totals.entries,
                "files": totals.files,
                "folders": totals.folders,
                "totalSize": totals.size,
                "sample": [show_member(index.id, row, caller, "bytes") for row in rows],
            },
        }

    return fit_rows(sample, shape)


def find_matches(
    app: App, index: DiskIndex, where: Filter, limit: int, work: Work
) -> dict[str, Any]:
    """The largest of what fits a filter, without keeping anything."""
    tree, selection = app.disk.tree(index.id), mint_handle()
    count = tree.select(selection, where, gather_context(app, index, where, work))
    try:
        totals, after = tree.totals(selection), 0
        nodes: list[Node] = []
        while members := tree.members(selection, 1000, after):
            after = members[-1].id
            nodes += [member.node for member in members if member.node]
            nodes = sorted(nodes, key=lambda node: (-node.size, node.id))[:limit]
    finally:
        tree.discard(selection)
    rows = [show_row(app, index, node, work.caller) for node in nodes]
    return {"matches": count, "totalSize": totals.size, "entries": rows}


def query_list(
    app: App,
    cursor: Annotated[str | None, Param("nextPageUrl of an answer", max_length=8192)] = None,
    *,
    work: Work,
) -> QueriesAnswer:
    """Saved queries, the newest first."""
    return list_queries(app, work.caller, limit=_LISTED, cursor=read_cursor(cursor))


def list_queries(app: App, caller: Caller, *, limit: int, cursor: str | None) -> QueriesAnswer:
    """One page of the saved queries."""
    after = decode_key(cursor, "queries", app.workspace.key) if cursor else None
    key = (after[0], after[1]) if after else None
    found = app.disk.saved.queries(caller.user, limit + 1, key)

    def shape(rows: Sequence[SavedQuery]) -> QueriesAnswer:
        following = None
        if rows and len(rows) < len(found):
            last = encode_key([-rows[-1].created_ms, rows[-1].id], "queries", app.workspace.key)
            following = caller.link(f"queries?limit=50&cursor={last}")
        return {
            "queries": [show_saved_query(row, caller) for row in rows],
            "nextPageUrl": following,
        }

    return fit_rows(found[:limit], shape, MOST_BYTES if limit <= _LISTED else 1 << 20)


def query_get(
    app: App,
    query_id: Annotated[str, Param("queryId of an answer", min_length=1, max_length=64)],
    *,
    work: Work,
) -> QueryAnswer:
    """One saved query; the link leads to its whole filter."""
    caller = work.caller
    query = find_query(app, caller, query_id)
    card: Any = show_saved_query(query, caller)
    card["indexId"] = query.index
    card["link"] = caller.link(f"queries/{query.id}")
    card["explainUrl"] = caller.link(f"queries/{query.id}?format=explain")
    if query.selection:
        card["selectionId"] = query.selection
    answer: QueryAnswer = card
    return answer


def explain_query(app: App, index: DiskIndex, where: Filter) -> dict[str, Any]:
    """The plan of a filter; contents are not searched for it."""
    return app.disk.tree(index.id).explain(where, Context(now_ms()))
