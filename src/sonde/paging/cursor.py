"""Signed tokens: cursors into a kept ranking, keys of listings, and consent.

A token is base64url(JSON) and a signature, joined by a dot. The signature covers the purpose, so
that a token made for one thing is worthless for another, and only the installation can make one.
"""

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
_LONGEST_TOKEN = 4_000
"""Characters; a listing's key may hold a file name of 255 bytes, escaped."""
_SIGNATURE_BYTES = 16
_KEY_SIGNATURE_BYTES = 9
"""Of keys of listings, shorter since every small answer holds one; to guess one takes 2 ** 72."""
_RANKING = "ranking"
"""The purpose of cursors."""


class BrokenSealError(ValueError):
    """A token that was not made for this purpose by this installation; says what is wrong."""


def seal(
    value: object, purpose: str, key: bytes, *, signature_bytes: int = _SIGNATURE_BYTES
) -> str:
    """A token that holds a JSON value and is valid for one purpose."""
    payload = json.dumps(value, separators=(",", ":")).encode()
    return _to_text(payload) + "." + _to_text(_sign(payload, purpose, key, signature_bytes))


def unseal(token: str, purpose: str, key: bytes, *, signature_bytes: int = _SIGNATURE_BYTES) -> Any:
    """The value that was sealed for this purpose, or `BrokenSealError`."""
    if len(token) > _LONGEST_TOKEN:
        raise BrokenSealError("is longer than any cursor of this server")
    try:
        payload_text, signature_text = token.split(".")
        payload, signature = _from_text(payload_text), _from_text(signature_text)
    except ValueError as error:
        raise BrokenSealError("is truncated or not a cursor at all") from error
    if not hmac.compare_digest(signature, _sign(payload, purpose, key, signature_bytes)):
        raise BrokenSealError("was changed, or comes from another listing or another installation")
    return json.loads(payload)


def _sign(payload: bytes, purpose: str, key: bytes, size: int) -> bytes:
    message = purpose.encode("utf-8", "surrogatepass") + b"\0" + payload
    return hmac.new(key, message, hashlib.sha256).digest()[:size]


def _to_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _from_text(text: str) -> bytes:
    padded = text + "=" * (-len(text) % 4)
    data = base64.b64decode(padded, altchars=b"-_", validate=True)
    if _to_text(data) != text:
        raise ValueError("not canonical")
    return data


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
    return seal(body, _RANKING, key)


def decode_cursor(text: str, key: bytes) -> Cursor:
    """The cursor, or `BadCursor` saying what is wrong with it."""
    try:
        body = unseal(text, _RANKING, key)
    except BrokenSealError as error:
        raise BadCursor(f"the cursor {error}") from error
    if body.get("version") != _VERSION:
        raise BadCursor("the cursor comes from another version of this server")
    return Cursor(body["session_id"], body["offset"], body["search_params_hash"])


def encode_key(key: list[Any], scope: str, secret: bytes) -> str:
    """The cursor after a row of a listing; `scope` names what is listed, in which order."""
    return seal(key, scope, secret, signature_bytes=_KEY_SIGNATURE_BYTES)


def decode_key(cursor: str, scope: str, secret: bytes) -> list[Any]:
    """The key that a cursor of a listing holds, or `BadCursor`."""
    try:
        key: list[Any] = unseal(cursor, scope, secret, signature_bytes=_KEY_SIGNATURE_BYTES)
    except BrokenSealError as error:
        raise BadCursor(f"the cursor {error}") from error
    return key
