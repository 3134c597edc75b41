"""The MCP server: lists and calls tools and reads resources, over any transport or the pipe."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import math
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Self

import anyio
import mcp_types as types
from mcp.server import CacheHint, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.message import SessionMessage
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from sonde.errors import CatalogError, InvalidRequest, NoSuchAddress, SondeError, TooManyRequests
from sonde.mcp.calls import (
    AnswerNeeded,
    Call,
    Calls,
    Closable,
    Context,
    LazyApp,
    dump_answer,
    error_result,
    protocol_error,
    shape_answer,
)
from sonde.mcp.listing import Listing
from sonde.mcp.manifest import INSTRUCTIONS, LIST_TTL_MS
from sonde.mcp.stdio.early import Inbox, Wire
from sonde.runtime.work import Work
from sonde.tools.route import find_route
from sonde.tools.tool import bind_arguments, find_tool
from sonde.types import Content, Json
from sonde.version import __version__

MAX_COMPLETIONS = 100
"""The protocol's limit."""
NOT_FOUND_BEFORE_2026 = -32002
"""The error code for a missing resource in protocol versions before 2026-07-28."""
BEGIN_S = 1.0
"""Background work starts this long after the server, when the opening requests are answered."""
RETRY_S = 5.0
"""How often opening the app is retried."""
LEAVE_S = 0.5
"""How long threads may take to end before the process exits without them."""
_log = logging.getLogger("sonde.mcp")
_TOKEN = re.compile(rb'("(?:[^"\\]|\\.)*")(\s*:\s*)?|[][{}]', re.DOTALL)
"""A bracket, or a string, which is a key if followed by a colon."""
_OF_RESPONSES = (b'"result"', b'"error"')
_ID = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?![\d.eE])')


def begin_soon(begin: Callable[[Closable], None], app: LazyApp, ending: threading.Event) -> None:
    """Start background work once the opening requests of a client are answered. If the app cannot
    be opened, as while a shared index is away, it is tried again."""

    def run() -> None:
        wait_s = BEGIN_S
        while not ending.wait(wait_s):
            try:
                begin(app.open())
            except SondeError as error:
                _log.warning("not ready: %s", error.user_message)
                wait_s = RETRY_S
            except Exception:  # noqa: BLE001 - the server serves without it
                _log.exception("background work did not start")
                return
            else:
                return

    threading.Thread(target=run, name="sonde-begin", daemon=True).start()


def end_if_busy(patience_s: float = LEAVE_S) -> None:
    """Exit the process here if a thread is still working.

    A thread inside native code cannot be stopped, and an ordinary exit would unload the model
    runtime under it and abort. Exiting is safe: stores survive a crash at any point.
    """
    deadline = time.monotonic() + patience_s
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(max(deadline - time.monotonic(), 0.0))
            if thread.is_alive():
                _log.info("%s was still running", thread.name)
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(0)


Observe = Callable[[str, str, float], None]
"""Called for every call with the tool, its outcome and its seconds."""


def build_server(
    listing: Listing, app: LazyApp, calls: Calls, observe: Observe = lambda *_: None
) -> Server[Any]:
    """An MCP server for these tools and routes, for both generations of the protocol."""

    async def list_rows(ctx: Context, _params: types.PaginatedRequestParams) -> Json:
        return {"resultType": "complete", **listing.lists[ctx.method]}

    async def call_tool(
        ctx: Context, params: types.CallToolRequestParams
    ) -> Json | types.InputRequiredResult:
        began, name, outcome = time.perf_counter(), "unknown", "cancelled"
        try:
            tool = find_tool(listing.tools, params.name)
            name = tool.name
            arguments = bind_arguments(tool, params.arguments or {})
            listing.limits.take(name, calls.read_caller(ctx).user)

            def run_verb(work: Work) -> Any:
                return tool.call(app.get(work.caller), **arguments, work=work)

            answer = shape_answer(await calls.run(run_verb, ctx, params, (name, arguments)))
            outcome = "ok"
        except AnswerNeeded as needed:
            outcome = "asked"
            return needed.result
        except Exception as error:  # noqa: BLE001 - the one place that turns errors into protocol
            outcome = getattr(error, "code", "defect")
            return error_result(error)
        else:
            return answer
        finally:
            observe(name, outcome, time.perf_counter() - began)

    hint = CacheHint(ttl_ms=LIST_TTL_MS, scope="public")
    reader = ResourceReader(listing, app, calls)
    server = Server[Any](
        "sonde",
        version=__version__,
        title="sonde",
        instructions=INSTRUCTIONS,
        cache_hints={
            "tools/list": hint,
            "resources/list": hint,
            "resources/templates/list": hint,
            "server/discover": hint,
            "resources/read": CacheHint(ttl_ms=0, scope="private"),
        },
    )
    for method in listing.lists:
        server.add_request_handler(method, types.PaginatedRequestParams, list_rows)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, reader.read)
    server.add_request_handler("completion/complete", types.CompleteRequestParams, reader.complete)
    # The state of a question passes through the client: sealed, and valid for that user only.
    seal = RequestStateSecurity(
        keys=[secrets.token_bytes(32)], bind_principal=lambda ctx: calls.read_caller(ctx).user
    )
    server.middleware.append(RequestStateBoundary(seal, default_audience="sonde"))
    return server


