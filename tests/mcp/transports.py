"""The client's end of MCP over HTTP and WebSocket, for the SDK's client."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import mcp_types as types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.message import SessionMessage
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed


@asynccontextmanager
async def open_http(url: str, headers: dict[str, str]) -> AsyncIterator[tuple[Any, Any]]:
    """A transport: Streamable HTTP with headers of our own."""
    async with (
        create_mcp_http_client(headers=headers) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


@asynccontextmanager
async def open_socket(url: str, headers: dict[str, str]) -> AsyncIterator[tuple[Any, Any]]:
    """A transport: one message per text frame."""
    put_in, take_in = anyio.create_memory_object_stream[Any](math.inf)
    put_out, take_out = anyio.create_memory_object_stream[Any](math.inf)

    async def read(socket: ClientConnection) -> None:
        # a client that is leaving reads no more
        with suppress(anyio.BrokenResourceError):
            async for text in socket:
                message = types.jsonrpc_message_adapter.validate_json(text, by_name=False)
                await put_in.send(SessionMessage(message))
        put_in.close()

    async def write(socket: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            async for item in take_out:
                await socket.send(item.message.model_dump_json(by_alias=True, exclude_unset=True))

    with put_in, take_in, put_out, take_out:
        async with (
            connect(url, subprotocols=["mcp"], additional_headers=headers, max_size=None) as socket,
            anyio.create_task_group() as group,
        ):
            assert socket.subprotocol == "mcp"
            group.start_soon(read, socket)
            group.start_soon(write, socket)
            try:
                yield take_in, put_out
            finally:
                group.cancel_scope.cancel()
