"""Verbs that read by address: a project's files and chunks, entries of knowledge."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, NotRequired, TypedDict

from sonde.app import App
from sonde.errors import FileMissing, FileNotAdmitted, IndexNotFound, InvalidRequest
from sonde.knowledge.service import answer_get
from sonde.policy.admit import REASONS
from sonde.policy.walk import ListedFile
from sonde.projects.find import find_project, indexed_project, known_roots
from sonde.projects.project import Project
from sonde.projects.update import repairing_corruption
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import Source
from sonde.tools.route import Content, Route
from sonde.tools.schema import Param, ProjectParam
from sonde.tools.shapes.know import GetAnswer
from sonde.types import Chunk, FileState, Skipped

MAX_COMPLETED_PATHS = 101
"""A client shows at most 100 completions; one more means that there are more."""
_LINES = re.compile(r"([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?")

FileParam = Annotated[str, Param("Path of the file in the project", min_length=1, max_length=4096)]


SUGGESTED_TYPES = (
    "video", "audio", "podcast", "pdf", "epub", "docx", "pptx", "html", "markdown", "txt", "image",
    "article",
)  # fmt: skip


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
    found = _readable_project(app, project)
    verdict: Any = found.tree.check(path)
    if not isinstance(verdict, Skipped):
        verdict = found.tree.read(path)
    if isinstance(verdict, Skipped):
        if verdict.reason in ("missing", "folder"):
            raise FileMissing(f"{path} in {found.root}", path=path)
        reason = REASONS.get(verdict.reason, verdict.reason)
        raise FileNotAdmitted(f"{path}: {verdict.reason}", path=path, reason=reason)
    return Content(_cut_lines(verdict.text, lines) if lines else verdict.text)


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
    found = indexed_project(app.workspace, project)
    with repairing_corruption(app.workspace, found):
        chunks = [chunk for store in found.stores().values() for chunk in store.chunks_of(path)]
        states = [store.states([path]).get(path) for store in found.stores().values()]
    verdict = found.tree.check(path)
    if not chunks or isinstance(verdict, Skipped):
        raise FileMissing(f"{path} is not in the index of {found.root}", path=path)
    shown = [
        _show_chunk(chunk)
        for chunk in sorted(chunks, key=lambda chunk: chunk.span.start_byte)
        if line is None or chunk.span.start_line <= line <= chunk.span.end_line
    ]
    answer: ChunksAnswer = {"path": path, "chunks": shown}
    if not any(state and _is_same(state, verdict) for state in states):
        answer["stale"] = True
    return answer


def complete_path(app: App, argument: str, prefix: str, given: Mapping[str, str]) -> Sequence[str]:
    """Paths or projects with this prefix."""
    if argument == "project":
        return [str(root) for root in known_roots(app.workspace) if str(root).startswith(prefix)][
            :MAX_COMPLETED_PATHS
        ]
    if argument != "path":
        return []
    found = _readable_project(app, given.get("project"))
    if found.is_indexed():
        with repairing_corruption(app.workspace, found):
            paths = [path for store in found.stores().values() for path in store.files()]
        return sorted(path for path in paths if path.startswith(prefix))[:MAX_COMPLETED_PATHS]
    walked = (entry.path for entry in found.tree.walk() if isinstance(entry, ListedFile))
    return sorted(islice((path for path in walked if path.startswith(prefix)), MAX_COMPLETED_PATHS))


class TypesAnswer(TypedDict):
    """The media types of a user, and those to choose from."""

    types: list[str]
    suggested: list[str]


def list_media_types(app: App, *, work: Work) -> TypesAnswer:
    """The media types that this user has stored."""
    store = app.knowledge.of(work.caller.user)
    return {"types": store.list_media_types(), "suggested": list(SUGGESTED_TYPES)}


def read_knowledge_entry(
    app: App,
    source: Annotated[Source, Param("Where it is from")],
    id: Annotated[str, Param("Its id", min_length=1, max_length=1000, numbers=True, terse=True)],  # noqa: A002
    offset: Annotated[int, Param("next_offset of the part before", minimum=0)] = 0,
    *,
    work: Work,
) -> GetAnswer:
    """One entry, from an offset on."""
    options: dict[str, Any] = {"mode": "full", "offset": offset}
    return answer_get(app, source, id, options, work)


def _readable_project(app: App, project: str | None) -> Project:
    """The current project, or an indexed one: naming another folder does not open it."""
    found = find_project(app.workspace, project)
    if project is not None and not found.is_indexed():
        here = find_project(app.workspace)
        if here.root != found.root:
            raise IndexNotFound(f"No index at {found.folder}/")
    return found


def _cut_lines(text: str, lines: str) -> str:
    match = _LINES.fullmatch(lines)
    if match is None:
        raise InvalidRequest(
            f"lines={lines!r}", user_message="`lines` is a number or two, such as '10-40'."
        )
    first = int(match[1])
    last = int(match[2] or match[1])
    return "".join(text.splitlines(keepends=True)[first - 1 : last])


def _show_chunk(chunk: Chunk) -> ChunkRow:
    row: ChunkRow = {
        "startLine": chunk.span.start_line,
        "endLine": chunk.span.end_line,
        "text": chunk.text,
    }
    if chunk.symbol:
        row["symbol"] = chunk.symbol
    return row


def _is_same(state: FileState, entry: ListedFile) -> bool:
    return state.size == entry.size and state.mtime_ns == entry.mtime_ns


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
ENTRY_ROUTES: tuple[Route, ...] = (
    Route("knowledge/media/types", list_media_types, "The kinds of media there are"),
    Route("knowledge/{source}/{id}", read_knowledge_entry, "A note, a document, a chat and so on"),
)
