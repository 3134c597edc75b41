"""Runs the application until it is told to stop, then lets what is under way end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import anyio
import uvicorn
from starlette.types import Receive, Scope, Send

from sonde.errors import InvalidRequest
from sonde.web.guard import MOST_BYTES, Access, is_exposed

_HEAD_BYTES = 256 * 1024
"""Of a request's line and headers: a path and a cursor, every character of them quoted."""
GRACE_S = 5
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


class Ending(Protocol):
    """An ASGI application that is told when it is to end."""

    ending: anyio.Event

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, socket or lifetime."""


def serve_http(app: Ending, access: Access, ready: Callable[[str], None]) -> None:
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
        timeout_graceful_shutdown=GRACE_S,
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
