"""The MCP server: lists and calls tools and reads resources, over any transport."""

from __future__ import annotations

import logging
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.server import CacheHint, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity

from sonde.mcp.calls import (
    AnswerNeeded,
    Calls,
    Closable,
    Context,
    LazyApp,
    error_result,
    shape_answer,
)
from sonde.mcp.listing import Listing
from sonde.mcp.manifest import INSTRUCTIONS, LIST_TTL_MS
from sonde.mcp.resources import ResourceReader
from sonde.runtime.work import Work
from sonde.tools.tool import bind_arguments, find_tool
from sonde.types import Json
from sonde.version import __version__

BEGIN_S = 1.0
"""Background work starts this long after the server, when the opening requests are answered."""
LEAVE_S = 0.5
"""How long threads may take to end before the process exits without them."""
_log = logging.getLogger("sonde.mcp")


def begin_soon(
    begin: Callable[[Closable], None], app: LazyApp, ending: threading.Event
) -> threading.Thread:
    """Start background work once the opening requests of a client are answered."""

    def run() -> None:
        if not ending.wait(BEGIN_S):
            try:
                begin(app.get())
            except Exception:  # noqa: BLE001 - the server serves without it
                _log.exception("background work did not start")

    thread = threading.Thread(target=run, name="sonde-begin", daemon=True)
    thread.start()
    return thread


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

    async def list_tools(_ctx: Context, _params: types.PaginatedRequestParams) -> Json:
        return {"resultType": "complete", "tools": listing.entries}

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
                return tool.call(app.get(), **arguments, work=work)

            answer = shape_answer(await calls.run(run_verb, ctx, params))
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

    async def list_resources(_ctx: Context, _params: types.PaginatedRequestParams) -> Any:
        return {"resultType": "complete", "resources": listing.resources}

    async def list_templates(_ctx: Context, _params: types.PaginatedRequestParams) -> Any:
        return {"resultType": "complete", "resourceTemplates": listing.templates}

    hint = CacheHint(ttl_ms=LIST_TTL_MS, scope="public")
    reader = ResourceReader(listing.routes, app, calls, listing.limits)
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
    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    paged = types.PaginatedRequestParams
    server.add_request_handler("resources/list", paged, list_resources)
    server.add_request_handler("resources/templates/list", paged, list_templates)
    server.add_request_handler("resources/read", types.ReadResourceRequestParams, reader.read)
    server.add_request_handler("completion/complete", types.CompleteRequestParams, reader.complete)
    # The state of a question passes through the client: sealed, and valid for that user only.
    seal = RequestStateSecurity(
        keys=[secrets.token_bytes(32)], bind_principal=lambda ctx: calls.read_caller(ctx).user
    )
    server.middleware.append(RequestStateBoundary(seal, default_audience="sonde"))
    return server
