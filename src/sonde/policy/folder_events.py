"""Which folders were touched since they were asked about last, as Linux itself counts it.

The kernel notes a change before the call that made it returns, and says when it had to drop notes;
so folders without a note have the same names and files as before. What it does not note: a change
on another machine that shares the file system, through a hard link in another folder, or through
mapped memory that is still mapped.
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
_ONLY_FOLDERS = 0x03000000  # ONLYDIR, DONT_FOLLOW
_OVERFLOW, _REMOVED, _IS_FOLDER = 0x4000, 0x8000, 0x40000000
_OPTIONS = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0) if sys.platform == "linux" else 0
_SHARE = 16  # of the user's watches that one project may take; the others are for other programs
_PART_BYTES = 1 << 16  # of notes, read at once
_HEAD = struct.Struct("iIII")


class FolderEvents:
    """The watched folders of one root."""

    def __init__(self) -> None:
        from ctypes import CDLL

        self._library: Any = CDLL(None)
        self._descriptor: int = self._library.inotify_init1(_OPTIONS)
        if self._descriptor < 0:
            raise OSError("no more instances of inotify")
        weakref.finalize(self, os.close, self._descriptor)
        self._paths: dict[int, str] = {}

    def watch(self, path: str, place: str) -> bool:
        """Note from now on what happens in the folder at a place; whether that is possible."""
        number: int = self._library.inotify_add_watch(
            self._descriptor, os.fsencode(place), _CHANGES | _ONLY_FOLDERS
        )
        if number >= 0:
            self._paths[number] = path
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
                path = self._paths.get(number)
                if path is None:
                    continue
                touched.add(path)
                if mask & _IS_FOLDER and length:
                    name = data[at - length : at].rstrip(b"\0")
                    touched.add(f"{path}{compose(os.fsdecode(name))}/")
                if mask & _REMOVED:
                    del self._paths[number]
        return None if lost else touched

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, _PART_BYTES)
        except BlockingIOError:
            return b""


def open_events(root: Path, folders: int) -> FolderEvents | None:
    """Events of a root with so many folders; None where the system does not tell them exactly."""
    limit = read_watch_limit()
    if limit is None or folders * _SHARE > limit or find_silent_file_system([root]):
        return None
    try:
        return FolderEvents()
    except (OSError, AttributeError):
        return None
