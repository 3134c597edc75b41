"""A project's root and safe access below it: paths that stay inside, folders held open.

A folder that is held open cannot be swapped for a link while it is used. Where the system offers
it, every step is relative to the descriptor of the folder above and follows no link; elsewhere
(Windows) each step is checked by path, before and after.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path

from sonde.errors import (
    FileMissing,
    OutsideRoots,
    PermissionDenied,
    ProjectNotDetected,
    SymlinkNotAllowed,
)
from sonde.runtime.work import Closing
from sonde.text.globs import clean_path, compose
from sonde.types import Skipped

MARKERS = (".git", "package.json", "pyproject.toml", "Cargo.toml", "go.mod")

_BY_DESCRIPTOR = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
# O_NONBLOCK: opening a FIFO that replaced a file must not wait for a writer.
_FILE = os.O_RDONLY | _NO_FOLLOW
for _flag in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
    _FILE |= getattr(os, _flag, 0)
_MAX_MTIME_NS = (1 << 63) - 1  # the largest integer of a database
_CLOSED: dict[str, set[Path]] = {}
"""Name in one letter case -> real paths of that name which no verb opens."""
_LAID_OPEN: set[Path] = set()
"""Real paths inside those that may be opened anyway."""
_KNOWN_OPEN: dict[Path, tuple[int, int]] = {}
"""Folders that are not closed off, as of when they were these: to resolve a path takes a while."""


def close_off(path: Path) -> None:
    """Put a file or folder out of reach of every verb in this process, whatever the roots: sonde's
    own storage, its keys and its files of tokens."""
    real = path.resolve()
    _CLOSED.setdefault(real.name.casefold(), set()).add(real)
    _KNOWN_OPEN.clear()


@contextmanager
def lay_open(folder: Path) -> Iterator[None]:
    """Allow reading a folder inside a closed-off one, such as a user's upload."""
    real = folder.resolve()
    _LAID_OPEN.add(real)
    try:
        yield
    finally:
        _LAID_OPEN.discard(real)


def _refuse_closed(place: Path) -> None:
    facts = place.stat()
    if _KNOWN_OPEN.get(place) == (facts.st_dev, facts.st_ino):
        return
    real = Path(os.path.realpath(place))
    if real in _LAID_OPEN:
        return
    if any(real.is_relative_to(closed) for paths in _CLOSED.values() for closed in paths):
        raise PermissionError(errno.EACCES, "kept for sonde", str(place))
    _KNOWN_OPEN[place] = (facts.st_dev, facts.st_ino)


def detect_root(start: Path) -> Path:
    """The root of the project that contains `start`.

    A repository wins over any manifest below it: the nearest folder with `.git`, else the nearest
    with one of the other markers. A marker in the home folder or in `/` counts only if the search
    starts there; otherwise one stray file would make a project of everything.
    """
    if not start.exists():
        raise FileMissing(f"{start} does not exist", path=str(start))
    first = start.resolve()
    if first.is_file():
        first = first.parent
    too_wide = {Path(first.anchor)} - {first}
    with suppress(RuntimeError, OSError):
        too_wide |= {Path.home().resolve()} - {first}
    folders = [folder for folder in (first, *first.parents) if folder not in too_wide]
    for folder in folders:
        if os.path.lexists(folder / MARKERS[0]):
            return folder
    for folder in folders:
        # unlike Path.is_file, false where permission is missing
        if any(os.path.isfile(folder / marker) for marker in MARKERS[1:]):  # noqa: PTH113
            return folder
    raise ProjectNotDetected(f"No markers found in path hierarchy of {first}", cwd=str(first))


def show_path(path: str) -> str:
    """The path with bytes that are not UTF-8 written as escapes."""
    if path.isascii():
        return path
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def split_inside(root: Path, path: str) -> tuple[str, ...]:
    """The names from the root down to `path`, composed. Raises `OutsideRoots`. Does no I/O."""
    if "\0" in path:
        raise OutsideRoots("the path contains a NUL character", path=path.replace("\0", "\\0"))
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise OutsideRoots(f"no file can be named {path!a}", path=ascii(path)) from error
    given = Path(path)
    if ".." in given.parts:
        raise OutsideRoots(f"'..' in {path!r}", path=path)
    if not given.is_absolute() and not given.anchor:
        return tuple(map(compose, given.parts))
    for base in dict.fromkeys((root, root.resolve())):
        if given.is_relative_to(base):
            return tuple(map(compose, given.relative_to(base).parts))
    raise OutsideRoots(f"{path!r} is not below {root}", path=path)


