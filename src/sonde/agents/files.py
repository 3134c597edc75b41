"""Reads and replaces one file of a user: whole or not at all, and only as it was shown."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from codecs import BOM_UTF8
from pathlib import Path

from sonde.errors import ConfigChanged, ConfigUnreadable, PermissionDenied

LARGEST = 20 * 1024 * 1024


def read_config(path: Path) -> bytes | None:
    """What a file holds; None when there is no such file."""
    try:
        if not path.exists():
            if path.is_symlink():
                raise ConfigUnreadable("a link to nothing", path=str(path))
            return None
        if not path.is_file():
            raise ConfigUnreadable("not a file", path=str(path))
        if path.stat().st_size > LARGEST:
            raise ConfigUnreadable(f"larger than {LARGEST} bytes", path=str(path))
        return path.read_bytes()
    except OSError as error:
        raise _explain(error, path) from error


def decode_config(data: bytes | None, path: Path) -> tuple[str, bytes]:
    """The text of a file and the byte order mark before it."""
    data = data or b""
    mark = BOM_UTF8 if data.startswith(BOM_UTF8) else b""
    try:
        return data[len(mark) :].decode("utf-8"), mark
    except UnicodeDecodeError as error:
        raise ConfigUnreadable(f"not UTF-8: {error}", path=str(path)) from error


def replace_config(path: Path, before: bytes | None, after: bytes | None) -> None:
    """Put `after` in place of `before` in one step; None is no file. Links stay links."""
    try:
        target = path.resolve()
        if read_config(path) != before:
            raise ConfigChanged(f"{path} differs from what was shown", path=str(path))
        if before is not None and not target.stat().st_mode & stat.S_IWUSR:
            raise _refuse(path, "it is read-only")
        if after is None:
            target.unlink()
        else:
            _swap(path, target, before, after)
    except OSError as error:
        raise _explain(error, path) from error


def _swap(path: Path, target: Path, before: bytes | None, after: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        mode = 0o666 if before is None else 0o600
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        if before is not None:
            facts = target.stat()
            temporary.chmod(stat.S_IMODE(facts.st_mode))
            if hasattr(os, "chown"):
                with contextlib.suppress(OSError):
                    os.chown(temporary, facts.st_uid, facts.st_gid)
        # Once more, as late as can be: agents rewrite their own files.
        if read_config(path) != before:
            raise ConfigChanged(f"{path} changed while it was written", path=str(path))
        temporary.replace(target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def find_backup(backups: Path, path: Path) -> Path:
    """Where the copy of a file is kept: the last state before we changed it."""
    digest = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]
    return backups / f"{digest}-{path.name.lstrip('.')}"


def keep_backup(backups: Path, path: Path, data: bytes) -> Path:
    """Copy a file to where only its owner reads it."""
    kept = find_backup(backups, path)
    temporary = kept.with_name(f".{kept.name}.{secrets.token_hex(4)}.tmp")
    try:
        backups.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(kept)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _explain(error, kept) from error
    return kept


def _explain(error: OSError, path: Path) -> PermissionDenied:
    return _refuse(path, error.strerror or str(error))


def _refuse(path: Path, reason: str) -> PermissionDenied:
    return PermissionDenied(
        f"{path}: {reason}",
        user_message="{path} cannot be changed: {reason}.",
        next_action="Allow writing to it, or add the server there yourself; see docs/agents.md.",
        path=str(path),
        reason=reason,
    )
