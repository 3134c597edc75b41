"""One JSON-RPC message of a client: parsed, or the errors that answer it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress

import mcp_types as types
from pydantic import ValidationError

_TOKEN = re.compile(rb'("(?:[^"\\]|\\.)*")(\s*:\s*)?|[][{}]', re.DOTALL)
"""A bracket, or a string, which is a key if a colon follows."""
_OF_RESPONSES = (b'"result"', b'"error"')
_ID = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d+(?![\d.eE])')


def read_message(line: bytes) -> types.JSONRPCMessage | list[types.JSONRPCError]:
    """The message; or, if it is none, an error for each request in it, so that none waits."""
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        is_json = error.errors(include_url=False)[0]["type"] != "json_invalid"
    is_batch = line.lstrip()[:1] == b"["
    code, text = types.PARSE_ERROR, "This is not JSON."
    if is_json:
        code, text = types.INVALID_REQUEST, "This is not a JSON-RPC message."
        if is_batch:
            text = "Batches are not supported: send each message on its own."
    refusal = types.ErrorData(code=code, message=text)
    ids: list[int | str | None] = [*_find_ids(line, 2 if is_batch else 1)]
    return [types.JSONRPCError(jsonrpc="2.0", id=one, error=refusal) for one in ids or [None]]


def _find_ids(line: bytes, level: int) -> Iterator[int | str]:
    """The ids of the objects at this depth, read without parsing the rest; not of responses."""
    depth, keys, found = 0, set[bytes](), list[int | str]()
    for token in _TOKEN.finditer(line):
        mark = token[0]
        if token[2] and depth == level:
            keys.add(token[1])
            if token[1] == b'"id"' and (value := _ID.match(line, token.end())):
                with suppress(ValueError):  # half a character cannot be sent back either
                    number = json.loads(value[0])
                    found = [number] if str(number).encode() else []
        depth += (mark in (b"{", b"[")) - (mark in (b"}", b"]"))
        if depth < level and mark in (b"}", b"]"):
            yield from found if keys.isdisjoint(_OF_RESPONSES) else ()
            keys, found = set(), []
    yield from found if keys.isdisjoint(_OF_RESPONSES) else ()


def write_message(message: types.JSONRPCMessage) -> str:
    """The message as a client gets it."""
    return message.model_dump_json(by_alias=True, exclude_unset=True)
