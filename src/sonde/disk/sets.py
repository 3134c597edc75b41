"""Resource sets and the saved queries that fill them, with their conditions on contents."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from sonde.disk import trees
from sonde.disk.reports import compare_copies
from sonde.disk.scope import find_index, find_shell_session
from sonde.disk.trees import Disk, Page, SetEntries, SetSummary, show_tree_path, split_node
from sonde.errors import HandleUnknown, IndexNotFound, InvalidRequest
from sonde.projects.find import known_roots, require_consent
from sonde.projects.lines import LineScan, scan_project
from sonde.projects.search import rank_everywhere
from sonde.ranking.question import read_question
from sonde.runtime.jobs import mint_handle
from sonde.runtime.system import now_ms
from sonde.runtime.work import Work
from sonde.searching.request import Request
from sonde.stores.disk import base, filters
from sonde.stores.disk.base import Context, DiskIndex, Node, Plan, ResourceSet, SavedQuery
from sonde.stores.disk.filters import CONTENT, Condition, Filter, parse_filter, render_filter
from sonde.types import Caller

SAMPLE_SIZE = 10
"""Entries in the sample of a set."""
_MAX_NAME_CHARS = 200  # the most that the fields for names take; a filter may become one
_MAX_KNOWN_QUERIES = 1_000
"""Saved queries compared with a new one, so that the same filter is saved once."""
_MAX_RANKED_FILES = 200  # best answers of a search that a condition on contents takes
_MEMBERS_PER_READ = 1_000  # keeps memory small: a filter may match every node
_DUPLICATE = Condition("is", ":", "duplicate")


def find_set(disk: Disk, caller: Caller, handle: str) -> ResourceSet:
    """A resource set of this caller."""
    found = disk.saved.get(ResourceSet, handle, caller.user)
    if found is None:
        raise HandleUnknown(f"selection {handle!r}", what="resource set", handle=handle)
    return found


def describe_set(disk: Disk, found: ResourceSet) -> SetSummary:
    """A set with a sample of its entries."""
    tree = disk.tree(found.index)
    return SetSummary(found, tree.totals(found.id), tuple(tree.members(found.id, SAMPLE_SIZE)))


def list_sets(disk: Disk, caller: Caller, *, limit: int, cursor: str | None) -> Page[SetSummary]:
    """One page of the sets of a caller, newest first."""
    found = disk.saved.newest(ResourceSet, caller.user, limit + 1, disk.read_cursor(cursor, "sets"))
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
        parts = split_node(nodes[0])
        if parts is None:
            raise HandleUnknown(f"node {nodes[0]!r}", what="node", handle=nodes[0])
        index = parts[0]
    else:
        index = _find_current(disk, caller, session_id, "Name a node")
    made = _make_set(caller.user, find_index(disk, caller, index).id, name or "selection")
    numbers = _read_nodes(disk, made, nodes)
    disk.saved.put(made)
    disk.tree(made.index).add(made.id, numbers)
    return made


def _make_set(owner: str, index: str, name: str) -> ResourceSet:
    return ResourceSet(mint_handle(), owner, index, name, now_ms())


def change_set(
    disk: Disk,
    found: ResourceSet,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
    name: str | None = None,
) -> ResourceSet:
    """Rename a set, add and remove nodes: everything, or nothing if a node is unknown."""
    added = _read_nodes(disk, found, add)
    removed = [_number_of(found, node) for node in remove]
    tree = disk.tree(found.index)
    if added:
        tree.add(found.id, added)
    if removed:
        tree.discard(found.id, removed)
    if name:
        found = replace(found, name=name[:_MAX_NAME_CHARS])
        disk.saved.put(found)
    return found


def _read_nodes(disk: Disk, found: ResourceSet, nodes: Sequence[str]) -> list[int]:
    numbers = [_number_of(found, node) for node in nodes]
    tree = disk.tree(found.index)
    for number, handle in zip(numbers, nodes, strict=True):
        if tree.get(number) is None:
            raise HandleUnknown(f"node {handle!r}", what="node", handle=handle)
    return numbers


def _number_of(found: ResourceSet, handle: str) -> int:
    parts = split_node(handle)
    if parts is None or parts[0] != found.index:
        raise HandleUnknown(f"{handle!r} is no node of the set's index", what="node", handle=handle)
    return parts[1]


def combine_sets(
    disk: Disk, first: ResourceSet, how: base.Combination, second: ResourceSet, name: str
) -> ResourceSet:
    """A new set that combines two, leaving both unchanged."""
    if first.index != second.index:
        raise InvalidRequest(
            "sets of two indexes", user_message="Only sets of the same index can be combined."
        )
    title = name or f"{first.name} {how} {second.name}"
    made = _make_set(first.owner, first.index, title[:_MAX_NAME_CHARS])
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


def save_query(
    disk: Disk,
    caller: Caller,
    index: str,
    where: Filter,
    name: str | None = None,
    *,
    listed: bool = True,
) -> SavedQuery:
    """The query for this filter on an index, created if there is none. One that is `listed` has a
    name: the given one, or else its filter."""
    found = find_index(disk, caller, index)
    text = render_filter(where)
    known = disk.saved.newest(SavedQuery, caller.user, _MAX_KNOWN_QUERIES)
    same = [query for query in known if query.index == found.id and query.filter == text]
    for query in same:
        if name in (None, query.name) and (query.name or not listed):
            return query
    made = SavedQuery(mint_handle(), caller.user, found.id, "", text, now_ms())
    made = next((query for query in same if not query.name), made)
    if listed:
        made = replace(made, name=(name or made.title)[:_MAX_NAME_CHARS])
    disk.saved.put(made)
    return made


def save_session_query(
    disk: Disk,
    caller: Caller,
    text: str,
    name: str | None,
    index: str | None,
    session_id: str | None,
) -> SavedQuery:
    """The query for a filter on an index, by default that of the session; listed if named."""
    handle = index or _find_current(disk, caller, session_id, "Pass indexId")
    return save_query(disk, caller, handle, parse_filter(text), name, listed=bool(name))


def _find_current(disk: Disk, caller: Caller, session_id: str | None, otherwise: str) -> str:
    """The index that a session is in."""
    if index := find_shell_session(disk, caller, session_id).index:
        return index
    problem = f"{otherwise}, or cd into a scanned folder first."
    raise InvalidRequest("no index is current", user_message=problem)


def change_query(
    disk: Disk, query: SavedQuery, where: Filter | None = None, name: str | None = None
) -> SavedQuery:
    """The query with another name or filter; the set of the old filter stays."""
    text = query.filter if where is None else render_filter(where)
    changed = replace(query, filter=text, name=(name or query.name)[:_MAX_NAME_CHARS])
    if text != query.filter:
        changed = replace(changed, executed_ms=0, selection="")
    disk.saved.put(changed)
    return changed


def find_query(disk: Disk, caller: Caller, handle: str) -> SavedQuery:
    """A saved query of this caller."""
    found = disk.saved.get(SavedQuery, handle, caller.user)
    if found is None:
        raise HandleUnknown(f"query {handle!r}", what="query", handle=handle)
    return found


def list_queries(disk: Disk, caller: Caller, *, limit: int, cursor: str | None) -> Page[SavedQuery]:
    """One page of the saved queries, newest first."""
    found = disk.saved.newest(
        SavedQuery, caller.user, limit + 1, disk.read_cursor(cursor, "queries"), named=True
    )
    return disk.cut_page(found, limit, "queries", lambda row: [-row.created_ms, row.id])


def delete_query(disk: Disk, query: SavedQuery, work: Work, confirm: str | None) -> None:
    """Delete a saved query, after consent; the sets that it filled stay."""
    question = f"Forget the saved query '{query.title}'?"
    require_consent(disk.workspace, work, "delete_query", query.id, question, confirm)
    disk.saved.delete(SavedQuery, query.id, query.owner)


def run_query(disk: Disk, query: SavedQuery, work: Work) -> SetSummary:
    """Fill the query's resource set with the nodes that match now."""
    caller = work.caller
    index = find_index(disk, caller, query.index)
    where = parse_filter(query.filter)
    context = _gather_context(disk, index, where, work)
    made = disk.saved.get(ResourceSet, query.selection, caller.user) if query.selection else None
    if made is None:
        made = _make_set(caller.user, index.id, query.title[:_MAX_NAME_CHARS])
        disk.saved.put(made)
    disk.tree(index.id).select(made.id, where, context)
    disk.saved.put(replace(query, executed_ms=now_ms(), selection=made.id))
    return describe_set(disk, made)


