"""Where a repository's HEAD stands, from the few small files of git that say it.

Of all that lies in `.git` nothing else is opened. A worktree and a submodule have a file in the
place of the folder, which names it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_MOST_BYTES = 4096
_MOST_PACKED = 16 * 1024 * 1024
_REWRITING = ("rebase-merge", "rebase-apply", "sequencer")


class Repository(NamedTuple):
    """A working tree; `git` is its own part of the repository, `shared` what worktrees share."""

    place: Path
    git: Path
    shared: Path


def find_repository(place: Path) -> Repository | None:
    """The repository whose working tree begins in this folder."""
    git = place / ".git"
    if not os.path.lexists(git):
        return None
    if not git.is_dir():
        key, _, named = _read(git).partition(":")
        if key != "gitdir":
            return None
        git = place / named.strip()
    if not (git / "HEAD").is_file():
        return None
    return Repository(place, git, git / _read(git / "commondir"))


def find_repository_around(place: Path) -> Repository | None:
    """The same, of this folder or the nearest above it."""
    found = (find_repository(folder) for folder in (place, *place.parents))
    return next(filter(None, found), None)


def read_head(repository: Repository) -> str:
    """The branch and commit that are checked out, as one text; empty when nothing says it."""
    head = _read(repository.git / "HEAD")
    name = head.removeprefix("ref:").strip()
    if name == head:
        return head  # detached
    if name == "refs/heads/.invalid":  # the newer format, in which every change renames a table
        return _read(repository.shared / "reftable" / "tables.list")
    if not name.startswith("refs/") or ".." in name:
        return ""
    commit = _read(repository.shared / name) or _find_packed(repository, name)
    return f"{name} {commit}"


def is_rewriting(repository: Repository) -> bool:
    """Whether a rebase or the like is under way, and HEAD about to move again."""
    return any((repository.git / name).exists() for name in _REWRITING)


def _find_packed(repository: Repository, name: str) -> str:
    for line in _read(repository.shared / "packed-refs", _MOST_PACKED).splitlines():
        commit, _, packed = line.partition(" ")
        if packed == name:
            return commit
    return ""


def _read(path: Path, most: int = _MOST_BYTES) -> str:
    try:
        if not path.is_file():  # a pipe would make us wait for whoever writes into it
            return ""
        with path.open("rb") as file:
            return file.read(most).decode("utf-8", "surrogateescape").strip()
    except OSError:
        return ""
