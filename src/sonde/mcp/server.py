"""The MCP server of the SDK, for HTTP and WebSocket: requests in worker threads, and clients."""

from __future__ import annotations

import asyncio
import concurrent.futures
import secrets
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import mcp_types as types
from mcp.server import CacheHint, Server, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from sonde.errors import Cancelled
from sonde.mcp.async_calls import AsyncCalls, read_session_name
from sonde.mcp.calls import SCOPE_CALLER, ClientRefusedError, LazyApp, ProtocolError
from sonde.mcp.listing import Listing
from sonde.mcp.manifest import INSTRUCTIONS, LIST_TTL_MS
from sonde.mcp.requests import Observe, Requests
from sonde.types import Caller, Json
from sonde.version import __version__

Context = ServerRequestContext[Any, Any]

_CANCELLATIONS = (asyncio.CancelledError, concurrent.futures.CancelledError)
"""Both mean that the task on the loop was cancelled; timing decides which one is raised."""


def build_server(
    listing: Listing, app: LazyApp, calls: AsyncCalls, observe: Observe = lambda *_: None
) -> Server[Any]:
    """An MCP server for these tools and routes, for both generations of the protocol."""
    requests = Requests(listing, app, calls, observe)

    async def list_rows(ctx: Context, _params: types.PaginatedRequestParams) -> Json:
        return {"resultType": "complete", **listing.lists[ctx.method]}

    async def answer(
        run: Callable[[SdkClient, Json], Json], ctx: Context, _params: BaseModel
    ) -> Json:
        client = SdkClient(ctx)
        run_request = partial(run, client, dict(ctx.params or {}))
        try:
            result: Json = await calls.run_in_turn(run_request, client.caller.user, client.cancel)
        except ProtocolError as error:
            raise MCPError(error.code, error.message, error.data) from error
        return result

    public = CacheHint(ttl_ms=LIST_TTL_MS, scope="public")
    hints: dict[Any, CacheHint] = dict.fromkeys((*listing.lists, "server/discover"), public)
    server = Server[Any](
        "sonde",
        version=__version__,
        title="sonde",
        instructions=INSTRUCTIONS,
        cache_hints={**hints, "resources/read": CacheHint(ttl_ms=0, scope="private")},
    )
    for method in listing.lists:
        server.add_request_handler(method, types.PaginatedRequestParams, list_rows)
    for method, model, run in (
        ("tools/call", types.CallToolRequestParams, requests.call_tool),
        ("resources/read", types.ReadResourceRequestParams, requests.read_resource),
        ("completion/complete", types.CompleteRequestParams, requests.complete),
    ):
        server.add_request_handler(method, model, partial(answer, run))
    # The state of a question passes through the client: sealed, and valid for that user only.
    seal = RequestStateSecurity(
        keys=[secrets.token_bytes(32)], bind_principal=lambda ctx: _read_caller(ctx).user
    )
    server.middleware.append(RequestStateBoundary(seal, default_audience="sonde"))
    return server


def _read_caller(ctx: Context) -> Caller:
    """The caller identified by the guard."""
    assert ctx.request
    caller: Caller = ctx.request.scope[SCOPE_CALLER]
    return replace(caller, session=read_session_name(ctx.request))


class SdkClient:
    """The client of one request to the SDK's server; a verb's threads reach it until it ends."""

    def __init__(self, ctx: Context) -> None:
        declared, params = ctx.session.client_capabilities, ctx.session.client_params
        self.caller, self.cancelled = _read_caller(ctx), threading.Event()
        self.is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.capabilities: Json = _dump(declared) if declared else {}
        self.meta: Json = {**(params.meta or {})} if params and params.meta else {}
        self._ctx = ctx
        self._token = anyio.lowlevel.current_token()
        self._scopes: set[anyio.CancelScope] = set()

    def report(self, progress: float, total: float | None, message: str) -> None:
        """Send a progress notification if the client asked for them."""
        self._call(partial(self._ctx.session.report_progress, progress, total, message))

    def request(self, method: str, params: Json, timeout_s: float | None = None) -> Json:
        """The client's answer to a request."""
        session = self._ctx.session

        async def ask() -> BaseModel:
            with anyio.fail_after(timeout_s):
                if method == "roots/list":
                    return await session.send_request(
                        types.ListRootsRequest(), types.ListRootsResult
                    )
                form = (params["message"], params["requestedSchema"])
                return await session.elicit_form(*form, self._ctx.request_id)

        try:
            return _dump(self._call(ask))
        except (MCPError, ValidationError) as error:
            raise ClientRefusedError(str(error)) from error

    def cancel(self) -> None:
        """Cancel the verb and what it asks, and refuse later requests; called on the loop."""
        self.cancelled.set()
        for scope in self._scopes:
            scope.cancel()

    def _call(self, function: Callable[[], Awaitable[Any]]) -> Any:
        """Run a coroutine function on the loop and wait; raises `Cancelled` once cancelled."""
        try:
            return anyio.from_thread.run(self._run, function, token=self._token)
        except (*_CANCELLATIONS, anyio.RunFinishedError) as error:
            raise Cancelled("the client went away") from error

    async def _run(self, function: Callable[[], Awaitable[Any]]) -> Any:
        if not self.cancelled.is_set():
            with anyio.CancelScope() as scope:
                self._scopes.add(scope)
                try:
                    return await function()
                finally:
                    self._scopes.discard(scope)
        raise Cancelled("the client went away")


def _dump(model: BaseModel) -> Json:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)
