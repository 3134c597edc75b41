"""JSON-RPC messages as lines: reading and writing them, and the pipe that carries them."""

from __future__ import annotations

import json
import os
import queue
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from sonde.types import Json

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
MAX_DEPTH = 200
"""Brackets inside brackets; no verb takes more, and parsers of either side have a limit."""
MAX_UNREAD = 100
"""No further call is begun while the client leaves this many messages unread."""
DRAIN_S = 0.5
"""How long closing waits for a slow client to read the next message."""
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+'
"""Without its end, which a message that is cut off may not have: it is then passed over once."""
_TOKEN = re.compile(b"(" + _STRING + rb'"?)(\s*+:\s*+)?|[][{}]', re.DOTALL)
"""A bracket, or a string, which is a key if followed by a colon."""
_OF_RESPONSES = (b'"result"', b'"error"')
_ID = re.compile(_STRING + rb'"|-?\d+(?![\d.eE])', re.DOTALL)


def read_message(line: bytes) -> Json | list[Json]:
    """The message; if it is invalid, an error for each request in it, so that none waits."""
    is_batch = line.lstrip()[:1] == b"["
    try:
        message = _parse(line)
    except (ValueError, RecursionError):
        code, text = PARSE_ERROR, "This is not JSON."
    else:
        if _is_message(message):
            return dict(message)
        code, text = INVALID_REQUEST, "This is not a JSON-RPC message."
        if is_batch:
            text = "Batches are not supported: send each message on its own."
    refusal = {"code": code, "message": text}
    ids: list[int | str | None] = [*_find_ids(line, 2 if is_batch else 1)]
    return [{"jsonrpc": "2.0", "id": one, "error": refusal} for one in ids or [None]]


def write_message(message: Json) -> str:
    """The message as a client gets it."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"))


def _parse(line: bytes) -> Any:
    """The JSON value; raises `ValueError` if it is too deep or holds half a character."""
    # `int` refuses the names of numbers that JSON does not have: NaN and Infinity
    message = json.loads(line.decode("utf-8-sig"), parse_constant=int)
    _check_depth(message)
    if b"\\ud" in line.lower():
        write_message(message).encode()
    return message


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


def _find_ids(line: bytes, level: int) -> Iterator[int | str]:
    """The ids of requests at this depth, read without parsing the rest."""
    depth, keys, found = 0, set[bytes](), list[int | str]()
    for token in _TOKEN.finditer(line):
        mark = token[0]
        if token[2] and depth == level:
            keys.add(token[1])
            if token[1] == b'"id"' and (value := _ID.match(line, token.end())):
                with suppress(ValueError):  # half a character cannot be sent back
                    number = json.loads(value[0])
                    str(number).encode()
                    found = [number]
        depth += (mark in (b"{", b"[")) - (mark in (b"}", b"]"))
        if depth < level and mark in (b"}", b"]"):
            yield from found if keys.isdisjoint(_OF_RESPONSES) else ()
            keys, found = set(), []
    yield from found if keys.isdisjoint(_OF_RESPONSES) else ()


class Wire:
    """The pipe: one message a line in either direction; sending never blocks."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        self._source = source
        self._sink = sink
        self._outbox: queue.SimpleQueue[Json | None] = queue.SimpleQueue()
        self._written = threading.Condition()
        self.is_broken = False
        """Whether the client has closed its end for reading."""
        self._writer = threading.Thread(target=self._drain, name="sonde-stdout", daemon=True)
        self._writer.start()

    def read_lines(self) -> Iterator[bytes]:
        """Lines from the client until it closes its end; blocks."""
        with suppress(OSError, ValueError):  # the pipe broke, or we have closed it
            yield from filter(bytes.strip, self._source)

    def send(self, message: Json) -> None:
        """Queue one message for the client."""
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
                self._sink.write(write_message(message).encode("utf-8", "replace") + b"\n")
                self._sink.flush()
            except (OSError, ValueError):  # the pipe broke, or we have closed it
                self.is_broken = True
            with self._written:
                self._written.notify_all()


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
