"""What the system says of a name -> the node that is kept of it."""

from __future__ import annotations

import errno
import os
import stat

from sonde.policy.metadata import measure_blocks
from sonde.stores.tree_base import (
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


def tell_kind(facts: os.stat_result) -> int:
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
