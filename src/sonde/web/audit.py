"""The audit log: who called what, as lines of JSON in a file that only the operator reads."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from sonde.errors import InvalidRequest
from sonde.mcp.calls import Call
from sonde.text.formats import show_time
from sonde.types import Caller

_LONGEST = 500  # characters of an argument: enough to see what was searched
_LEFT_OUT = frozenset({"confirm", "cursor", "text", "token"})  # of no use here, or secret
log = logging.getLogger(__name__)


class AuditLog:
    """Appends to a file; one that was renamed meanwhile (logrotate) is opened again."""

    def __init__(self, path: Path) -> None:
        self._path, self._guard = path, threading.Lock()
        try:
            self._file = self._open()
        except OSError as error:
            raise InvalidRequest(
                f"{path}: {error}",
                user_message="The audit log '{path}' cannot be written: {why}.",
                next_action="Name a file in a folder that the server may write to.",
                path=str(path),
                why=error.strerror,
            ) from error

    def _open(self) -> int:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.fchmod(descriptor, 0o600)
        return descriptor

    async def record(self, run: Callable[[], Awaitable[Any]], caller: Caller, what: Call) -> Any:
        """Run a call, and write who made it and what came of it."""
        began, outcome = time.perf_counter(), "cancelled"
        try:
            answer = await run()
            outcome = "ok"
        except Exception as error:
            outcome = str(getattr(error, "code", "defect"))
            raise
        else:
            return answer
        finally:
            self._write(caller, what, outcome, time.perf_counter() - began)

    def _write(self, caller: Caller, what: Call, outcome: str, seconds: float) -> None:
        """Write one call; a disk that is full is logged and costs no answer."""
        call, arguments = what
        shown = {name: _shorten(value) for name, value in arguments.items()
                 if name not in _LEFT_OUT and value not in (None, "", (), [])}  # fmt: skip
        row = {
            "time": show_time(int(time.time() * 1000)), "user": caller.user, "call": call,
            "arguments": shown, "outcome": outcome, "ms": round(seconds * 1000),
        }  # fmt: skip
        line = json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with self._guard:
            try:
                self._reopen()
                os.write(self._file, line)
            except OSError:
                log.exception("the audit log cannot be written")

    def _reopen(self) -> None:
        mine = os.fstat(self._file)
        try:
            there = self._path.stat()
        except FileNotFoundError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
            os.close(self._file)
            self._file = self._open()


def _shorten(value: object) -> object:
    if isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
