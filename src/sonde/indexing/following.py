"""Which files of a project changed, and when they are due to be indexed.

A `TreeWatch` reports touched places, `Settling` holds each path until it is left alone, and a
strategy decides when it is due: at once, when it is quiet, or with each commit. Nothing here
indexes: the caller takes what is due, and says when it is done. What is pending is kept in
`dirty-files.json`, so that it survives the process.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import ClassVar

from sonde.indexing.diff import EVERYTHING
from sonde.indexing.sources import Tree
from sonde.policy.changes import (
    FolderWatch,
    Repository,
    WatchFailed,
    find_repository,
    find_repository_around,
    is_rewriting,
    read_commit,
)
from sonde.policy.ignore import GIT_FILE, OWN_FILE
from sonde.stores.records import load_dirty, load_heads, save_dirty

_BY_FOLDER = sys.platform == "linux"
"""On Linux each folder costs one of a limited number of watches, so only folders whose files may
be indexed are watched. Elsewhere a root is watched with everything below it."""
_STEP_MS, _GATHER_MS = 100, 200  # how often arrived events are collected, and a burst gathered
_SETTLED_S = 0.4
"""How long a path is left alone after its last event, which is up to two steps old when it
arrives: half a second after the last write."""
_MAX_UNSETTLED_S = 5.0  # a file that is written all the time is indexed this often
_OPEN_ATTEMPTS = 3  # folders may vanish between listing and watching them

Inbox = SimpleQueue[set[str] | Exception | threading.Event | None]
"""What a leader waits for: touched places, a broken watch, a request to flush, a wake-up."""


class TreeWatch:
    """An open watch on all folders of a tree; touched places go to an inbox as absolute paths."""

    def __init__(self, tree: Tree, inbox: Inbox) -> None:
        self.folders: frozenset[str] = frozenset()
        """The folders watched one by one; empty where roots are watched with all below."""
        for left in reversed(range(_OPEN_ATTEMPTS)):
            places = [str(source.root) for source in tree.sources]
            if _BY_FOLDER:
                places = [str(folder) for folder in tree.folders()]
                self.folders = frozenset(places)
            try:
                self._watch = FolderWatch(
                    places,
                    inbox.put,
                    recursive=not _BY_FOLDER,
                    step_ms=_STEP_MS,
                    gather_ms=_GATHER_MS,
                )
                return
            except OSError as error:
                if not left:
                    raise WatchFailed(f"the folders keep changing: {error}") from error

    def close(self) -> None:
        """Stop listening."""
        self._watch.close()


def name_touched(tree: Tree, places: set[str], folders: frozenset[str]) -> set[str]:
    """The project's names for touched places; `folders` are the places known to be folders."""
    touched = set()
    for place in places:
        name = tree.name_of(place)
        if not name or name.endswith("/"):
            continue  # not indexed, or a root, which is looked at each second
        if name.rpartition("/")[2] in (GIT_FILE, OWN_FILE):
            touched.add(EVERYTHING)
        if place in folders or os.path.isdir(place):  # noqa: PTH112 - half the time
            touched.add(f"{name}/")
        elif not folders and not os.path.lexists(place):
            touched.update((name, f"{name}/"))  # gone: whether it was a folder is not known
        else:
            touched.add(name)
    return touched


class Settling:
    """Recently touched paths, each until it has been left alone for a while."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}
        self._first: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._due)

    def add(self, paths: Iterable[str]) -> None:
        """Note that these were touched just now."""
        now = self._clock()
        for path in paths:
            first = self._first.setdefault(path, now)
            self._due[path] = min(now + _SETTLED_S, first + _MAX_UNSETTLED_S)

    def take(self, *, everything: bool = False) -> set[str]:
        """Remove and return the settled paths, or all."""
        now = self._clock()
        taken = {path for path, due in self._due.items() if everything or due <= now}
        for path in taken:
            del self._due[path], self._first[path]
        return taken

    def seconds_left(self, at_most: float) -> float:
        """How long until the next path settles."""
        next_due = min(self._due.values(), default=None)
        return at_most if next_due is None else min(max(next_due - self._clock(), 0.0), at_most)


class Strategy:
    """Decides in one thread when changed paths are due: here as they come, until indexed."""

    name: ClassVar[str] = "realtime"
    note = ""
    """Why the strategy does not do what its name says, if so."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.pending: set[str] = load_dirty(folder)
        """Changed paths that are not indexed yet; folders end in a slash."""
        self._saved: object = self._state()

    def add(self, paths: Iterable[str]) -> set[str]:
        """Note changed paths. Returns those to index at once."""
        self.pending |= set(paths)
        return set(self.pending)

    def tick(self) -> set[str]:
        """Pending paths that have become due; called about once a second."""
        return set(self.pending)

    def mark_indexed(self, paths: set[str]) -> None:
        """Forget these paths, which are indexed now."""
        self.pending -= paths
        self.save()

    def save(self) -> None:
        """Write down what is pending, if that has changed."""
        state = self._state()
        if state != self._saved:
            save_dirty(self._folder, self.pending, self._heads())
            self._saved = state

    def _heads(self) -> Mapping[str, str]:
        return {}

    def _state(self) -> object:
        return set(self.pending), dict(self._heads())


