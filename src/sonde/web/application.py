"""The HTTP server as one ASGI application: MCP, REST routes and pages behind the guard."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
import h11
import uvicorn
from mcp.server import Server
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Match, WebSocketRoute
from starlette.routing import Route as HttpRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from sonde.errors import InvalidRequest, NoSuchAddress
from sonde.indexing.sources import MirrorsState
from sonde.mcp.async_calls import AsyncCalls
from sonde.mcp.calls import SCOPE_CALLER, Calls, Closable, LazyApp, Record, begin_soon
from sonde.mcp.http import McpOverHttp, McpOverSocket
from sonde.mcp.listing import Listing
from sonde.mcp.server import build_server
from sonde.runtime.processes import trim_heap
from sonde.types import LOCAL
from sonde.version import __version__
from sonde.web.guard import MAX_BODY_BYTES, UPLOADS, Access, Guard
from sonde.web.metrics import Meter, Metrics
from sonde.web.pages.html import refuse_request
from sonde.web.rest import RouteEndpoint, StreamRoute, describe_routes

TRIM_INTERVAL_S = 5.0
"""How often an idle server returns freed memory to the system."""
GRACE_S = 4.0
"""How long calls may keep running after a shutdown request before they are cancelled."""
STOP_S = 5.0
"""How long cancelled calls may take to stop."""
RESPONSE_GRACE_S = 5
"""How long uvicorn waits for open responses; longer than `GRACE_S`, so that cancelled calls are
answered instead of cut off."""
MAX_HEAD_BYTES = 256 * 1024
"""The limit of a request's line and headers: room for a path and a cursor, all quoted."""

_REFUSAL = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


@dataclass(frozen=True)
class Parts:
    """The parts that pages, downloads and streams are built from."""

    app: LazyApp
    calls: AsyncCalls
    metrics: Metrics
    access: Access
    ending: anyio.Event = field(default_factory=anyio.Event)
    """Set on shutdown: streams that would stay open must close."""


Pages = Callable[[Parts], Sequence[BaseRoute]]
"""Adds routes that are not verbs: pages, downloads, event streams."""


