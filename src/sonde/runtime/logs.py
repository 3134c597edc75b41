"""Logs: short lines on stderr, and rolling files in the storage that say what was skipped and why.

What concerns a project is in `logs/` of its index, the rest in `logs/` of the storage. Neither
queries nor contents are logged: of an exception, only its type and the lines it passed through are
written, since its text may quote what was read; at level `debug` it is written whole.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
import traceback
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

LOG_FILE = "sonde.log"
MOST_BYTES = 1 << 20  # of one file: months of a quiet server, and quick to read
OLD_FILES = 2  # beside the newest: together at most 3 MB for each project
_PROJECT = "sonde.project."


def project_log(folder: Path) -> logging.Logger:
    """The log of the project whose index lies in this folder."""
    return logging.getLogger(_PROJECT + folder.name)


def open_logs(home: Path | None, level: str) -> None:
    """Log to stderr from this level on, and from `info` on to the files of this storage. Libraries
    log only warnings: below that they log requests with their keys."""
    debug = level.lower() == "debug"
    root, ours = logging.getLogger(), logging.getLogger("sonde")
    lines, form = logging.StreamHandler(sys.stderr), "%(levelname)s %(name)s: %(message)s"
    lines.setLevel(level.upper())
    lines.setFormatter(LogLine(form, debug=debug))
    root.setLevel(max(lines.level, logging.WARNING))
    ours.setLevel(lines.level)
    root.handlers, ours.handlers = [lines], []
    if home:
        ours.setLevel(min(lines.level, logging.INFO))
        files = LogFiles(home)
        files.setFormatter(LogLine(f"%(asctime)s %(process)d {form}", debug=debug))
        ours.handlers = [files]
    threading.excepthook = lambda failed: ours.error("a thread failed", exc_info=failed.exc_value)


class LogLine(logging.Formatter):
    """Formats a record as one line; exceptions appear without their text unless `debug`."""

    converter = staticmethod(time.gmtime)

    def __init__(self, form: str, *, debug: bool = False) -> None:
        super().__init__(form, "%Y-%m-%dT%H:%M:%SZ")
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        error = record.exc_info[1] if record.exc_info else None
        if self._debug or error is None:
            return super().format(record)
        bare = logging.makeLogRecord({**vars(record), "exc_info": None, "exc_text": None})
        places = traceback.extract_tb(error.__traceback__)
        trail = " < ".join(f"{Path(at.filename).name}:{at.lineno}" for at in reversed(places))
        return f"{super().format(bare)} [{type(error).__name__} at {trail or '?'}]"


class LogFiles(logging.Handler):
    """Writes each record to the log it belongs to; processes may share a file."""

    def __init__(self, home: Path, most_bytes: int = MOST_BYTES) -> None:
        super().__init__()
        self._home, self._most_bytes = home, most_bytes

    def emit(self, record: logging.LogRecord) -> None:
        """Append the record; a log that cannot be written stops nothing."""
        index = self._home / "indexes" / record.name.removeprefix(_PROJECT)
        with suppress(OSError):
            of_index = record.name.startswith(_PROJECT) and index.is_dir()
            path = (index if of_index else self._home) / "logs" / LOG_FILE
            if path.exists() and path.stat().st_size >= self._most_bytes:
                _roll(path)
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            line = self.format(record).encode("utf-8", "backslashreplace") + b"\n"
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
            descriptor = os.open(path, flags, 0o600)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)


def _roll(path: Path) -> None:
    names = [path, *(path.with_name(f"{path.name}.{n}") for n in range(1, OLD_FILES + 1))]
    for newer, older in reversed(list(pairwise(names))):
        with suppress(FileNotFoundError):
            newer.replace(older)
