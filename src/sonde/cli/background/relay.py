"""An agent's stream over stdin and stdout, relayed to the background process.

If that process dies, another is started: it gets the handshake again, and requests that change
nothing. A call that was running may have had an effect: it is answered with an error that says to
repeat it, never sent twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import threading
import time

from sonde.cli.background.front import Line, call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from sonde.cli.background.place import Place

_PARENT_POLL_S = 1.0  # the parent may die and leave stdin open, held by another child
_LEAVE_S = 2.5  # for the process to end the session once the client has left
_DEATHS, _DEATHS_S = 5, 60.0  # a process that dies this often within this time is not started again
_SERVER_IDS = 1 << 32
"""Requests of a restarted process get ids beyond this times its number, so that a late answer to
one of the dead process is not taken for another's."""
_LOST = (
    "The background process of sonde ended during this call. Repeat the call; if it changes "
    "something, check first whether it has."
)


def relay(place: Place, argv: Sequence[str]) -> int | None:
    """Serve the client until it leaves; None if there is no process, and nothing was read."""
    line = call(place, "mcp", argv)
    return None if line is None else _Relay(place, argv, line).run()


class _Relay:
    def __init__(self, place: Place, argv: Sequence[str], line: Line) -> None:
        self._place, self._argv, self._line = place, argv, line
        self._lock = threading.Lock()
        self._open: dict[Any, tuple[str, bytes]] = {}
        """Requests of the client that wait for an answer: id -> method and message."""
        self._unsent: set[Any] = set()
        """Those that no process has got."""
        self._greetings: list[bytes] = []
        """What a new process has to be told before anything else."""
        self._greeted: Any = None
        """The id of a handshake whose answer the client has already."""
        self._restarts = 0
        self._ended = False

    def run(self) -> int:
        parent = os.getppid()
        threading.Thread(target=self._send_all, daemon=True).start()
        deaths: list[float] = []
        while True:
            self._receive_all(parent)
            if self._ended:
                break
            deaths = [when for when in deaths if time.monotonic() - when < _DEATHS_S]
            deaths.append(time.monotonic())
            if len(deaths) > _DEATHS or not self._restart():
                self._answer_open()
                return 1
        sys.stdout.flush()
        os._exit(0)  # a thread may still read stdin

    def _send_all(self) -> None:
        """From the client to the process, until the client leaves."""
        for data in sys.stdin.buffer:
            with self._lock:
                if data.strip() and (known := self._note_sent(data)) and not self._send(known):
                    self._unsent.add(_parse(known).get("id"))
        with self._lock:
            self._ended = True
            try:
                self._line.connection.shutdown(1)  # SHUT_WR
            except OSError:
                return

    def _send(self, data: bytes) -> bool:
        """Whether the process has got a message; if it is dead, `_receive_all` notices."""
        with contextlib.suppress(OSError):
            self._line.connection.sendall(data)
            return True
        return False

    def _note_sent(self, data: bytes) -> bytes:
        """Remember a message of the client. Returns it as the process knows it, if it does."""
        message = _parse(data)
        method, number = message.get("method"), message.get("id")
        if method is None and isinstance(number, int) and self._restarts:
            restarts, message["id"] = divmod(number, _SERVER_IDS)
            return _dump(message) + b"\n" if restarts == self._restarts else b""
        if not isinstance(method, str) or not isinstance(number, int | str | None):
            return data
        if number is not None:
            self._open[number] = (method, data)
        if method in ("initialize", "notifications/initialized", "logging/setLevel"):
            self._greetings.append(data)
        elif method == "notifications/cancelled":
            params = message.get("params")
            cancelled = params.get("requestId") if isinstance(params, dict) else None
            if isinstance(cancelled, int | str):
                self._open.pop(cancelled, None)
        return data

    def _receive_all(self, parent: int) -> None:
        """From the process to the client, until the process ends the connection."""
        line, rest = self._line, b""
        left: float | None = None
        while True:
            ready, _, _ = select.select([line.connection], [], [], _PARENT_POLL_S)
            if not ready:
                now = time.monotonic()
                left = left or (now if self._ended or os.getppid() != parent else None)
                if left and now - left > _LEAVE_S:
                    self._ended = True
                    return
                continue
            try:
                data = line.connection.recv(1 << 16)
            except OSError:
                return
            if not data:
                return
            *whole, rest = (rest + data).split(b"\n")
            for one in whole:
                self._pass_on(one)

    def _pass_on(self, data: bytes) -> None:
        message = _parse(data)
        with self._lock:
            number = message.get("id")
            if "method" in message and isinstance(number, int) and self._restarts:
                message["id"] = number + self._restarts * _SERVER_IDS
                data = _dump(message)
            elif "method" not in message and isinstance(number, int | str):
                self._open.pop(number, None)
                if self._greeted is not None and number == self._greeted:
                    self._greeted = None
                    return
        _write(data)

    def _restart(self) -> bool:
        """Start a new process and tell it what the dead one knew; false if that fails."""
        with self._lock:
            line = call(self._place, "mcp", self._argv)
            if line is None:
                return False
            self._line, self._restarts = line, self._restarts + 1
            again = []
            for number, (method, data) in list(self._open.items()):
                if method == "tools/call" and number not in self._unsent:
                    _write(_dump(_make_error(number)))
                    del self._open[number]
                elif method != "initialize":
                    again.append(data)
            for data in self._greetings:
                message = _parse(data)
                if message.get("id") not in self._open:
                    self._greeted = message.get("id", self._greeted)
            self._unsent.clear()
            for data in (*self._greetings, *again):
                self._send(data)
            if self._ended:
                line.connection.shutdown(1)  # SHUT_WR
            return True

    def _answer_open(self) -> None:
        with self._lock:
            for number in self._open:
                _write(_dump(_make_error(number)))


def _make_error(number: int | str) -> dict[str, Any]:
    error = {"code": -32603, "message": _LOST}  # the protocol's internal error
    return {"jsonrpc": "2.0", "id": number, "error": error}


def _parse(data: bytes) -> dict[str, Any]:
    """A message; empty if it is none: the process says what is wrong with it."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _dump(message: dict[str, Any]) -> bytes:
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _write(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data + b"\n")
        sys.stdout.buffer.flush()
    except OSError:
        os._exit(0)  # the client is gone
