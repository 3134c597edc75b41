"""Every address, listed once; the REST API, its OpenAPI document and MCP's resources follow."""

from __future__ import annotations

from sonde.tools.code import search_by_path, search_code, search_docs
from sonde.tools.disk_routes import FILE_ROUTES
from sonde.tools.index import PROJECT_ROUTES, list_projects
from sonde.tools.knowledge import ROUTES as KNOWLEDGE_ROUTES
from sonde.tools.knowledge import knowledge_search
from sonde.tools.pages import regex_search
from sonde.tools.resources import complete_path, read_chunks, read_file_text, read_result_page
from sonde.tools.route import Route
from sonde.tools.set_routes import SET_ROUTES

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
    *FILE_ROUTES,
    *SET_ROUTES,
    *KNOWLEDGE_ROUTES,
    Route("results/{cursor}", read_result_page, "The page of results that a cursor leads to"),
)
