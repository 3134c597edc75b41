"""Paths as a shell reads them, and the scanned tree that one lies in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sonde.errors import NotScanned, OutsideRoots
from sonde.policy.roots import show_path
from sonde.stores.saved_base import DiskIndex

_LONGEST = 400
"""Characters of a path in a message."""
_ESCAPE = re.compile(r"\\x([89a-f][0-9a-f])")


@dataclass(frozen=True, slots=True)
class Place:
    """A path inside a scanned tree; `names` lead from its root down."""

    index: DiskIndex
    names: tuple[str, ...]

    @property
    def path(self) -> str:
        """The whole path."""
        return str(Path(self.index.root, *self.names))


def read_path(text: str, cwd: str, home: Path | None) -> Path:
    """The absolute path that a text means in a folder: relative, `..`, `~`; links stay as named."""
    if "\0" in text:
        raise OutsideRoots("the path holds a NUL character")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise OutsideRoots("no file can have such a name") from error
    if text == "~" or text.startswith("~/"):
        if home is None:
            raise OutsideRoots("nobody's home is known")
        text = str(home / text[2:])
    return Path(os.path.normpath(Path(cwd or "/", text)))


def locate(
    target: Path, indexes: Iterable[DiskIndex], current: str, roots: Iterable[Path]
) -> Place:
    """The tree that a path lies in: the current one if it does, else the nearest above it.

    What lies in none is refused alike whether it exists or not.
    """
    known = list(indexes)
    for place in (target, _resolve(target)):
        holding = [index for index in known if place.is_relative_to(index.root)]
        if holding:
            best = max(holding, key=lambda index: (index.id == current, len(index.root)))
            return Place(best, place.relative_to(best.root).parts)
    if any(target.is_relative_to(root) for root in roots):
        shown = str(target) if len(str(target)) <= _LONGEST else f"{str(target)[:_LONGEST]}…"
        raise NotScanned("no scanned tree holds it", path=show_path(shown))
    raise OutsideRoots(
        "the path lies in no scanned tree and in none of the allowed folders",
        user_message="That path is outside the folders that may be looked at.",
        next_action="Name a path inside a scanned folder; `cd ~` and `cd -` lead back.",
    )


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path


def read_name(name: str) -> str:
    """A name as it was shown -> as the system knows it: `\\xe9` may stand for a stray byte."""
    if "\\x" not in name:
        return name
    data = _ESCAPE.sub(lambda found: chr(0xDC00 + int(found[1], 16)), name)
    return data.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
