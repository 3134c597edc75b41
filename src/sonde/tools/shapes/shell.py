"""SHELL's answers field by field, the parameters and values they share, and jobs as JSON."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal, NotRequired, TypedDict, TypeVar

from sonde.disk.scope import measure_json, shorten_path, shorten_text
from sonde.paging.budget import fit_page
from sonde.policy.roots import show_path
from sonde.runtime.jobs import JobRecord
from sonde.stores.disk.base import Plan
from sonde.text.formats import format_bytes
from sonde.tools.schema import Param
from sonde.types import Caller, Json

MAX_ANSWER_BYTES = 4_000
"""The limit of one answer, as minified JSON."""
MAX_ENTRIES = 20
"""Entries that cd lists at most."""
LISTED = 10
"""Rows of a tool's list; the REST API takes a limit."""
_MAX_NAME_BYTES = 260  # file systems allow 255, and a few are escaped
_MAX_REPORT_BYTES = 1_500  # less than half of MAX_ANSWER_BYTES, whatever a job reports
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999: datetime has no others."""
_FILE_TYPES = {"file": stat.S_IFREG, "directory": stat.S_IFDIR, "symlink": stat.S_IFLNK}

T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A")
Size = int | str
"""Bytes, or a text in the units of a session."""
Answer = Mapping[str, object]
"""An answer that OpenAPI describes only as an object."""

SessionParam = Annotated[
    str | None,
    Param("sessionId of an answer; default: this connection's", max_length=64, terse=True),
]
FormatParam = Annotated[Literal["json", "explain"], Param("`explain` shows how it is made")]


class CdAnswer(TypedDict):
    """What cd answers."""

    sessionId: str
    cwd: str
    breadcrumb: list[Json]
    indexId: str
    entries: list[Json]
    nextPageUrl: str | None
    link: str
    state: NotRequired[str]
    scannedAt: NotRequired[str]
    stale: NotRequired[bool]


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
    report: NotRequired[Mapping[str, object]]
    indexUrl: NotRequired[str]
    reportsUrl: NotRequired[str]


class NodeAnswer(TypedDict):
    """What inspect answers."""

    nodeId: str | None
    path: str
    kind: str
    size: Size | None
    modifiedAt: str
    link: str
    permissions: NotRequired[str]
    digest: NotRequired[str]
    symlink: NotRequired[str]
    sizeOnDisk: NotRequired[Size]
    counts: NotRequired[Json]
    state: NotRequired[str]
    scannedAt: NotRequired[str]
    childrenUrl: NotRequired[str]
    previewUrl: NotRequired[str]
    downloadUrl: NotRequired[str]
    historyUrl: NotRequired[str]


class PreferencesAnswer(TypedDict):
    """What session_preferences answers."""

    sessionId: str
    units: str
    limit: int
    sort: str


def fit_bytes(
    rows: Sequence[T],
    write: Callable[[T], R],
    whole: Callable[[list[R]], A],
    max_bytes: int | None = MAX_ANSWER_BYTES,
) -> A:
    """The answer with as many of the first rows as fit into its bytes; None takes all."""
    return fit_page(
        rows, lambda row, _: write(row), whole, max_bytes, envelope=None, measure=measure_json
    )


def show_epoch(ms: int) -> str:
    """Epoch milliseconds as ISO 8601 in seconds, clamped to the years 1 to 9999."""
    seconds = min(max(ms // 1000, _FIRST_SECOND), _LAST_SECOND)
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def show_bytes(size: int, units: str) -> Size:
    """A size in the units that a session prefers."""
    return size if units == "bytes" else format_bytes(size, "si" if units == "si" else "iec")


def show_name(name: str) -> str:
    """A file name with its middle left out if it is very long."""
    return shorten_text(name, _MAX_NAME_BYTES)


def show_plan(plan: Plan) -> dict[str, object]:
    """How a store answers."""
    return {"sql": plan.sql, "parameters": plan.parameters, "plan": plan.steps}


def show_permissions(kind: str, mode: int) -> str:
    """Permissions as `ls -l` writes them."""
    return stat.filemode(_FILE_TYPES.get(kind, 0) | mode)


def show_scan(index: str, job: str, root: str, caller: Caller) -> ScanAnswer:
    """A scan that was started or stopped."""
    return {
        "jobId": job,
        "indexId": index,
        "statusUrl": caller.link(f"jobs/{job}"),
        "progressUrl": caller.link(f"jobs/{job}/progress"),
        "cwdHint": shorten_path(root),
    }


def show_job(record: JobRecord, caller: Caller) -> Json:
    """A JobHandle."""
    row: Json = {
        "jobId": record.id,
        "kind": record.kind,
        "status": record.status,
        "startedAt": show_epoch(record.started_ms),
    }
    if progress := _show_progress(record):
        row["progress"] = progress
    return row | {"statusUrl": caller.link(f"jobs/{record.id}")}


def _show_progress(record: JobRecord) -> Json:
    row: Json = {"stage": record.stage, "done": record.done}
    if record.total is not None:
        row["total"] = record.total
        row["progressPct"] = compute_percent(record)
    return row if record.done or record.status == "running" else {}


def compute_percent(record: JobRecord) -> float:
    """How much of a job is done, in percent; 100 only when it has ended."""
    if record.status == "done":
        return 100.0
    share = record.done / record.total if record.total else 0.0
    return round(min(share * 100, 99.9), 1)


def show_job_progress(record: JobRecord, caller: Caller, *, scanned: bool) -> ProgressAnswer:
    """The answer of job_progress; `scanned` says that the index of a scan is still there."""
    link = caller.link(f"jobs/{record.id}")
    answer: ProgressAnswer = {"status": record.status, "statusUrl": link}
    if record.total is not None or record.status == "done":
        answer["progressPct"] = compute_percent(record)
    if record.eta_s is not None and record.status == "running":
        answer["eta"] = round(record.eta_s)
    if record.kind == "scan":
        answer["indexId"] = record.subject
    report: Json = {}
    for name, value in (record.error or record.report or {}).items():
        if measure_json({**report, name: value}) <= _MAX_REPORT_BYTES:
            report[name] = value
    if not report and record.status != "done":
        report = _show_progress(record)
    if report:
        answer["report"] = report
    if scanned:
        answer["indexUrl"] = caller.link(f"indexes/{record.subject}")
        answer["reportsUrl"] = caller.link(f"indexes/{record.subject}/reports")
    return answer


def show_job_detail(record: JobRecord, caller: Caller, *, scanned: bool) -> Json:
    """A job with its whole report."""
    answer = show_job(record, caller) | dict(show_job_progress(record, caller, scanned=scanned))
    answer["subject"] = show_path(record.subject)
    if record.finished_ms:
        answer["finishedAt"] = show_epoch(record.finished_ms)
    if record.report:
        answer["report"] = dict(record.report)
    if record.error:
        answer["error"] = dict(record.error)
    return answer
