"""The RFC's answers, field by field."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from sonde.text.sizes import format_bytes
from sonde.text.times import format_seconds
from sonde.types import Hit


class SearchAnswer(TypedDict):
    """What search_code and search_docs answer."""

    results: list[dict[str, Any]]
    totalResults: int
    searchTimeMs: int
    metadata: dict[str, Any]
    truncated: NotRequired[bool]
    nextCursor: NotRequired[str]


class PathAnswer(TypedDict):
    """What search_by_path answers."""

    matches: list[str]
    totalMatches: int


class GrepAnswer(TypedDict):
    """Matching lines."""

    matches: list[dict[str, Any]]
    totalMatches: int
    files: int
    truncated: bool


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


class StatusAnswer(TypedDict):
    """What get_index_status answers."""

    status: str
    projectPath: str
    totalFiles: int
    totalChunks: int
    lastUpdated: str | None
    storageSize: str
    watcherActive: bool
    details: dict[str, Any]


class DeleteAnswer(TypedDict):
    """What delete_index answers."""

    status: str
    projectPath: str
    message: str


class ProjectsAnswer(TypedDict):
    """What list_projects answers."""

    projects: list[dict[str, Any]]
    totalProjects: int


def show_hit(hit: Hit, *, explain: bool, name_project: bool) -> dict[str, Any]:
    """One result; the RFC's five fields first."""
    row: dict[str, Any] = {
        "path": hit.path,
        "text": hit.text,
        "score": round(hit.score, 4),
        "startLine": hit.span.start_line,
        "endLine": hit.span.end_line,
    }
    if hit.symbol:
        row["symbol"] = hit.symbol
    if name_project:
        row["project"] = hit.project
    if hit.stale:
        row["stale"] = True
    if explain:
        row["scoreType"] = hit.score_type
        row["why"] = dict(hit.why)
    return row


def format_size(size: int) -> str:
    """Bytes as the RFC writes them (`45MB`)."""
    return format_bytes(size, "compact")


def show_duration(seconds: float) -> str:
    """Seconds as the RFC writes them (`45s`)."""
    return format_seconds(seconds, minutes=False)
