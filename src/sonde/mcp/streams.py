"""Runs an SDK server on the pipe: lines on one side, session messages on the other."""

from __future__ import annotations

import asyncio
import logging
import math
from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types as types
from mcp.server import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from sonde.mcp.stdio.early import Inbox, Wire

_log = logging.getLogger("sonde.mcp")


async def run_server(server: Server[Any], inbox: Inbox, wire: Wire) -> None:
    """Serve one client until it closes its end."""
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    loop = asyncio.get_running_loop()

    def accept(line: bytes | None) -> None:
        if line is None:
            send.close()
            return
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            _log.warning("ignored a line that is not JSON-RPC (%d bytes)", len(line))
            return
        send.send_nowait(SessionMessage(message))

    def deliver(line: bytes | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(accept, line)

    inbox.hand_over(deliver)
    await server.run(receive, Outbox(wire, inbox), server.create_initialization_options())


class Outlet:
    """The rest of the SDK's stream protocol, for writers that own nothing."""

    async def aclose(self) -> None:
        """Nothing to close: the pipe or socket outlives the server."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        return None


class Outbox(Outlet):
    """The server's writing end of the pipe."""

    def __init__(self, wire: Wire, inbox: Inbox) -> None:
        self._wire = wire
        self._inbox = inbox

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message, unless the front has sent this answer already."""
        message = item.message
        if isinstance(message, types.JSONRPCResponse) and self._inbox.take_greeting(message.id):
            return
        self._wire.send(message.model_dump_json(by_alias=True, exclude_unset=True))
