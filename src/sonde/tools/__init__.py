"""The table of verbs, from which MCP, the REST API, the command line and the reference derive.

Every module of verbs declares its own `TOOLS` and `ROUTES`. They are imported and joined when
either is first read, so importing `sonde.tools.schema` loads no verb.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from sonde.errors import NoSuchAddress
from sonde.tools.route import Route
from sonde.tools.schema import Param
from sonde.tools.tool import Tool, find_tool
from sonde.types import Json

TOOLS: tuple[Tool, ...]
"""Every tool, in the order in which clients see them."""
ROUTES: tuple[Route, ...]
"""Every address, in the order of the OpenAPI document."""


def __getattr__(name: str) -> Any:
    if name not in ("TOOLS", "ROUTES"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _join_tables()[name == "ROUTES"]


@cache
def _join_tables() -> tuple[tuple[Tool, ...], tuple[Route, ...]]:
    from sonde.tools import code, disk, index, knowledge, pages, research, sets

    tools = (
        *(*code.TOOLS, *pages.TOOLS, *code.CONTEXT_TOOLS, *code.MODE_TOOLS),
        *(*index.TOOLS, *disk.TOOLS, *index.JOB_TOOLS, *disk.NODE_TOOLS),
        *(*sets.TOOLS, *disk.SESSION_TOOLS),
        *(*knowledge.TOOLS, *research.TOOLS),
    )
    routes = (
        *(*index.ROUTES, *code.ROUTES, *pages.ROUTES, *knowledge.ROUTES, *code.FILE_ROUTES),
        *(*disk.ROUTES, *index.JOB_ROUTES, *sets.ROUTES),
        *(*knowledge.ENTRY_ROUTES, *research.ROUTES),
        Route("results/{cursor}", read_result_page, "The page of results that a cursor leads to"),
    )
    return tools, routes


def read_result_page(
    app: Any,
    cursor: Annotated[str, Param("The cursor of an answer", max_length=2_000)],
    *,
    work: Any,
) -> Json:
    """The page that a cursor leads to, from the tool that made the cursor."""
    tool = app.workspace.results.find_tool(cursor)
    if not isinstance(tool, str):
        raise NoSuchAddress("the results name no tool", address=cursor)
    answer: Json = find_tool(_join_tables()[0], tool).call(app, cursor=cursor, work=work)
    return answer
