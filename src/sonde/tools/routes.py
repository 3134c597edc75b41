"""Every address, listed once; the REST API, its OpenAPI document and MCP's resources follow."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from sonde.app import App
from sonde.knowledge.service import answer_get
from sonde.runtime.work import Work
from sonde.stores.knowledge.base import Source
from sonde.tools import disk, queries, sessions, sets
from sonde.tools.code import search_by_path, search_code, search_docs
from sonde.tools.index import PROJECT_ROUTES, list_projects
from sonde.tools.knowledge import IdParam, knowledge_search
from sonde.tools.pages import regex_search
from sonde.tools.resources import complete_path, read_chunks, read_file_text, read_result_page
from sonde.tools.route import Route
from sonde.tools.schema import Param
from sonde.tools.shapes.know import GetAnswer

SUGGESTED = (
    "video", "audio", "podcast", "pdf", "epub", "docx", "pptx", "html", "markdown", "txt", "image",
    "article",
)  # fmt: skip


class TypesAnswer(TypedDict):
    """Kinds of media."""

    types: list[str]
    """Those there are."""
    suggested: list[str]


def list_media_types(app: App, *, work: Work) -> TypesAnswer:
    """The kinds of media that this user has."""
    store = app.knowledge.of(work.caller.user)
    return {"types": store.list_media_types(), "suggested": list(SUGGESTED)}


def read_knowledge_entry(
    app: App,
    source: Annotated[Source, Param("Where it is from")],
    id: IdParam,  # noqa: A002
    offset: Annotated[int, Param("next_offset of the part before", minimum=0)] = 0,
    *,
    work: Work,
) -> GetAnswer:
    """One entry, from an offset on."""
    options: dict[str, Any] = {"mode": "full", "offset": offset}
    return answer_get(app, source, id, options, work)


KNOWLEDGE_ROUTES = (
    Route("knowledge/media/types", list_media_types, "The kinds of media there are"),
    Route("knowledge/{source}/{id}", read_knowledge_entry, "A note, a document, a chat and so on"),
)


ROUTES: tuple[Route, ...] = (
    Route("projects", list_projects, "Every indexed project on this machine"),
    *PROJECT_ROUTES,
    Route("search/code", search_code, "The best answers in code to a question"),
    Route("search/docs", search_docs, "The best answers in documentation to a question"),
    Route("search/paths", search_by_path, "Files whose path matches a glob"),
    Route("search/lines", regex_search, "Lines that match a regular expression, in pages"),
    Route("search/knowledge", knowledge_search, "Notes, media, chats, characters and prompts"),
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
    *sessions.ROUTES,
    *disk.ROUTES,
    *sets.ROUTES,
    *queries.ROUTES,
    *KNOWLEDGE_ROUTES,
    Route("results/{cursor}", read_result_page, "The page of results that a cursor leads to"),
)
