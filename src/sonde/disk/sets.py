"""Resource sets: named selections of nodes, made and combined by handles alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from sonde.app import App
from sonde.disk.scope import (
    SessionParam,
    find_index,
    find_shell_session,
    now_ms,
    read_cursor,
    read_preferences,
)
from sonde.errors import HandleUnknown, InvalidRequest
from sonde.paging.cursor import decode_key, encode_key
from sonde.projects.find import require_consent
from sonde.runtime.jobs import join_node, mint_handle, split_node
from sonde.runtime.work import Work
from sonde.stores.disk.base import Member, ResourceSet
from sonde.tools.schema import Param
from sonde.tools.shapes.shell import (
    MOST_BYTES,
    MOST_SAMPLE,
    SetAnswer,
    fit_rows,
    shorten_text,
    show_bytes,
    show_set,
)
from sonde.types import Caller

Op = Literal[
    "create", "list", "get", "delete", "add", "remove", "union", "intersection", "difference"
]
Combination = Literal["union", "intersection", "difference"]
_MOST_NODES = 1_000
_LISTED = 10


SelectionParam = Annotated[str | None, Param("The set", max_length=64)]
NodesParam = Annotated[tuple[str, ...] | None, Param("create, add, remove", max_length=_MOST_NODES)]
NameParam = Annotated[str | None, Param("Of a new set", max_length=200)]
OtherParam = Annotated[str | None, Param("selectionId to combine with", max_length=64)]
CursorParam = Annotated[str | None, Param("nextPageUrl of list", max_length=8192, terse=True)]
ConfirmParam = Annotated[
    str | None, Param("Token of the answer that asked", max_length=100, terse=True)
]


def resource_set_ops(
    app: App,
    op: Annotated[Op, Param("What to do")],
    selection_id: SelectionParam = None,
    node_ids: NodesParam = None,
    name: NameParam = None,
    other: OtherParam = None,
    cursor: CursorParam = None,
    confirm: ConfirmParam = None,
    session_id: SessionParam = None,
    *,
    work: Work,
) -> SetAnswer:
    """Make, look at, change, combine and remove resource sets."""
    caller = work.caller
    units = (
        read_preferences(find_shell_session(app, caller, session_id))["units"]
        if session_id
        else None
    )
    units = units or "bytes"
    if op == "list":
        return list_sets(app, caller, limit=_LISTED, cursor=read_cursor(cursor), units=units)
    if op == "create":
        made = create_set(app, caller, name or "", node_ids or (), session_id)
        return describe_set(app, made, caller, units)
    found = find_set(app, caller, _require(selection_id, "selection_id", op))
    if op == "get":
        return describe_set(app, found, caller, units)
    if op == "delete":
        return delete_set(app, found, work, confirm)
    if op == "add":
        change_set(app, found, add=_require(node_ids, "node_ids", op))
        return describe_set(app, found, caller, units)
    if op == "remove":
        change_set(app, found, remove=_require(node_ids, "node_ids", op))
        return describe_set(app, found, caller, units)
    with_ = find_set(app, caller, _require(other, "other", op))
    return describe_set(app, combine_sets(app, found, op, with_, name or ""), caller, units)


def fix_op(op: Op) -> Callable[..., SetAnswer]:
    """The verb of one of the document's own names, such as `resource-set-create`."""

    def verb(
        app: App,
        selection_id: SelectionParam = None,
        node_ids: NodesParam = None,
        name: NameParam = None,
        cursor: CursorParam = None,
        confirm: ConfirmParam = None,
        session_id: SessionParam = None,
        *,
        work: Work,
    ) -> SetAnswer:
        return resource_set_ops(
            app,
            op,
            selection_id,
            node_ids,
            name,
            cursor=cursor,
            confirm=confirm,
            session_id=session_id,
            work=work,
        )

    verb.__name__ = f"resource_set_{op}"
    return verb


def _require(value: Any, name: str, op: str) -> Any:
    if not value:
        raise InvalidRequest(
            f"{op} needs `{name}`", user_message="{op} needs `{name}`.", op=op, name=name
        )
    return value


def find_set(app: App, caller: Caller, handle: str) -> ResourceSet:
    """A resource set of this caller."""
    found = app.disk.saved.set(handle, caller.user)
    if found is None:
        raise HandleUnknown(f"selection {handle!r}", what="resource set", handle=handle)
    return found


def create_set(
    app: App, caller: Caller, name: str, nodes: Sequence[str], session_id: str | None = None
) -> ResourceSet:
    """A new set of these nodes, of the index that they or the session are in."""
    index = _index_of(nodes) if nodes else find_shell_session(app, caller, session_id).index
    if not index:
        raise InvalidRequest(
            "no index is current", user_message="Name a node, or cd into a scanned folder first."
        )
    found = find_index(app, caller, index)
    made = ResourceSet(mint_handle(), caller.user, found.id, name or "selection", now_ms())
    numbers = _read_nodes(app, made, nodes)
    app.disk.saved.put_set(made)
    app.disk.tree(made.index).add(made.id, numbers)
    return made


