"""The whole server as one ASGI application: MCP, REST routes and pages behind the guard."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import anyio
import anyio.to_thread
import uvicorn
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
from sonde.runtime.work import trim_heap
from sonde.version import __version__
from sonde.web.guard import MOST_BYTES, Access, Guard, is_exposed
from sonde.web.metrics import Meter, Metrics
from sonde.web.pages.html import refuse_request
from sonde.web.rest import describe_routes, group_routes

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
        return refuse_request(missing, request.scope)
    wrong = InvalidRequest(
        f"{request.method} {request.url.path}: {error.status_code}",
        user_message="{problem}.",
        problem=error.detail,
    )
    response = refuse_request(wrong, request.scope)
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
    return refuse_request(error, request.scope)


_HEAD_BYTES = 256 * 1024
"""Of a request's line and headers: a path and a cursor, every character of them quoted."""
GRACE_S_SERVING = 5
"""How long answers that are under way may take once the server was told to stop."""


def check_access(access: Access) -> None:
    """`InvalidRequest` when others could connect and nothing would keep them out."""
    if is_exposed(access.host) and not access.tokens:
        raise InvalidRequest(
            f"{access.host} is not loopback and there is no token",
            user_message="Listening at {host} lets others in, so a token is required.",
            next_action="Pass --token-file FILE (or SONDE_TOKEN_FILE), or leave --host out.",
            host=access.host,
        )


class Shutdown(Protocol):
    """An ASGI application that is told when it is to end."""

    ending: anyio.Event

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, socket or lifetime."""


def serve_http(app: Shutdown, access: Access, ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; `ready` is told the address once connections are taken."""
    check_access(access)
    listener = _listen(access)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="websockets-sansio",
        ws_max_size=MOST_BYTES,
        h11_max_incomplete_event_size=_HEAD_BYTES,
        timeout_graceful_shutdown=GRACE_S_SERVING,
    )
    with listener:
        server = _Server(config, lambda: ready(_show_address(listener)), app.ending)
        server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """Says when it is ready, and ends without raising the signal once more."""

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], ending: anyio.Event
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._ending = ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take connections."""
        await super().startup(sockets=sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, let streams close, wait for the answers under way."""
        self._ending.set()
        await super().shutdown(sockets=sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End on the first signal, at once on the second."""
        wanted = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in wanted}
        try:
            yield
        finally:
            for number, action in before.items():
                signal.signal(number, action)


def _listen(access: Access) -> socket.socket:
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            access.host, access.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, proto)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise InvalidRequest(
            f"{access.host}:{access.port}: {error}",
            user_message="Cannot listen at {host}:{port}: {problem}.",
            next_action="Choose another --port, or stop the program that uses it.",
            host=access.host,
            port=access.port,
            problem=error.strerror or error,
        ) from error
    return listener


def _show_address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
