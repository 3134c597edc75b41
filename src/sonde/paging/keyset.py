"""Cursors over something that is ordered by a key: the key of the last row, signed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

from sonde.errors import BadCursor

_LONGEST = 4_000
_SIGNED = 9


def encode_key(key: list[Any], scope: str, secret: bytes) -> str:
    """The cursor after a row; `scope` names what is listed, in which order."""
    payload = json.dumps(key, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_sign(payload, scope, secret) + payload).decode().rstrip("=")


def decode_key(cursor: str, scope: str, secret: bytes) -> list[Any]:
    """The key that a cursor holds, or `BadCursor`."""
    if len(cursor) > _LONGEST:
        raise BadCursor("the cursor is longer than any cursor of this server")
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise BadCursor("the cursor is truncated or not a cursor at all") from error
    signature, payload = data[:_SIGNED], data[_SIGNED:]
    if not hmac.compare_digest(signature, _sign(payload, scope, secret)):
        raise BadCursor("the cursor was changed, or belongs to another listing")
    key: list[Any] = json.loads(payload)
    return key


def _sign(payload: bytes, scope: str, secret: bytes) -> bytes:
    message = scope.encode("utf-8", "surrogatepass") + b"\0" + payload
    return hmac.new(secret, message, hashlib.sha256).digest()[:_SIGNED]
