"""JSON-RPC messages as lines: reading and writing them, and the pipe that carries them."""

from __future__ import annotations

import json
import os
import queue
import select
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from sonde.types import Json

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
MAX_DEPTH = 200
"""How deep brackets may be nested: more than any verb needs, less than JSON parsers can take."""
MAX_UNREAD = 100
"""No further call is begun while the client leaves this many messages unread."""
DRAIN_S = 2.0
"""How long closing waits for a slow client to read the next message."""


def parse_line(line: bytes, *, batches: bool = False) -> tuple[list[Json], list[Json], int]:
    """The messages of a line, several only in a batch; an error for each invalid request, so that
    none waits; and how many answers to a batch are sent together."""
    found, is_json = _parse(line)
    is_batch = isinstance(found, list)
    rows = found if is_batch else [found]
    if is_json and (batches or not is_batch):
        code, text = INVALID_REQUEST, "This is not a JSON-RPC message."
        messages = [row for row in rows if _is_message(row)]
        ids = [_find_id(row) for row in rows if not _is_message(row)]
        together = is_batch and len(ids) + sum("method" in one and "id" in one for one in messages)
    else:
        code, text = PARSE_ERROR, "This is not JSON."
        if is_json:
            code, text = INVALID_REQUEST, "Batches are not supported: send each message on its own."
        ids = [number for number in map(_find_id, rows) if number is not None]
        messages, together = [], False
    refusal = {"code": code, "message": text}
    ids = ids if ids or messages else [None]
    return messages, [{"jsonrpc": "2.0", "id": one, "error": refusal} for one in ids], int(together)


def write_message(message: Json | list[Json]) -> str:
    """The message as a client gets it, in valid Unicode."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace").decode()


def _parse(line: bytes) -> tuple[Any, bool]:
    """The value, and whether it is sound: valid JSON, not too deep, without half a character."""
    found, odd = None, list[str]()  # NaN and Infinity, which JSON does not have
    try:
        found = json.loads(line.decode("utf-8-sig"), parse_constant=odd.append)
        _check_depth(found)
        if b"\\ud" in line.lower():
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return found, False
    return found, not odd


def _check_depth(value: Any, left: int = MAX_DEPTH) -> None:
    if isinstance(value, dict | list):
        if not left:
            raise ValueError("too deep")
        for one in value.values() if isinstance(value, dict) else value:
            _check_depth(one, left - 1)


def _is_message(message: Any) -> bool:
    """Whether it is a request, a notification or a response."""
    match message:
        case {"jsonrpc": "2.0", "method": method}:  # whatever else it may look like
            has_params = isinstance(message.get("params"), dict | None)
            return isinstance(method, str) and has_params and is_id(message.get("id", 0))
        case {"jsonrpc": "2.0", "id": number, "result": dict()}:
            return is_id(number)
        case {"jsonrpc": "2.0", "error": {"code": int(), "message": str()}}:
            return "id" in message and (message["id"] is None or is_id(message["id"]))
    return False


def is_id(value: object) -> bool:
    """Whether a request can have this id."""
    return isinstance(value, int | str) and not isinstance(value, bool)


def _find_id(row: Any) -> int | str | None:
    """The id of a request that is invalid, if it has one."""
    is_request = isinstance(row, dict) and row.keys().isdisjoint(("result", "error"))
    return row["id"] if is_request and is_id(row.get("id")) else None


class Wire:
    """The pipe: one message a line in either direction; sending never blocks."""

    def __init__(self, source: BinaryIO, sink: BinaryIO, parent: int = 0) -> None:
        self._source, self._sink, self._parent = source, sink, parent
        self._outbox: queue.SimpleQueue[Json | list[Json] | None] = queue.SimpleQueue()
        self._written = threading.Condition()
        self._failed = False
        self._writer = threading.Thread(target=self._drain, name="sonde-stdout", daemon=True)
        self._writer.start()

    def read_lines(self) -> Iterator[bytes]:
        """Lines from the client until it closes its end; blocks."""
        with suppress(OSError, ValueError):  # the pipe broke, or we have closed it
            yield from filter(bytes.strip, self._source)

    @property
    def is_dead(self) -> bool:
        """Whether nobody reads what is sent: the parent has died, or the client has closed its end,
        which shows without writing to it."""
        if self._failed or (self._parent > 1 and os.getppid() != self._parent):
            return True
        with suppress(OSError, ValueError, AttributeError):  # not open, or Windows
            look = select.poll()
            look.register(self._sink, 0)
            return any(event & (select.POLLERR | select.POLLHUP) for _, event in look.poll(0))
        return False

    def send(self, message: Json | list[Json] | None) -> None:
        """Queue a message, or the answers to a batch, for the client."""
        if message:
            self._outbox.put(message)

    def wait_for_reader(self) -> None:
        """Wait while the client leaves much unread."""
        with self._written:
            self._written.wait_for(lambda: self._outbox.qsize() < MAX_UNREAD)

    def close(self, patience_s: float = DRAIN_S) -> None:
        """Write what is queued, as long as the client goes on reading."""
        self._outbox.put(None)
        left = -1
        while self._writer.is_alive() and left != (left := self._outbox.qsize()):
            self._writer.join(patience_s)

    def _drain(self) -> None:
        while (message := self._outbox.get()) is not None:
            try:
                self._sink.write(write_message(message).encode() + b"\n")
                self._sink.flush()
            except (OSError, ValueError):  # the pipe broke, or we have closed it
                self._failed = True
            with self._written:
                self._written.notify_all()


def collect(send: Callable[[list[Json]], None], count: int) -> Callable[[Json | None], None]:
    """Gather the answers of a batch and send them together; None is a missing answer."""
    answers, lock = list[Json | None](), threading.Lock()

    def add(answer: Json | None) -> None:
        with lock:
            answers.append(answer)
            if len(answers) == count and (given := [one for one in answers if one]):
                send(given)

    return add


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
    return Wire(os.fdopen(source, "rb"), os.fdopen(sink, "wb"), os.getppid())