def find_matches(
    disk: Disk, index: DiskIndex, where: Filter, limit: int, work: Work
) -> trees.NodeMatches:
    """The largest nodes that match a filter; nothing is saved."""
    tree, selection = disk.tree(index.id), mint_handle()
    tree.select(selection, where, _gather_context(disk, index, where, work))
    try:
        totals, after = tree.totals(selection), 0
        nodes: list[Node] = []
        while members := tree.members(selection, _MEMBERS_PER_READ, after):
            after = members[-1].id
            nodes += [member.node for member in members if member.node]
            nodes = sorted(nodes, key=lambda node: (-node.size, node.id))[:limit]
    finally:
        tree.discard(selection)
    paths = {node.id: show_tree_path(tree, node) for node in nodes}
    return trees.NodeMatches(index, totals, tuple(nodes), paths)


def explain_query(disk: Disk, query: SavedQuery) -> Plan:
    """The query plan of a filter, without searching contents."""
    return disk.tree(query.index).explain(parse_filter(query.filter), Context(now_ms()))


def _gather_context(disk: Disk, index: DiskIndex, where: Filter, work: Work) -> Context:
    """The inputs of a filter beyond metadata: files found by content, compared copies."""
    tests = list(dict.fromkeys(filters.list_conditions(where)))
    if _DUPLICATE in tests:
        compare_copies(disk, index).join(work)
    found = {test: _find_nodes(disk, index, test, work) for test in tests if test.field in CONTENT}
    return Context(now_ms(), found)