class ResourceReader:
    """Reads resources and completes their addresses."""

    def __init__(self, listing: Listing, app: LazyApp, calls: Calls) -> None:
        self._listing = listing
        self._app = app
        self._calls = calls

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> Json:
        """The content at an address."""
        uri = str(params.uri)
        try:
            route, texts = find_route(self._listing.routes, uri)
            arguments = route.bind(texts)
            self._listing.limits.take(route.name, self._calls.read_caller(ctx).user)
            answer = await self._run(
                ctx,
                lambda work: route.call(self._app.get(work.caller), **arguments, work=work),
                (route.name, arguments),
            )
        except (CatalogError, NoSuchAddress, TooManyRequests) as error:
            # resources, unlike tools, have no error results
            modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
            code = types.INVALID_PARAMS if modern else NOT_FOUND_BEFORE_2026
            raise protocol_error(error, code) from error
        except Exception as error:
            raise protocol_error(error) from error
        if not isinstance(answer, Content):
            answer = Content(dump_answer(answer), route.mime)
        body = {"text": answer.body}
        if isinstance(answer.body, bytes):
            body = {"blob": base64.b64encode(answer.body).decode()}
        contents = [{"uri": uri, "mimeType": answer.mime, **body}]
        return {"resultType": "complete", "contents": contents}

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> Json:
        """Values that start with what a person has typed."""
        template = getattr(params.ref, "uri", None)
        routes = (route for route in self._listing.routes if route.complete)
        route = next((route for route in routes if route.template == template), None)
        values: Sequence[str] = ()
        if route is not None and route.complete is not None:
            complete, typed = route.complete, params.argument
            given = (params.context.arguments if params.context else None) or {}
            try:
                values = await self._run(
                    ctx,
                    lambda work: complete(
                        self._app.get(work.caller), typed.name, typed.value, given
                    ),
                )
            except (CatalogError, InvalidRequest):
                values = ()  # incomplete input is no error
        shown = list(values[:MAX_COMPLETIONS])
        completion = {"values": shown, "hasMore": len(values) > len(shown)}
        return {"resultType": "complete", "completion": completion}

    async def _run(
        self, ctx: Context, verb: Callable[[Work], Any], what: Call | None = None
    ) -> Any:
        work = Work(caller=self._calls.read_caller(ctx))
        return await self._calls.run_work(verb, work, what)


def read_message(line: bytes) -> types.JSONRPCMessage | list[types.JSONRPCError]:
    """The message; if it is invalid, an error for each request in it, so that none waits."""
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        is_json = error.errors(include_url=False)[0]["type"] != "json_invalid"
    is_batch = line.lstrip()[:1] == b"["
    code, text = types.PARSE_ERROR, "This is not JSON."
    if is_json:
        code, text = types.INVALID_REQUEST, "This is not a JSON-RPC message."
        if is_batch:
            text = "Batches are not supported: send each message on its own."
    refusal = types.ErrorData(code=code, message=text)
    ids: list[int | str | None] = [*_find_ids(line, 2 if is_batch else 1)]
    return [types.JSONRPCError(jsonrpc="2.0", id=one, error=refusal) for one in ids or [None]]


def _find_ids(line: bytes, level: int) -> Iterator[int | str]:
    """The ids of requests at this depth, read without parsing the rest."""
    depth, keys, found = 0, set[bytes](), list[int | str]()
    for token in _TOKEN.finditer(line):
        mark = token[0]
        if token[2] and depth == level:
            keys.add(token[1])
            if token[1] == b'"id"' and (value := _ID.match(line, token.end())):
                with suppress(ValueError):  # half a character cannot be sent back either
                    number = json.loads(value[0])
                    found = [number] if str(number).encode() else []
        depth += (mark in (b"{", b"[")) - (mark in (b"}", b"]"))
        if depth < level and mark in (b"}", b"]"):
            yield from found if keys.isdisjoint(_OF_RESPONSES) else ()
            keys, found = set(), []
    yield from found if keys.isdisjoint(_OF_RESPONSES) else ()


def write_message(message: types.JSONRPCMessage) -> str:
    """The message as a client gets it."""
    return message.model_dump_json(by_alias=True, exclude_unset=True)


async def run_server(server: Server[Any], inbox: Inbox, wire: Wire) -> None:
    """Serve one client until it closes its end."""
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    loop = asyncio.get_running_loop()

    def accept(line: bytes | None) -> None:
        if line is None:
            send.close()
            return
        message = read_message(line)
        if isinstance(message, list):
            _log.warning("refused a line that is not JSON-RPC (%d bytes)", len(line))
            for refusal in message:
                wire.send(write_message(refusal))
            return
        send.send_nowait(SessionMessage(message))

    def deliver(line: bytes | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(accept, line)

    async def send_message(item: SessionMessage) -> None:
        message = item.message
        greeting = isinstance(message, types.JSONRPCResponse) and inbox.take_greeting(message.id)
        if not greeting:  # else the front has sent this answer already
            wire.send(write_message(message))

    inbox.hand_over(deliver)
    await server.run(receive, Outbox(send_message), server.create_initialization_options())


class Outbox:
    """The server's writing end of a pipe or socket, which outlives the server."""

    def __init__(self, send: Callable[[SessionMessage], Awaitable[None]]) -> None:
        self._send = send

    async def send(self, item: SessionMessage, /) -> None:
        """Send one message."""
        await self._send(item)

    async def aclose(self) -> None:
        """Nothing to close."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        return None
