"""How long the server waits for a client: to send a request, and to read the answer.

uvicorn limits only the time between requests. Without more, a thousand clients that each send half
a request hold a thousand connections for as long as they like.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class TimeLimits(NamedTuple):
    """Seconds that a client may take."""

    head_s: float = 10.0
    """From connecting, or from its first byte, to the end of a request's headers."""
    body_s: float = 60.0
    """For the body: the largest at 1.5 Mbit/s."""
    unread_s: float = 60.0
    """Without reading anything of an answer that is waiting for it."""


class PatientProtocol(H11Protocol):
    """One connection, which is closed when its client takes too long."""

    def __init__(self, *args: Any, patience: TimeLimits, **options: Any) -> None:
        super().__init__(*args, **options)
        self._patience = patience
        self._awaited: object = None
        """The state of the client whose end is awaited: h11.IDLE for a head, SEND_BODY."""
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._await(h11.IDLE)

    def data_received(self, data: bytes) -> None:
        """Read on; every part of a request has its time."""
        super().data_received(data)
        self._await(self.conn.their_state)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._await(None)
        self._stop_unread()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client reads more slowly than it is sent to."""
        super().pause_writing()
        self._unread = self.loop.call_later(self._patience.unread_s, self.transport.abort)

    def resume_writing(self) -> None:
        """It has read some of it."""
        self._stop_unread()
        super().resume_writing()

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _await(self, state: object) -> None:
        """Wait for the end of this state; more of the same request does not prolong it."""
        if state is self._awaited:
            return
        self._awaited = state
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        limits = {h11.IDLE: self._patience.head_s, h11.SEND_BODY: self._patience.body_s}
        if state in limits:
            self._timer = self.loop.call_later(limits[state], self._expire)

    def _expire(self) -> None:
        if self.transport.is_closing():
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(
                b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            )
        self.transport.close()