def resolve_inside(root: Path, path: str) -> Path:
    """The absolute path of `path`, which may not exist, below the root; never through a link. A
    path that does not exist as spelled is tried once more cleaned (see `clean_path`)."""
    base = root.resolve()
    names = split_inside(root, path)
    if not os.path.lexists(base.joinpath(*names)):
        cleaned = split_inside(root, clean_path(path))
        if os.path.lexists(base.joinpath(*cleaned)):
            names = cleaned
    place = base
    for name in names:
        place = place / name
        try:
            mode = place.lstat().st_mode
        except OSError:
            continue
        if stat.S_ISLNK(mode):
            raise SymlinkNotAllowed(f"Symlink detected at path: {place}", path=path)
    return place


class Folder(Closing):
    """An open folder; `enter` opens a folder inside it. Close it, or use it in a `with`."""

    def __init__(self, place: Path | str, *, above: int | None = None) -> None:
        self._descriptor: int | None = None
        if above is not None:
            if os.sep in str(place):
                raise NotADirectoryError(errno.ENOTDIR, "not a name", str(place))
            self._descriptor = os.open(place, _FOLDER | _NO_FOLLOW, dir_fd=above)
            return
        self._place = place = Path(place)
        _refuse_closed(place)
        if _BY_DESCRIPTOR:
            self._descriptor = os.open(place, _FOLDER)
        elif not stat.S_ISDIR(place.lstat().st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", str(place))

    def enter(self, name: str, *, same_system: bool = False) -> Folder:
        """The folder of that name in this one; raises `OSError` if it is a link. `same_system` also
        refuses a mount: a folder of another file system."""
        self._refuse_closed_name(name)
        try:
            inner = Folder(self._at(name), above=self._descriptor)
            if same_system and inner.look_at(".").st_dev != self.look_at(".").st_dev:
                inner.close()
                raise OSError(errno.EXDEV, "another file system", name)
            return inner
        except NotADirectoryError:
            # Linux reports a link this way, too.
            if stat.S_ISLNK(self.look_at(name).st_mode):
                raise OSError(errno.ELOOP, "symbolic link", name) from None
            raise

    def spell(self, name: str) -> str:
        """How a composed name is spelled on disk; unchanged if it does not exist."""
        if name.isascii():
            return name
        try:
            self.look_at(name)
        except FileNotFoundError:
            return next((each for each in self.list_names() if compose(each) == name), name)
        return name

    def scan(self) -> list[os.DirEntry[str]]:
        """Its entries in the order of names; they are valid until the folder is closed."""
        with os.scandir(self._place if self._descriptor is None else self._descriptor) as entries:
            return sorted(entries, key=attrgetter("name"))

    def list_names(self) -> list[str]:
        """The names in it, unordered; cheaper than `scan` for huge folders."""
        place: int | Path = self._place if self._descriptor is None else self._descriptor
        return os.listdir(place)  # noqa: PTH208 - a descriptor is no path

    def read_link(self, name: str) -> str:
        """The target of a link, as written."""
        return os.readlink(self._at(name), dir_fd=self._descriptor)

    def look_at(self, name: str) -> os.stat_result:
        """The metadata of one name; of the link itself if it is one."""
        return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)

    def look_at_all(self, names: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
        """The metadata of many names; missing and inaccessible ones are left out."""
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
        """A descriptor of a regular file in this folder, and its metadata.

        Raises `OSError` for anything else, without opening it; what replaces the file between the
        check and the opening is closed at once.
        """
        self._refuse_closed_name(name)
        seen = self.look_at(name)
        if not stat.S_ISREG(seen.st_mode):
            raise OSError(_errno_of(seen.st_mode), "not a regular file", name)
        descriptor = os.open(self._at(name), _FILE, dir_fd=self._descriptor)
        facts = os.fstat(descriptor)
        same = self._descriptor is not None or os.path.samestat(seen, facts)
        if not (stat.S_ISREG(facts.st_mode) and same):
            os.close(descriptor)
            raise OSError(_errno_of(facts.st_mode), "replaced while it was opened", name)
        return descriptor, facts

    def read_start(self, name: str, limit: int) -> bytes | None:
        """The first bytes of a regular file in this folder; None if it cannot be read."""
        try:
            with os.fdopen(self.open_file(name)[0], "rb") as file:
                return file.read(limit)
        except OSError:
            return None

    def _refuse_closed_name(self, name: str) -> None:
        for closed in _CLOSED.get(name.casefold(), ()):
            if closed.exists() and os.path.samestat(self.look_at(name), closed.stat()):
                raise PermissionError(errno.EACCES, "kept for sonde", name)

    def _at(self, name: str) -> str | Path:
        """The path of a name, relative to the descriptor where there is one."""
        return name if self._descriptor is not None else self._place / name

    def close(self) -> None:
        """Close the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class OpenPath(Closing):
    """The folders down to a file, open for the next one near it; use it in a `with`, briefly."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folders: list[Folder] = []
        self._names: list[str] = []
        """Names on the way to the innermost open folder."""

    def close(self) -> None:
        """Close every folder; the next use opens them again."""
        self._names.clear()
        while self._folders:
            self._folders.pop().close()

    def _leave(self, names: Sequence[str]) -> None:
        """Close the folders that are not on the way to these names."""
        shared = 0
        for one, other in zip(self._names, names, strict=False):
            if one != other:
                break
            shared += 1
        del self._names[shared:]
        while len(self._folders) > shared + 1:
            self._folders.pop().close()

    def _enter(self, name: str) -> None:
        """Open a folder in the innermost one, and make it the innermost."""
        folder = self._innermost()
        self._folders.append(folder.enter(folder.spell(name), same_system=True))
        self._names.append(name)

    def _innermost(self) -> Folder:
        if not self._folders:
            self._folders.append(open_root(self._root))
        return self._folders[-1]


def open_root(root: Path) -> Folder:
    """Open a project's root; the one place where a link may be followed."""
    try:
        # a descriptor is bound to the real folder; a path must be resolved to it
        return Folder(root if _BY_DESCRIPTOR else root.resolve())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileMissing(f"{root} is not a folder", path=str(root)) from error
    except PermissionError as error:
        raise PermissionDenied(
            f"EACCES reading {root}", next_action="Give read access to {path}.", path=str(root)
        ) from error


def open_folder(root: Path, names: Iterable[str], *, same_system: bool = False) -> Folder:
    """Open a folder below a root, name by name; raises `OSError` if one of them is a link, and
    with `same_system` if it is a mount."""
    folder = open_root(root)
    for name in names:
        with folder:
            folder = folder.enter(folder.spell(name), same_system=same_system)
    return folder


def exists_below(root: Path, path: str) -> bool:
    """Whether there is a file or folder of this name below a root, however it is spelled."""
    names = split_inside(root, path)
    try:
        with open_folder(root, names[:-1]) as folder:
            return not names or bool(folder.look_at(folder.spell(names[-1])))
    except OSError:
        return False


def open_below(root: Path, names: Sequence[str]) -> tuple[int, os.stat_result]:
    """A descriptor of a regular file below a root, and its metadata."""
    with open_folder(root, names[:-1]) as folder:
        return folder.open_file(folder.spell(names[-1]))


_SKIP_REASONS = {
    errno.ELOOP: "symlink", errno.EMLINK: "symlink", errno.ENOENT: "missing",
    errno.ENOTDIR: "missing", errno.EISDIR: "folder", errno.ENXIO: "special",
    errno.ENODEV: "special", errno.EXDEV: "mount",
}  # fmt: skip


def skip_unreadable(path: str, error: OSError) -> Skipped:
    """The verdict on a path that the system does not let us read."""
    reason = _SKIP_REASONS.get(error.errno or 0, "unreadable")
    return Skipped(path, reason, error.strerror or "")


def _errno_of(mode: int) -> int:
    if stat.S_ISLNK(mode):
        return errno.ELOOP
    return errno.EISDIR if stat.S_ISDIR(mode) else errno.ENXIO


def stamp_file(facts: os.stat_result) -> int:
    """A number that differs whenever anything differs that the system records of a change.

    Size and modification time can be set back by anyone; the time of the last change of any kind
    cannot, and the inode tells two files that were written in the same moment apart. A new mode or
    name changes it too: then the content decides. Hashes of integers are the same everywhere.
    """
    return hash((facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino))


def clamp_mtime(facts: os.stat_result) -> int:
    """The modification time in nanoseconds, within the range that a database can store."""
    return min(max(facts.st_mtime_ns, -_MAX_MTIME_NS), _MAX_MTIME_NS)
