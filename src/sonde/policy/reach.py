"""Reach: the folders and projects that one caller may index, scan, search and read."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path

from sonde.errors import OutsideRoots
from sonde.types import LOCAL


@dataclass(frozen=True, slots=True)
class Reach:
    """What a caller may reach. The default is everything: a person at the command line."""

    user: str = LOCAL
    roots: tuple[Path, ...] | None = None
    """Folders to index, scan and read, with everything below them; None means all."""
    trusted: tuple[Path, ...] | None = None
    """Folders in which repeating a call counts as consent; None means all."""
    sees: Callable[[Path], bool] = lambda _root: False
    """Whether a project outside the roots may be searched and read."""
    list_opened: Callable[[], tuple[Path, ...]] = tuple
    """Folders that the client of an agent of the operator has opened."""
    start: Path | None = None
    """Where a call that names no project looks for one; None means where sonde was started."""

    def includes(self, path: Path) -> bool:
        """Whether a path lies in the roots, with its links resolved for users who may make some."""
        real = path if self.user == LOCAL else Path(os.path.realpath(path))
        return self.roots is None or is_below(real, self.roots)

    def admits(self, root: Path) -> bool:
        """Whether the project at this root may be searched and read."""
        real = root if self.user == LOCAL else Path(os.path.realpath(root))
        return self.includes(root) or self.sees(real) or self._has_opened(root)

    def trusts(self, root: Path) -> bool:
        """Whether the caller may agree to changes of the project by repeating a call."""
        return self.trusted is None or is_below(root, self.trusted) or self._has_opened(root)

    def _has_opened(self, root: Path) -> bool:
        folders = tuple(each for each in self.list_opened() if not is_too_wide(each))
        return is_below(root, folders)

    def may_change(self, root: Path) -> bool:
        """Whether the caller's consent counts at all: a shared project is its owner's."""
        return self.user == LOCAL or self.includes(root)

    def require(self, path: Path, *, way_down: bool = False) -> None:
        """Raise `OutsideRoots` unless a project at this path is admitted.

        `way_down` also lets through what lies below a project that is. The message is the same
        whether the path exists or not.
        """
        # only folders that exist can be projects; a path of thousands of names is looked at once
        above = takewhile(os.path.isdir, reversed(path.parents)) if way_down else ()
        if not any(map(self.admits, (path, *above))):
            raise self.make_refusal("Run `sonde index` in it once, or add it to")

    def make_refusal(self, advice: str) -> OutsideRoots:
        """The error for a folder outside; `advice` is for the operator, whose settings widen it."""
        widen = f"{advice} `fileRoots` in the user's config.json."
        if self.user != LOCAL:
            widen = "Ask the operator of this server, who can give it to you with `sonde users`."
        return OutsideRoots(
            f"the path is in none of the folders of {self.user}",
            user_message="That folder is outside the folders you may use.",
            next_action=widen,
        )


def is_too_wide(folder: Path) -> bool:
    """Whether a folder is a whole disk or a whole home."""
    home = os.path.expanduser("~")  # noqa: PTH111 - needs no home
    return folder in (Path(folder.anchor), Path(home).resolve())


@lru_cache(maxsize=1_000)
def is_below(path: Path, folders: tuple[Path, ...]) -> bool:
    """Whether a path is one of these folders or lies below one."""
    return any(path.is_relative_to(folder) for folder in folders)
