"""How long the server waits for a client to send a request; uvicorn limits only the time between
requests. Without more, a thousand half-sent ones hold a thousand connections for ever."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

UPLOADS = ("/knowledge/files", "/api/knowledge/files")
"""Where files are sent to: the body is larger there, and is not held in memory."""
MAX_UPLOAD_BYTES = 257 << 20  # 256 MiB, the largest file that is imported, and what is around it
_REFUSAL = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class TimeLimits(NamedTuple):
    """Seconds for the head of a request, and for its body: 4 MiB at 0.6 Mbit/s, and an upload of
    257 MiB at 3.6 Mbit/s."""

    head_s: float = 10.0
    body_s: float = 60.0
    upload_s: float = 600.0


class PatientProtocol(H11Protocol):
    """One connection, which is closed when its client takes too long."""

    def __init__(self, *args: Any, limits: TimeLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = {h11.IDLE: limits.head_s, h11.SEND_BODY: limits.body_s}
        self._upload_s = limits.upload_s
        self._awaited: object = None  # the state of the client whose end is awaited
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._await(h11.IDLE)

    def data_received(self, data: bytes) -> None:
        """Read on; more of the same part of a request does not prolong its time."""
        super().data_received(data)
        self._await(self.conn.their_state)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._await(None)
        super().connection_lost(exc)

    def _await(self, state: object) -> None:
        if state is not self._awaited and self._timer is not None:
            self._timer.cancel()
        if state is not self._awaited and state in self._limits:
            uploads = state is h11.SEND_BODY and self.scope["path"] in UPLOADS
            wait_s = self._upload_s if uploads else self._limits[state]
            self._timer = self.loop.call_later(wait_s, self._expire)
        self._awaited = state

    def _expire(self) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_REFUSAL)
        self.transport.close()
