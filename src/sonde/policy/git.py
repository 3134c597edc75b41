"""Git's rules beyond `.gitignore`: exclude files, the user's ignore file, and what is tracked.

They are read from git's own files; git is not run. Of the user's configuration only
`core.excludesFile` counts, without includes; of a split index, the entries it lists itself.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from sonde.policy.changes import GitRules, Repository, find_repository, find_repository_around
from sonde.runtime.system import find_home_folder
from sonde.text.globs import compose

GIT_FOLDER = ".git"
_MAX_BYTES = 64 << 20  # an index of half a million files
_MAX_TEXT_BYTES = 1 << 20  # the rest of a larger exclude file or configuration is not read
_STAT_BYTES, _MODE_AT = 40, 24  # of the index: what an entry begins with, and the mode in it
_EXTENDED, _LENGTH = 0x4000, 0xFFF  # flags of an entry: two more bytes follow; length of its name
_SUBMODULE, _FOLDER = 0o160000, 0o040000  # modes of entries that are no files


def read_git_rules(place: Path, *, around: bool = False) -> GitRules | None:
    """The rules of the repository that has its root here, or `around` this folder."""
    repository = find_repository_around(place) if around else find_repository(place)
    if repository is None:
        return None
    below = place.relative_to(repository.place).parts
    prefix = "".join(f"{name}/" for name in below)
    named, oid_bytes = _read_config(repository)
    excludes = [(prefix, _load(named)), (prefix, _load(repository.shared / "info" / "exclude"))]
    above = repository.place
    for count, name in enumerate(below):
        way = "".join(f"{part}/" for part in below[count:])
        excludes.append((way, _load(above / ".gitignore")))
        above = above / name
    index = repository.git / "index"
    files, folders = _parse_tracked(index, _stamp(index), oid_bytes)
    return GitRules(prefix, tuple(one for one in excludes if one[1]), files, folders)


def _read_config(repository: Repository) -> tuple[Path, int]:
    """The user's ignore file, and how many bytes the name of an object has."""
    home = find_home_folder() or repository.place
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    own = os.environ.get("GIT_CONFIG_GLOBAL")
    users = [Path(own)] if own else [folder / "config", home / ".gitconfig"]
    ignore, oid_bytes = folder / "ignore", 20
    for path in (Path("/etc/gitconfig"), *users, repository.shared / "config"):
        section, oid_bytes = "", 20
        for line in _load(path).decode("utf-8", "replace").splitlines():
            key, _, value = (part.strip() for part in line.partition("="))
            if key.startswith("["):
                section = key.strip("[] \t").lower()
            elif key.lower() == "excludesfile" and section == "core":
                ignore = home / value.strip('"').removeprefix("~/")
            elif (key.lower(), value.lower()) == ("objectformat", "sha256"):
                oid_bytes = 32
    return ignore, oid_bytes


def _stamp(path: Path) -> tuple[int, ...]:
    """Size, times and inode of a regular file; empty if there is none."""
    try:
        facts = path.stat()
    except (OSError, ValueError):  # a hostile configuration may name no possible path
        return ()
    known = (facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino)
    return known if stat.S_ISREG(facts.st_mode) else ()


def _load(path: Path) -> bytes:
    return _read(path, stamp) if (stamp := _stamp(path)) else b""


@lru_cache(maxsize=64)
def _read(path: Path, _stamp: tuple[int, ...]) -> bytes:
    """The start of a file under a stamp; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_TEXT_BYTES)
    except OSError:
        return b""


@lru_cache(maxsize=64)  # a folder of repositories is looked at on every search
def _parse_tracked(
    index: Path, stamp: tuple[int, ...], oid_bytes: int
) -> tuple[frozenset[str], frozenset[str]]:
    """The tracked files, and the folders that hold them."""
    files: set[str] = set()
    folders: set[str] = set()
    try:
        data = index.read_bytes()[:_MAX_BYTES] if stamp else b""
        for name, mode in _list_entries(data, oid_bytes):
            path = compose(name.decode("utf-8", "surrogateescape"))
            if mode != _FOLDER:
                (folders if mode == _SUBMODULE else files).add(path)
            folder = path.rpartition("/")[0]
            while folder and folder not in folders:
                folders.add(folder)
                folder = folder.rpartition("/")[0]
    except (OSError, ValueError, IndexError, struct.error):
        return frozenset(), frozenset()  # torn, or of a later format: patterns alone decide
    return frozenset(files), frozenset(folders)


def _list_entries(data: bytes, oid_bytes: int) -> Iterator[tuple[bytes, int]]:
    """Names and modes in git's index of version 2, 3 or 4 (Documentation/gitformat-index)."""
    if not data:
        return
    signature, version, count = struct.unpack_from(">4sLL", data)
    if signature != b"DIRC" or version not in (2, 3, 4):
        return
    at, name = 12, b""
    for _ in range(count):
        (mode,) = struct.unpack_from(">L", data, at + _MODE_AT)
        (flags,) = struct.unpack_from(">H", data, at + _STAT_BYTES + oid_bytes)
        start = at + _STAT_BYTES + oid_bytes + (4 if flags & _EXTENDED else 2)
        if version == 4:  # a name is what remains of the one before, and a new end
            dropped, start = _read_number(data, start)
            end = data.index(b"\0", start)
            name = name[: len(name) - dropped] + data[start:end]
            at = end + 1
        else:
            length = flags & _LENGTH
            end = start + length if length < _LENGTH else data.index(b"\0", start)
            name = data[start:end]
            at += (end - at) // 8 * 8 + 8
        yield name, mode


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = data[at] & 127
    while data[at] & 128:
        at += 1
        value = ((value + 1) << 7) | (data[at] & 127)
    return value, at + 1
