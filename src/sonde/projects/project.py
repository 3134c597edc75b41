"""A project with its stores and its state in this process, and the workspace of open projects."""

from __future__ import annotations

import copy
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from sonde.embedding.base import Embedder
from sonde.errors import IndexCorrupt, ReadOnlyProject
from sonde.indexing.sources import Following, Identity, MirrorSource, Tree, identify_files
from sonde.paging.cursor import ResultSets
from sonde.policy.reach import Reach
from sonde.runtime.jobs import Jobs
from sonde.runtime.processes import Child
from sonde.runtime.work import Work, WriterLock
from sonde.stores.chunks.base import ChunkStore
from sonde.stores.database import translate_errors
from sonde.types import Kind

FRESH_S = (0.5, 10.0)
"""How long an index counts as fresh: five times as long as comparing it took, within these bounds,
so that a large project is not compared all the time."""
_STEMS: Mapping[Kind, str] = {"code": "index", "docs": "docs"}
_DATABASES = ("index.db", "docs.db", "index.lance.db", "docs.lance.db")
_BACKUP = ".bak"
_SECOND_SUSPICION_S = 60.0  # a whole store reported broken again so soon is set aside


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The settings that hold for one project; replaced whole when they change."""

    tree: Tree
    store_name: str
    max_files: int
    """The soft limit, beyond which indexing asks first."""
    config_text: str
    """What config.json says when it is generated."""
    strategy: str = "realtime"
    lazy_idle_s: float = 30.0
    check_interval_s: float = 24 * 3600.0
    watching: str = "auto"
    name: str = ""
    """`repository@branch` of one from a shared index, which is read-only once it is written."""
    warnings: tuple[str, ...] = ()
    chunk_folder: Path | None = None
    """Where chunk files that another program wrote may lie."""
    needs_chunks: bool = False
    """Whether a user named that folder, so that it must be there."""
    chunk_embedder: Embedder | None = None
    """Embeds queries for chunk files of another model."""
    shared_index: str = ""
    """The address of a shared index, from which a new one starts."""


class ProjectPart:
    """State that a service keeps with a project; created on first use, closed with the project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._guard = threading.RLock()
        self._store: ChunkStore | None = None  # of its own, if it has one that is open

    def list_open(self) -> list[ChunkStore]:
        """Its store, if it is open."""
        return [self._store] if self._store else []

    def close(self) -> None:
        """Close what is open; it opens again on the next use."""
        with self._guard:
            store, self._store = self._store, None
            if store:
                store.close()


Part = TypeVar("Part", bound=ProjectPart)


