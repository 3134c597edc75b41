"""Adds our tools to another MCP server."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from types import GenericAlias
from typing import Annotated, Any, NoReturn

import anyio.to_thread
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import ToolAnnotations
from pydantic import Field

from sonde.errors import CatalogError, EmptyQuery
from sonde.mcp.requests import dump_answer, protocol_error
from sonde.runtime.work import Work
from sonde.searching.contexts import DEFAULT_LIMIT, MOST, ContextSearcher, SearchOptions
from sonde.tools import TOOLS
from sonde.tools.schema import Argument
from sonde.tools.tool import Tool, bind_arguments, find_tool
from sonde.types import Caller, Json

_TYPES: Json = {
    "string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict,
}  # fmt: skip
DEFAULT_TOOLS = ("search_code", "search_docs", "search_by_path", "regex_search", "get_index_status")


def add_cortex_search_tool(server: MCPServer[Any], searcher: ContextSearcher) -> None:
    """Add `cortex_search` over any searcher."""

    async def cortex_search(
        query: str,
        limit: Annotated[int, Field(description=f"1 to {MOST}")] = DEFAULT_LIMIT,
        tags: list[str] | None = None,
        chunk_types: list[str] | None = None,
    ) -> Json:
        options = SearchOptions(
            min(max(limit, 1), MOST), -1.0, tuple(tags or ()), tuple(chunk_types or ())
        )
        try:
            if not query.strip():
                raise EmptyQuery
            results = await anyio.to_thread.run_sync(searcher.query, query, options)
        except Exception as error:  # noqa: BLE001 - translated by _refuse
            _refuse(error)
        return {"results": [one.as_dict() for one in results], "total": len(results)}

    _add(server, find_tool(TOOLS, "cortex_search"), cortex_search)


def add_search_tools(
    server: MCPServer[Any], app: Any, names: Collection[str] = DEFAULT_TOOLS
) -> None:
    """Add more of our tools by name; `app` is that of an open `Sonde`."""
    for name in names:
        tool = find_tool(TOOLS, name)
        _add(server, tool, _make_call(tool, app))


def _make_call(tool: Tool, app: Any) -> Any:
    async def call(**given: Any) -> Json:
        wanted = {name: value for name, value in given.items() if value is not None}

        def run() -> Json:
            return dict(
                tool.call(app.seen_by(Caller()), **bind_arguments(tool, wanted), work=Work())
            )

        try:
            return await anyio.to_thread.run_sync(run)
        except Exception as error:  # noqa: BLE001 - translated by _refuse
            _refuse(error)

    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [_describe(argument) for argument in tool.arguments if argument.param.listed],
        return_annotation=Json,
    )
    return call


def _describe(argument: Argument) -> inspect.Parameter:
    type_ = _TYPES[argument.kind]
    if argument.kind == "array" and argument.items:
        type_ = GenericAlias(list, (_TYPES[argument.items],))
    field = Field(description=argument.param.description)
    return inspect.Parameter(
        argument.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if argument.required else None,
        annotation=Annotated[type_ if argument.required else type_ | None, field],
    )


def _add(server: MCPServer[Any], tool: Tool, call: Any) -> None:
    server.add_tool(
        call,
        name=tool.name,
        title=tool.title,
        description=tool.description,
        annotations=ToolAnnotations(
            read_only_hint=tool.read_only, destructive_hint=tool.destructive
        ),
    )


def _refuse(error: Exception) -> NoReturn:
    """Raise a catalogued error as an error result, any other as a protocol error."""
    if isinstance(error, CatalogError):
        raise ToolError(dump_answer(error.as_dict())) from error
    wrong = protocol_error(error)
    raise MCPError(wrong.code, wrong.message, wrong.data) from error
