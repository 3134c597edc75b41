"""A user's folder held open, so that nothing can be swapped for a link while it is used.

Where the system offers it, every step is relative to the descriptor of the folder above and
follows no link. Elsewhere (Windows) each step is checked by path, before and after.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from sonde.errors import FileMissing, PermissionDenied

_BY_DESCRIPTOR = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
# O_NONBLOCK: a FIFO put in the place of a file must not make us wait for a writer.
_FILE = (
    os.O_RDONLY
    | _NO_FOLLOW
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_LATEST_NS = (1 << 63) - 1


class Folder:
    """One folder; `enter` goes down by one name. Close it, or use it in a `with`."""

    def __init__(self, place: Path | str, *, above: int | None = None) -> None:
        self._descriptor: int | None = None
        if above is not None:
            if os.sep in str(place):
                raise NotADirectoryError(errno.ENOTDIR, "not a name", str(place))
            self._descriptor = os.open(place, _FOLDER | _NO_FOLLOW, dir_fd=above)
            return
        self._place = place = Path(place)
        if _BY_DESCRIPTOR:
            self._descriptor = os.open(place, _FOLDER)
        elif not stat.S_ISDIR(place.lstat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(place))

    def enter(self, name: str) -> Folder:
        """The folder of that name in this one; raises `OSError` when it is a link."""
        try:
            if self._descriptor is None:
                return Folder(self._place / name)
            return Folder(name, above=self._descriptor)
        except NotADirectoryError:
            # What Linux says of a link, too.
            if stat.S_ISLNK(self.look_at(name).st_mode):
                raise OSError(errno.ELOOP, "symbolic link", name) from None
            raise

    def scan(self) -> list[os.DirEntry[str]]:
        """What is in it, in the order of names; entries are good until the folder is closed."""
        where: int | Path = self._place if self._descriptor is None else self._descriptor
        with os.scandir(where) as entries:
            return sorted(entries, key=_name_of)

    def list_names(self) -> list[str]:
        """The names in it, in no order; lighter than `scan` where a folder is huge."""
        where: int | Path = self._place if self._descriptor is None else self._descriptor
        return os.listdir(where)  # noqa: PTH208 - a descriptor is no path

    def read_link(self, name: str) -> str:
        """Where a link says that it leads."""
        if self._descriptor is None:
            return os.readlink(self._place / name)  # noqa: PTH115 - as it is written
        return os.readlink(name, dir_fd=self._descriptor)

    def look_at(self, name: str) -> os.stat_result:
        """The facts about one name, of the link itself if it is one."""
        if self._descriptor is None:
            return (self._place / name).lstat()
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)

    def look_at_all(self, names: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
        """The same for many; those that are gone or closed to us are left out."""
        descriptor = self._descriptor
        for name in names:
            try:
                if descriptor is None:
                    yield name, (self._place / name).lstat()
                else:
                    yield name, os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError:
                continue

    def open_file(self, name: str) -> tuple[int, os.stat_result]:
        """A descriptor of a regular file in this folder, and its facts.

        Raises `OSError`; anything that is not a regular file is not opened, and if it is put there
        between the look and the opening, it is closed at once.
        """
        seen = self.look_at(name)
        if not stat.S_ISREG(seen.st_mode):
            raise OSError(_code_of(seen.st_mode), "not a regular file", name)
        if self._descriptor is None:
            descriptor = os.open(self._place / name, _FILE)
        else:
            descriptor = os.open(name, _FILE, dir_fd=self._descriptor)
        facts = os.fstat(descriptor)
        same = self._descriptor is not None or os.path.samestat(seen, facts)
        if not (stat.S_ISREG(facts.st_mode) and same):
            os.close(descriptor)
            raise OSError(_code_of(facts.st_mode), "replaced while it was opened", name)
        return descriptor, facts

    def close(self) -> None:
        """Let go of it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()


def open_root(root: Path) -> Folder:
    """The project's own folder; the one place where a link may be followed."""
    try:
        # a descriptor is of the real folder; a path has to be
        return Folder(root if _BY_DESCRIPTOR else root.resolve())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileMissing(f"{root} is not a folder", path=str(root)) from error
    except PermissionError as error:
        raise PermissionDenied(
            f"EACCES reading {root}", next_action="Give read access to {path}.", path=str(root)
        ) from error


def open_folder(root: Path, names: Iterable[str]) -> Folder:
    """The folder below a root, reached name by name; raises `OSError` where one is a link."""
    folder = open_root(root)
    for name in names:
        with folder:
            folder = folder.enter(name)
    return folder


def open_below(root: Path, names: Sequence[str]) -> tuple[int, os.stat_result]:
    """A descriptor of the regular file below a root, and its facts."""
    with open_folder(root, names[:-1]) as folder:
        return folder.open_file(names[-1])


def tell_reason(error: OSError) -> str:
    """The name in `admit.REASONS` for what the system said."""
    if error.errno in (errno.ELOOP, errno.EMLINK):
        return "symlink"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return "missing"
    if error.errno == errno.EISDIR:
        return "folder"
    return "special" if error.errno in (errno.ENXIO, errno.ENODEV) else "unreadable"


def _code_of(mode: int) -> int:
    if stat.S_ISLNK(mode):
        return errno.ELOOP
    return errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO


def _name_of(entry: os.DirEntry[str]) -> str:
    return entry.name


def tell_time(facts: os.stat_result) -> int:
    """When a file was changed, within the numbers that a database can keep."""
    return min(max(facts.st_mtime_ns, -_LATEST_NS), _LATEST_NS)