class Project:
    """One project: its settings, its index folder, and its stores once they are opened."""

    def __init__(
        self,
        root: Path,
        folder: Path,
        settings: ProjectSettings,
        open_store: Callable[[Path, str, Kind], ChunkStore],
        open_views: Callable[[], ChunkStore],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root = root
        self.folder = folder
        self.settings = settings
        self.lock = WriterLock(folder)
        self.open_views = open_views
        self.following: Following | None = None
        """What keeps the index current, in a server."""
        self.last_search = float("-inf")
        """When it was last searched, by its clock; long ago if never."""
        self.shown: Counter[str] = Counter()
        """How often searches showed each file."""
        self._open_store = open_store
        self.now = clock
        self._guard = threading.Lock()
        self._stores: dict[Kind, ChunkStore] = {}
        self._identity: Identity = {}
        self._parts: dict[type[ProjectPart], ProjectPart] = {}
        self._fresh_until = self._record_after = self._proved_whole_at = float("-inf")
        self._was_used, self._last_warm = False, float("-inf")

    @property
    def key(self) -> str:
        """Names the project in answers and jobs: its name in a shared index, or its folder."""
        return self.settings.name or str(self.root)

    @property
    def tree(self) -> Tree:
        """Its files."""
        return self.settings.tree

    def require_writable(self) -> None:
        """Raise `ReadOnlyProject` for one that comes from a shared index."""
        if self.settings.name:
            raise ReadOnlyProject(self.key, name=self.key)

    def adopt(self, settings: ProjectSettings) -> None:
        """Replace the settings."""
        with self._guard:
            if self.settings.store_name != settings.store_name:
                self._stores = {}  # not closed: a reader may still finish
            self.settings = settings
            self._fresh_until = float("-inf")

    def with_folder(self, folder: Path) -> Project:
        """The same project with another index, in this folder and in SQLite."""
        settings = replace(self.settings, store_name="sqlite")
        return Project(self.root, folder, settings, self._open_store, self.open_views)

    def is_first_use(self) -> bool:
        """Whether this is the first call."""
        with self._guard:
            first, self._was_used = not self._was_used, True
        return first

    def part(self, make: type[Part]) -> Part:
        """The part of this class that belongs to the project."""
        with self._guard:
            part = self._parts.get(make)
            if not isinstance(part, make):
                part = self._parts[make] = make(self)
            return part

    def is_indexed(self) -> bool:
        """Whether an index was begun; it may still be growing."""
        return (self.folder / "metadata.json").exists()

    def note_search(self) -> None:
        """Note that it was searched just now."""
        self.last_search = self.now()

    def note_warm(self) -> None:
        """Note that what a search needs was loaded just now."""
        self._last_warm = self.now()

    def seconds_idle(self) -> float:
        """Seconds since the last search or warm-up."""
        return self.now() - max(self.last_search, self._last_warm)

    def mark_fresh(self, seconds: float) -> None:
        """Treat the index as fresh for this long, after a full comparison."""
        self._fresh_until = self.now() + seconds

    def is_fresh(self) -> bool:
        """Whether a search need not compare the files first."""
        return self.now() < self._fresh_until

    def defer_records(self, seconds: float) -> None:
        """Postpone the next write of the index's records."""
        self._record_after = self.now() + seconds

    def are_records_due(self) -> bool:
        """Whether the records may be written again."""
        return self.now() >= self._record_after

    def start_following(self, start: Callable[[], Following]) -> None:
        """Start following, unless it is followed already."""
        with self._guard:
            if self.following is None or not self.following.is_alive():
                self.following = start()

    def stop_following(self) -> None:
        """Stop following, if it is followed."""
        following, self.following = self.following, None
        if following:
            following.stop()

    # stores

    def stores(self) -> Mapping[Kind, ChunkStore]:
        """Both stores, opened on first use, and again when their files were replaced."""
        with self._guard:
            if self._stores and identify_files(self._identity) != self._identity:
                self._stores = {}  # not closed: a reader may still finish
                self._fresh_until = float("-inf")
            if not self._stores:
                before = identify_files(self.folder / name for name in _DATABASES)
                with ExitStack() as opened:  # if one cannot be opened, the other is closed
                    self._stores = self._open_all(self.settings.store_name, opened)
                    opened.pop_all()
                # a file replaced while it was opened must not pass for the one that is open
                after = identify_files(before)
                self._identity = {path: before[path] or after[path] for path in after}
            return dict(self._stores)

    def list_open(self) -> list[ChunkStore]:
        """The stores that are open, those of its parts included."""
        with self._guard:
            stores, parts = list(self._stores.values()), list(self._parts.values())
        return [*stores, *(store for part in parts for store in part.list_open())]

    @contextmanager
    def open_stores(self, name: str) -> Iterator[dict[Kind, ChunkStore]]:
        """The stores of a backend, whether it is the chosen one or not; closed at the end."""
        with ExitStack() as opened:
            yield self._open_all(name, opened)

    def _open_all(self, name: str, opened: ExitStack) -> dict[Kind, ChunkStore]:
        open_store = partial(self._open_store, self.folder, name)
        return {kind: opened.enter_context(closing(open_store(kind))) for kind in _STEMS}

    def open_part(self, name: str) -> ChunkStore:
        """A store beside the index, in SQLite; the caller closes it."""
        return self._open_store(self.folder / name, "sqlite", "docs")

    def set_aside(self) -> None:
        """Move the files of broken stores to `<name>.bak`; these start empty, whole ones stay."""
        broken = [kind for kind in _STEMS if self._is_broken(kind)]
        self.close()
        if not broken:
            # another process may have repaired it; if it happens again, none has
            before, self._proved_whole_at = self._proved_whole_at, self.now()
            if self._proved_whole_at - before > _SECOND_SUSPICION_S:
                return
        stems = tuple(f"{_STEMS[kind]}." for kind in broken or _STEMS)
        with self._guard, translate_errors(self.folder):
            # logs before their databases: a log that is left alone would be replayed into a new one
            for path in sorted(self.folder.iterdir(), reverse=True):
                if not path.name.startswith(stems) or path.name.endswith(_BACKUP):
                    continue
                backup = path.with_name(path.name + _BACKUP)
                if backup.is_dir():
                    shutil.rmtree(backup)
                path.replace(backup)

    def _is_broken(self, kind: Kind) -> bool:
        """Whether a newly opened store is broken: an open one may remember how it was."""
        try:
            with closing(self._open_store(self.folder, self.settings.store_name, kind)) as store:
                return bool(store.verify())
        except IndexCorrupt:
            return True

    def remove_stores(self, name: str) -> None:
        """Delete the files of one backend's stores."""
        self.close()
        stems = tuple(f"{stem}." for stem in _STEMS.values())
        for path in list(self.folder.iterdir()):
            if path.name.startswith(stems) and (".lance" in path.name) == (name == "lance"):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the stores; they open again on the next use."""
        with self._guard:
            for store in self._stores.values():
                store.close()
            self._stores = {}
            parts = list(self._parts.values())
        for part in parts:
            part.close()


class Projects:
    """The open projects by root; each is opened on first use."""

    def __init__(
        self, open_project: Callable[[Path], Project], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open_project, self._now = open_project, clock
        self._open: dict[Path, Project] = {}
        self._used: dict[Path, float] = {}
        self.roots: dict[str, Path] = {}
        self._guard = threading.Lock()
        self._reach = Reach()

    def seen_by(self, reach: Reach) -> Projects:
        """The same projects, of which only those within reach can be opened."""
        view = copy.copy(self)
        view._reach = reach  # noqa: SLF001 - of a copy of itself
        return view

    def get(self, root: Path | str) -> Project:
        """The project at this root, or with this key; raises `OutsideRoots`."""
        root = self.roots.get(str(root)) or Path(root)
        self._reach.require(root)
        with self._guard:
            project = self._open.get(root)
            if project is None:
                project = self._open[root] = self._open_project(root)
                self.roots[project.key] = root
            self._used[root] = self._now()
            return project

    def seconds_unused(self, root: Path) -> float:
        """How long ago a project was last asked for; infinite if never."""
        return self._now() - self._used.get(root, float("-inf"))

    def reload(self, root: Path) -> None:
        """Read the settings of an open project again."""
        fresh = self._open_project(root)
        if project := self._open.get(root):
            project.adopt(fresh.settings)

    def stop_following(self) -> None:
        """Stop every follower."""
        for project in list(self._open.values()):
            project.stop_following()

    def forget(self, root: Path) -> None:
        """Close a project; its next use opens it with its current settings."""
        with self._guard:
            project = self._open.pop(root, None)
            self._used.pop(root, None)
        if project:
            project.stop_following()
            project.close()

    def close(self, unused_s: float = float("-inf")) -> None:
        """Close all, or those unused for this long; they open again on the next use."""
        for root, project in list(self._open.items()):
            if project.seconds_idle() > unused_s:
                self.forget(root)


@dataclass(frozen=True, slots=True)
class Workspace:
    """The open projects, with the parts that find, index and search them."""

    home: Path
    start: Path
    """Where a call that names no project looks for one."""
    key: bytes
    """Signs cursors and confirmations of this installation."""
    projects: Projects
    jobs: Jobs
    results: ResultSets
    static: Mapping[Kind, Embedder]  # for each kind; none beside a model that the user named
    prose: Embedder | None  # the static model that chooses sentences, beside any model but none
    deep: Embedder | None
    background_deep: Callable[[Callable[[], None]], Embedder] | None
    """Opens the deep model in a process of lowest priority; its argument is called during work."""
    start_checker: Callable[[Path], Child]
    """Starts a process that checks the project at a root; see `projects.maintenance`."""
    start_follower: Callable[[Workspace, Project], Following]
    """Starts what keeps an index current; see `projects.follow`."""
    max_tokens: int
    assume_yes: bool
    auto_index: bool
    """Standing consent to index the project that a server is started in."""
    stays: bool
    """True in a server: background work may outlive the answer."""
    mirrors: MirrorSource | None = None
    """The projects of a shared index, where a server has no others."""
    seed_shared: Callable[[Project, Work], str] = lambda _project, _work: ""
    """Begins a new index with a shared one; returns a note. See `sonde.shared.seed`."""
    editor: str = "none"
    """The editor that pages open files in: a name, or an address with {path}."""
    fresh_s: tuple[float, float] = FRESH_S
    reach: Reach = Reach()  # noqa: RUF009 - frozen
    """What the caller may see; a server narrows it for each call."""

    def close(self) -> None:
        """Stop background work and close every project."""
        if self.mirrors:
            self.mirrors.close()
        self.projects.stop_following()
        self.jobs.close()
        self.results.close()
        self.projects.close()
        for embedder in filter(None, (*self.static.values(), self.prose, self.deep)):
            embedder.close()
