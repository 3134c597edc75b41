"""The key of an installation, by which it knows its own cursors and confirmations again."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

_BYTES = 32


def load_signing_key(home: Path) -> bytes:
    """The key, made when there is none; a home that cannot be written gets one for this process."""
    path = home / "key"
    if key := _read(path):
        return key
    fresh = secrets.token_bytes(_BYTES)
    temporary = home / f".key-{os.getpid()}-{secrets.token_hex(4)}"
    with suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(fresh)
            with suppress(OSError):
                os.link(temporary, path)  # of two processes that start at once, one wins
            if not _read(path):  # torn, when an empty key would let anyone sign; or no links here
                temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    return _read(path) or fresh


def _read(path: Path) -> bytes:
    """What is there, if it is a whole key."""
    try:
        key = path.read_bytes()
    except OSError:
        return b""
    return key if len(key) == _BYTES else b""
