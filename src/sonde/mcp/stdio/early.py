"""The pipe to a client, and early answers on it while the SDK is still being imported.

Some clients show a server's tools to their model only if they came within about a second, and
importing the SDK can take that long on a busy machine. The handshake and the listings have fixed
answers, so they are given at once, in exactly the bytes the SDK would send; a test compares the
two. Any other message waits for the SDK.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from sonde.mcp.manifest import INSTRUCTIONS, LIST_TTL_MS, Lists
from sonde.types import Json
from sonde.version import __version__

HANDSHAKE_VERSIONS = ("2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"
_META = "io.modelcontextprotocol/"
_NOT_OFFERED = ("prompts/list",)
"""Methods that clients call even though the capabilities do not offer them."""
_CAPABILITIES: Json = {
    "completions": {},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}


class Front:
    """Early answers, and the state of the client's handshake."""

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self._greeted = False
        self._info = {"name": "sonde", "title": "sonde", "version": __version__}

    def answer(self, message: Any) -> Json | None:
        """The response, if the request can be answered without the SDK."""
        match message:
            case {"jsonrpc": "2.0", "id": int() | str() as number, "method": str() as method}:
                params = message.get("params") or {}
            case _:
                return None
        if not isinstance(params, dict):
            return None
        meta = params.get("_meta") or {}
        modern = isinstance(meta, dict) and f"{_META}protocolVersion" in meta
        if method == "initialize":
            result = self._greet(params)
        elif modern and (
            meta[f"{_META}protocolVersion"] != MODERN_VERSION
            or not isinstance(meta.get(f"{_META}clientCapabilities"), dict)
        ):
            return None
        elif method in _NOT_OFFERED and (modern or self._greeted):
            error = {"code": -32601, "message": "Method not found", "data": method}
            return {"jsonrpc": "2.0", "id": number, "error": error}
        elif modern:
            result = self._answer_modern(method, params)
        elif not self._greeted:
            return None
        else:
            result = {} if method == "ping" else self._list(method, params)
        return None if result is None else {"jsonrpc": "2.0", "id": number, "result": result}

    def _greet(self, params: Json) -> Json | None:
        match params:
            case {
                "protocolVersion": str() as version,
                "capabilities": {},
                "clientInfo": {"name": str(), "version": str()},
            } if version in HANDSHAKE_VERSIONS:
                self._greeted = True
                return {
                    "capabilities": _CAPABILITIES,
                    "instructions": INSTRUCTIONS,
                    "protocolVersion": version,
                    "serverInfo": self._info,
                }
        return None

    def _list(self, method: str, params: Json) -> Json | None:
        return None if "cursor" in params else self._lists.get(method)

    def _answer_modern(self, method: str, params: Json) -> Json | None:
        result = self._list(method, params)
        if method == "server/discover":
            result = {
                "supportedVersions": [MODERN_VERSION],
                "capabilities": _CAPABILITIES,
                "instructions": INSTRUCTIONS,
            }
        if result is None:
            return None
        return result | {
            "resultType": "complete",
            "ttlMs": LIST_TTL_MS,
            "cacheScope": "public",
            "_meta": {f"{_META}serverInfo": self._info},
        }


DRAIN_S = 0.5
"""How long closing waits for a slow client to read the rest."""


class Wire:
    """The pipe: one message a line in either direction; sending never blocks."""

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
        """Write what is queued, for at most `DRAIN_S`."""
        self._outbox.put(None)
        self._writer.join(DRAIN_S)

    def _drain(self) -> None:
        try:
            while (message := self._outbox.get()) is not None:
                self._sink.write(message.encode("utf-8", "replace") + b"\n")
                self._sink.flush()
        except OSError:
            # The client is gone; stdin closes next and ends the server.
            return


def claim_wire() -> Wire:
    """Take over stdin and stdout; afterwards a print goes to stderr and a read returns nothing.

    The descriptors themselves are moved for good, so this also covers C libraries, child
    processes, and buffers that are flushed at exit.
    """
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdout.flush()
    return Wire(os.fdopen(source, "rb"), os.fdopen(sink, "wb"))


class Inbox:
    """Messages from the client: answered early, or queued until the server takes over."""

    def __init__(self, front: Front, wire: Wire) -> None:
        self._front: Front | None = front
        self._wire = wire
        self._lock = threading.Lock()
        self._waiting: list[bytes | None] = []
        self._deliver: Callable[[bytes | None], None] = self._waiting.append
        self._greeting: Any = None

    def fill(self) -> None:
        """Read until the client closes its end; runs in its own thread."""
        for line in self._wire.read_lines():
            with self._lock:
                if not self._answer_early(line):
                    self._deliver(line)
        self.end()

    def end(self) -> None:
        """Deliver the end of the stream."""
        with self._lock:
            self._deliver(None)

    def hand_over(self, deliver: Callable[[bytes | None], None]) -> None:
        """Send queued and all later messages to `deliver`; None marks the end."""
        with self._lock:
            for line in self._waiting:
                deliver(line)
            self._front, self._deliver = None, deliver

    def take_greeting(self, number: Any) -> bool:
        """Whether this handshake has already been answered; true once."""
        if self._greeting is None or number != self._greeting:
            return False
        self._greeting = None
        return True

    def _answer_early(self, line: bytes) -> bool:
        """Answer the message if possible; true if the server need not see it."""
        if self._front is None or b"\\ud" in line.lower():  # maybe half a character: an error
            return False
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return False
        reply = self._front.answer(message)
        if reply is None:
            return False
        self._wire.send(json.dumps(reply, ensure_ascii=False, separators=(",", ":")))
        if message["method"] != "initialize":
            return True
        # The server needs the handshake too, to learn the client's capabilities.
        self._greeting = message["id"]
        return False
