"""An agent's stream over stdin and stdout, relayed to the background process.

If that process dies, another is started and gets the handshake and all read-only requests again. A
call that was running may have had an effect, so it is never sent twice: the client gets an error
that says to repeat it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import socket
import sys
import threading
import time

from sonde.cli.background.front import Channel, call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

    from sonde.cli.background.address import Address

_POLL_S = 1.0  # how often it looks whether its client is gone
_FINISH_S = 70.0  # after the end of input, for open calls; the process gives them up before
_LEAVE_S = 2.5  # for the process to end the connection, or the client to read one more answer
_MAX_DEATHS, _DEATHS_S = 5, 60.0  # dying more often within this time, it is not started again
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
        self._address, self._argv, self._channel = address, argv, channel
        self._lock = threading.Lock()
        self._open: dict[Any, bytes] = {}
        """Requests waiting for an answer; empty for one that may not be sent again."""
        self._greeting = b""
        """The handshake, which a new process must receive first."""
        self._greeted: Any = None
        """The id of a handshake that the client already has an answer to."""
        self._ended, self._done = False, threading.Event()
        """Whether the client sends no more, and whether the process has answered everything."""
        self._writing = math.inf
        """Since when the client is given an answer that it does not read."""

    def run(self) -> NoReturn:
        """Serve until the client has left with its answers, or is gone. Exits here: a thread may
        still read stdin, and an ordinary exit would abort on it."""
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        parent, deadline = os.getppid(), math.inf
        for work in (self._send_all, self._receive_all):
            threading.Thread(target=work, daemon=True).start()
        try:
            while not self._done.wait(_POLL_S) and os.getppid() == parent and _has_reader():
                now = time.monotonic()
                if self._ended:
                    deadline = min(deadline, now + (_FINISH_S if self._open else _LEAVE_S))
                if self._ended and now > min(deadline, self._writing + _LEAVE_S):
                    break  # the process is stuck, or the client reads no more
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second Ctrl-C ends it at once
            self._stop_calls()
        os._exit(0)

    def _stop_calls(self) -> None:
        """Have the process stop running calls, and wait until it has: then it writes no more."""
        if self._lock.acquire(timeout=_LEAVE_S):
            for number in [*self._open]:
                what = {"method": "notifications/cancelled", "params": {"requestId": number}}
                self._send(_dump({"jsonrpc": "2.0", **what}))
            self._end_input()
            self._lock.release()
            self._done.wait(_LEAVE_S)

    def _send_all(self) -> None:
        """From the client to the process, until the client leaves."""
        for data in sys.stdin.buffer:
            with self._lock:
                self._send(data if data.endswith(b"\n") else data + b"\n")
        with self._lock:
            self._end_input()

    def _end_input(self) -> None:
        self._ended = True
        with contextlib.suppress(OSError):  # it is dead
            self._channel.socket.shutdown(socket.SHUT_WR)

    def _send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # if it is dead, `_receive_all` notices
            self._channel.socket.sendall(data)
        messages = _parse(data)
        for message in messages:
            method, number = message.get("method"), message.get("id")
            if method == "initialize":
                self._greeting = data
            if method == "notifications/cancelled" and isinstance(message.get("params"), dict):
                named = str(message["params"].get("requestId"))
                self._open = {each: one for each, one in self._open.items() if str(each) != named}
            elif method is not None and type(number) in (int, str):
                again = data if len(messages) == 1 else _dump(message)
                self._open[number] = b"" if method == "tools/call" else again

    def _receive_all(self) -> None:
        """From the process to the client, until the process ends the connection."""
        deaths = list[float]()
        while True:
            with contextlib.suppress(OSError), self._channel.stream as stream:
                for data in stream:
                    if data.endswith(b"\n"):  # else it died meanwhile
                        self._pass_on(data)
            if self._ended and not self._open:
                break
            deaths = [when for when in deaths if time.monotonic() - when < _DEATHS_S]
            deaths.append(time.monotonic())
            with self._lock:
                if len(deaths) > _MAX_DEATHS or not self._restart():
                    for number in self._open:
                        self._write(_make_error(number))
                    os._exit(1)
        self._done.set()

    def _pass_on(self, data: bytes) -> None:
        with self._lock:
            for message in _parse(data):
                if "method" not in message and (number := message.get("id")) is not None:
                    self._open.pop(number, None)
                    if number == self._greeted:
                        self._greeted = None
                        return
        self._write(data)

    def _write(self, data: bytes) -> None:
        self._writing = time.monotonic()
        try:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        except OSError:
            os._exit(0)  # the client is gone
        self._writing = math.inf

    def _restart(self) -> bool:
        """Start a new process and replay the handshake; false if that fails."""
        channel = call(self._address, self._argv)
        if channel is None:
            return False
        self._channel, self._open, waiting = channel, {}, self._open
        for message in _parse(self._greeting):
            if message.get("id") not in waiting:
                self._greeted = message.get("id")
            self._send(self._greeting)
        for number, data in waiting.items():
            if not data:
                self._write(_make_error(number))
            elif data != self._greeting:
                self._send(data)
        if self._ended:
            self._end_input()
        return True


def _has_reader() -> bool:
    """Whether the client still has its end of stdout open, which shows without writing to it."""
    look = select.poll()
    look.register(1, 0)
    return not any(event & (select.POLLERR | select.POLLHUP) for _, event in look.poll(0))


def _make_error(number: int | str) -> bytes:
    error = {"code": -32603, "message": _LOST}  # the protocol's internal error
    return _dump({"jsonrpc": "2.0", "id": number, "error": error})


def _parse(data: bytes) -> list[dict[str, Any]]:
    """The messages of a line, several in a batch. None if it is no JSON: the process says so."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return []
    rows = found if isinstance(found, list) else [found]
    return [row for row in rows if isinstance(row, dict)]


def _dump(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"
