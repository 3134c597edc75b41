"""MCP over stdin and stdout: nothing but protocol on the wire, an answer at once, a prompt end."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from sonde.mcp.front import Front
from sonde.mcp.inbox import Inbox
from sonde.mcp.listing import Listing
from sonde.mcp.wire import claim_wire

if TYPE_CHECKING:
    from sonde.mcp.server import Closable

STOP_S = 1.2
"""How long running verbs may take to stop; clients kill a server after about two seconds."""

_log = logging.getLogger("sonde.mcp")


def serve_stdio(open_app: Callable[[], Closable], listing: Listing) -> None:
    """Serve until stdin closes; `open_app` runs when a tool is first called."""
    wire = claim_wire()
    logging.basicConfig(stream=sys.stderr)
    inbox = Inbox(Front(listing), wire)
    threading.Thread(target=inbox.fill, name="sonde-stdin", daemon=True).start()

    import anyio

    from sonde.mcp.calls import Calls
    from sonde.mcp.server import LazyApp, build_server
    from sonde.mcp.streams import run_server

    calls, app = Calls(), LazyApp(open_app)
    try:
        anyio.run(run_server, build_server(listing, app, calls), inbox, wire)
    except KeyboardInterrupt:
        _log.info("interrupted")
    stopped = calls.stop(STOP_S)
    if stopped:
        app.close()
    wire.close()
    if not stopped:
        # A verb deep in foreign code cannot be stopped and would hold the process open. Stores
        # survive a crash at any point, so leaving now is safe where waiting is not.
        sys.stderr.flush()
        os._exit(0)