def change_set(
    app: App, found: ResourceSet, add: Sequence[str] = (), remove: Sequence[str] = ()
) -> None:
    """Add nodes to a set and take others out: all of it, or nothing where one is unknown."""
    added, removed = _read_nodes(app, found, add), [_number_of(found, node) for node in remove]
    tree = app.disk.tree(found.index)
    if added:
        tree.add(found.id, added)
    if removed:
        tree.discard(found.id, removed)


def _read_nodes(app: App, found: ResourceSet, nodes: Sequence[str]) -> list[int]:
    """The numbers of nodes that are there."""
    numbers = [_number_of(found, node) for node in nodes]
    tree = app.disk.tree(found.index)
    for number, handle in zip(numbers, nodes, strict=True):
        if tree.get(number) is None:
            raise HandleUnknown(f"node {handle!r}", what="node", handle=handle)
    return numbers


def _index_of(nodes: Sequence[str]) -> str:
    parts = split_node(nodes[0])
    if parts is None:
        raise HandleUnknown(f"node {nodes[0]!r}", what="node", handle=nodes[0])
    return parts[0]


def _number_of(found: ResourceSet, handle: str) -> int:
    parts = split_node(handle)
    if parts is None or parts[0] != found.index:
        raise HandleUnknown(f"{handle!r} is no node of the set's index", what="node", handle=handle)
    return parts[1]


def combine_sets(
    app: App, first: ResourceSet, op: Combination, second: ResourceSet, name: str
) -> ResourceSet:
    """A new set of what two are together; those stay as they are."""
    if first.index != second.index:
        raise InvalidRequest(
            "sets of two indexes", user_message="Only sets of the same index can be combined."
        )
    title = name or f"{first.name} {op} {second.name}"
    made = ResourceSet(mint_handle(), first.owner, first.index, title[:200], now_ms())
    app.disk.saved.put_set(made)
    tree = app.disk.tree(first.index)
    tree.combine(made.id, "union", first.id)
    tree.combine(made.id, op, second.id)
    return made


def delete_set(app: App, found: ResourceSet, work: Work, confirm: str | None) -> SetAnswer:
    """Forget a set once somebody agreed; files are not touched."""
    totals = app.disk.tree(found.index).totals(found.id)
    question = f"Forget the resource set '{found.name}' of {totals.entries} entries?"
    require_consent(app.workspace, work, "delete_set", found.id, question, confirm)
    app.disk.tree(found.index).discard(found.id)
    app.disk.saved.delete_set(found.id, found.owner)
    return {"selectionId": found.id, "status": "deleted"}


def describe_set(app: App, found: ResourceSet, caller: Caller, units: str = "bytes") -> SetAnswer:
    """A set with a sample of its entries."""
    tree = app.disk.tree(found.index)
    card = show_set(found, tree.totals(found.id), caller, units)
    sample = tree.members(found.id, MOST_SAMPLE)

    def shape(rows: Sequence[Member]) -> SetAnswer:
        shown = [show_member(found.index, row, caller, units) for row in rows]
        return {**card, "sample": shown}  # type: ignore[typeddict-item]

    return fit_rows(sample, shape)


def show_member(index: str, member: Member, caller: Caller, units: str) -> dict[str, Any]:
    """A row of a sample."""
    handle = join_node(index, member.id)
    row: dict[str, Any] = {
        "nodeId": handle,
        "name": shorten_text(member.name, 260),
        "size": show_bytes(member.size, units),
    }
    if member.stale:
        row["stale"] = member.stale
    if member.node:
        row["link"] = caller.link(f"indexes/{index}/nodes/{handle}/detail")
    return row


def list_sets(
    app: App, caller: Caller, *, limit: int, cursor: str | None, units: str = "bytes"
) -> SetAnswer:
    """Sets, the newest first."""
    after = decode_key(cursor, "sets", app.workspace.key) if cursor else None
    found = app.disk.saved.sets(caller.user, limit + 1, (after[0], after[1]) if after else None)

    def shape(rows: Sequence[ResourceSet]) -> SetAnswer:
        following = None
        if rows and len(rows) < len(found):
            last = rows[-1]
            key = encode_key([-last.created_ms, last.id], "sets", app.workspace.key)
            following = caller.link(f"resource-sets?limit=50&cursor={key}")
        cards = [
            show_set(row, app.disk.tree(row.index).totals(row.id), caller, units) for row in rows
        ]
        return {"sets": cards, "nextPageUrl": following}

    return fit_rows(found[:limit], shape, MOST_BYTES if limit <= _LISTED else 1 << 22)
