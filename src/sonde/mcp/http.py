"""MCP over HTTP: Streamable HTTP for both generations of the protocol, and WebSocket.

The guard in front has checked Host, Origin and token and put a `Caller` into the ASGI scope.

The protocol defines no WebSocket transport; ours has the subprotocol `mcp` and one JSON-RPC
message per text frame. `notifications/cancelled` cancels as on stdio, and closing the socket
cancels every call made on it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any
from uuid import uuid4

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server import Server
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from sonde.mcp.calls import SCOPE_CALLER, SCOPE_SESSION
from sonde.mcp.stdio.wire import parse_line, write_message

SUBPROTOCOL = "mcp"
MAX_SESSIONS = 1_000
"""Open at a time; bounds what clients that never close theirs can hold."""


class McpOverHttp:
    """Streamable HTTP as an ASGI application."""

    def __init__(
        self,
        server: Server[Any],
        forget: Callable[[str, str], None] = lambda _user, _session: None,
        ending: anyio.Event | None = None,
    ) -> None:
        self._manager = StreamableHTTPSessionManager(server, max_sessions=MAX_SESSIONS)
        self._forget = forget
        """Called with the user and session that a client has ended."""
        self._ending = ending or anyio.Event()

    def running(self) -> AbstractAsyncContextManager[None]:
        """Serve while the context is open."""
        return self._manager.run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; a session belongs to the user who opened it."""
        user = scope[SCOPE_CALLER].user
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=user, scopes=[]))
        if scope["method"] == "DELETE":
            request = Request(scope)
            named = (request.headers, request.query_params)
            for session in {each.get("mcp-session-id", "") for each in named} - {""}:
                await anyio.to_thread.run_sync(self._forget, user, session)
        if scope["method"] == "POST":
            body = await Request(scope, receive).body()
            _, refusals, _ = parse_line(body)
            if refusals:
                text = write_message(refusals if len(refusals) > 1 else refusals[0])
                await Response(text, 400, media_type="application/json")(scope, receive, send)
                return
            whole = {"type": "http.request", "body": body, "more_body": False}
            receive = replay([whole], receive)
        if scope["method"] != "GET":
            await self._manager.handle_request(scope, receive, send)
            return
        await self._listen(scope, receive, send)

    async def _listen(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a stream that stays open until the client leaves or the server shuts down."""
        is_open = False

        async def note(message: Message) -> None:
            nonlocal is_open
            is_open = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        async def cut_at_end(cut: anyio.CancelScope) -> None:
            await self._ending.wait()
            cut.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(cut_at_end, group.cancel_scope)
            await self._manager.handle_request(scope, receive, note)
            group.cancel_scope.cancel()
        if is_open:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def replay(messages: Iterable[Message], receive: Receive) -> Receive:
    """A `receive` that replays messages that were already read, then continues."""
    waiting = deque(messages)

    async def receive_again() -> Message:
        return waiting.popleft() if waiting else await receive()

    return receive_again


class McpOverSocket:
    """A WebSocket as an ASGI application."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client until either side closes."""
        socket = WebSocket(scope, receive, send)
        if SUBPROTOCOL not in scope.get("subprotocols", []):
            await socket.close(1002, "offer the subprotocol mcp")
            return
        scope[SCOPE_SESSION] = uuid4().hex
        await socket.accept(SUBPROTOCOL)
        put, take = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
        put_out, take_out = anyio.create_memory_object_stream[SessionMessage]()
        options = self._server.create_initialization_options()

        async with anyio.create_task_group() as group:
            group.start_soon(_receive_messages, socket, put, group.cancel_scope)
            group.start_soon(_send_messages, socket, take_out)
            await self._server.run(take, put_out, options)
            group.cancel_scope.cancel()


async def _send_messages(
    socket: WebSocket, take: anyio.abc.ObjectReceiveStream[SessionMessage]
) -> None:
    async for item in take:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        with suppress(WebSocketDisconnect, RuntimeError, OSError):  # the socket is closed
            await socket.send_text(text)


async def _receive_messages(
    socket: WebSocket,
    put: anyio.abc.ObjectSendStream[SessionMessage | Exception],
    scope: anyio.CancelScope,
) -> None:
    origin = ServerMessageMetadata(request_context=socket)
    while (frame := await socket.receive())["type"] == "websocket.receive":
        text = frame.get("text")
        if text is None:
            await socket.close(1003, "text frames only")
            break
        messages, refusals, _ = parse_line(text.encode("utf-8", "surrogatepass"))
        for message in messages:
            parsed = types.jsonrpc_message_adapter.validate_python(message, by_name=False)
            await put.send(SessionMessage(parsed, metadata=origin))
        for refusal in refusals:
            await socket.send_text(write_message(refusal))
    # The client is gone: cancel what is running.
    scope.cancel()
