"""MCP over stdin and stdout.

Only protocol messages reach the pipe, the opening requests are answered before the SDK is
imported (`early.py`), and the process ends as soon as its client does.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sonde.mcp.stdio.early import Front, Inbox, claim_wire

if TYPE_CHECKING:
    from sonde.mcp.calls import Closable
    from sonde.mcp.listing import Listing
    from sonde.mcp.manifest import Manifest


PARENT_POLL_S = 1.0
"""Interval of checks on the parent; it may die and leave stdin open, held by another child."""
STOP_S = 1.2
"""Time that running verbs have to stop; clients kill a server after about two seconds."""

_log = logging.getLogger("sonde.mcp")


def serve_stdio(
    open_app: Callable[[], Closable],
    make_listing: Callable[[], Listing],
    begin: Callable[[Closable], None] | None = None,
    early: Manifest | None = None,
) -> None:
    """Serve until stdin closes or the parent dies; `open_app` runs when a tool is first called.

    `begin(app)` is called soon after the start, to begin background work. `early` is the listing
    as the manifest has it, if its settings are the defaults.
    """
    parent = os.getppid()
    wire = claim_wire()
    logging.basicConfig(stream=sys.stderr)
    # a supervisor's way to say Ctrl-C
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    made = None if early else make_listing()
    shown = early or made
    assert shown is not None
    inbox = Inbox(Front(shown), wire)
    threading.Thread(target=inbox.fill, name="sonde-stdin", daemon=True).start()

    import anyio

    from sonde.mcp.calls import Calls, LazyApp
    from sonde.mcp.server import LEAVE_S, begin_soon, build_server, end_if_busy, run_server

    calls, app = Calls(), LazyApp(open_app)
    ending = threading.Event()
    if sys.platform != "win32" and parent > 1:
        # on Windows children do not inherit the pipe, so it closes with the parent
        watch = (parent, inbox, ending)
        threading.Thread(target=_end_with_parent, args=watch, daemon=True).start()
    if begin:
        begin_soon(begin, app, ending)
    try:
        anyio.run(run_server, build_server(made or make_listing(), app, calls), inbox, wire)
    except KeyboardInterrupt:
        _log.info("interrupted")
    ending.set()
    stopped = calls.stop(STOP_S)
    if stopped:
        app.close()
    wire.close()
    end_if_busy(LEAVE_S if stopped else 0.0)


def _end_with_parent(parent: int, inbox: Inbox, ending: threading.Event) -> None:
    """Wait until the parent is gone, then end as if stdin had closed."""
    while not ending.wait(PARENT_POLL_S):
        if os.getppid() != parent:
            _log.info("the parent process is gone")
            inbox.end()
            ending.wait(STOP_S)
            # no client is left to answer; stores survive a crash at any point
            time.sleep(STOP_S)
            os._exit(0)
