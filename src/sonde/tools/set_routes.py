"""Addresses of what is collected from a disk: resource sets and saved queries."""

from __future__ import annotations

from typing import Annotated, Any

from sonde.app import App
from sonde.disk.queries import (
    change_query,
    explain_query,
    find_query,
    list_queries,
    query_get,
    run_query,
    save_query,
)
from sonde.disk.reports import show_tree_path
from sonde.disk.scope import find_index
from sonde.disk.sets import (
    Combination,
    change_set,
    combine_sets,
    create_set,
    delete_set,
    describe_set,
    find_set,
    list_sets,
    show_member,
)
from sonde.errors import InvalidRequest
from sonde.paging.cursor import decode_key, encode_key
from sonde.projects.find import require_consent
from sonde.runtime.work import Work
from sonde.stores.disk.base import KINDS, Member
from sonde.stores.disk.filters import filter_to_json, from_json, parse_filter
from sonde.tools.disk_routes import ConfirmParam, FormatParam
from sonde.tools.route import Route
from sonde.tools.schema import CursorParam, LimitParam, Param
from sonde.tools.shapes.shell import QueriesAnswer, RunAnswer, SetAnswer
from sonde.types import Caller

SetParam = Annotated[str, Param("selectionId", min_length=1, max_length=64)]
QueryParam = Annotated[str, Param("queryId", min_length=1, max_length=64)]
NodesParam = Annotated[tuple[str, ...], Param("nodeIds", max_length=1000)]

Answer = dict[str, Any]


def read_sets(
    app: App, limit: LimitParam = 50, cursor: CursorParam = None, *, work: Work
) -> SetAnswer:
    """Resource sets, the newest first."""
    answer = list_sets(app, work.caller, limit=limit, cursor=cursor)
    for card in answer["sets"]:
        card["link"] = work.caller.link(f"resource-sets/{card['selectionId']}")
    return answer


def make_set(
    app: App,
    name: Annotated[str, Param("Its name", max_length=200)] = "",
    node_ids: NodesParam = (),
    session_id: Annotated[str | None, Param("Whose index it is of", max_length=64)] = None,
    *,
    work: Work,
) -> SetAnswer:
    """A new resource set."""
    return describe_set(app, create_set(app, work.caller, name, node_ids, session_id), work.caller)


def read_set(app: App, selection_id: SetParam, *, work: Work) -> SetAnswer:
    """A resource set with a sample of its entries."""
    return describe_set(app, find_set(app, work.caller, selection_id), work.caller)


def change_entries(
    app: App,
    selection_id: SetParam,
    add: NodesParam = (),
    remove: NodesParam = (),
    *,
    work: Work,
) -> SetAnswer:
    """Add nodes to a set and take others out."""
    found = find_set(app, work.caller, selection_id)
    change_set(app, found, add, remove)
    return describe_set(app, found, work.caller)


def add_entries(
    app: App,
    selection_id: SetParam,
    node_ids: Annotated[tuple[str, ...], Param("nodeIds", min_length=1, max_length=1000)],
    *,
    work: Work,
) -> SetAnswer:
    """Add nodes to a set."""
    return change_entries(app, selection_id, node_ids, work=work)


def combine_with(
    app: App,
    selection_id: SetParam,
    op: Annotated[Combination, Param("What the new set holds of the two")],
    other: Annotated[str, Param("selectionId to combine with", min_length=1, max_length=64)],
    name: Annotated[str, Param("Of the new set", max_length=200)] = "",
    *,
    work: Work,
) -> SetAnswer:
    """A new set of what two are together; those stay as they are."""
    first, second = (find_set(app, work.caller, each) for each in (selection_id, other))
    return describe_set(app, combine_sets(app, first, op, second, name), work.caller)


def remove_set(
    app: App, selection_id: SetParam, confirm: ConfirmParam = None, *, work: Work
) -> SetAnswer:
    """Forget a resource set."""
    return delete_set(app, find_set(app, work.caller, selection_id), work, confirm)


def read_entries(
    app: App,
    selection_id: SetParam,
    limit: LimitParam = 50,
    cursor: CursorParam = None,
    *,
    work: Work,
) -> Answer:
    """Entries of a resource set, in pages."""
    caller = work.caller
    found = find_set(app, caller, selection_id)
    scope = f"entries:{found.id}"
    after = decode_key(cursor, scope, app.workspace.key)[0] if cursor else 0
    rows = app.disk.tree(found.index).members(found.id, limit + 1, after)
    following = None
    if len(rows) > limit:
        key = encode_key([rows[limit - 1].id], scope, app.workspace.key)
        following = caller.link(f"resource-sets/{found.id}/entries?limit={limit}&cursor={key}")
    return {
        "selectionId": found.id,
        "entries": [_show_entry(app, found.index, row, caller) for row in rows[:limit]],
        "nextPageUrl": following,
    }


def _show_entry(app: App, index: str, member: Member, caller: Caller) -> Answer:
    """A row of a set, with where it is in the tree."""
    row = show_member(index, member, caller, "bytes")
    if member.node is None:
        return row
    path = show_tree_path(app, index, member.node)
    return row | {"path": path, "kind": KINDS[member.node.kind]}


