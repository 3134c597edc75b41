"""Cursors: a pointer into a frozen ranking, signed so that it can be neither forged nor moved."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sonde.errors import BadCursor

_VERSION = 1
_LONGEST = 2_000


@dataclass(frozen=True, slots=True)
class Cursor:
    """Which result set, and from where on."""

    session_id: str
    offset: int
    search_params_hash: str


def hash_parameters(parameters: Mapping[str, Any]) -> str:
    """Names a set of search parameters."""
    text = json.dumps(parameters, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def encode_cursor(cursor: Cursor, key: bytes) -> str:
    """The text handed to a client."""
    body = {
        "session_id": cursor.session_id,
        "offset": cursor.offset,
        "search_params_hash": cursor.search_params_hash,
        "timestamp": int(time.time() * 1000),
        "version": _VERSION,
    }
    payload = json.dumps(body, separators=(",", ":")).encode()
    return _to_text(payload) + "." + _to_text(_sign(payload, key))


def decode_cursor(text: str, key: bytes) -> Cursor:
    """The cursor, or `BadCursor` saying what is wrong with it."""
    if len(text) > _LONGEST:
        raise BadCursor("the cursor is longer than any cursor of this server")
    try:
        payload_text, signature_text = text.split(".")
        payload, signature = _from_text(payload_text), _from_text(signature_text)
    except ValueError as error:
        raise BadCursor("the cursor is truncated or not a cursor at all") from error
    if not hmac.compare_digest(signature, _sign(payload, key)):
        raise BadCursor("the cursor was changed, or comes from another installation")
    body = json.loads(payload)
    if body.get("version") != _VERSION:
        raise BadCursor("the cursor comes from another version of this server")
    return Cursor(body["session_id"], body["offset"], body["search_params_hash"])


def _sign(payload: bytes, key: bytes) -> bytes:
    return hmac.new(key, payload, hashlib.sha256).digest()[:16]


def _to_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _from_text(text: str) -> bytes:
    padded = text + "=" * (-len(text) % 4)
    data = base64.b64decode(padded, altchars=b"-_", validate=True)
    if _to_text(data) != text:
        raise ValueError("not canonical")
    return data


_LONGEST_KEYSET = 4_000
_SIGNED = 9


def encode_key(key: list[Any], scope: str, secret: bytes) -> str:
    """The cursor after a row; `scope` names what is listed, in which order."""
    payload = json.dumps(key, separators=(",", ":")).encode()
    return (
        base64.urlsafe_b64encode(_sign_keyset(payload, scope, secret) + payload)
        .decode()
        .rstrip("=")
    )


def decode_key(cursor: str, scope: str, secret: bytes) -> list[Any]:
    """The key that a cursor holds, or `BadCursor`."""
    if len(cursor) > _LONGEST_KEYSET:
        raise BadCursor("the cursor is longer than any cursor of this server")
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise BadCursor("the cursor is truncated or not a cursor at all") from error
    signature, payload = data[:_SIGNED], data[_SIGNED:]
    if not hmac.compare_digest(signature, _sign_keyset(payload, scope, secret)):
        raise BadCursor("the cursor was changed, or belongs to another listing")
    key: list[Any] = json.loads(payload)
    return key


def _sign_keyset(payload: bytes, scope: str, secret: bytes) -> bytes:
    message = scope.encode("utf-8", "surrogatepass") + b"\0" + payload
    return hmac.new(secret, message, hashlib.sha256).digest()[:_SIGNED]
