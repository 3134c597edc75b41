"""The RFC's answers, field by field."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from sonde.projects.project import Project
from sonde.searching.lines.grep import LineRow
from sonde.text.formats import format_seconds
from sonde.types import HitRow, IndexReport, Json


class SearchAnswer(TypedDict):
    """What search_code and search_docs answer."""

    results: list[HitRow]
    totalResults: int
    searchTimeMs: int
    metadata: dict[str, str]
    """How far the ranking can be trusted: `freshness` and `note`, where they are known."""
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

    results: list[Json]
    total: int
    score_type: str
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
    details: Json


class DeleteAnswer(TypedDict):
    """What delete_index answers."""

    status: str
    projectPath: str
    message: str


class ProjectsAnswer(TypedDict):
    """What list_projects answers."""

    projects: list[Json]
    totalProjects: int


def show_report(project: Project, report: IndexReport) -> IndexAnswer:
    """The outcome of indexing, and what the index holds now."""
    held = [store.counts() for store in project.stores().values()]
    answer: IndexAnswer = {
        "status": "success",
        "projectPath": project.key,
        "filesIndexed": sum(count.files for count in held),
        "chunksCreated": sum(count.chunks for count in held),
        "duration": format_seconds(report.seconds, minutes=False),
    }
    if report.note:
        answer["message"] = report.note
    if report.skipped:
        answer["skipped"] = report.skipped
    if not answer["filesIndexed"]:
        reasons = (f"{count} {why.replace('_', ' ')}" for why, count in report.skipped.items())
        answer["message"] = f"No file was indexed. Left out: {', '.join(reasons) or 'nothing'}."
    return answer
