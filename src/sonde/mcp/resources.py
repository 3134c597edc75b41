"""MCP resources: reading an address through the verb of its route, and completing its parts."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sonde.errors import CatalogError, InvalidRequest, NoSuchAddress, TooManyRequests
from sonde.mcp.calls import Calls, Context, LazyApp, dump_answer, protocol_error
from sonde.mcp.limits import ToolLimits
from sonde.runtime.work import Work
from sonde.tools.route import Content, Route, find_route
from sonde.types import Json

MAX_COMPLETIONS = 100
"""The protocol's limit."""
NOT_FOUND_BEFORE_2026 = -32002
"""The error code for a missing resource in protocol versions before 2026-07-28."""


class ResourceReader:
    """Reads resources and completes their addresses."""

    def __init__(
        self, routes: Sequence[Route], app: LazyApp, calls: Calls, limits: ToolLimits
    ) -> None:
        self._routes = routes
        self._limits = limits
        self._app = app
        self._calls = calls

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> Json:
        """The content at an address."""
        uri = str(params.uri)
        try:
            route, texts = find_route(self._routes, uri)
            arguments = route.bind(texts)
            self._limits.take(route.name, self._calls.read_caller(ctx).user)
            answer = await self._run(
                ctx, lambda work: route.call(self._app.get(), **arguments, work=work)
            )
        except Exception as error:
            raise _read_error(error, ctx) from error
        content = (
            answer if isinstance(answer, Content) else Content(dump_answer(answer), route.mime)
        )
        body = (
            {"text": content.body}
            if isinstance(content.body, str)
            else {"blob": base64.b64encode(content.body).decode()}
        )
        return {
            "resultType": "complete",
            "contents": [{"uri": uri, "mimeType": content.mime, **body}],
        }

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> Json:
        """Values that start with what a person has typed."""
        template = getattr(params.ref, "uri", None)
        route = next((r for r in self._routes if r.complete and r.template == template), None)
        values: Sequence[str] = ()
        if route is not None and route.complete is not None:
            complete, typed = route.complete, params.argument
            given = (params.context.arguments if params.context else None) or {}
            try:
                values = await self._run(
                    ctx, lambda _work: complete(self._app.get(), typed.name, typed.value, given)
                )
            except (CatalogError, InvalidRequest):
                values = ()  # incomplete input is no error
        shown = list(values[:MAX_COMPLETIONS])
        completion = {"values": shown, "hasMore": len(values) > len(shown)}
        return {"resultType": "complete", "completion": completion}

    async def _run(self, ctx: Context, verb: Callable[[Work], Any]) -> Any:
        work = Work(caller=self._calls.read_caller(ctx))
        return await self._calls.run_work(verb, work)


def _read_error(error: Exception, ctx: Context) -> MCPError:
    """The protocol error for an address that cannot be read: resources have no error results."""
    if isinstance(error, CatalogError | NoSuchAddress | TooManyRequests):
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        return protocol_error(error, types.INVALID_PARAMS if modern else NOT_FOUND_BEFORE_2026)
    return protocol_error(error)