def _find_nodes(disk: Disk, index: DiskIndex, test: Condition, work: Work) -> Collection[int]:
    if test.field == "content":
        # a line scan of the files below the root needs no index of contents
        project = disk.workspace.projects.get(Path(index.root))
        lines = scan_project(project, LineScan(str(test.value)), work, max_count=1)
        paths = {project.tree.find_path(file.path) for file, _ in lines}
    else:
        paths = _search_ranked(disk, index, test, work)
    tree, root = disk.tree(index.id), Path(index.root)
    inside = (path.relative_to(root).parts for path in paths if path.is_relative_to(root))
    return {node.id for names in inside if (node := tree.find(names))}


def _search_ranked(disk: Disk, index: DiskIndex, test: Condition, work: Work) -> set[Path]:
    """Files among the best answers of the indexed projects below or above the root."""
    root, workspace, query = Path(index.root), disk.workspace, str(test.value)
    near = [
        place
        for place in known_roots(workspace)
        if place.is_relative_to(root) or root.is_relative_to(place)
    ]
    if not near:
        raise IndexNotFound(f"no project is indexed in {root}, below it or above it")
    paths: set[Path] = set()
    for place in near:
        under = root.relative_to(place).as_posix() if root.is_relative_to(place) else "."
        under = "" if under == "." else under
        request = Request("query_run", query, ("code", "docs"), _MAX_RANKED_FILES, test.field,
                          str(place), under)  # fmt: skip
        hits = rank_everywhere(workspace, request, read_question(query), work).hits
        tree = workspace.projects.get(place).tree
        paths |= {tree.find_path(hit.path) for hit in hits}
    return paths