@dataclass(frozen=True)
class Application:
    """The server; its runner sets `ending` on shutdown, before waiting for responses."""

    inner: ASGIApp
    ending: anyio.Event

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, socket or lifetime."""
        await self.inner(scope, receive, send)


def build_application(
    open_app: Callable[[], Closable],
    listing: Listing,
    access: Access,
    *,
    pages: Sequence[Pages] = (),
    begin: Callable[[Closable], None] | None = None,
    extend: Callable[[Server[Any]], None] = lambda _server: None,
    record: Record | None = None,
) -> Application:
    """Build the server; `open_app` runs when something first needs the app.

    `begin(app)` is called soon after the start, to begin background work; `extend` may add
    handlers to the MCP server; `record` runs every call and may write it down.
    """
    parts = Parts(LazyApp(open_app), AsyncCalls(record), Metrics(), access)
    server = build_server(listing, parts.app, parts.calls, observe=parts.metrics.note_call)
    extend(server)

    def forget_session(user: str, session: str) -> None:
        library = getattr(parts.app.open(), "knowledge", None)
        if library is not None:
            library.forget_session(user, session)

    mcp = McpOverHttp(server, forget_session, parts.ending)

    @asynccontextmanager
    async def live(_starlette: Starlette) -> AsyncIterator[None]:
        ending = threading.Event()
        if begin:
            begin_soon(begin, parts.app, ending)
        async with mcp.running(), anyio.create_task_group() as group:
            group.start_soon(_trim_when_idle, parts.calls)
            group.start_soon(_cancel_after_grace, parts)
            yield
            group.cancel_scope.cancel()
        ending.set()
        stopped = await anyio.to_thread.run_sync(parts.calls.stop, STOP_S)
        if stopped:
            await anyio.to_thread.run_sync(parts.app.close)

    async def show_openapi(_request: Request) -> Response:
        return JSONResponse(describe_routes(listing.routes, added))

    added = [route for add in pages for route in add(parts)]
    starlette = Starlette(
        routes=[
            HttpRoute("/mcp", mcp, methods=["GET", "POST", "DELETE"]),
            WebSocketRoute("/mcp/ws", McpOverSocket(server)),
            *_list_probes(parts, loads_soon=begin is not None),
            HttpRoute("/api/openapi.json", show_openapi),
            *(route for route in added if isinstance(route, StreamRoute)),
            *(
                HttpRoute(
                    f"/api/{route.address}",
                    RouteEndpoint(route, parts.app, parts.calls, listing.limits),
                    methods=[route.method],
                )
                for route in listing.routes
            ),
            *added,
        ],
        exception_handlers={HTTPException: _refuse_http, Exception: _refuse_defect},
        lifespan=live,
    )
    starlette.router.redirect_slashes = False
    return Application(Meter(Guard(starlette, access), parts.metrics), parts.ending)


def _list_probes(parts: Parts, *, loads_soon: bool) -> Sequence[BaseRoute]:
    """The routes for monitoring; a server that `loads_soon` is not ready before its app is open."""

    async def show_health(_request: Request) -> Response:
        return JSONResponse({"status": "ok", "name": "sonde", "version": __version__})

    async def show_readiness(_request: Request) -> Response:
        state = find_mirrors_state(parts.app)
        ready = state.is_reached if state else parts.app.peek() is not None or not loads_soon
        status = "ending" if parts.ending.is_set() else "ready" if ready else "starting"
        return JSONResponse({"status": status}, 200 if status == "ready" else 503)

    async def show_metrics(request: Request) -> Response:
        # sizes of the shared index are for the operator, who sees all of it
        is_operator = request.scope[SCOPE_CALLER].user == LOCAL
        state = find_mirrors_state(parts.app) if is_operator else None
        text = parts.metrics.render(state.as_metrics() if state else {})
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    probes = {"/healthz": show_health, "/readyz": show_readiness, "/metrics": show_metrics}
    return [HttpRoute(address, probe) for address, probe in probes.items()]


def find_mirrors_state(app: LazyApp) -> MirrorsState | None:
    """The state of a server of a shared index, once its app is open."""
    mirrors = getattr(getattr(app.peek(), "workspace", None), "mirrors", None)
    return mirrors.describe() if mirrors else None


async def _cancel_after_grace(parts: Parts) -> None:
    """On shutdown, cancel slow verbs, so that clients get an error, not a closed connection."""
    await parts.ending.wait()
    await anyio.sleep(GRACE_S)
    await anyio.to_thread.run_sync(parts.calls.stop, 0)


async def _trim_when_idle(calls: Calls) -> None:
    """Return the memory of a burst of requests once it is over."""
    while True:
        await anyio.sleep(TRIM_INTERVAL_S)
        if calls.has_become_idle():
            await anyio.to_thread.run_sync(trim_heap)


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        missing = NoSuchAddress(request.url.path, address=request.url.path)
        return refuse_request(missing, request.scope)
    wrong = InvalidRequest(
        f"{request.method} {request.url.path}: {error.status_code}", user_message=f"{error.detail}."
    )
    response = refuse_request(wrong, request.scope)
    response.status_code = error.status_code
    response.headers.update(error.headers or {})
    if error.status_code == 405:
        # a page and its form are two routes of one address
        here = (route for route in request.app.routes if isinstance(route, HttpRoute))
        found = (route for route in here if route.matches(request.scope)[0] is not Match.NONE)
        methods = {method for route in found for method in route.methods or ()}
        response.headers["allow"] = ", ".join(sorted(methods))
    return response


async def _refuse_defect(request: Request, error: Exception) -> Response:
    return refuse_request(error, request.scope)


def check_access(access: Access) -> None:
    """Raise `InvalidRequest` if other machines could connect, and nobody has a token."""
    if not access.is_loopback and not access.tokens:
        raise InvalidRequest(
            f"{access.host} is not loopback and there is no token",
            user_message=f"Listening at {access.host} lets others in, so a token is required.",
            next_action="Pass --token-file FILE (or SONDE_TOKEN_FILE), or leave --host out.",
        )


class TimeLimits(NamedTuple):
    """Seconds for the head of a request, and for its body: 4 MiB at 0.6 Mbit/s, and an upload of
    257 MiB at 3.6 Mbit/s."""

    head_s: float = 10.0
    body_s: float = 60.0
    upload_s: float = 600.0


class PatientProtocol(H11Protocol):
    """One connection, which is closed when its client takes too long to send a request.

    uvicorn limits only the time between requests: a thousand half-sent ones would hold a thousand
    connections for ever.
    """

    def __init__(self, *args: Any, limits: TimeLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = {h11.IDLE: limits.head_s, h11.SEND_BODY: limits.body_s}
        self._upload_s = limits.upload_s
        self._awaited: object = None  # the state of the client whose end is awaited
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._await(h11.IDLE)

    def data_received(self, data: bytes) -> None:
        """Read on; more of the same part of a request does not prolong its time."""
        super().data_received(data)
        self._await(self.conn.their_state)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._await(None)
        super().connection_lost(exc)

    def _await(self, state: object) -> None:
        if state is not self._awaited and self._timer is not None:
            self._timer.cancel()
        if state is not self._awaited and state in self._limits:
            uploads = state is h11.SEND_BODY and self.scope["path"] in UPLOADS
            wait_s = self._upload_s if uploads else self._limits[state]
            self._timer = self.loop.call_later(wait_s, self._expire)
        self._awaited = state

    def _expire(self) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_REFUSAL)
        self.transport.close()


def serve_http(
    app: Application,
    access: Access,
    ready: Callable[[str], None],
    limits: TimeLimits = TimeLimits(),  # noqa: B008 - a frozen value
) -> None:
    """Serve until SIGINT or SIGTERM. Calls `ready(address)` once listening."""
    check_access(access)
    listener = _listen(access)
    config = uvicorn.Config(
        app,
        http=partial(PatientProtocol, limits=limits),  # type: ignore[arg-type]
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        ws="websockets-sansio",
        ws_max_size=MAX_BODY_BYTES,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        timeout_graceful_shutdown=RESPONSE_GRACE_S,
    )
    with listener:
        host, port = listener.getsockname()[:2]
        address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        server = _Server(config, lambda: ready(address), app.ending)
        server.run(sockets=[listener])


class _Server(uvicorn.Server):
    """Reports when it is ready, and ends without raising the signal again."""

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], ending: anyio.Event
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._ending = ending

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections."""
        await super().startup(sockets=sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, let streams close, wait for open responses."""
        self._ending.set()
        await super().shutdown(sockets=sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Shut down on the first signal, at once on the second."""
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
        place = f"{access.host}:{access.port}"
        raise InvalidRequest(
            f"{place}: {error}",
            user_message=f"Cannot listen at {place}: {error.strerror or error}.",
            next_action="Choose another --port, or stop the program that uses it.",
        ) from error
    return listener
