"""The table of verbs, from which MCP, the REST API, the command line and the reference derive.

Every module of verbs declares its own `TOOLS` and `ROUTES`. It is imported when iteration reaches
its rows, so looking up a tool for code does not import those for knowledge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Generic, TypeVar

from sonde.errors import NoSuchAddress
from sonde.tools.route import Route
from sonde.tools.schema import Param
from sonde.tools.tool import Tool, find_tool
from sonde.types import Json

T = TypeVar("T")


class Table(Generic[T]):
    """The rows of all modules of verbs, in order; each module is imported when it is reached."""

    def __init__(self, begin: Callable[[], Iterator[T]]) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[T]:
        return self._begin()


def _list_tools() -> Iterator[Tool]:
    from sonde.tools import code

    yield from code.TOOLS
    from sonde.tools import pages

    yield from (*pages.TOOLS, *code.CONTEXT_TOOLS, *code.MODE_TOOLS)
    from sonde.tools import disk, index

    yield from (*index.TOOLS, *disk.TOOLS, *index.JOB_TOOLS, *disk.NODE_TOOLS)
    from sonde.tools import knowledge, research, sets

    yield from (*sets.TOOLS, *disk.SESSION_TOOLS, *knowledge.TOOLS, *research.TOOLS)


def _list_routes() -> Iterator[Route]:
    from sonde.tools import code, disk, index, knowledge, pages, research, sets

    yield from (*index.ROUTES, *code.ROUTES, *pages.ROUTES, *knowledge.ROUTES, *code.FILE_ROUTES)
    yield from (*disk.ROUTES, *index.JOB_ROUTES, *sets.ROUTES)
    yield from (*knowledge.ENTRY_ROUTES, *research.ROUTES)
    yield Route("results/{cursor}", read_result_page, "The page of results that a cursor leads to")


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
    answer: Json = find_tool(TOOLS, tool).call(app, cursor=cursor, work=work)
    return answer


TOOLS = Table(_list_tools)
"""Every tool, in the order in which clients see them."""
ROUTES = Table(_list_routes)
"""Every address, in the order of the OpenAPI document."""
