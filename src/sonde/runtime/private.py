"""Privacy of what sonde stores: folders are 0700 and files 0600, whatever the umask.

Our own processes set their umask. A program that imports sonde keeps its own: there, folders are
made private, and files become so with the end of the app, as what an older version left open does.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

_FOLDER_MODE = 0o700  # to list and enter it: its user alone
_FILE_MODE = 0o600  # to read and write it: its user alone
OWN_NAMES = frozenset(
    "indexes files knowledge daemon embedding models logs backups config.json key users.json "
    "users.lock open.html uploads".split()
)
"""The files that sonde keeps in its storage folder; others in it are not sonde's."""
_LOOK_DEPTH = 4  # folders, down to the files of an index; deeper where something above was open


def hide_files() -> None:
    """Hide what this process and its children create from other users."""
    os.umask(0o777 & ~_FOLDER_MODE)


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents, readable only by this user."""
    if not path.parent.is_dir() and path != path.parent:
        make_folder(path.parent)
    path.mkdir(_FOLDER_MODE, exist_ok=True)


def mend_storage(home: Path) -> None:
    """Remove other users' access to anything in the storage folder."""
    with suppress(OSError):
        names = {path.name for path in home.iterdir()}
        if all(name in OWN_NAMES or name.startswith(".key-") for name in names):
            _mend(home, _LOOK_DEPTH)
        else:  # a home folder or /tmp that is used as storage is for others, too
            for name in names & OWN_NAMES:
                _mend(home / name, _LOOK_DEPTH - 1)


def _mend(path: Path, depth: int) -> None:
    with suppress(OSError):
        facts = path.lstat()
        if os.name == "nt" or facts.st_uid != os.getuid() or stat.S_ISLNK(facts.st_mode):
            return
        is_folder = stat.S_ISDIR(facts.st_mode)
        # what its user made read-only stays so
        wanted = stat.S_IMODE(facts.st_mode) & (_FOLDER_MODE if is_folder else _FILE_MODE)
        was_open = stat.S_IMODE(facts.st_mode) != wanted
        if was_open:
            path.chmod(wanted)
        for entry in os.scandir(path) if is_folder and (depth > 0 or was_open) else ():
            _mend(path / entry.name, depth - 1)
