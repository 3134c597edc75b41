"""SHELL's answers, field by field, each small enough for a context window."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NotRequired, TypedDict, TypeVar

from sonde.policy.roots import show_path
from sonde.runtime.jobs import join_node
from sonde.stores.disk.base import (
    FOLDER,
    KINDS,
    LINK,
    OK,
    STATES,
    Node,
    ResourceSet,
    SavedQuery,
    Totals,
)
from sonde.text.sizes import format_bytes
from sonde.types import Caller, JobRecord

MOST_BYTES = 4_000
"""Of one answer, as minified JSON."""
MOST_ENTRIES = 20
MOST_SAMPLE = 10
_LONGEST_NAME = 260
_LONGEST_PATH = 700

T = TypeVar("T")
A = TypeVar("A")


class CdAnswer(TypedDict):
    """What cd answers."""

    sessionId: str
    cwd: str
    breadcrumb: list[dict[str, Any]]
    indexId: str
    entries: list[dict[str, Any]]
    nextPageUrl: str | None
    state: NotRequired[str]


class ScanAnswer(TypedDict):
    """What index answers."""

    jobId: str
    indexId: str
    statusUrl: str
    progressUrl: str
    cwdHint: str


class ProgressAnswer(TypedDict):
    """What job_progress answers."""

    status: str
    statusUrl: str
    progressPct: NotRequired[float]
    eta: NotRequired[int]
    indexId: NotRequired[str]
    report: NotRequired[dict[str, Any]]


class NodeAnswer(TypedDict):
    """What inspect answers."""

    nodeId: str | None
    path: str
    kind: str
    size: Any
    modifiedAt: str
    link: str
    permissions: NotRequired[str]
    digest: NotRequired[str]
    symlink: NotRequired[str]
    sizeOnDisk: NotRequired[Any]
    counts: NotRequired[dict[str, Any]]
    state: NotRequired[str]
    childrenUrl: NotRequired[str]
    previewUrl: NotRequired[str]
    downloadUrl: NotRequired[str]
    historyUrl: NotRequired[str]


class SetAnswer(TypedDict):
    """What resource_set_ops answers."""

    selectionId: NotRequired[str]
    name: NotRequired[str]
    indexId: NotRequired[str]
    counts: NotRequired[dict[str, int]]
    totalSize: NotRequired[Any]
    entriesUrl: NotRequired[str]
    sample: NotRequired[list[dict[str, Any]]]
    sets: NotRequired[list[dict[str, Any]]]
    nextPageUrl: NotRequired[str | None]
    status: NotRequired[str]


class RunAnswer(TypedDict):
    """What query_run answers."""

    queryId: str
    selectionId: str
    sampleUrl: str
    report: dict[str, Any]


class QueriesAnswer(TypedDict):
    """What query_list answers."""

    queries: list[dict[str, Any]]
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


class PreferencesAnswer(TypedDict):
    """What session_preferences answers."""

    sessionId: str
    units: str
    limit: int
    sort: str


def measure_answer(answer: Any) -> int:
    """Bytes of an answer as minified JSON."""
    text = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode("utf-8", "surrogatepass"))


def fit_rows(rows: Sequence[T], shape: Callable[[Sequence[T]], A], most: int = MOST_BYTES) -> A:
    """The answer with as many rows as fit."""
    answer = shape(rows)
    size = measure_answer(answer)
    while size > most and rows:
        # a row is taken for as large as the average of what is over
        rows = rows[: max(len(rows) - max((size - most) * len(rows) // (2 * size), 1), 0)]
        answer = shape(rows)
        size = measure_answer(answer)
    return answer


def shorten_text(text: str, most: int) -> str:
    """The text with its middle left out where it is longer than so many bytes in JSON."""
    shown = show_path(text)
    if len(shown) * 6 <= most or measure_answer(shown) - 2 <= most:
        return shown
    keep = len(shown)
    while measure_answer(shown[: keep // 2] + "…" + shown[len(shown) - keep // 2 :]) - 2 > most:
        keep = keep * 3 // 4
    return shown[: keep // 2] + "…" + shown[len(shown) - keep // 2 :]


def show_epoch(ms: int) -> str:
    """Epoch milliseconds as ISO 8601 in seconds; times that no calendar has as its ends."""
    seconds = min(max(ms // 1000, -62_135_596_800), 253_402_300_799)
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def show_bytes(size: int, units: str) -> Any:
    """A size in the units that a session prefers."""
    if units == "bytes":
        return size
    return format_bytes(size, "si" if units == "si" else "iec")


def show_counts(node: Node) -> dict[str, int]:
    """What is in a folder: directly, and at any depth."""
    return {"children": node.children, "files": node.files, "folders": node.folders}


def has_children(node: Node) -> bool:
    """Whether a node can be listed: a folder, or a link that was followed into one."""
    return node.kind == FOLDER or (node.kind == LINK and node.state == OK and node.children > 0)


def show_listing_entry(
    index: str, node: Node, caller: Caller, units: str = "bytes"
) -> dict[str, Any]:
    """A ListingEntry."""
    handle = join_node(index, node.id)
    row: dict[str, Any] = {
        "nodeId": handle,
        "name": shorten_text(node.name, _LONGEST_NAME),
        "kind": KINDS[node.kind],
        "size": show_bytes(node.size, units),
    }
    if has_children(node):
        row["counts"] = show_counts(node)
    row["modifiedAt"] = show_epoch(node.mtime_ms)
    if node.state != OK:
        row["state"] = STATES[node.state]
    return row | {"link": caller.link(f"indexes/{index}/nodes/{handle}")}


def show_breadcrumb(index: str, trail: Sequence[Node], root: str) -> list[dict[str, Any]]:
    """The way from the root; of a long one the ends."""
    crumbs = [
        {
            "nodeId": join_node(index, node.id),
            "name": shorten_text(node.name if node.parent else root.rpartition("/")[2] or root, 80),
        }
        for node in trail
    ]
    return crumbs if len(crumbs) <= 8 else [*crumbs[:2], {"name": "…"}, *crumbs[-5:]]


def show_path_of(path: str) -> str:
    """A whole path, its middle left out where it is very long."""
    return shorten_text(path, _LONGEST_PATH)


def show_job(record: JobRecord, caller: Caller) -> dict[str, Any]:
    """A JobHandle."""
    row: dict[str, Any] = {
        "jobId": record.id,
        "kind": record.kind,
        "status": record.status,
        "startedAt": show_epoch(record.started_ms),
    }
    progress = show_progress(record)
    if progress:
        row["progress"] = progress
    return row | {"statusUrl": caller.link(f"jobs/{record.id}")}


def show_progress(record: JobRecord) -> dict[str, Any]:
    """How far a job is, in counts."""
    row: dict[str, Any] = {"stage": record.stage, "done": record.done}
    if record.total is not None:
        row["total"] = record.total
        row["progressPct"] = percent(record)
    return row if record.done or record.status == "running" else {}


def percent(record: JobRecord) -> float:
    """How much of a job is done; whole only when it has ended."""
    if record.status == "done":
        return 100.0
    share = record.done / record.total if record.total else 0.0
    return round(min(share * 100, 99.9), 1)


def show_set(found: ResourceSet, totals: Totals, caller: Caller, units: str) -> dict[str, Any]:
    """A ResourceSet."""
    counts = {"entries": totals.entries, "files": totals.files, "folders": totals.folders}
    if totals.stale:
        counts["stale"] = totals.stale
    return {
        "selectionId": found.id,
        "name": shorten_text(found.name, 120),
        "indexId": found.index,
        "counts": counts,
        "totalSize": show_bytes(totals.size, units),
        "entriesUrl": caller.link(f"resource-sets/{found.id}/entries"),
    }


def show_saved_query(query: SavedQuery, caller: Caller) -> dict[str, Any]:
    """A SavedQuery."""
    return {
        "queryId": query.id,
        "name": shorten_text(query.name, 120),
        "filterSummary": shorten_text(query.filter, 160),
        "lastExecutedAt": show_epoch(query.executed_ms) if query.executed_ms else None,
        "runUrl": caller.link(f"queries/{query.id}/run"),
    }


def cut_mapping(report: Mapping[str, Any] | None, most: int = 1_500) -> dict[str, Any]:
    """A small slice of a report: whole entries, as many as fit."""
    kept: dict[str, Any] = {}
    for name, value in (report or {}).items():
        if measure_answer({**kept, name: value}) > most:
            continue
        kept[name] = value
    return kept
