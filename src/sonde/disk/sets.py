"""Resource sets: named selections of nodes, created and combined by their handles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sonde.disk.scope import find_index, find_shell_session, show_tree_path
from sonde.disk.trees import Disk, Page, split_node
from sonde.errors import HandleUnknown, InvalidRequest
from sonde.projects.find import require_consent
from sonde.runtime.jobs import mint_handle
from sonde.runtime.work import Work
from sonde.stores.disk.base import Combination, DiskIndex, Member, Node, ResourceSet, Totals
from sonde.types import Caller

SAMPLE_SIZE = 10
"""Entries that a set is introduced with."""
_MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class SetSummary:
    """A resource set and how much it holds."""

    set: ResourceSet
    totals: Totals


@dataclass(frozen=True, slots=True)
class SetDetail(SetSummary):
    """A resource set with the first of its entries."""

    sample: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class SetEntries:
    """One page of the entries of a set."""

    set: ResourceSet
    page: Page[Member]
    paths: Mapping[int, str]
    """Node -> its path in the tree."""
    limit: int


@dataclass(frozen=True, slots=True)
class NodeMatches:
    """The largest nodes that match a filter."""

    index: DiskIndex
    totals: Totals
    nodes: tuple[Node, ...]
    paths: Mapping[int, str]
    """Node -> its path in the tree."""


def find_set(disk: Disk, caller: Caller, handle: str) -> ResourceSet:
    """A resource set of this caller."""
    found = disk.saved.get(ResourceSet, handle, caller.user)
    if found is None:
        raise HandleUnknown(f"selection {handle!r}", what="resource set", handle=handle)
    return found


def describe_set(disk: Disk, found: ResourceSet) -> SetDetail:
    """A set with a sample of its entries."""
    tree = disk.tree(found.index)
    return SetDetail(found, tree.totals(found.id), tuple(tree.members(found.id, SAMPLE_SIZE)))


def list_sets(disk: Disk, caller: Caller, *, limit: int, cursor: str | None) -> Page[SetSummary]:
    """One page of the sets of a caller, newest first."""
    after = disk.read_cursor(cursor, "sets")
    found = disk.saved.newest(
        ResourceSet, caller.user, limit + 1, (after[0], after[1]) if after else None
    )
    rows = [SetSummary(each, disk.tree(each.index).totals(each.id)) for each in found]
    return disk.cut_page(rows, limit, "sets", lambda row: [-row.set.created_ms, row.set.id])


def list_entries(disk: Disk, found: ResourceSet, *, limit: int, cursor: str | None) -> SetEntries:
    """One page of the entries of a set."""
    scope = f"entries:{found.id}"
    after = disk.read_cursor(cursor, scope)
    tree = disk.tree(found.index)
    rows = tree.members(found.id, limit + 1, after[0] if after else 0)
    page = disk.cut_page(rows, limit, scope, lambda row: [row.id])
    paths = {row.id: show_tree_path(tree, row.node) for row in page.rows if row.node}
    return SetEntries(found, page, paths, limit)


def create_set(
    disk: Disk, caller: Caller, name: str, nodes: Sequence[str], session_id: str | None = None
) -> ResourceSet:
    """A new set of these nodes, in their index or else in that of the session."""
    if nodes:
        index = _require_node(nodes[0])[0]
    else:
        index = find_shell_session(disk, caller, session_id).index
    if not index:
        raise InvalidRequest(
            "no index is current", user_message="Name a node, or cd into a scanned folder first."
        )
    made = _make_set(disk, caller.user, find_index(disk, caller, index).id, name or "selection")
    numbers = _read_nodes(disk, made, nodes)
    disk.saved.put(made)
    disk.tree(made.index).add(made.id, numbers)
    return made


def _make_set(disk: Disk, owner: str, index: str, name: str) -> ResourceSet:
    return ResourceSet(mint_handle(), owner, index, name, disk.clock_ms())


def open_query_set(disk: Disk, owner: str, index: str, handle: str, name: str) -> ResourceSet:
    """The set that a query fills: that of its last run, or a new one."""
    made = disk.saved.get(ResourceSet, handle, owner) if handle else None
    if made is None:
        made = _make_set(disk, owner, index, name)
        disk.saved.put(made)
    return made


def change_set(
    disk: Disk, found: ResourceSet, add: Sequence[str] = (), remove: Sequence[str] = ()
) -> ResourceSet:
    """Add and remove nodes: all of them, or none if one is unknown."""
    added = _read_nodes(disk, found, add)
    removed = [_number_of(found, node) for node in remove]
    tree = disk.tree(found.index)
    if added:
        tree.add(found.id, added)
    if removed:
        tree.discard(found.id, removed)
    return found


def _read_nodes(disk: Disk, found: ResourceSet, nodes: Sequence[str]) -> list[int]:
    """The numbers of nodes, which must exist."""
    numbers = [_number_of(found, node) for node in nodes]
    tree = disk.tree(found.index)
    for number, handle in zip(numbers, nodes, strict=True):
        if tree.get(number) is None:
            raise HandleUnknown(f"node {handle!r}", what="node", handle=handle)
    return numbers


def _require_node(handle: str) -> tuple[str, int]:
    parts = split_node(handle)
    if parts is None:
        raise HandleUnknown(f"node {handle!r}", what="node", handle=handle)
    return parts


def _number_of(found: ResourceSet, handle: str) -> int:
    parts = split_node(handle)
    if parts is None or parts[0] != found.index:
        raise HandleUnknown(f"{handle!r} is no node of the set's index", what="node", handle=handle)
    return parts[1]


def combine_sets(
    disk: Disk, first: ResourceSet, how: Combination, second: ResourceSet, name: str
) -> ResourceSet:
    """A new set that combines two; those stay as they are."""
    if first.index != second.index:
        raise InvalidRequest(
            "sets of two indexes", user_message="Only sets of the same index can be combined."
        )
    title = name or f"{first.name} {how} {second.name}"
    made = _make_set(disk, first.owner, first.index, title[:_MAX_NAME_CHARS])
    disk.saved.put(made)
    tree = disk.tree(first.index)
    tree.combine(made.id, "union", first.id)
    tree.combine(made.id, how, second.id)
    return made


def delete_set(disk: Disk, found: ResourceSet, work: Work, confirm: str | None) -> None:
    """Delete a set, after consent. Files are not touched."""
    totals = disk.tree(found.index).totals(found.id)
    question = f"Forget the resource set '{found.name}' of {totals.entries} entries?"
    require_consent(disk.workspace, work, "delete_set", found.id, question, confirm)
    disk.tree(found.index).discard(found.id)
    disk.saved.delete(ResourceSet, found.id, found.owner)
