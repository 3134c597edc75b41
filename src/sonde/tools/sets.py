"""Verbs on resource sets, named selections of nodes, and on the saved queries that fill them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from sonde.app import App
from sonde.disk import scope, sets
from sonde.errors import InvalidRequest
from sonde.runtime.work import Work
from sonde.stores.disk.base import Combination, ResourceSet
from sonde.stores.disk.filters import Filter, filter_to_json, parse_filter, read_filter_json
from sonde.tools.route import Route
from sonde.tools.schema import ConfirmParam, CursorParam, LimitParam, Param
from sonde.tools.shapes import selections, shell
from sonde.tools.tool import Tool, declare_signature, declare_tool
from sonde.types import Json

Op = Literal[
    "create", "list", "get", "delete", "add", "remove", "rename",
    "union", "intersection", "difference",
]  # fmt: skip
_DOCUMENTED: tuple[Op, ...] = ("create", "list", "get", "delete", "add", "remove")
"""Operations that the document also writes as tools of their own."""
_NOT_FIXED = ("app", "op", "other", "work", "return")
_MAX_NODES = 1_000  # in one call; query_run fills larger sets

T = TypeVar("T")

_EXAMPLE = 'size>10MB ext:log not path:"build/**" age>30d is:duplicate content~"TODO"'
QueryParam = Annotated[str, Param("queryId", min_length=1, max_length=64)]
SetParam = Annotated[str, Param("selectionId", min_length=1, max_length=64)]
NodesParam = Annotated[tuple[str, ...], Param("nodeIds", max_length=_MAX_NODES)]


def resource_set_ops(
    app: App,
    op: Annotated[Op, Param("What to do")],
    selection_id: Annotated[str | None, Param("The set", max_length=64)] = None,
    node_ids: Annotated[
        tuple[str, ...] | None, Param("create, add, remove", max_length=_MAX_NODES)
    ] = None,
    name: Annotated[str | None, Param("Of a new set; rename", max_length=200)] = None,
    other: Annotated[str | None, Param("selectionId to combine with", max_length=64)] = None,
    cursor: Annotated[str | None, Param("nextPageUrl of list", max_length=8192, terse=True)] = None,
    confirm: ConfirmParam = None,
    session_id: shell.SessionParam = None,
    *,
    work: Work,
) -> selections.SetAnswer:
    """Make, look at, change, combine and remove resource sets."""
    disk, caller = app.disk, work.caller
    session = scope.find_shell_session(disk, caller, session_id) if session_id else None
    units = scope.read_preferences(session).units

    def show(found: ResourceSet) -> selections.SetAnswer:
        return selections.show_set_detail(sets.describe_set(disk, found), caller, units)

    if op == "list":
        page = sets.list_sets(disk, caller, limit=shell.LISTED, cursor=cursor)
        return selections.show_set_list(page, caller, units, limit=shell.LISTED)
    if op == "create":
        return show(sets.create_set(disk, caller, name or "", node_ids or (), session_id))
    found = sets.find_set(disk, caller, _require(selection_id, "selection_id", op))
    match op:
        case "get":
            return show(found)
        case "delete":
            sets.delete_set(disk, found, work, confirm)
            return {"selectionId": found.id, "status": "deleted"}
        case "add":
            return show(sets.change_set(disk, found, add=_require(node_ids, "node_ids", op)))
        case "remove":
            return show(sets.change_set(disk, found, remove=_require(node_ids, "node_ids", op)))
        case "rename":
            return show(sets.change_set(disk, found, name=_require(name, "name", op)))
    second = sets.find_set(disk, caller, _require(other, "other", op))
    return show(sets.combine_sets(disk, found, op, second, name or ""))


def _require(value: T | None, name: str, op: str) -> T:
    if not value:
        raise InvalidRequest(f"{op} needs `{name}`", user_message=f"{op} needs `{name}`.")
    return value


def _declare_verb(
    name: str, op: Op | None, /, **parameters: tuple[Any, Any]
) -> Callable[..., selections.SetAnswer]:
    """The verb of an operation; without one, the call names it in `op`."""

    def verb(
        app: App, selection_id: str | None = None, *, work: Work, **options: Any
    ) -> selections.SetAnswer:
        return resource_set_ops(app, op or options.pop("op"), selection_id, **options, work=work)

    return declare_signature(verb, name, selections.SetAnswer, parameters)


def _fix_op(op: Op) -> Callable[..., selections.SetAnswer]:
    """The verb of one operation under the document's own name, such as `resource-set-create`."""
    hints = get_type_hints(resource_set_ops, include_extras=True)
    taken = {name: (hint, None) for name, hint in hints.items() if name not in _NOT_FIXED}
    return _declare_verb(f"resource_set_{op}", op, **taken)


