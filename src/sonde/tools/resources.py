"""Verbs that read by address: a project's files and chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NotRequired, TypedDict

from sonde.app import App
from sonde.projects.index import list_chunks, list_paths, list_roots, read_current_text
from sonde.runtime.work import Work
from sonde.tools.route import Content, Route
from sonde.tools.schema import Param, ProjectParam
from sonde.types import Chunk

MAX_COMPLETED_PATHS = 101
"""A client shows at most 100 completions; one more means that there are more."""

FileParam = Annotated[str, Param("Path of the file in the project", min_length=1, max_length=4096)]


class ChunkRow(TypedDict):
    """One chunk."""

    startLine: int
    endLine: int
    text: str
    symbol: NotRequired[str]


class ChunksAnswer(TypedDict):
    """The chunks of a file."""

    path: str
    chunks: list[ChunkRow]
    stale: NotRequired[bool]


def read_file_text(
    app: App,
    path: FileParam,
    lines: Annotated[str | None, Param("Only these, such as '10-40'", max_length=20)] = None,
    project: ProjectParam = None,
    *,
    work: Work,
) -> Content:
    """A file of the project as it is now, under the policy of searches."""
    del work
    return Content(read_current_text(app.workspace, project, path, lines))


def read_chunks(
    app: App,
    path: FileParam,
    line: Annotated[int | None, Param("Only the chunk around this line", minimum=1)] = None,
    project: ProjectParam = None,
    *,
    work: Work,
) -> ChunksAnswer:
    """The chunks of an indexed file, in order."""
    del work
    chunks, stale = list_chunks(app.workspace, project, path, line)
    answer: ChunksAnswer = {"path": path, "chunks": [_show_chunk(chunk) for chunk in chunks]}
    if stale:
        answer["stale"] = True
    return answer


def _show_chunk(chunk: Chunk) -> ChunkRow:
    row: ChunkRow = {
        "startLine": chunk.span.start_line,
        "endLine": chunk.span.end_line,
        "text": chunk.text,
    }
    if chunk.symbol:
        row["symbol"] = chunk.symbol
    return row


def complete_path(app: App, argument: str, prefix: str, given: Mapping[str, str]) -> Sequence[str]:
    """Paths or projects with this prefix."""
    if argument == "project":
        return list_roots(app.workspace, prefix, MAX_COMPLETED_PATHS)
    if argument != "path":
        return []
    return list_paths(app.workspace, given.get("project"), prefix, MAX_COMPLETED_PATHS)




ROUTES: tuple[Route, ...] = (
    Route(
        "files/{path:path}",
        read_file_text,
        "A file of a project as it is now",
        mime="text/plain",
        complete=complete_path,
    ),
    Route(
        "chunks/{path:path}",
        read_chunks,
        "The pieces that an indexed file is searched as",
        complete=complete_path,
    ),
)
