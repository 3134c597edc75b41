"""Where a project starts, and whether a path stays inside it."""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from pathlib import Path

from sonde.errors import FileMissing, OutsideRoots, ProjectNotDetected, SymlinkNotAllowed

MARKERS = (".git", "package.json", "pyproject.toml", "Cargo.toml", "go.mod")

# Zero-width characters, joiners, and the marks that change the direction of writing.
_INVISIBLE = re.compile("[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def detect_root(start: Path) -> Path:
    """The project that `start` lies in.

    A repository wins over any manifest below it: the nearest folder with `.git`, else the nearest
    with one of the other markers. A marker in the home folder or in `/` counts only when the
    search starts there, or one stray file would make a project of everything.
    """
    if not start.exists():
        raise FileMissing(f"{start} does not exist", path=str(start))
    first = start.resolve()
    if first.is_file():
        first = first.parent
    too_wide = {_home(), Path(first.anchor)} - {first}
    folders = [folder for folder in (first, *first.parents) if folder not in too_wide]
    for folder in folders:
        if os.path.lexists(folder / MARKERS[0]):
            return folder
    for folder in folders:
        # unlike Path.is_file, this says no where it may not look
        if any(os.path.isfile(folder / marker) for marker in MARKERS[1:]):  # noqa: PTH113
            return folder
    raise ProjectNotDetected(f"none of {', '.join(MARKERS)} in {first} or above", cwd=str(first))


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except (RuntimeError, OSError):
        return None


def clean_path(text: str) -> str:
    """The path as it reads: NFC, without zero-width characters and direction marks."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFC", _INVISIBLE.sub("", text))


def show_path(path: str) -> str:
    """The path with bytes that are not UTF-8 written as escapes; itself when there are none."""
    if path.isascii():
        return path
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def split_inside(root: Path, path: str) -> tuple[str, ...]:
    """The names from the root down to `path`, or `OutsideRoots`; looks at nothing on disk."""
    if "\0" in path:
        raise OutsideRoots("the path holds a NUL character", path=path.replace("\0", "\\0"))
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise OutsideRoots(f"no file can be named {path!a}", path=ascii(path)) from error
    given = Path(path)
    if ".." in given.parts:
        raise OutsideRoots(f"'..' in {path!r}", path=path)
    if not given.is_absolute() and not given.anchor:
        return given.parts
    for base in dict.fromkeys((root, root.resolve())):
        if given.is_relative_to(base):
            return given.relative_to(base).parts
    raise OutsideRoots(f"{path!r} is not below {root}", path=path)


def resolve_inside(root: Path, path: str) -> Path:
    """The real place of `path`, which may not exist, below the root; never through a link.

    A path that does not exist as spelled is tried once more as it reads (see `clean_path`).
    """
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
            raise SymlinkNotAllowed(f"symbolic link at {place}", path=path)
    return place
