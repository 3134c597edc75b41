"""What the system says of a name -> the node that is kept of it."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from typing import Any

from sonde.policy.metadata import measure_blocks
from sonde.stores.disk.base import (
    FILE,
    FOLDER,
    LINK,
    LOOP,
    OTHER,
    OUTSIDE,
    UNREADABLE,
    VANISHED,
    Node,
)

_KINDS = {stat.S_IFREG: FILE, stat.S_IFDIR: FOLDER, stat.S_IFLNK: LINK}
_FORMAT = 0o170000
_NANOS = 1_000_000


def name_node_kind(facts: os.stat_result) -> int:
    """The kind of a node; a million of them are told, so by one look at a table."""
    return _KINDS.get(facts.st_mode & _FORMAT, OTHER)


def make_node(
    place: tuple[int, int, str, int, int],
    facts: os.stat_result,
    state: int,
    target: str,
    born: int,
) -> Node:
    """The node of what was found; `place` is id, parent, name, kind and depth."""
    return Node(
        *place,
        0 if place[3] == FOLDER else facts.st_size,
        measure_blocks(facts),
        facts.st_mtime_ns // _NANOS,
        facts.st_mode & ~_FORMAT,
        facts.st_nlink,
        state,
        0,
        0,
        0,
        target,
        born,
    )


def tell_state(error: Exception, *, linked: bool) -> int:
    """The state of a folder that could not be entered."""
    number = getattr(error, "errno", None)
    if isinstance(error, RuntimeError) or number == errno.ELOOP:
        return LOOP
    if linked:
        return OUTSIDE
    return VANISHED if number in (errno.ENOENT, errno.ENOTDIR) else UNREADABLE


@dataclass(slots=True)
class ScanReport:
    """What one scan found."""

    files: int = 0
    folders: int = 0
    size: int = 0
    disk: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    seconds: float = 0.0
    problems: dict[str, int] = field(default_factory=dict)
    """State -> how many, of what is not simply there."""

    def as_dict(self) -> dict[str, Any]:
        """The report as a job carries it."""
        shown: dict[str, Any] = {
            "files": self.files,
            "folders": self.folders,
            "size": self.size,
            "sizeOnDisk": self.disk,
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed,
            "seconds": round(self.seconds, 2),
        }
        return shown | ({"problems": self.problems} if self.problems else {})
