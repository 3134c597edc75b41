"""Resource sets and saved queries as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict, TypeVar

from sonde.disk.scope import shorten_text
from sonde.disk.trees import Page, SetEntries, SetSummary, join_node
from sonde.stores.disk.base import Member, SavedQuery
from sonde.stores.disk.filters import KINDS
from sonde.tools.shapes import shell
from sonde.types import Caller, Json

_MAX_TITLE_BYTES = 120  # with a filter, 2,800 of MAX_ANSWER_BYTES for LISTED queries
_MAX_FILTER_BYTES = 160  # tells filters apart; `link` leads to the whole

T = TypeVar("T")


class SetAnswer(TypedDict):
    """What resource_set_ops answers."""

    selectionId: NotRequired[str]
    name: NotRequired[str]
    indexId: NotRequired[str]
    counts: NotRequired[dict[str, int]]
    totalSize: NotRequired[shell.Size]
    entriesUrl: NotRequired[str]
    link: NotRequired[str]
    sample: NotRequired[list[Json]]
    sets: NotRequired[list[Json]]
    nextPageUrl: NotRequired[str | None]
    status: NotRequired[str]


class RunAnswer(TypedDict):
    """What query_run answers."""

    queryId: str
    selectionId: str
    sampleUrl: str
    link: str
    report: Mapping[str, object]


class QueriesAnswer(TypedDict):
    """What query_list answers."""

    queries: list[Json]
    nextPageUrl: str | None


class QueryAnswer(TypedDict):
    """What query_get answers."""

    queryId: str
    name: str
    filterSummary: str
    lastExecutedAt: str | None
    runUrl: str
    link: str
    indexId: NotRequired[str]
    explainUrl: NotRequired[str]
    selectionId: NotRequired[str]


def _show_set(found: SetSummary, caller: Caller, units: str) -> SetAnswer:
    totals = found.totals
    counts = {"entries": totals.entries, "files": totals.files, "folders": totals.folders}
    if totals.stale:
        counts["stale"] = totals.stale
    return {
        "selectionId": found.set.id,
        "name": shorten_text(found.set.name, _MAX_TITLE_BYTES),
        "indexId": found.set.index,
        "counts": counts,
        "totalSize": shell.show_bytes(totals.size, units),
        "entriesUrl": caller.link(f"resource-sets/{found.set.id}/entries"),
        "link": caller.link(f"resource-sets/{found.set.id}"),
    }


def show_set_detail(found: SetSummary, caller: Caller, units: str = "bytes") -> SetAnswer:
    """A set with a sample of its entries."""
    card, index = _show_set(found, caller, units), found.set.index

    def whole(rows: list[Json]) -> SetAnswer:
        return card | {"sample": rows}

    return shell.fit_bytes(found.sample, lambda row: _show_member(index, row, caller, units), whole)


def show_set_list(page: Page[SetSummary], caller: Caller, units: str, *, limit: int) -> SetAnswer:
    """One page of resource sets; a short one fits into a context window."""

    def whole(rows: list[Json]) -> SetAnswer:
        return {"sets": rows, "nextPageUrl": _link_rest(page, "resource-sets", rows, caller)}

    max_bytes = shell.MAX_ANSWER_BYTES if limit <= shell.LISTED else None
    return shell.fit_bytes(
        page.rows, lambda row: dict(_show_set(row, caller, units)), whole, max_bytes
    )


def _link_rest(page: Page[T], address: str, rows: list[Json], caller: Caller) -> str | None:
    """The address of the rows that did not fit, and of the next pages."""
    cursor = page.take(len(rows)).cursor
    return caller.link(f"{address}?limit=50&cursor={cursor}") if cursor else None


def _show_member(index: str, member: Member, caller: Caller, units: str = "bytes") -> Json:
    handle = join_node(index, member.id)
    row: Json = {
        "nodeId": handle,
        "name": shell.show_name(member.name),
        "size": shell.show_bytes(member.size, units),
    }
    if member.stale:
        row["stale"] = member.stale
    if member.node:
        row["link"] = caller.link(f"indexes/{index}/nodes/{handle}/detail")
    return row


def show_entries(entries: SetEntries, caller: Caller) -> shell.Answer:
    """One page of the entries of a set."""
    found, page = entries.set, entries.page
    rows = []
    for member in page.rows:
        row = _show_member(found.index, member, caller)
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


def _show_query(query: SavedQuery, caller: Caller) -> Json:
    return {
        "queryId": query.id,
        "name": shorten_text(query.title, _MAX_TITLE_BYTES),
        "filterSummary": shorten_text(query.filter, _MAX_FILTER_BYTES),
        "lastExecutedAt": shell.show_epoch(query.executed_ms) if query.executed_ms else None,
        "runUrl": caller.link(f"queries/{query.id}/run"),
        "link": caller.link(f"queries/{query.id}"),
    }


def show_query_list(page: Page[SavedQuery], caller: Caller, *, limit: int) -> QueriesAnswer:
    """One page of saved queries; a short one fits into a context window."""

    def whole(rows: list[Json]) -> QueriesAnswer:
        return {"queries": rows, "nextPageUrl": _link_rest(page, "queries", rows, caller)}

    max_bytes = shell.MAX_ANSWER_BYTES if limit <= shell.LISTED else None
    return shell.fit_bytes(page.rows, lambda row: _show_query(row, caller), whole, max_bytes)


def show_query_detail(query: SavedQuery, caller: Caller) -> QueryAnswer:
    """A SavedQuery with its links."""
    answer: QueryAnswer = {
        **_show_query(query, caller),  # type: ignore[typeddict-item]
        "indexId": query.index,
        "explainUrl": caller.link(f"queries/{query.id}?format=explain"),
    }
    if query.selection:
        answer["selectionId"] = query.selection
    return answer


def show_run(query: str, found: SetSummary, caller: Caller) -> RunAnswer:
    """The answer of query_run."""
    made, totals = found.set, found.totals

    def whole(rows: list[Json]) -> RunAnswer:
        return {
            "queryId": query,
            "selectionId": made.id,
            "sampleUrl": caller.link(f"resource-sets/{made.id}/entries?limit=10"),
            "link": caller.link(f"queries/{query}/run"),
            "report": {
                "matches": totals.entries,
                "files": totals.files,
                "folders": totals.folders,
                "totalSize": totals.size,
                "sample": rows,
                "reportsUrl": caller.link(f"indexes/{made.index}/reports"),
            },
        }

    return shell.fit_bytes(found.sample, lambda row: _show_member(made.index, row, caller), whole)