def read_sets(
    app: App, limit: LimitParam = 50, cursor: CursorParam = None, *, work: Work
) -> selections.SetAnswer:
    """Resource sets, newest first."""
    page = sets.list_sets(app.disk, work.caller, limit=limit, cursor=cursor)
    return selections.show_set_list(page, work.caller, "bytes", limit=limit)


def make_set(
    app: App,
    name: Annotated[str, Param("Its name", max_length=200)] = "",
    node_ids: NodesParam = (),
    session_id: Annotated[str | None, Param("Whose index it is of", max_length=64)] = None,
    *,
    work: Work,
) -> selections.SetAnswer:
    """A new resource set."""
    made = sets.create_set(app.disk, work.caller, name, node_ids, session_id)
    return selections.show_set_detail(sets.describe_set(app.disk, made), work.caller)


def change_entries(
    app: App,
    selection_id: SetParam,
    add: NodesParam = (),
    remove: NodesParam = (),
    name: Annotated[str | None, Param("Another name", max_length=200)] = None,
    *,
    work: Work,
) -> selections.SetAnswer:
    """Add nodes to a set, remove others, rename it."""
    found = sets.find_set(app.disk, work.caller, selection_id)
    changed = sets.change_set(app.disk, found, add, remove, name)
    return selections.show_set_detail(sets.describe_set(app.disk, changed), work.caller)


_SETS = {"selection_id": (SetParam, inspect.Parameter.empty)}
read_set = _declare_verb("read_set", "get", **_SETS)
remove_set = _declare_verb("remove_set", "delete", **_SETS, confirm=(ConfirmParam, None))
add_entries = _declare_verb(
    "add_entries", "add", **_SETS,
    node_ids=(Annotated[tuple[str, ...], Param("nodeIds", min_length=1, max_length=_MAX_NODES)],
              inspect.Parameter.empty),
)  # fmt: skip
combine_with = _declare_verb(
    "combine_with", None, **_SETS,
    op=(Annotated[Combination, Param("What the new set holds of the two")],
        inspect.Parameter.empty),
    other=(Annotated[str, Param("selectionId to combine with", min_length=1, max_length=64)],
           inspect.Parameter.empty),
    name=(Annotated[str, Param("Of the new set", max_length=200)], ""),
)  # fmt: skip


def read_entries(
    app: App,
    selection_id: SetParam,
    limit: LimitParam = 50,
    cursor: CursorParam = None,
    *,
    work: Work,
) -> shell.Answer:
    """Entries of a set, in pages."""
    found = sets.find_set(app.disk, work.caller, selection_id)
    entries = sets.list_entries(app.disk, found, limit=limit, cursor=cursor)
    return selections.show_entries(entries, work.caller)


def query_run(
    app: App,
    filter: Annotated[  # noqa: A002 - the word that a caller would use
        str | None, Param(f"E.g. {_EXAMPLE}", max_length=4_000, example="size>10MB age>30d")
    ] = None,
    query_id: Annotated[str | None, Param("Or a saved query", max_length=64)] = None,
    name: Annotated[str | None, Param("To save it under", max_length=200)] = None,
    index_id: Annotated[str | None, Param("Default: the cwd's", max_length=64)] = None,
    session_id: shell.SessionParam = None,
    *,
    work: Work,
) -> selections.RunAnswer:
    """Find files by a filter over metadata and contents, and keep them as a resource set."""
    disk, caller = app.disk, work.caller
    if (filter is None) == (query_id is None):
        problem = "either `filter` or `query_id`"
        raise InvalidRequest(problem, user_message="Give a filter or a queryId.")
    if query_id is not None:
        query = sets.find_query(disk, caller, query_id)
        query = sets.change_query(disk, query, name=name) if name else query
    else:
        query = sets.save_session_query(disk, caller, filter or "", name, index_id, session_id)
    return selections.show_run(query.id, sets.run_query(disk, query, work), caller)


def start_run(
    app: App,
    query_id: QueryParam,
    format: shell.FormatParam = "json",  # noqa: A002 - the document's word
    *,
    work: Work,
) -> shell.Answer:
    """Run a query into its resource set, or show the plan of the run."""
    if format == "explain":
        return read_query(app, query_id, format, work=work)
    return dict(query_run(app, query_id=query_id, work=work))


def query_list(
    app: App,
    cursor: Annotated[str | None, Param("nextPageUrl of an answer", max_length=8192)] = None,
    *,
    work: Work,
) -> selections.QueriesAnswer:
    """Saved queries, newest first."""
    return read_queries(app, shell.LISTED, cursor, work=work)


