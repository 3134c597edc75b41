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

from sonde.indexing.sources import identify_files
from sonde.mcp.calls import Call
from sonde.stores.files import translate_os_errors
from sonde.text.formats import show_time
from sonde.types import Caller

_LONGEST = 500  # characters of an argument: enough to see what was searched
_LEFT_OUT = frozenset({"confirm", "cursor", "text", "token"})  # of no use here, or secret
log = logging.getLogger(__name__)


class AuditLog:
    """Appends to a file; one that was renamed meanwhile (logrotate) is opened again."""

    def __init__(self, path: Path) -> None:
        self._path, self._guard = path, threading.Lock()
        with translate_os_errors(path):
            self._file = self._open()

    def _open(self) -> int:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.fchmod(descriptor, 0o600)
        return descriptor

    async def record(self, run: Callable[[], Awaitable[Any]], caller: Caller, what: Call) -> Any:
        """Run a call, and write who made it and what came of it."""
        began, outcome = time.perf_counter(), "ok"
        try:
            return await run()
        except BaseException as error:
            outcome = str(getattr(error, "code", type(error).__name__))
            raise
        finally:
            self._write(caller, what, outcome, time.perf_counter() - began)

    def _write(self, caller: Caller, what: Call, outcome: str, seconds: float) -> None:
        """Write one call; a disk that is full is logged and costs no answer."""
        call, arguments = what
        texts = {
            name: value if isinstance(value, str) else json.dumps(value, default=str)
            for name, value in arguments.items()
            if value and name not in _LEFT_OUT
        }
        row = {
            "time": show_time(int(time.time() * 1000)), "user": caller.user, "call": call,
            "arguments": {name: text[:_LONGEST] for name, text in texts.items()},
            "outcome": outcome, "ms": round(seconds * 1000),
        }  # fmt: skip
        line = json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with self._guard:
            try:
                if identify_files([self._path])[self._path] != self._name():
                    os.close(self._file)
                    self._file = self._open()
                os.write(self._file, line)
            except OSError:
                log.exception("the audit log cannot be written")

    def _name(self) -> tuple[int, int]:
        facts = os.fstat(self._file)
        return facts.st_dev, facts.st_ino
