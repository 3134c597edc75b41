"""The whole server as one ASGI application: MCP, REST routes and pages behind the guard."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, WebSocketRoute
from starlette.routing import Route as HttpRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from sonde.errors import InvalidRequest, NoSuchAddress
from sonde.mcp.calls import Calls
from sonde.mcp.http import McpOverHttp, McpOverSocket
from sonde.mcp.listing import Listing
from sonde.mcp.server import Closable, LazyApp, begin_soon, build_server
from sonde.version import __version__
from sonde.web.guard import Access, Guard
from sonde.web.metrics import Meter, Metrics
from sonde.web.openapi import describe_routes
from sonde.web.refusing import refuse
from sonde.web.rest import group_routes
from sonde.work import trim_heap

QUIET_S = 5.0
GRACE_S = 4.0
"""How long verbs may go on once the server was told to stop."""
STOP_S = 5.0
"""How long running verbs may take to stop when the server ends."""


@dataclass(frozen=True)
class Parts:
    """What the routes of a page or a stream need."""

    app: LazyApp
    calls: Calls
    metrics: Metrics
    access: Access
    ending: anyio.Event = field(default_factory=anyio.Event)
    """Set when the server was told to stop: what is open for ever must close."""


Pages = Callable[[Parts], Sequence[BaseRoute]]
"""Adds what is no plain verb: pages, downloads, event streams."""


class Application:
    """The whole server; `ending` is set by whoever runs it, before it waits for answers."""

    def __init__(self, inner: ASGIApp, ending: anyio.Event) -> None:
        self._inner = inner
        self.ending = ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, socket or lifetime."""
        await self._inner(scope, receive, send)


def build_application(
    open_app: Callable[[], Closable],
    listing: Listing,
    access: Access,
    *,
    pages: Sequence[Pages] = (),
    begin: Callable[[Closable], None] | None = None,
) -> Application:
    """Put the server together; `open_app` runs when something first needs the app.

    `begin` is given the app soon after the start, for what goes on without being asked for.
    """
    parts = Parts(LazyApp(open_app), Calls(), Metrics(), access)
    server = build_server(listing, parts.app, parts.calls, observe=parts.metrics.note_call)

    def forget_session(user: str, session: str) -> None:
        library = getattr(parts.app.get(), "knowledge", None)
        if library is not None:
            library.forget_session(user, session)

    mcp = McpOverHttp(server, forget_session, parts.ending)

    @asynccontextmanager
    async def live(_starlette: Starlette) -> AsyncIterator[None]:
        ending = threading.Event()
        if begin:
            begin_soon(begin, parts.app, ending)
        async with mcp.running(), anyio.create_task_group() as group:
            group.start_soon(_trim_when_quiet, parts.calls)
            group.start_soon(_call_off_late, parts)
            yield
            group.cancel_scope.cancel()
        ending.set()
        stopped = await anyio.to_thread.run_sync(parts.calls.stop, STOP_S)
        if stopped:
            await anyio.to_thread.run_sync(parts.app.close)

    async def show_health(_request: Request) -> Response:
        return JSONResponse({"status": "ok", "name": "sonde", "version": __version__})

    async def show_metrics(_request: Request) -> Response:
        return PlainTextResponse(
            parts.metrics.render(), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    async def show_openapi(_request: Request) -> Response:
        return JSONResponse(describe_routes(listing.routes, added))

    added = [route for add in pages for route in add(parts)]
    starlette = Starlette(
        routes=[
            HttpRoute("/mcp", mcp, methods=["GET", "POST", "DELETE"]),
            WebSocketRoute("/mcp/ws", McpOverSocket(server)),
            HttpRoute("/healthz", show_health),
            HttpRoute("/metrics", show_metrics),
            HttpRoute("/api/openapi.json", show_openapi),
            *(
                HttpRoute(f"/api/{address}", endpoint, methods=endpoint.methods)
                for address, endpoint in group_routes(
                    listing.routes, parts.app, parts.calls, listing.limits
                )
            ),
            *added,
        ],
        exception_handlers={HTTPException: _refuse_http, Exception: _refuse_defect},
        lifespan=live,
    )
    starlette.router.redirect_slashes = False
    return Application(Meter(Guard(starlette, access), parts.metrics), parts.ending)


async def _call_off_late(parts: Parts) -> None:
    """Once the server was told to stop, verbs have a while; then they are called off, so that
    their clients are told instead of cut off."""
    await parts.ending.wait()
    await anyio.sleep(GRACE_S)
    await anyio.to_thread.run_sync(parts.calls.stop, 0)


async def _trim_when_quiet(calls: Calls) -> None:
    """Give back what a burst of requests has left behind."""
    while True:
        await anyio.sleep(QUIET_S)
        if calls.has_come_to_rest():
            await anyio.to_thread.run_sync(trim_heap)


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        missing = NoSuchAddress(request.url.path, address=request.url.path)
        return refuse(missing, request.scope)
    wrong = InvalidRequest(
        f"{request.method} {request.url.path}: {error.status_code}",
        user_message="{problem}.",
        problem=error.detail,
    )
    response = refuse(wrong, request.scope)
    response.status_code = error.status_code
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        response.headers["allow"] = ", ".join(sorted(_list_methods(request)))
    return response


def _list_methods(request: Request) -> set[str]:
    """What can be done at an address; a page and its form are two routes."""
    return {
        method
        for route in request.app.routes
        if isinstance(route, HttpRoute) and route.matches(request.scope)[0] is not Match.NONE
        for method in route.methods or ()
    }


async def _refuse_defect(request: Request, error: Exception) -> Response:
    return refuse(error, request.scope)
