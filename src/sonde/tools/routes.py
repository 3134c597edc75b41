"""Every address, listed once; the REST API, its OpenAPI document and MCP's resources follow."""

from __future__ import annotations

from sonde.tools.index import list_projects
from sonde.tools.route import Route

ROUTES: tuple[Route, ...] = (
    Route("projects", list_projects, "Every indexed project on this machine"),
)
