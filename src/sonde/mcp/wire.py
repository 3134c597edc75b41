"""The two pipes to the client, taken away from everybody else in the process."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Iterator
from typing import BinaryIO

DRAIN_S = 0.5
"""How long closing waits for a client that reads slowly."""


class Wire:
    """Lines in, lines out; writing never blocks the caller."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._outbox: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._writer = threading.Thread(target=self._drain, name="sonde-stdout", daemon=True)
        self._writer.start()

    def read_lines(self) -> Iterator[bytes]:
        """Lines from the client until it closes its end; blocks."""
        try:
            for line in self._source:
                if line.strip():
                    yield line
        except OSError:
            return

    def send(self, message: str) -> None:
        """Queue one message for the client."""
        self._outbox.put(message)

    def close(self) -> None:
        """Wait, a little, until everything has been written."""
        self._outbox.put(None)
        self._writer.join(DRAIN_S)

    def _drain(self) -> None:
        try:
            while (message := self._outbox.get()) is not None:
                self._sink.write(message.encode("utf-8", "replace") + b"\n")
                self._sink.flush()
        except OSError:
            # The client is gone; the end of stdin follows and ends the server.
            return


def claim_wire() -> Wire:
    """Take stdin and stdout; from here on a print goes to stderr and a read finds nothing.

    The descriptors themselves are moved, and never moved back: so it also holds for C libraries,
    for child processes, and for what a buffer still has when the process exits.
    """
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.flush()
    return Wire(os.fdopen(source, "rb"), os.fdopen(sink, "wb"))
