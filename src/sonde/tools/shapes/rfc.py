"""The RFC's answers, field by field."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from sonde.searching.lines.grep import LineRow
from sonde.types import HitRow


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


def show_metadata(freshness: str, note: str) -> SearchMetadata:
    """What is known; nothing on further pages."""
    metadata: SearchMetadata = {}
    if freshness:
        metadata["freshness"] = freshness
    if note:
        metadata["note"] = note
    return metadata


def format_size(size: int) -> str:
    """Bytes as the RFC writes them (`45MB`)."""
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if size >= factor:
            number = size / factor
            return f"{number:.0f}{unit}" if number >= 10 else f"{number:.1f}{unit}"
    return f"{size}B"


def show_duration(seconds: float) -> str:
    """Seconds as the RFC writes them (`45s`)."""
    return f"{seconds:.0f}s" if seconds >= 10 else f"{seconds:.1f}s"
