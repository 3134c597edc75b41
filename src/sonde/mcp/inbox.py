"""What the client has sent: answered by the front until the server takes over, without a gap."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from sonde.mcp.front import Front
from sonde.mcp.wire import Wire


class Inbox:
    """Messages from the client: the front answers what it can until the server takes over."""

    def __init__(self, front: Front, wire: Wire) -> None:
        self._front: Front | None = front
        self._wire = wire
        self._lock = threading.Lock()
        self._waiting: list[bytes | None] = []
        self._deliver: Callable[[bytes | None], None] = self._waiting.append
        self._greeting: Any = None

    def fill(self) -> None:
        """Read until the client closes its end (runs in a thread of its own)."""
        for line in self._wire.read_lines():
            with self._lock:
                if not self._answer_early(line):
                    self._deliver(line)
        self.end()

    def end(self) -> None:
        """Deliver the end, as when the client closes its end."""
        with self._lock:
            self._deliver(None)

    def hand_over(self, deliver: Callable[[bytes | None], None]) -> None:
        """From now on everything goes to `deliver`, what has waited first; None is the end."""
        with self._lock:
            for line in self._waiting:
                deliver(line)
            self._front, self._deliver = None, deliver

    def take_greeting(self, number: Any) -> bool:
        """Whether this is the handshake that the front has answered: no second answer, then."""
        if self._greeting is None or number != self._greeting:
            return False
        self._greeting = None
        return True

    def _answer_early(self, line: bytes) -> bool:
        """Whether the front has dealt with this message for good."""
        if self._front is None:
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
        # The server must see the handshake too, to know the client.
        self._greeting = message["id"]
        return False
