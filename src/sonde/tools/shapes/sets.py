"""Resource sets and saved queries as JSON."""

from __future__ import annotations

from sonde.disk.scope import shorten_text
from sonde.disk.trees import NodeMatches, Page, SetDetail, SetEntries, SetSummary, join_node
from sonde.stores.disk.base import Member, SavedQuery
from sonde.stores.disk.filters import KINDS
from sonde.tools.shapes.nodes import show_node_row
from sonde.tools.shapes.shell import (
    LISTED,
    MAX_ANSWER_BYTES,
    Answer,
    MemberRow,
    QueriesAnswer,
    QueryAnswer,
    QueryCard,
    RunAnswer,
    SetAnswer,
    SetCard,
    fit_bytes,
    show_bytes,
    show_epoch,
    show_name,
)
from sonde.types import Caller, Json

_MAX_TITLE_BYTES = 120
_MAX_FILTER_BYTES = 160


def _show_set(found: SetSummary, caller: Caller, units: str) -> SetCard:
    totals = found.totals
    counts = {"entries": totals.entries, "files": totals.files, "folders": totals.folders}
    if totals.stale:
        counts["stale"] = totals.stale
    return {
        "selectionId": found.set.id,
        "name": shorten_text(found.set.name, _MAX_TITLE_BYTES),
        "indexId": found.set.index,
        "counts": counts,
        "totalSize": show_bytes(totals.size, units),
        "entriesUrl": caller.link(f"resource-sets/{found.set.id}/entries"),
    }


def show_set_detail(found: SetDetail, caller: Caller, units: str = "bytes") -> SetAnswer:
    """A set with a sample of its entries."""
    card = _show_set(found, caller, units)

    def whole(rows: list[MemberRow]) -> SetAnswer:
        return {**card, "sample": rows}  # type: ignore[typeddict-item]

    index = found.set.index
    return fit_bytes(found.sample, lambda row: show_member(index, row, caller, units), whole)


def show_set_list(page: Page[SetSummary], caller: Caller, units: str, *, limit: int) -> SetAnswer:
    """One page of resource sets; a short one fits into a context window."""

    def whole(rows: list[SetCard]) -> SetAnswer:
        cursor = page.take(len(rows)).cursor
        address = f"resource-sets?limit=50&cursor={cursor}"
        return {"sets": rows, "nextPageUrl": caller.link(address) if cursor else None}

    max_bytes = MAX_ANSWER_BYTES if limit <= LISTED else None
    return fit_bytes(page.rows, lambda row: _show_set(row, caller, units), whole, max_bytes)


def show_member(index: str, member: Member, caller: Caller, units: str = "bytes") -> MemberRow:
    """An entry of a set."""
    handle = join_node(index, member.id)
    row: MemberRow = {
        "nodeId": handle,
        "name": show_name(member.name),
        "size": show_bytes(member.size, units),
    }
    if member.stale:
        row["stale"] = member.stale
    if member.node:
        row["link"] = caller.link(f"indexes/{index}/nodes/{handle}/detail")
    return row


def show_entries(entries: SetEntries, caller: Caller) -> Answer:
    """One page of the entries of a set."""
    found, page = entries.set, entries.page
    rows = []
    for member in page.rows:
        row = show_member(found.index, member, caller)
        if member.node:
            row["path"] = entries.paths[member.id]
            row["kind"] = KINDS[member.node.kind]
        rows.append(row)
    address = f"resource-sets/{found.id}/entries?limit={entries.limit}&cursor={page.cursor}"
    return {
        "selectionId": found.id,
        "entries": rows,
        "nextPageUrl": caller.link(address) if page.cursor else None,
    }


def show_saved_query(query: SavedQuery, caller: Caller) -> QueryCard:
    """A SavedQuery."""
    return {
        "queryId": query.id,
        "name": shorten_text(query.name, _MAX_TITLE_BYTES),
        "filterSummary": shorten_text(query.filter, _MAX_FILTER_BYTES),
        "lastExecutedAt": show_epoch(query.executed_ms) if query.executed_ms else None,
        "runUrl": caller.link(f"queries/{query.id}/run"),
    }


def show_query_list(page: Page[SavedQuery], caller: Caller, *, limit: int) -> QueriesAnswer:
    """One page of saved queries; a short one fits into a context window."""

    def whole(rows: list[QueryCard]) -> QueriesAnswer:
        cursor = page.take(len(rows)).cursor
        address = f"queries?limit=50&cursor={cursor}"
        return {"queries": rows, "nextPageUrl": caller.link(address) if cursor else None}

    max_bytes = MAX_ANSWER_BYTES if limit <= LISTED else None
    return fit_bytes(page.rows, lambda row: show_saved_query(row, caller), whole, max_bytes)


def show_query_detail(query: SavedQuery, caller: Caller) -> QueryAnswer:
    """A SavedQuery with its links."""
    address = f"queries/{query.id}"
    card = show_saved_query(query, caller)
    answer: QueryAnswer = {
        **card,  # type: ignore[typeddict-item]
        "indexId": query.index,
        "link": caller.link(address),
        "explainUrl": caller.link(f"{address}?format=explain"),
    }
    if query.selection:
        answer["selectionId"] = query.selection
    return answer


def show_run(query: str, found: SetDetail, caller: Caller) -> RunAnswer:
    """The answer of query_run."""
    made, totals = found.set, found.totals

    def whole(rows: list[MemberRow]) -> RunAnswer:
        return {
            "queryId": query,
            "selectionId": made.id,
            "sampleUrl": caller.link(f"resource-sets/{made.id}/entries?limit=10"),
            "report": {
                "matches": totals.entries,
                "files": totals.files,
                "folders": totals.folders,
                "totalSize": totals.size,
                "sample": rows,
            },
        }

    return fit_bytes(found.sample, lambda row: show_member(made.index, row, caller), whole)


def show_matches(found: NodeMatches, caller: Caller) -> Json:
    """The largest nodes that match a filter."""
    rows = [
        {**show_node_row(found.index.id, node, caller), "path": found.paths[node.id]}
        for node in found.nodes
    ]
    return {"matches": found.totals.entries, "totalSize": found.totals.size, "entries": rows}
