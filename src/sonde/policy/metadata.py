"""The contents of folders by metadata alone: names, kinds, sizes and times. Opens no file.

Disk totals include what the content policy skips, so nothing is denied here. Folders are entered
by descriptor and without following links, as everywhere in this package; the number of open
folders is bounded, so that no depth of nesting runs out of descriptors.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from sonde.errors import FileMissing
from sonde.policy.roots import Folder, open_folder, open_root, split_inside

NodeKind = Literal["file", "directory", "symlink", "other"]

_MAX_OPEN_FOLDERS = 64  # trees are rarely deeper; a process may open 256 files and more
_BLOCK_BYTES = 512  # the unit of `st_blocks`, whatever the file system uses
_COUNTS_BLOCKS = hasattr(os.stat_result, "st_blocks")
_KINDS: dict[int, NodeKind] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "symlink",
}


class Facts(NamedTuple):
    """The metadata of one name; of the link itself if it is one."""

    name: str
    kind: NodeKind
    size: int
    """Apparent size in bytes."""
    disk: int
    """Bytes of its allocated blocks."""
    mtime_ms: int
    mode: int
    links: int
    """Number of hard links."""


class Descent:
    """A way down from a root: `enter` and `leave` folders, read metadata in the current one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._steps: list[str | Path] = []
        self._open: list[Folder | None] = [open_root(root)]

    def enter(self, name: str) -> None:
        """Enter a folder; raises `OSError` if it is a link, missing or inaccessible."""
        self._push(name, self._top().enter(name))

    def follow(self, name: str, within: Sequence[Path]) -> Path:
        """Enter the target of a link and return its path; `OSError` if it is not below `within`."""
        target = self.root.joinpath(*self._steps, name).resolve(strict=True)
        if not any(target.is_relative_to(above) for above in within):
            raise OSError(errno.EXDEV, "the link leads elsewhere", name)
        self._push(target, Folder(target))
        return target

    def leave(self) -> None:
        """Return to the folder where `enter` or `follow` was called."""
        folder = self._open.pop()
        self._steps.pop()
        if folder:
            folder.close()

    def list_names(self) -> list[str]:
        """The names in this folder, unordered."""
        return self._top().list_names()

    def look_at(self, names: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
        """The metadata of these names; missing ones are left out."""
        return self._top().look_at_all(names)

    def look_here(self) -> os.stat_result:
        """The metadata of this folder itself."""
        return self._top().look_at(".")

    def read_target(self, name: str) -> str:
        """The target of a link as written; empty if it cannot be read."""
        try:
            return self._top().read_link(name)
        except OSError:
            return ""

    def close(self) -> None:
        """Close every folder."""
        for folder in filter(None, self._open):
            folder.close()
        self._open = [None]

    def _push(self, step: str | Path, folder: Folder) -> None:
        self._steps.append(step)
        self._open.append(folder)
        if len(self._open) > _MAX_OPEN_FOLDERS:
            if above := self._open[-_MAX_OPEN_FOLDERS]:
                above.close()
            self._open[-_MAX_OPEN_FOLDERS] = None

    def _top(self) -> Folder:
        """The current folder, opened again from the root if it was closed on the way down."""
        if self._open[-1]:
            return self._open[-1]
        folder = open_root(self.root)
        for step in self._steps:
            with folder:
                folder = folder.enter(step) if isinstance(step, str) else Folder(step)
        self._open[-1] = folder
        return folder


def describe(name: str, found: os.stat_result) -> Facts:
    """The metadata of a name, from what the system returned."""
    return Facts(
        name,
        _KINDS.get(stat.S_IFMT(found.st_mode), "other"),
        found.st_size,
        measure_blocks(found),
        found.st_mtime_ns // 1_000_000,
        found.st_mode & 0o7777,
        found.st_nlink,
    )


def measure_blocks(found: os.stat_result) -> int:
    """Bytes of the allocated blocks; estimated from the size where the system does not count."""
    if _COUNTS_BLOCKS:
        return found.st_blocks * _BLOCK_BYTES
    return -(-found.st_size // _BLOCK_BYTES) * _BLOCK_BYTES


def list_live(root: Path, path: str) -> list[Facts]:
    """The current contents of a folder below the root, by name; raises `FileMissing`."""
    try:
        with open_folder(root, split_inside(root, path)) as folder:
            found = folder.look_at_all(sorted(folder.list_names()))
            return [describe(name, facts) for name, facts in found]
    except OSError as error:
        raise FileMissing(f"{path}: {error.strerror}", path=path) from error


def look_at_names(root: Path, path: str, names: Iterable[str]) -> dict[str, Facts]:
    """The current metadata of names in a folder, and of the folder as `.`, without missing ones.

    Raises `OSError` if that cannot be known: the folder may not be entered, or a link leads there.
    """
    try:
        with open_folder(root, split_inside(root, path)) as folder:
            found = [(".", folder.look_at(".")), *folder.look_at_all(names)]
            return {name: describe(name, facts) for name, facts in found}
    except (FileMissing, FileNotFoundError, NotADirectoryError):
        return {}


def look_live(root: Path, path: str) -> Facts | None:
    """The current metadata of one path below the root; None if it does not exist."""
    names = split_inside(root, path)
    try:
        with open_folder(root, names[:-1]) as folder:
            return describe(names[-1] if names else "", folder.look_at(names[-1] if names else "."))
    except (OSError, FileMissing):
        return None