class Lazy(Strategy):
    """Changes are due when nothing has changed for a while, or with a search."""

    name: ClassVar[str] = "lazy"

    def __init__(
        self, folder: Path, idle_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(folder)
        self._idle_s, self._clock = idle_s, clock
        self._last_event = clock()

    def add(self, paths: Iterable[str]) -> set[str]:
        """Note changed paths; none is due at once."""
        super().add(paths)
        self._last_event = self._clock()
        return set()

    def tick(self) -> set[str]:
        """Everything that is pending, once it is quiet."""
        quiet = self._clock() - self._last_event >= self._idle_s
        return set(self.pending) if quiet else set()


class Git(Lazy):
    """Changes are due when the repository they lie in moves to another commit: the project's own,
    or that of a submodule."""

    name: ClassVar[str] = "git"

    def __init__(
        self, folder: Path, idle_s: float, tree: Tree, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tree, self._repositories = tree, _find_repositories(tree)
        self._indexed = load_heads(folder)
        """Repository -> its commit when its files were last indexed."""
        self._seen: dict[str, str] = {}
        """Repository -> its commit at the last tick."""
        self._moved: set[str] = set()
        for name, repository in self._repositories.items():
            self._indexed.setdefault(name, read_commit(repository))
        super().__init__(folder, idle_s, clock)
        self._saved = None  # the commits may be new, and are to be written down
        if not self._repositories:
            self.note = "no git repository here: changes are indexed when it is quiet"

    def add(self, paths: Iterable[str]) -> set[str]:
        """Note changed paths; a folder may have brought a repository."""
        paths = set(paths)
        if any(path.endswith("/") for path in paths):
            self._repositories = _find_repositories(self._tree)
        return super().add(paths)

    def tick(self) -> set[str]:
        """The pending paths in repositories that have moved, and stayed there since the last
        call."""
        if not self._repositories:
            return super().tick()
        self._moved = set()
        for name, repository in self._repositories.items():
            head = read_commit(repository)
            rests = self._seen.get(name) == head and not is_rewriting(repository)
            self._seen[name] = head
            if rests and head and head != self._indexed.get(name):
                self._moved.add(name)
        return {path for path in self.pending if self._moved and self._is_due(path)}

    def mark_indexed(self, paths: set[str]) -> None:
        """Forget these paths, and that their repositories have moved."""
        for name in self._moved:
            self._indexed[name] = self._seen.get(name, "")
        self._moved = set()
        super().mark_indexed(paths)

    def _is_due(self, path: str) -> bool:
        """Whether the innermost repository that holds a file has moved."""
        holders = (name for name in self._repositories if path.startswith(name))
        return path == EVERYTHING or max(holders, key=len, default="") in self._moved

    def _heads(self) -> Mapping[str, str]:
        return self._indexed


def _find_repositories(tree: Tree) -> dict[str, Repository]:
    """The repositories of a project by the project's names for their folders."""
    found = {}
    for source in tree.sources:
        if repository := find_repository_around(source.root):
            found[source.prefix] = repository
    for place in tree.folders():
        repository = find_repository(place)
        name = tree.name_of(str(place))
        if repository and name is not None:
            found[name if not name or name.endswith("/") else f"{name}/"] = repository
    return found


def make_strategy(
    name: str,
    folder: Path,
    *,
    idle_s: float,
    tree: Tree,
    clock: Callable[[], float] = time.monotonic,
) -> Strategy:
    """The strategy of this name, with what an earlier process left pending in the folder."""
    if name == "lazy":
        return Lazy(folder, idle_s, clock)
    return Git(folder, idle_s, tree, clock) if name == "git" else Strategy(folder)
