"""A project: its files, its index folder, its stores; and the projects in use."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sonde.embedding.base import Embedder
from sonde.errors import IndexCorrupt, StorageUnusable
from sonde.indexing.following.follower import Follower
from sonde.indexing.sources import Tree
from sonde.runtime.locks import WriterLock
from sonde.searching.lines.candidates import LineCandidates
from sonde.stores.chunks.base import ChunkStore
from sonde.stores.database import translate_errors
from sonde.types import Kind

if TYPE_CHECKING:
    from sonde.searching.chunk_files import ChunkFiles
    from sonde.searching.contexts import ViewSearcher

_STEMS: Mapping[Kind, str] = {"code": "index", "docs": "docs"}
_DATABASES = ("index.db", "docs.db", "index.lance.db", "docs.lance.db")
_BACKUP = ".bak"
_AGAIN_S = 60.0


Identity = Mapping[Path, tuple[int, int] | None]
"""Which files lie under these names."""


def _identify(paths: Iterable[Path]) -> Identity:
    found: dict[Path, tuple[int, int] | None] = {}
    for path in paths:
        try:
            facts = path.stat()
            found[path] = (facts.st_dev, facts.st_ino)
        except OSError:
            found[path] = None
    return found


class Project:
    """One project: its files, its index folder, and the stores once they are opened."""

    def __init__(
        self,
        root: Path,
        folder: Path,
        tree: Tree,
        open_store: Callable[[str, Kind], ChunkStore],
        *,
        store_name: str,
        max_files: int,
        config_text: str,
        warnings: tuple[str, ...] = (),
        strategy: str = "realtime",
        lazy_idle_s: float = 30.0,
        watching: str = "auto",
        open_views: Callable[[], ChunkStore] | None = None,
        chunk_folder: Path | None = None,
        needs_chunks: bool = False,
        chunk_embedder: Embedder | None = None,
    ) -> None:
        self.root = root
        self.folder = folder
        self.tree = tree
        self.lock = WriterLock(folder)
        self.store_name = store_name
        self.max_files = max_files
        self.config_text = config_text
        """What config.json says when it is generated."""
        self.warnings = warnings
        self.sightings = LineCandidates()
        self.strategy = strategy
        self.lazy_idle_s = lazy_idle_s
        self.watching = watching
        self.follower: Follower | None = None
        """Keeps the index in step, in a server; whoever starts it stops it."""
        self.fresh_until = 0.0
        self.was_replaced = False
        """The files of its stores were deleted or replaced by others since it was last updated."""
        self.record_after = 0.0
        self.last_search: float | None = None
        self.searched: Counter[str] = Counter()
        """How often each file was shown; those files get their deeper vectors first."""
        self.chunk_folder = chunk_folder
        """Where chunk files of this project may lie that another program wrote."""
        self.needs_chunks = needs_chunks
        """True when somebody named that folder, so that it must be there."""
        self.chunk_embedder = chunk_embedder
        """Embeds queries for chunk files of another model."""
        self._chunk_files: ChunkFiles | None = None
        self._viewed: tuple[object, int] = (None, 0)
        self.searcher: ViewSearcher | None = None
        """Finds views; it remembers what filters let through."""
        self._open_views = open_views
        self._views: ChunkStore | None = None
        self._views_identity: Identity = {}
        self._acquitted_at = float("-inf")
        self._open_store = open_store
        self._stores: dict[Kind, ChunkStore] = {}
        self._identity: Identity = {}
        self._guard = threading.Lock()

    @property
    def key(self) -> str:
        """Names the project among jobs and cursors."""
        return str(self.root)

    def adopt_settings(self, other: Project) -> None:
        """Go on under the settings of the same project as it is opened now."""
        self.tree, self.max_files, self.warnings = other.tree, other.max_files, other.warnings
        self.strategy, self.lazy_idle_s = other.strategy, other.lazy_idle_s
        self.watching = other.watching
        self.chunk_folder, self.needs_chunks = other.chunk_folder, other.needs_chunks
        self.chunk_embedder = other.chunk_embedder
        with self._guard:
            if self.store_name != other.store_name:
                self.store_name = other.store_name
                self._stores = {}  # not closed: whoever is reading them may finish
            self.fresh_until = 0.0
            files, self._chunk_files = self._chunk_files, None  # their service may be another
        if files:
            files.close()

    def stop_following(self) -> None:
        """Stop the follower, if there is one."""
        follower, self.follower = self.follower, None
        if follower:
            follower.stop()

    def is_indexed(self) -> bool:
        """An index was begun here; it may still be growing."""
        return (self.folder / "metadata.json").exists()

    def stores(self) -> Mapping[Kind, ChunkStore]:
        """Both stores, opened on first use, and again when their files were replaced."""
        with self._guard:
            if self._stores and _identify(self._identity) != self._identity:
                self._stores = {}  # not closed: whoever is reading them may finish
                self.fresh_until = 0.0
                self.was_replaced = True
            if not self._stores:
                self._stores = self.open_stores(self.store_name)
                self._identity = _identify(self.folder / name for name in _DATABASES)
            return dict(self._stores)

    def list_open(self) -> list[ChunkStore]:
        """The stores that are open, views included."""
        with self._guard:
            return [*self._stores.values(), *([self._views] if self._views else [])]

    def views(self) -> ChunkStore:
        """The store of the views of the project's files, opened on first use, and again when its
        files were replaced."""
        with self._guard:
            if self._views and _identify(self._views_identity) != self._views_identity:
                self._views = self.searcher = None  # not closed: whoever is reading may finish
            if self._views is None:
                if self._open_views is None:
                    raise StorageUnusable(f"{self.root} has no place for views")
                self._views, self._viewed = self._open_views(), (None, 0)
                self._views_identity = _identify(self.folder.glob("views-*/index.db"))
            return self._views

    @property
    def viewed(self) -> object:
        """The state of the stores that the views were last made from; None where those are not as
        they were left."""
        if self._viewed[0] is None:
            return None
        try:
            generation = self.views().generation()
        except IndexCorrupt:
            return None
        state, left = self._viewed
        return state if left == generation else None

    @viewed.setter
    def viewed(self, state: object) -> None:
        self._viewed = (state, self.views().generation())

    def open_chunk_files(self, own: Embedder | None, *, follow: bool) -> ChunkFiles | None:
        """The searcher over the project's chunk files; None where there are none."""
        from sonde.searching.chunk_files import ChunkFiles, identify

        folder = self.chunk_folder
        found = identify(folder) if folder else None
        with self._guard:
            files = self._chunk_files
            if files and files.identity != found:
                files.close()
                files = self._chunk_files = None
            if folder is None or (found is None and not self.needs_chunks):
                return None
            if files is None:
                files = ChunkFiles(folder, self.chunk_embedder or own)
                if follow:
                    files.follow()
                self._chunk_files = files
            return files

    def forget_views(self) -> None:
        """Delete all views; they are made anew when they are asked for."""
        with self._guard:
            views, self._views, self.searcher = self._views, None, None
            if views:
                views.close()
            for path in self.folder.glob("views-*"):
                shutil.rmtree(path, ignore_errors=True)

    def open_stores(self, name: str) -> dict[Kind, ChunkStore]:
        """Stores of a backend, whether or not it is the one in use; the caller closes them."""
        opened: dict[Kind, ChunkStore] = {}
        try:
            for kind in _STEMS:
                opened[kind] = self._open_store(name, kind)
        except BaseException:
            for store in opened.values():
                store.close()
            raise
        return opened

    def set_aside(self) -> None:
        """Move what the broken store wrote to `<name>.bak`; its next use starts with nothing.

        The other one, if it is whole, goes on.
        """
        broken = [kind for kind in _STEMS if self._is_broken(kind)]
        self.close()
        if not broken:
            # somebody may have seen to it already; if it happens again, nobody has
            before, self._acquitted_at = self._acquitted_at, time.monotonic()
            if self._acquitted_at - before > _AGAIN_S:
                return
        stems = tuple(f"{_STEMS[kind]}." for kind in broken or _STEMS)
        with translate_errors(self.folder):
            # logs before their databases: a log that is left alone would be replayed into a new one
            for path in sorted(self.folder.iterdir(), reverse=True):
                if not path.name.startswith(stems) or path.name.endswith(_BACKUP):
                    continue
                backup = path.with_name(path.name + _BACKUP)
                if backup.is_dir():
                    shutil.rmtree(backup)
                path.replace(backup)

    def _is_broken(self, kind: Kind) -> bool:
        """Looked at anew: whoever has it open may remember how it was."""
        try:
            store = self._open_store(self.store_name, kind)
            try:
                return bool(store.verify())
            finally:
                store.close()
        except IndexCorrupt:
            return True

    def remove_stores(self, name: str) -> None:
        """Delete what the stores of one backend wrote."""
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
            if self._views:
                self._views.close()
            if self._chunk_files:
                self._chunk_files.close()
            self._views = self._chunk_files = self.searcher = None


class Projects:
    """The projects in use, opened when first asked for."""

    def __init__(self, open_project: Callable[[Path], Project]) -> None:
        self._open_project = open_project
        self._open: dict[Path, Project] = {}
        self._guard = threading.Lock()

    def get(self, root: Path) -> Project:
        """The project at this root."""
        with self._guard:
            project = self._open.get(root)
            if project is None:
                project = self._open[root] = self._open_project(root)
            return project

    def reload(self, root: Path) -> None:
        """Read the settings of one that is in use again."""
        fresh = self._open_project(root)
        with self._guard:
            project = self._open.get(root)
        if project:
            project.adopt_settings(fresh)

    def stop_following(self) -> None:
        """Stop every follower."""
        for project in list(self._open.values()):
            project.stop_following()

    def forget(self, root: Path) -> None:
        """Close one, so that its settings are read again next time."""
        with self._guard:
            project = self._open.pop(root, None)
        if project:
            project.stop_following()
            project.close()

    def close(self) -> None:
        """Close all."""
        for root in list(self._open):
            self.forget(root)
