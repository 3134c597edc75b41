"""When changed files are indexed: at once, when nobody works, or with each commit.

A strategy is told which files changed and decides when to pass them on. What waits is kept in
`dirty-files.json`, so that it survives the process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from sonde.indexing.sources import Tree
from sonde.policy.git import (
    Repository,
    find_repository,
    find_repository_around,
    is_rewriting,
    read_commit,
)
from sonde.stores.records import load_dirty, load_heads, save_dirty


class RepositoryHeads:
    """The HEAD of every repository in a project: its own, and those of submodules."""

    def __init__(self, tree: Tree, known: Mapping[str, str]) -> None:
        self.known = dict(known)
        """Repository -> where it was when its files were last indexed."""
        self._seen: dict[str, str] = {}
        self._repositories: dict[str, Repository] = {}
        self.look_for_repositories(tree)
        for name, repository in self._repositories.items():
            self.known.setdefault(name, read_commit(repository))

    def __bool__(self) -> bool:
        return bool(self._repositories)

    def look_for_repositories(self, tree: Tree) -> None:
        """Find them anew, as when folders have come or gone."""
        found = {}
        for source in tree.sources:
            if repository := find_repository_around(source.root):
                found[source.prefix] = repository
        for place in tree.folders():
            repository = find_repository(place)
            name = tree.name_of(str(place))
            if repository and name is not None:
                found[name if not name or name.endswith("/") else f"{name}/"] = repository
        self._repositories = found

    def find_moved(self) -> set[str]:
        """Repositories that stand elsewhere than before, once they have come to rest there."""
        moved = set()
        for name, repository in self._repositories.items():
            head = read_commit(repository)
            rests = self._seen.get(name) == head and not is_rewriting(repository)
            self._seen[name] = head
            if rests and head and head != self.known.get(name):
                moved.add(name)
        return moved

    def settle(self, names: Iterable[str]) -> None:
        """Take these repositories as they stand now for indexed."""
        for name in names:
            self.known[name] = self._seen.get(name, "")

    def owner_of(self, path: str) -> str:
        """The repository that a file lies in: the nearest."""
        return max(
            (name for name in self._repositories if path.startswith(name)), key=len, default=""
        )


STRATEGIES = ("realtime", "lazy", "git")
EVERYTHING = "/"
"""Stands for the whole project among paths."""

Update = Callable[[set[str]], None]
"""Bring these files in step with the disk; folders end in a slash."""


@dataclass(slots=True)
class StrategyStats:
    """What a strategy has done since it was started."""

    pending: int = 0
    events: int = 0
    updates: int = 0
    files: int = 0
    """Paths passed on, of whatever kind."""
    last_update: float | None = None
    """Seconds since the epoch, for people."""
    note: str = ""


class Strategy(Protocol):
    """What decides when changes are indexed; used by one thread at a time."""

    name: ClassVar[str]

    def initialize(self) -> None:
        """Take up what a former process left waiting."""

    def start(self) -> None:
        """From now on events come."""

    def stop(self) -> None:
        """No more events; what waits is written down."""

    def is_active(self) -> bool:
        """Between start and stop."""

    def on_file_event(self, paths: Collection[str]) -> None:
        """These files or folders (with a slash at the end) have changed."""

    def on_tick(self) -> None:
        """Called about once a second."""

    def flush(self) -> None:
        """Pass on everything that waits, now."""

    def get_stats(self) -> StrategyStats:
        """What has been done, and what waits."""


class Realtime:
    """Passes changes on as they come."""

    name: ClassVar[str] = "realtime"

    def __init__(self, folder: Path, update: Update) -> None:
        self._folder = folder
        self._update = update
        self._active = False
        self._dirty: set[str] = set()
        self._saved: object = None
        self._stats = StrategyStats()

    def initialize(self) -> None:
        """Take up what a former process left waiting."""
        self._dirty |= load_dirty(self._folder)
        self._saved = set(self._dirty)

    def start(self) -> None:
        """Pass on what waited."""
        self._active = True

    def stop(self) -> None:
        """Write down what waits."""
        self._active = False
        self._save()

    def is_active(self) -> bool:
        """Between start and stop."""
        return self._active

    def on_file_event(self, paths: Collection[str]) -> None:
        """Pass these on, with what could not be passed on before."""
        self._note(paths)
        self.flush()

    def on_tick(self) -> None:
        """Try again what could not be passed on."""
        if self._dirty:
            self.flush()

    def flush(self) -> None:
        """Pass on everything that waits."""
        self._pass_on(set(self._dirty))

    def get_stats(self) -> StrategyStats:
        """What has been done, and what waits."""
        self._stats.pending = len(self._dirty)
        return self._stats

    def _note(self, paths: Collection[str]) -> None:
        self._stats.events += len(paths)
        self._dirty |= set(paths)

    def _pass_on(self, paths: set[str]) -> None:
        """What fails keeps waiting: only what is done is forgotten."""
        if paths:
            self._update(paths)
            self._stats.updates += 1
            self._stats.files += len(paths)
            self._stats.last_update = time.time()
            self._dirty -= paths
        self._save()

    def _state(self) -> object:
        return set(self._dirty)

    def _heads(self) -> Mapping[str, str]:
        return {}

    def _save(self) -> None:
        state = self._state()
        if state != self._saved:
            save_dirty(self._folder, self._dirty, self._heads())
            self._saved = state


class Lazy(Realtime):
    """Passes changes on when nothing has changed for a while, or when somebody searches."""

    name: ClassVar[str] = "lazy"

    def __init__(self, folder: Path, update: Update, idle_s: float) -> None:
        super().__init__(folder, update)
        self._idle_s = idle_s
        self._last_event = time.monotonic()

    def on_file_event(self, paths: Collection[str]) -> None:
        """Remember these."""
        self._note(paths)
        self._last_event = time.monotonic()

    def on_tick(self) -> None:
        """Pass on what waits once it is quiet."""
        if self._dirty and time.monotonic() - self._last_event >= self._idle_s:
            self.flush()
        self._save()


class Git(Lazy):
    """Passes changes on when the repository they lie in moves to another commit."""

    name: ClassVar[str] = "git"

    def __init__(self, folder: Path, update: Update, idle_s: float, tree: Tree) -> None:
        super().__init__(folder, update, idle_s)
        self._tree = tree
        self._heads_known: RepositoryHeads | None = None

    def initialize(self) -> None:
        """Take up what waited, and where the repositories were then."""
        super().initialize()
        self._heads_known = RepositoryHeads(self._tree, load_heads(self._folder))
        if not self._heads_known:
            self._stats.note = "no git repository here: changes are indexed when it is quiet"

    def on_file_event(self, paths: Collection[str]) -> None:
        """Remember these; a folder may have brought a repository."""
        super().on_file_event(paths)
        if self._heads_known is not None and any(path.endswith("/") for path in paths):
            self._heads_known.look_for_repositories(self._tree)

    def on_tick(self) -> None:
        """Pass on what lies in a repository that has moved."""
        heads = self._heads_known
        if not heads:
            super().on_tick()
            return
        moved = heads.find_moved()
        if moved:
            self._pass_on({p for p in self._dirty if p == EVERYTHING or heads.owner_of(p) in moved})
            heads.settle(moved)
        self._save()

    def _heads(self) -> Mapping[str, str]:
        return self._heads_known.known if self._heads_known else {}

    def _state(self) -> object:
        return set(self._dirty), dict(self._heads())


def make_strategy(
    name: str, folder: Path, update: Update, *, idle_s: float, tree: Tree
) -> Strategy:
    """The strategy of this name."""
    if name == "lazy":
        return Lazy(folder, update, idle_s)
    return Git(folder, update, idle_s, tree) if name == "git" else Realtime(folder, update)
