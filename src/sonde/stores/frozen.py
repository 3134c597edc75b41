"""Reading a SQLite file where nothing can be written: a full disk, storage that is read-only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import apsw

from sonde.errors import SondeError


@dataclass(frozen=True, slots=True)
class Frozen:
    """A database that can be read and not be written, as it was found."""

    reason: SondeError
    immutable: bool
    state: object

    def has_changed(self, path: Path) -> bool:
        """Whether somebody can write again, and has."""
        return self.state != _tell_state(path)


def freeze(path: Path, version: int, reason: SondeError) -> Frozen:
    """How to read what cannot be written; raises the reason when there is nothing to read."""
    state = _tell_state(path)
    for immutable in (False, True):
        try:
            connection = connect_frozen(path, immutable=immutable)
            try:
                usable = connection.pragma("user_version") == version
            finally:
                connection.close()
        except apsw.Error:
            continue
        if usable:
            return Frozen(reason, immutable, state)
    raise reason


def connect_frozen(path: Path, *, immutable: bool) -> apsw.Connection:
    """A connection that writes nothing at all.

    `immutable` does without the shared file that readers of a log need and that cannot be made.
    """
    address = f"file:{quote(str(path))}?mode=ro{'&immutable=1' * immutable}"
    return apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def _tell_state(path: Path) -> object:
    facts: list[object] = []
    for each in (path, Path(f"{path}-wal")):
        try:
            found = each.stat()
            # an empty log is the same as none
            facts.append((found.st_size and found.st_mtime_ns, found.st_size))
        except OSError:
            facts.append((0, 0))
    return facts
