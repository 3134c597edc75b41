"""An agent's stream over stdin and stdout, relayed to the background process.

If that process dies, another is started and gets the handshake and all read-only requests again. A
call that was running may have had an effect, so it is never sent twice: the client gets an error
that says to repeat it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import threading
import time

from sonde.cli.background.front import Channel, call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from sonde.cli.background.address import Address

_PARENT_POLL_S = 1.0  # the parent may die and leave stdin open, held by another child
_LEAVE_S = 2.5  # for the last answers once the client has left
_MAX_DEATHS, _DEATHS_S = 5, 60.0  # dying more often within this time, it is not started again
_READ_BYTES = 1 << 16  # what a socket holds at once
_OWN_IDS = 1 << 32
"""Requests of a restarted process get ids beyond this times its number, so that a late answer to
one of the dead process is not taken for another's."""
_GREETINGS = ("initialize", "notifications/initialized")
_LOST = (
    "The background process of sonde ended during this call. Repeat the call; if it changes "
    "something, check first whether it has."
)


def relay(address: Address, argv: Sequence[str]) -> None:
    """Serve the client until it leaves, and exit; returns if there is no process."""
    if channel := call(address, argv):
        _Relay(address, argv, channel).run()


class _Relay:
    def __init__(self, address: Address, argv: Sequence[str], channel: Channel) -> None:
        self._address, self._argv, self._socket = address, argv, channel.socket
        self._lock = threading.Lock()
        self._open: dict[Any, tuple[bytes, bool]] = {}
        """Requests waiting for an answer, and whether each may be sent again."""
        self._greetings: list[bytes] = []
        """Messages that a new process must receive first."""
        self._greeted: Any = None
        """The id of a handshake that the client already has an answer to."""
        self._restarts, self._ended = 0, False

    def run(self) -> NoReturn:
        """Serve until the client leaves. Exits here: a thread may still read stdin, and an
        ordinary exit would abort on it."""
        parent, deaths = os.getppid(), list[float]()
        threading.Thread(target=self._send_all, daemon=True).start()
        try:
            while True:
                self._receive_all(parent)
                if self._ended:
                    os._exit(0)
                deaths = [when for when in deaths if time.monotonic() - when < _DEATHS_S]
                deaths.append(time.monotonic())
                with self._lock:
                    if len(deaths) > _MAX_DEATHS or not self._restart():
                        for number in self._open:
                            _write(_make_error(number))
                        os._exit(1)
        except KeyboardInterrupt:
            os._exit(0)

    def _send_all(self) -> None:
        """From the client to the process, until the client leaves."""
        for data in sys.stdin.buffer:
            with self._lock:
                self._send(data, _parse(data))
        with self._lock, contextlib.suppress(OSError):
            self._ended = True
            self._socket.shutdown(1)  # SHUT_WR
        time.sleep(_LEAVE_S)
        os._exit(0)  # the client does not read the rest, or a call does not stop

    def _send(self, data: bytes, message: dict[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        if method is None and isinstance(number, int) and self._restarts:
            restarts, message["id"] = divmod(number, _OWN_IDS)
            if restarts != self._restarts:
                return  # an answer to a dead process
            data = _dump(message)
        if method in _GREETINGS and data not in self._greetings:
            self._greetings.append(data)
        was_sent = False
        with contextlib.suppress(OSError):  # if it is dead, `_receive_all` notices
            self._socket.sendall(data)
            was_sent = True
        if method is not None and isinstance(number, int | str):
            self._open[number] = (data, was_sent and method == "tools/call")
        elif method == "notifications/cancelled" and isinstance(message.get("params"), dict):
            with contextlib.suppress(TypeError):  # an id of another kind is none
                self._open.pop(message["params"].get("requestId"), None)

    def _receive_all(self, parent: int) -> None:
        """From the process to the client, until the process ends the connection or the client's
        own process is gone."""
        rest = b""
        while os.getppid() == parent:
            if not select.select([self._socket], [], [], _PARENT_POLL_S)[0]:
                continue
            try:
                data = self._socket.recv(_READ_BYTES)
            except OSError:
                return
            if not data:
                return
            *whole, rest = (rest + data).split(b"\n")
            for one in whole:
                self._pass_on(one)
        self._ended = True

    def _pass_on(self, data: bytes) -> None:
        message = _parse(data)
        number = message.get("id")
        with self._lock:
            if "method" not in message and isinstance(number, int | str):
                self._open.pop(number, None)
                if number == self._greeted and self._greeted is not None:
                    self._greeted = None
                    return
            elif isinstance(number, int) and self._restarts:
                message["id"] = number + self._restarts * _OWN_IDS
                data = _dump(message)[:-1]
        _write(data + b"\n")

    def _restart(self) -> bool:
        """Start a new process and replay the handshake; false if that fails."""
        channel = call(self._address, self._argv)
        if channel is None:
            return False
        self._socket, self._restarts, waiting = channel.socket, self._restarts + 1, self._open
        self._open = {}
        for data in self._greetings:
            message = _parse(data)
            if "id" in message and message["id"] not in waiting:
                self._greeted = message["id"]
            self._send(data, message)
        for number, (data, may_have_acted) in waiting.items():
            if may_have_acted:
                _write(_make_error(number))
            elif data not in self._greetings:
                self._send(data, _parse(data))
        if self._ended:
            self._socket.shutdown(1)  # SHUT_WR
        return True


def _make_error(number: int | str) -> bytes:
    error = {"code": -32603, "message": _LOST}  # the protocol's internal error
    return _dump({"jsonrpc": "2.0", "id": number, "error": error})


def _parse(data: bytes) -> dict[str, Any]:
    """A message; empty if it is none: the process says what is wrong with it."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _dump(message: dict[str, Any]) -> bytes:
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass") + b"\n"


def _write(data: bytes) -> None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except OSError:
        os._exit(0)  # the client is gone
