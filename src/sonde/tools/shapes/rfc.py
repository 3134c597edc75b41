"""The RFC's answers, field by field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from sonde.searching.lines.grep import LineRow
from sonde.text.formats import format_bytes, format_seconds
from sonde.types import HitRow, IndexReport, IndexStatus, Json, ProjectSummary, StoreCounts


class SearchMetadata(TypedDict):
    """How far a ranking can be trusted."""

    freshness: NotRequired[str]
    note: NotRequired[str]


class SearchAnswer(TypedDict):
    """What search_code and search_docs answer."""

    results: list[HitRow]
    totalResults: int
    searchTimeMs: int
    metadata: SearchMetadata
    truncated: NotRequired[bool]
    nextCursor: NotRequired[str]


class PathAnswer(TypedDict):
    """What search_by_path answers."""

    matches: list[str]
    totalMatches: int


class GrepAnswer(TypedDict):
    """Matching lines."""

    matches: list[LineRow]
    totalMatches: int
    files: int
    truncated: bool


class CortexAnswer(TypedDict):
    """What cortex_search answers."""

    results: list[dict[str, Any]]
    total: int
    truncated: NotRequired[bool]
    nextCursor: NotRequired[str]
    note: NotRequired[str]


class IndexAnswer(TypedDict):
    """What create_index and reindex_project answer."""

    status: str
    projectPath: str
    filesIndexed: int
    chunksCreated: int
    duration: str
    message: NotRequired[str]
    skipped: NotRequired[dict[str, int]]


class FileAnswer(TypedDict):
    """What reindex_file answers."""

    status: str
    path: str
    chunksCreated: int
    message: str


class StatusExtras(TypedDict, total=False):
    """Details that are given only where they apply."""

    otherModel: str
    withoutGrammar: dict[str, int]
    integrity: Json
    progress: dict[str, str | int]
    lastError: Json
    skipped: dict[str, int]
    skippedExamples: list[Mapping[str, str]]
    warnings: list[str]


class StatusDetails(StatusExtras):
    """Everything about an index beyond the RFC's fields."""

    store: str
    docs: dict[str, int]
    vectors: dict[str, str]
    following: Json


class StatusAnswer(TypedDict):
    """What get_index_status answers."""

    status: str
    projectPath: str
    totalFiles: int
    totalChunks: int
    lastUpdated: str | None
    storageSize: str
    watcherActive: bool
    details: StatusDetails


class DeleteAnswer(TypedDict):
    """What delete_index answers."""

    status: str
    projectPath: str
    message: str


class ProjectRow(TypedDict):
    """One project of list_projects."""

    projectPath: str
    status: str
    totalFiles: int
    totalChunks: int
    lastUpdated: str | None
    storageSize: str


class ProjectsAnswer(TypedDict):
    """What list_projects answers."""

    projects: list[ProjectRow]
    totalProjects: int


def show_metadata(freshness: str, note: str) -> SearchMetadata:
    """What is known; nothing on further pages."""
    metadata: SearchMetadata = {}
    if freshness:
        metadata["freshness"] = freshness
    if note:
        metadata["note"] = note
    return metadata


def show_report(root: Path, counts: Iterable[StoreCounts], report: IndexReport) -> IndexAnswer:
    """The outcome of indexing, and what the index holds now."""
    held = list(counts)
    answer: IndexAnswer = {
        "status": "success",
        "projectPath": str(root),
        "filesIndexed": sum(count.files for count in held),
        "chunksCreated": sum(count.chunks for count in held),
        "duration": show_duration(report.seconds),
    }
    if report.skipped:
        answer["skipped"] = report.skipped
    return answer


def show_index_status(status: IndexStatus) -> StatusAnswer:
    """The status of an index; details that do not apply are left out."""
    extras: StatusExtras = {}
    if status.model_note:
        extras["otherModel"] = status.model_note
    if status.plain_languages:
        extras["withoutGrammar"] = dict(status.plain_languages)
    if status.checks:
        extras["integrity"] = status.checks
    if status.progress:
        extras["progress"] = {"stage": status.progress.stage, "done": status.progress.done}
        if status.progress.total:
            extras["progress"]["total"] = status.progress.total
    if status.last_error:
        extras["lastError"] = status.last_error
    if status.skipped:
        extras["skipped"] = dict(status.skipped)
        extras["skippedExamples"] = list(status.skipped_examples)
    if status.warnings:
        extras["warnings"] = list(status.warnings)
    return {
        "status": status.state,
        "projectPath": status.root,
        "totalFiles": status.code.files + status.docs.files,
        "totalChunks": status.code.chunks + status.docs.chunks,
        "lastUpdated": status.last_updated,
        "storageSize": format_size(status.size),
        "watcherActive": status.is_watched,
        "details": {
            "store": status.store,
            "docs": {"totalDocs": status.docs.files, "totalDocChunks": status.docs.chunks},
            "vectors": {
                model: f"{have}/{total}" for model, (have, total) in status.coverage.items()
            },
            **extras,
            "following": status.following,
        },
    }


def show_summary(summary: ProjectSummary) -> ProjectRow:
    """One row of list_projects."""
    return {
        "projectPath": summary.root,
        "status": summary.state,
        "totalFiles": summary.files,
        "totalChunks": summary.chunks,
        "lastUpdated": summary.last_updated,
        "storageSize": format_size(summary.size),
    }


def format_size(size: int) -> str:
    """Bytes as the RFC writes them (`45MB`)."""
    return format_bytes(size, "compact")


def show_duration(seconds: float) -> str:
    """Seconds as the RFC writes them (`45s`)."""
    return format_seconds(seconds, minutes=False)
