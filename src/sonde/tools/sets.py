"""Verbs on resource sets: named selections of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, TypeVar

from sonde.app import App
from sonde.disk.scope import find_shell_session, read_preferences
from sonde.disk.sets import (
    change_set,
    combine_sets,
    create_set,
    delete_set,
    describe_set,
    find_set,
    list_entries,
    list_sets,
)
from sonde.errors import InvalidRequest
from sonde.runtime.work import Work
from sonde.stores.disk.base import Combination, ResourceSet
from sonde.tools.route import Route
from sonde.tools.schema import ConfirmParam, CursorParam, LimitParam, Param
from sonde.tools.shapes.sets import show_entries, show_set_detail, show_set_list
from sonde.tools.shapes.shell import LISTED, Answer, SessionParam, SetAnswer
from sonde.tools.tool import Tool

Op = Literal[
    "create", "list", "get", "delete", "add", "remove", "union", "intersection", "difference"
]
_DOCUMENTED: tuple[Op, ...] = ("create", "list", "get", "delete", "add", "remove")
"""Operations that the document also writes as tools of their own."""
_MAX_NODES = 1_000

T = TypeVar("T")

SetParam = Annotated[str, Param("selectionId", min_length=1, max_length=64)]
NodesParam = Annotated[tuple[str, ...], Param("nodeIds", max_length=_MAX_NODES)]
OpSetParam = Annotated[str | None, Param("The set", max_length=64)]
OpNodesParam = Annotated[
    tuple[str, ...] | None, Param("create, add, remove", max_length=_MAX_NODES)
]
OpNameParam = Annotated[str | None, Param("Of a new set", max_length=200)]
OpCursorParam = Annotated[str | None, Param("nextPageUrl of list", max_length=8192, terse=True)]
OpConfirmParam = Annotated[
    str | None, Param("Token of the answer that asked", max_length=100, terse=True)
]


def resource_set_ops(
    app: App,
    op: Annotated[Op, Param("What to do")],
    selection_id: OpSetParam = None,
    node_ids: OpNodesParam = None,
    name: OpNameParam = None,
    other: Annotated[str | None, Param("selectionId to combine with", max_length=64)] = None,
    cursor: OpCursorParam = None,
    confirm: OpConfirmParam = None,
    session_id: SessionParam = None,
    *,
    work: Work,
) -> SetAnswer:
    """Make, look at, change, combine and remove resource sets."""
    disk, caller = app.disk, work.caller
    session = find_shell_session(disk, caller, session_id) if session_id else None
    units = read_preferences(session).units

    def show(found: ResourceSet) -> SetAnswer:
        return show_set_detail(describe_set(disk, found), caller, units)

    if op == "list":
        page = list_sets(disk, caller, limit=LISTED, cursor=cursor)
        return show_set_list(page, caller, units, limit=LISTED)
    if op == "create":
        return show(create_set(disk, caller, name or "", node_ids or (), session_id))
    found = find_set(disk, caller, _require(selection_id, "selection_id", op))
    match op:
        case "get":
            return show(found)
        case "delete":
            return _delete_set(app, found, confirm, work)
        case "add":
            return show(change_set(disk, found, add=_require(node_ids, "node_ids", op)))
        case "remove":
            return show(change_set(disk, found, remove=_require(node_ids, "node_ids", op)))
    second = find_set(disk, caller, _require(other, "other", op))
    return show(combine_sets(disk, found, op, second, name or ""))


def _require(value: T | None, name: str, op: str) -> T:
    if not value:
        raise InvalidRequest(
            f"{op} needs `{name}`", user_message="{op} needs `{name}`.", op=op, name=name
        )
    return value


def _delete_set(app: App, found: ResourceSet, confirm: str | None, work: Work) -> SetAnswer:
    delete_set(app.disk, found, work, confirm)
    return {"selectionId": found.id, "status": "deleted"}


def _fix_op(op: Op) -> Callable[..., SetAnswer]:
    """The verb of one operation under the document's own name, such as `resource-set-create`."""

    def verb(
        app: App,
        selection_id: OpSetParam = None,
        node_ids: OpNodesParam = None,
        name: OpNameParam = None,
        cursor: OpCursorParam = None,
        confirm: OpConfirmParam = None,
        session_id: SessionParam = None,
        *,
        work: Work,
    ) -> SetAnswer:
        options = {"cursor": cursor, "confirm": confirm, "session_id": session_id}
        return resource_set_ops(app, op, selection_id, node_ids, name, **options, work=work)

    verb.__name__ = f"resource_set_{op}"
    return verb


def read_sets(
    app: App, limit: LimitParam = 50, cursor: CursorParam = None, *, work: Work
) -> SetAnswer:
    """Resource sets, newest first."""
    page = list_sets(app.disk, work.caller, limit=limit, cursor=cursor)
    answer = show_set_list(page, work.caller, "bytes", limit=limit)
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
    made = create_set(app.disk, work.caller, name, node_ids, session_id)
    return show_set_detail(describe_set(app.disk, made), work.caller)


def read_set(app: App, selection_id: SetParam, *, work: Work) -> SetAnswer:
    """A resource set with a sample of its entries."""
    found = find_set(app.disk, work.caller, selection_id)
    return show_set_detail(describe_set(app.disk, found), work.caller)


def change_entries(
    app: App,
    selection_id: SetParam,
    add: NodesParam = (),
    remove: NodesParam = (),
    *,
    work: Work,
) -> SetAnswer:
    """Add nodes to a set and remove others."""
    found = change_set(app.disk, find_set(app.disk, work.caller, selection_id), add, remove)
    return show_set_detail(describe_set(app.disk, found), work.caller)


def add_entries(
    app: App,
    selection_id: SetParam,
    node_ids: Annotated[tuple[str, ...], Param("nodeIds", min_length=1, max_length=_MAX_NODES)],
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
    """A new set that combines two; those stay as they are."""
    first, second = (find_set(app.disk, work.caller, each) for each in (selection_id, other))
    made = combine_sets(app.disk, first, op, second, name)
    return show_set_detail(describe_set(app.disk, made), work.caller)


def remove_set(
    app: App, selection_id: SetParam, confirm: ConfirmParam = None, *, work: Work
) -> SetAnswer:
    """Delete a resource set."""
    return _delete_set(app, find_set(app.disk, work.caller, selection_id), confirm, work)


def read_entries(
    app: App,
    selection_id: SetParam,
    limit: LimitParam = 50,
    cursor: CursorParam = None,
    *,
    work: Work,
) -> Answer:
    """Entries of a set, in pages."""
    found = find_set(app.disk, work.caller, selection_id)
    entries = list_entries(app.disk, found, limit=limit, cursor=cursor)
    return show_entries(entries, work.caller)


TOOLS: tuple[Tool, ...] = (
    Tool(
        name="resource_set_ops",
        call=resource_set_ops,
        toolset="files",
        title="Resource sets",
        description=(
            "Make, list, change, combine and delete named sets of nodes. "
            "Prefer query_run to collect nodes by a filter."
        ),
        read_only=False,
        destructive=True,
        idempotent=False,
        aliases=("resource-set-ops",),
    ),
    *(
        Tool(
            name=f"resource_set_{op}",
            call=_fix_op(op),
            toolset="files",
            title=f"Resource sets: {op}",
            description=f"The same as resource_set_ops with op={op}.",
            read_only=op in ("list", "get"),
            destructive=op == "delete",
            idempotent=op != "create",
            aliases=(f"resource-set-{op}",),
            listed=False,
        )
        for op in _DOCUMENTED
    ),
)
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
)
