"""Every address, listed once; the REST API, its OpenAPI document and MCP's resources follow."""

from __future__ import annotations

from sonde.tools.file_routes import FILE_ROUTES
from sonde.tools.file_set_routes import SET_ROUTES
from sonde.tools.index import list_projects
from sonde.tools.knowledge_routes import KNOWLEDGE_ROUTES
from sonde.tools.project_jobs import PROJECT_ROUTES
from sonde.tools.resources import complete_path, read_chunks, read_page, read_text
from sonde.tools.route import Route

ROUTES: tuple[Route, ...] = (
    Route("projects", list_projects, "Every indexed project on this machine"),
    *PROJECT_ROUTES,
    Route(
        "files/{path:path}",
        read_text,
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
    Route("results/{cursor}", read_page, "The page of results that a cursor leads to"),
)
