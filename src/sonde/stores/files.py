"""JSON on disk: written whole or not at all, read within limits, never a crash."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
from pathlib import Path
from typing import Any

from sonde.stores.database import translate_errors

LARGEST = 10 * 1024 * 1024
"""Files over this many bytes are not loaded."""

_log = logging.getLogger(__name__)


def write_text(path: Path, text: str) -> None:
    """Put a text file in place in one step: readers see the old one or the new one."""
    with translate_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
        try:
            with temporary.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """Make a rename last through a power cut, on systems that can open a folder."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_json(path: Path, value: Any) -> None:
    """Put a JSON file in place in one step."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def read_json(path: Path, limit: int = LARGEST) -> Any | None:
    """What a JSON file holds; None when it is missing, torn, too large or not readable."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            _log.warning("%s is larger than %d bytes and is ignored", path, limit)
            return None
        return json.loads(data.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("%s cannot be read and is ignored: %s", path, error)
        return None