def query_get(
    app: App,
    query_id: Annotated[str, Param("queryId of an answer", min_length=1, max_length=64)],
    *,
    work: Work,
) -> selections.QueryAnswer:
    """One saved query; the link leads to its whole filter."""
    query = sets.find_query(app.disk, work.caller, query_id)
    return selections.show_query_detail(query, work.caller)


def read_queries(
    app: App, limit: LimitParam = 50, cursor: CursorParam = None, *, work: Work
) -> selections.QueriesAnswer:
    """Saved queries, newest first."""
    page = sets.list_queries(app.disk, work.caller, limit=limit, cursor=cursor)
    return selections.show_query_list(page, work.caller, limit=limit)


def make_query(
    app: App,
    index_id: Annotated[str, Param("The index it is about", min_length=1, max_length=64)],
    filter: Annotated[str | None, Param("Its text", max_length=4000)] = None,  # noqa: A002
    ast: Annotated[Json | None, Param("Or its tree")] = None,
    name: Annotated[str | None, Param("Its name", max_length=200)] = None,
    *,
    work: Work,
) -> shell.Answer:
    """A new saved query."""
    where = _read_filter(filter, ast)
    if where is None:
        raise InvalidRequest("either `filter` or `ast`", user_message="Give a filter or an ast.")
    query = sets.save_query(app.disk, work.caller, index_id, where, name)
    return read_query(app, query.id, work=work)


def _read_filter(text: str | None, ast: Json | None) -> Filter | None:
    if ast is None:
        return None if text is None else parse_filter(text)
    if text is not None:
        raise InvalidRequest("both `filter` and `ast`", user_message="Give a filter or an ast.")
    return read_filter_json(ast)


def read_query(
    app: App,
    query_id: QueryParam,
    format: shell.FormatParam = "json",  # noqa: A002 - the document's word
    *,
    work: Work,
) -> shell.Answer:
    """A saved query with its whole filter, or with its query plan."""
    query = sets.find_query(app.disk, work.caller, query_id)
    answer: dict[str, object] = dict(selections.show_query_detail(query, work.caller))
    answer |= {"filter": query.filter, "ast": filter_to_json(parse_filter(query.filter))}
    if format == "explain":
        answer |= shell.show_plan(sets.explain_query(app.disk, query))
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
) -> shell.Answer:
    """Change a saved query; the sets that it filled stay."""
    where = _read_filter(filter, ast)
    query = sets.find_query(app.disk, work.caller, query_id)
    sets.change_query(app.disk, query, where, name)
    return read_query(app, query.id, work=work)


def read_run(
    app: App,
    query_id: QueryParam,
    format: shell.FormatParam = "json",  # noqa: A002 - the document's word
    *,
    work: Work,
) -> shell.Answer:
    """The result of a query's last run, or its plan; the first read runs it."""
    caller = work.caller
    query = sets.find_query(app.disk, caller, query_id)
    last = app.disk.saved.get(ResourceSet, query.selection, caller.user)
    if last is None or format == "explain":
        return start_run(app, query_id, format, work=work)
    card = selections.show_set_detail(sets.describe_set(app.disk, last), caller)
    link = caller.link(f"queries/{query.id}/run")
    return {"queryId": query.id, **card, "sampleUrl": card["entriesUrl"], "link": link}


def remove_query(
    app: App, query_id: QueryParam, confirm: ConfirmParam = None, *, work: Work
) -> shell.Answer:
    """Delete a saved query; the sets that it filled stay."""
    query = sets.find_query(app.disk, work.caller, query_id)
    sets.delete_query(app.disk, query, work, confirm)
    return {"queryId": query.id, "status": "deleted"}


_declare = partial(declare_tool, "files")

TOOLS: tuple[Tool, ...] = (
    _declare(
        resource_set_ops,
        "Resource sets",
        "Make, list, change, combine and delete named sets of nodes. "
        "Prefer query_run to collect nodes by a filter.",
        read_only=False,
        destructive=True,
        idempotent=False,
    ),
    *(
        _declare(
            _fix_op(op),
            f"Resource sets: {op}",
            f"The same as resource_set_ops with op={op}.",
            read_only=op in ("list", "get"),
            destructive=op == "delete",
            idempotent=op != "create",
            listed=False,
        )
        for op in _DOCUMENTED
    ),
    _declare(
        query_run,
        "Run a query",
        "Find files by size, time, name, duplicates or contents and keep them as a resource "
        "set. Prefer search_code for passages of text.",
        read_only=False,
    ),
    _declare(query_list, "List queries", "List saved queries."),
    _declare(query_get, "Get a query", "Show one saved query and links to its filter and plan."),
)
_QUERY = "queries/{queryId}"
_SET = "resource-sets/{selectionId}"
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
