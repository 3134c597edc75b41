"""Files on disk: atomic writes, bounded reads, sizes, and errors of the operating system."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from sonde.errors import DiskFull, IndexTooNew, SondeError, StorageUnusable
from sonde.runtime.private import make_folder
from sonde.runtime.system import try_lock
from sonde.runtime.work import FULL, WriterLock, explain_os_error

MAX_JSON_BYTES = 10 * 1024 * 1024  # larger JSON files are ignored
_MEGABYTE = 1 << 20  # the unit of sizes in messages, and the least free space of a usable disk

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def translate_os_errors(path: Path) -> Iterator[None]:
    """Translate `OSError`s about `path` to `SondeError`s."""
    try:
        yield
    except OSError as error:
        raise (
            report_full(path) if error.errno in FULL else explain_os_error(error, path)
        ) from error


def report_full(path: Path) -> DiskFull:
    """The error for a full disk, with the space needed and available."""
    free, used = _measure_free(path), 0
    for each in path.parent.glob(f"{path.name}*"):
        with contextlib.suppress(OSError):  # a log goes when the last connection does
            used += each.stat().st_size
    needed = max(used // 4, 16 * _MEGABYTE) // _MEGABYTE
    have = free // _MEGABYTE
    return DiskFull(
        f"ENOSPC - need ~{needed}MB, have {have}MB at {path}", needed=needed, available=have
    )


def report_unusable(path: Path, detail: str) -> SondeError:
    """The error for storage that cannot be opened or written: most often the disk is full."""
    if _measure_free(path) < _MEGABYTE:
        return report_full(path)
    return StorageUnusable(f"{path}: {detail}")


def _measure_free(path: Path) -> int:
    """Free bytes on the disk of `path`; a folder that does not exist counts as its parent."""
    for folder in path.absolute().parents:
        with contextlib.suppress(OSError):
            return shutil.disk_usage(folder).free
    return 0


def measure_folder(folder: Path) -> int:
    """The size of all files in a folder, in bytes."""
    size = 0
    # a compaction may remove files, and folders, while they are counted
    with contextlib.suppress(FileNotFoundError):
        for path in folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                size += path.lstat().st_size
    return size


@contextlib.contextmanager
def make_scratch(parent: Path) -> Iterator[Path]:
    """A folder for one piece of work, removed afterwards, or by `clear_scratch` after a kill."""
    with translate_os_errors(parent), WriterLock(parent).held():
        folder = Path(tempfile.mkdtemp(dir=parent))
        lock = folder.with_suffix(".lock").open("xb")
        try_lock(lock.fileno())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()
        folder.with_suffix(".lock").unlink(missing_ok=True)


def clear_scratch(parent: Path) -> None:
    """Remove the scratch folders of processes that are gone, where permitted."""
    with contextlib.suppress(OSError, SondeError), WriterLock(parent).held():
        for path in parent.glob("tmp*.lock"):
            with path.open("rb") as lock:
                if try_lock(lock.fileno()):
                    shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                    path.unlink()


def refuse_newer(path: Path, found: int, known: int) -> None:
    """Raise `IndexTooNew` if a file has a later format than this version reads."""
    if found > known:
        raise IndexTooNew(f"{path} has format {found}, this version of sonde reads up to {known}")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically: readers see the old one or the new one."""
    with translate_os_errors(path):
        make_folder(path.parent)
        with replace_file(path) as file:
            file.write(text)


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[TextIO]:
    """Open a text file for writing that replaces `path` once it is complete and on the disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            if os.name != "nt":
                os.fchmod(file.fileno(), 0o600)
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    # makes the rename durable, on systems that can open a folder
    with contextlib.suppress(OSError):
        descriptor = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(value, indent=2) + "\n")


def read_json(path: Path, limit: int = MAX_JSON_BYTES) -> Any | None:
    """The value in a JSON file; None when it is missing, torn, too large or unreadable."""
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
