"""Who may read what sonde stores: its user alone. Folders are 0700 and files 0600, by any umask.

Our own processes set their umask; in a program that imports sonde, which keeps its own, folders and
files are made with these modes. What an older version left open is closed when it is used.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

_FOLDER_MODE = 0o700  # to list and enter it: its user alone
_FILE_MODE = 0o600  # to read and write it: its user alone
_OWN_NAMES = frozenset((
    "indexes", "files", "knowledge", "embedding", "models", "logs", "config.json", "key",
    "users.json", "users.lock",
))  # fmt: skip
"""Everything that sonde keeps in its storage folder; other things in it are not sonde's."""
_LOOK_DEPTH = 3
"""Folders below the storage folder that are looked at each time: down to the files of an index.
What is deeper is looked at if something above it was open."""


def hide_files() -> None:
    """Hide what this process and its children make from other users."""
    os.umask(0o777 & ~_FOLDER_MODE)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for this user alone."""
    missing = [path]
    while not missing[-1].parent.is_dir() and missing[-1] != missing[-1].parent:
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        folder.mkdir(_FOLDER_MODE, exist_ok=True)


def open_private(path: str | Path, flags: int) -> int:
    """The opener of `open` that makes a file for this user alone."""
    return os.open(path, flags | getattr(os, "O_CLOEXEC", 0), _FILE_MODE)


def mend_storage(home: Path) -> None:
    """Close what others could read in the storage folder."""
    if os.name == "nt":
        return
    with suppress(OSError):
        names = os.listdir(home)  # noqa: PTH208 - names are enough
        own = [name for name in names if name in _OWN_NAMES or name.startswith(".")]
        # a home folder or /tmp that is used as storage is somebody else's, too
        was_open = len(own) == len(names) and _mend(home, is_folder=True)
        depth = 1_000 if was_open else _LOOK_DEPTH  # more than any system lets a path be deep
        for name in own:
            if name in _OWN_NAMES:
                _mend_below(home / name, depth)


def _mend_below(path: Path, depth: int) -> None:
    with suppress(OSError):
        is_folder = stat.S_ISDIR(path.lstat().st_mode)
        was_open = _mend(path, is_folder=is_folder)
        if is_folder and (depth > 0 or was_open):
            for entry in os.scandir(path):
                _mend_below(path / entry.name, depth - 1)


def _mend(path: Path, *, is_folder: bool) -> bool:
    """Close one file or folder of this user; whether it was open."""
    facts = path.lstat()
    wanted = _FOLDER_MODE if is_folder else _FILE_MODE
    is_ours = facts.st_uid == os.getuid() and not stat.S_ISLNK(facts.st_mode)
    if not is_ours or stat.S_IMODE(facts.st_mode) == wanted:
        return False
    path.chmod(wanted)
    return True
