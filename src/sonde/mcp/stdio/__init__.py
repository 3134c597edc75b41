"""MCP over stdin and stdout.

Only protocol messages reach the pipe, and the process ends as soon as its client does. Nothing
here imports the SDK, which would take longer than a first search.
"""

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from sonde.mcp.calls import LEAVE_S, Closable, end_if_busy
from sonde.mcp.stdio.session import PipeSession
from sonde.mcp.stdio.wire import claim_wire

if TYPE_CHECKING:
    from sonde.mcp.listing import Listing
    from sonde.mcp.manifest import Lists


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
    wire = claim_wire()
    logging.basicConfig(stream=sys.stderr)
    # a supervisor's way to say Ctrl-C
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    stopped = False
    with suppress(KeyboardInterrupt):  # a second signal: it does not wait for what is running
        stopped = PipeSession(wire, make_listing, early).serve(open_app, begin)
    end_if_busy(LEAVE_S if stopped else 0.0)
