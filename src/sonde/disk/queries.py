"""Saved queries: named filters, the resource sets they fill, and their conditions on contents."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from sonde.disk.reports import compare_copies
from sonde.disk.scope import find_index, find_shell_session, show_tree_path
from sonde.disk.sets import NodeMatches, SetDetail, describe_set, open_query_set
from sonde.disk.trees import Disk, Page
from sonde.errors import HandleUnknown, IndexNotFound, InvalidRequest
from sonde.projects.find import known_roots, require_consent
from sonde.projects.lines import LineScan, scan_project
from sonde.projects.project import Project
from sonde.projects.search import Request, rank_everywhere
from sonde.ranking.question import read_question
from sonde.runtime.jobs import mint_handle
from sonde.runtime.work import Work
from sonde.stores.disk.base import Context, DiskIndex, Node, Plan, SavedQuery
from sonde.stores.disk.filters import (
    CONTENT,
    Condition,
    Filter,
    list_conditions,
    parse_filter,
    render_filter,
)
from sonde.types import Caller

_MAX_NAME_CHARS = 200
_MAX_KNOWN_QUERIES = 1_000
"""Saved queries compared with a new one, so that the same filter is saved once."""
_MAX_RANKED_FILES = 200
"""Best answers of a search that a condition on contents takes."""
_MEMBERS_PER_READ = 1_000
_DUPLICATE = Condition("is", ":", "duplicate")


def save_query(
    disk: Disk, caller: Caller, index: str, where: Filter, name: str | None = None
) -> SavedQuery:
    """The saved query for this filter on an index, created if there is none."""
    found = find_index(disk, caller, index)
    text = render_filter(where)
    for query in disk.saved.newest(SavedQuery, caller.user, _MAX_KNOWN_QUERIES):
        if query.index == found.id and query.filter == text and name in (None, query.name):
            return query
    title = (name or text or "everything")[:_MAX_NAME_CHARS]
    query = SavedQuery(mint_handle(), caller.user, found.id, title, text, disk.clock_ms())
    disk.saved.put(query)
    return query


def save_session_query(
    disk: Disk,
    caller: Caller,
    text: str,
    name: str | None,
    index: str | None,
    session_id: str | None,
) -> SavedQuery:
    """The saved query for a filter on an index, by default that of the session."""
    handle = index or find_shell_session(disk, caller, session_id).index
    if not handle:
        raise InvalidRequest(
            "no index is current", user_message="Pass indexId, or cd into a scanned folder."
        )
    return save_query(disk, caller, handle, parse_filter(text), name)


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
    after = disk.read_cursor(cursor, "queries")
    key = (after[0], after[1]) if after else None
    found = disk.saved.newest(SavedQuery, caller.user, limit + 1, key)
    return disk.cut_page(found, limit, "queries", lambda row: [-row.created_ms, row.id])


def delete_query(disk: Disk, query: SavedQuery, work: Work, confirm: str | None) -> None:
    """Delete a saved query, after consent; the sets that it filled stay."""
    question = f"Forget the saved query '{query.name}'?"
    require_consent(disk.workspace, work, "delete_query", query.id, question, confirm)
    disk.saved.delete(SavedQuery, query.id, query.owner)


def run_query(disk: Disk, query: SavedQuery, work: Work) -> SetDetail:
    """Fill the query's resource set with the nodes that match now."""
    caller = work.caller
    index = find_index(disk, caller, query.index)
    where = parse_filter(query.filter)
    context = _gather_context(disk, index, where, work)
    made = open_query_set(disk, caller.user, index.id, query.selection, query.name)
    disk.tree(index.id).select(made.id, where, context)
    disk.saved.put(replace(query, executed_ms=disk.clock_ms(), selection=made.id))
    return describe_set(disk, made)


def find_matches(
    disk: Disk, index: DiskIndex, where: Filter, limit: int, work: Work
) -> NodeMatches:
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
    return NodeMatches(index, totals, tuple(nodes), paths)


def explain_query(disk: Disk, query: SavedQuery) -> Plan:
    """How a filter is answered; contents are not searched for it."""
    return disk.tree(query.index).explain(parse_filter(query.filter), Context(disk.clock_ms()))


def _gather_context(disk: Disk, index: DiskIndex, where: Filter, work: Work) -> Context:
    """What a filter needs beyond metadata: files found by content, compared copies."""
    tests = list(dict.fromkeys(list_conditions(where)))
    if _DUPLICATE in tests:
        compare_copies(disk, index).join(work)
    found = {test: _find_nodes(disk, index, test, work) for test in tests if test.field in CONTENT}
    return Context(disk.clock_ms(), found)


def _find_nodes(disk: Disk, index: DiskIndex, test: Condition, work: Work) -> Collection[int]:
    """Nodes of the files that a condition on contents finds."""
    query = str(test.value)
    if test.field == "content":
        paths = _search_lines(disk, index, query, work)
    else:
        paths = _search_ranked(disk, index, test.field, query, work)
    tree, root, nodes = disk.tree(index.id), Path(index.root), set()
    for path in paths:
        node = tree.find(path.relative_to(root).parts) if path.is_relative_to(root) else None
        if node:
            nodes.add(node.id)
    return nodes


def _search_lines(disk: Disk, index: DiskIndex, pattern: str, work: Work) -> set[Path]:
    """Files below the root with a matching line; needs no index of contents."""
    project = disk.workspace.projects.get(Path(index.root))
    lines = scan_project(project, LineScan(pattern), work, max_count=1)
    return {_resolve_hit(project, file.path) for file, _ in lines}


def _search_ranked(disk: Disk, index: DiskIndex, mode: str, query: str, work: Work) -> set[Path]:
    """Files among the best answers of the indexed projects below or above the root."""
    root, workspace = Path(index.root), disk.workspace
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
        request = Request(
            tool="query_run",
            query=query,
            kinds=("code", "docs"),
            top_k=_MAX_RANKED_FILES,
            mode=mode,
            project=str(place),
            under="" if under == "." else under,
        )
        hits = rank_everywhere(workspace, request, read_question(query), work).hits
        project = workspace.projects.get(place)
        paths |= {_resolve_hit(project, hit.path) for hit in hits}
    return paths


def _resolve_hit(project: Project, path: str) -> Path:
    source = next(s for s in project.tree.sources if path.startswith(s.prefix))
    return source.root / path.removeprefix(source.prefix)
