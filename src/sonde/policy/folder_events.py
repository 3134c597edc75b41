"""Folders that changed since the last call, from inotify on Linux.

The kernel notes a change before the call that made it returns, and says when it had to drop notes;
so folders without a note have the same names and files as before. What it does not note: a change
on another machine that shares the file system, through a hard link in another folder unless the
file itself is watched, or through mapped memory that is still mapped.
"""

from __future__ import annotations

import os
import struct
import sys
import weakref
from pathlib import Path
from typing import Any

from sonde.policy.changes import find_silent_file_system
from sonde.runtime.system import read_watch_limit
from sonde.text.globs import compose

_CHANGES = 0xFCE  # inotify.h: MODIFY, ATTRIB, CLOSE_WRITE, MOVED_*, CREATE, DELETE, *_SELF
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000  # ONLYDIR, DONT_FOLLOW
_OVERFLOW, _REMOVED, _IS_FOLDER = 0x4000, 0x8000, 0x40000000
_OPTIONS = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0) if sys.platform == "linux" else 0
_SHARE = 16  # of the user's watches that one project may take; the others are for other programs
_PART_BYTES = 1 << 16  # of notes, read at once
_HEAD = struct.Struct("iIII")


class FolderEvents:
    """The watched folders of one root."""

    def __init__(self, room: int) -> None:
        from ctypes import CDLL

        self._room = room  # how many watches it may take
        self._library: Any = CDLL(None)
        self._descriptor: int = self._library.inotify_init1(_OPTIONS)
        if self._descriptor < 0:
            raise OSError("no more instances of inotify")
        weakref.finalize(self, os.close, self._descriptor)
        self._paths: dict[int, set[str]] = {}
        """Number of a watch -> the folder, or those that a file with several names lies in."""

    def watch(self, path: str, place: str, *, file: bool = False) -> bool:
        """Note for a folder from now on what happens in it; with `file`, what happens to a file in
        it under whichever name. Whether that is possible."""
        if file and len(self._paths) >= self._room:
            return False
        wanted = _CHANGES | _NO_LINKS | (0 if file else _ONLY_FOLDERS)
        number: int = self._library.inotify_add_watch(self._descriptor, os.fsencode(place), wanted)
        if number >= 0:
            self._paths[number] = {path} | (self._paths.get(number, set()) if file else set())
        return number >= 0

    def take(self) -> set[str] | None:
        """The paths of the folders that were touched; None if some notes were lost."""
        touched, lost = set[str](), False
        while data := self._read():
            at = 0
            while at < len(data):
                number, mask, _, length = _HEAD.unpack_from(data, at)
                at += _HEAD.size + length
                lost |= bool(mask & _OVERFLOW)
                paths = self._paths.get(number, set())
                touched |= paths
                if mask & _IS_FOLDER and length:
                    name = compose(os.fsdecode(data[at - length : at].rstrip(b"\0")))
                    touched |= {f"{path}{name}/" for path in paths}
                if mask & _REMOVED:
                    self._paths.pop(number, None)
        return None if lost else touched

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, _PART_BYTES)
        except BlockingIOError:
            return b""


def open_events(root: Path, folders: int) -> FolderEvents | None:
    """Watch a root with this many folders; None where the system does not report every change."""
    limit = read_watch_limit()
    room = (limit or 0) // _SHARE
    if folders > room or find_silent_file_system([root]):
        return None
    try:
        return FolderEvents(room)
    except (OSError, AttributeError):
        return None
