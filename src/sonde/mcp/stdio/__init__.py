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

from sonde.mcp.stdio.early import Front, Inbox, Wire, claim_wire

if TYPE_CHECKING:
    from sonde.mcp.calls import Closable
    from sonde.mcp.listing import Listing
    from sonde.mcp.manifest import Lists


PARENT_POLL_S = 1.0
"""Interval of checks on the parent; it may die and leave stdin open, held by another child."""
STOP_S = 1.2
"""Time that running verbs have to stop; clients kill a server after about two seconds."""

_log = logging.getLogger("sonde.mcp")


def serve_stdio(
    open_app: Callable[[], Closable],
    make_listing: Callable[[], Listing],
    begin: Callable[[Closable], None] | None = None,
    early: Lists | None = None,
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
    client = Client(wire, make_listing, early)
    if sys.platform != "win32" and parent > 1:
        # on Windows children do not inherit the pipe, so it closes with the parent
        watch = (parent, client)
        threading.Thread(target=_end_with_parent, args=watch, daemon=True).start()
    stopped = client.serve(open_app, begin)

    from sonde.mcp.server import LEAVE_S, end_if_busy

    end_if_busy(LEAVE_S if stopped else 0.0)


class Client:
    """One client on a pipe or socket; its opening requests are answered from construction on."""

    def __init__(
        self, wire: Wire, make_listing: Callable[[], Listing], early: Lists | None = None
    ) -> None:
        self._wire, self._make_listing = wire, make_listing
        self._made = None if early else make_listing()
        self.inbox = Inbox(Front(self._made.lists if self._made else early or {}), wire)
        self.ending = threading.Event()
        threading.Thread(target=self.inbox.fill, name="sonde-stdin", daemon=True).start()

    def serve(
        self, open_app: Callable[[], Closable], begin: Callable[[Closable], None] | None = None
    ) -> bool:
        """Serve until the client closes its end. Returns whether all its calls have stopped."""
        import anyio

        from sonde.mcp.calls import Calls, LazyApp
        from sonde.mcp.server import begin_soon, build_server, run_server

        calls, app = Calls(), LazyApp(open_app)
        if begin:
            begin_soon(begin, app, self.ending)
        listing = self._made or self._make_listing()
        try:
            anyio.run(run_server, build_server(listing, app, calls), self.inbox, self._wire)
        except KeyboardInterrupt:
            _log.info("interrupted")
        self.ending.set()
        stopped = calls.stop(STOP_S)
        if stopped:
            app.close()
        self._wire.close()
        return stopped


def _end_with_parent(parent: int, client: Client) -> None:
    """Wait until the parent is gone, then end as if stdin had closed."""
    while not client.ending.wait(PARENT_POLL_S):
        if os.getppid() != parent:
            _log.info("the parent process is gone")
            client.inbox.end()
            client.ending.wait(STOP_S)
            # no client is left to answer; stores survive a crash at any point
            time.sleep(STOP_S)
            os._exit(0)