def read_queries(
    app: App, limit: LimitParam = 50, cursor: CursorParam = None, *, work: Work
) -> QueriesAnswer:
    """Saved queries, the newest first."""
    answer = list_queries(app, work.caller, limit=limit, cursor=cursor)
    for card in answer["queries"]:
        card["link"] = work.caller.link(f"queries/{card['queryId']}")
    return answer


def make_query(
    app: App,
    index_id: Annotated[str, Param("The index it is about", min_length=1, max_length=64)],
    filter: Annotated[str | None, Param("Its text", max_length=4000)] = None,  # noqa: A002
    ast: Annotated[dict[str, Any] | None, Param("Or its tree")] = None,
    name: Annotated[str | None, Param("Its name", max_length=200)] = None,
    *,
    work: Work,
) -> Answer:
    """A new saved query."""
    if (filter is None) == (ast is None):
        raise InvalidRequest("either `filter` or `ast`", user_message="Give a filter or an ast.")
    where = parse_filter(filter) if filter is not None else from_json(ast)
    query = save_query(app, work.caller, index_id, where, name)
    return read_query(app, query.id, work=work)


def read_query(
    app: App,
    query_id: QueryParam,
    format: FormatParam = "json",  # noqa: A002 - the document's word
    *,
    work: Work,
) -> Answer:
    """A saved query with its whole filter, or the plan of it."""
    query = find_query(app, work.caller, query_id)
    where = parse_filter(query.filter)
    answer: Answer = dict(query_get(app, query.id, work=work))
    answer |= {"filter": query.filter, "ast": filter_to_json(where)}
    if format == "explain":
        index = find_index(app, work.caller, query.index)
        answer |= explain_query(app, index, where)
    if query.selection:
        answer["entriesUrl"] = work.caller.link(f"resource-sets/{query.selection}/entries")
    return answer


def edit_query(
    app: App,
    query_id: QueryParam,
    filter: Annotated[str | None, Param("Another text", max_length=4000)] = None,  # noqa: A002
    ast: Annotated[dict[str, Any] | None, Param("Or another tree")] = None,
    name: Annotated[str | None, Param("Another name", max_length=200)] = None,
    *,
    work: Work,
) -> Answer:
    """Change a saved query; the sets that it made stay."""
    if filter is not None and ast is not None:
        raise InvalidRequest("both `filter` and `ast`", user_message="Give a filter or an ast.")
    where = from_json(ast) if ast is not None else None
    if filter is not None:
        where = parse_filter(filter)
    query = change_query(app, find_query(app, work.caller, query_id), where, name)
    return read_query(app, query.id, work=work)


def read_run(app: App, query_id: QueryParam, *, work: Work) -> Answer:
    """What the last run of a query found; the first look runs it."""
    query = find_query(app, work.caller, query_id)
    last = app.disk.saved.set(query.selection, work.caller.user) if query.selection else None
    if last is None:
        return dict(run_query(app, query, work))
    card = dict(describe_set(app, last, work.caller))
    return {"queryId": query.id, **card, "sampleUrl": card["entriesUrl"]}


def start_run(app: App, query_id: QueryParam, *, work: Work) -> RunAnswer:
    """Run a query into its resource set."""
    return run_query(app, find_query(app, work.caller, query_id), work)


def remove_query(
    app: App, query_id: QueryParam, confirm: ConfirmParam = None, *, work: Work
) -> Answer:
    """Forget a saved query; the sets that it made stay."""
    query = find_query(app, work.caller, query_id)
    question = f"Forget the saved query '{query.name}'?"
    require_consent(app.workspace, work, "delete_query", query.id, question, confirm)
    app.disk.saved.delete_query(query.id, query.owner)
    return {"queryId": query.id, "status": "deleted"}


_SET = "resource-sets/{selectionId}"
_QUERY = "queries/{queryId}"
ROUTES: tuple[Route, ...] = (
    Route("resource-sets", read_sets, "Resource sets, the newest first"),
    Route("resource-sets", make_set, "A new resource set", method="POST", status=201),
    Route(_SET, read_set, "A resource set"),
    Route(_SET, change_entries, "Add and remove entries", method="PATCH"),
    Route(_SET, remove_set, "Forget a resource set", method="DELETE"),
    Route(f"{_SET}/entries", read_entries, "Entries of a resource set, in pages"),
    Route(f"{_SET}/entries", add_entries, "Add entries", method="POST"),
    Route(f"{_SET}/combine", combine_with, "Combine with another", method="POST", status=201),
    Route("queries", read_queries, "Saved queries, the newest first"),
    Route("queries", make_query, "A new saved query", method="POST", status=201),
    Route(_QUERY, read_query, "A saved query with its whole filter"),
    Route(_QUERY, edit_query, "Change a saved query", method="PATCH"),
    Route(_QUERY, remove_query, "Forget a saved query", method="DELETE"),
    Route(f"{_QUERY}/run", read_run, "What the last run of a query found"),
    Route(f"{_QUERY}/run", start_run, "Run a query", method="POST"),
)
