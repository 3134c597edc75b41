"""A project: its files, its index folder, its stores, and what is remembered of its use."""

from __future__ import annotations

import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sonde.embedding.base import Embedder
from sonde.errors import IndexCorrupt
from sonde.indexing.sources import Tree
from sonde.runtime.work import WriterLock
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
_SECOND_SUSPICION_S = 60.0
"""A store that proves whole is set aside all the same when it is reported broken again so soon."""

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
    watching: str = "auto"
    warnings: tuple[str, ...] = ()
    chunk_folder: Path | None = None
    """Where chunk files that another program wrote may lie."""
    needs_chunks: bool = False
    """Whether a user named that folder, so that it must be there."""
    chunk_embedder: Embedder | None = None
    """Embeds queries for chunk files of another model."""


class Following(Protocol):
    """What keeps a project's index current in the background; `projects.follow` starts it."""

    def stop(self) -> None:
        """End it; what is pending is written down."""

    def is_alive(self) -> bool:
        """Whether it still runs."""

    def leads(self) -> bool:
        """Whether this process is the one that watches."""

    def is_watched(self) -> bool:
        """Whether this process or another keeps the index current."""

    def is_current(self) -> bool:
        """Whether every change reaches the index without a search looking for it."""

    def describe(self) -> dict[str, object]:
        """How the project is followed, for the status."""

    def catch_up(self, timeout_s: float) -> bool:
        """Index what is pending, if this process leads. Returns whether that was done in time."""


class Views:
    """The views of a project's files: their store, its searcher, and what they were made from."""

    def __init__(self, folder: Path, open_store: Callable[[], ChunkStore]) -> None:
        self._folder = folder
        self._open_store = open_store
        self._store: ChunkStore | None = None
        self._identity: Identity = {}
        self._searcher: ViewSearcher | None = None
        self._made: tuple[object, int] = (None, 0)
        self._guard = threading.RLock()

    def store(self) -> ChunkStore:
        """Their store, opened on first use, and again when its files were replaced."""
        with self._guard:
            if self._store and _identify(self._identity) != self._identity:
                self._store = self._searcher = None  # not closed: a reader may still finish
            if self._store is None:
                self._store, self._made = self._open_store(), (None, 0)
                self._identity = _identify(self._folder.glob("views-*/index.db"))
            return self._store

    def searcher(self, embedder: Embedder | None) -> ViewSearcher:
        """A searcher that remembers what filters let through."""
        from sonde.searching.contexts import ViewSearcher

        with self._guard:
            store = self.store()
            if self._searcher is None:
                self._searcher = ViewSearcher(store, embedder)
            return self._searcher

    def made_from(self) -> object:
        """The state of the index they were made from; None if they have changed since."""
        state, generation = self._made
        if state is None:
            return None
        try:
            return state if self.store().generation() == generation else None
        except IndexCorrupt:
            return None

    def mark_made(self, state: object) -> None:
        """Note that they are those of this state of the index."""
        self._made = (state, self.store().generation())

    def is_open(self) -> ChunkStore | None:
        """Their store if it is open."""
        return self._store

    def delete(self) -> None:
        """Delete all; they are made again when they are next needed."""
        with self._guard:
            self.close()
            for path in self._folder.glob("views-*"):
                shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Close the store; it opens again on the next use."""
        with self._guard:
            store, self._store, self._searcher = self._store, None, None
            if store:
                store.close()


class Project:
    """One project: its settings, its index folder, and its stores once they are opened."""

    def __init__(
        self,
        root: Path,
        folder: Path,
        settings: ProjectSettings,
        open_store: Callable[[str, Kind], ChunkStore],
        open_views: Callable[[], ChunkStore],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.root = root
        self.folder = folder
        self.settings = settings
        self.lock = WriterLock(folder)
        self.views = Views(folder, open_views)
        self.line_candidates = LineCandidates()
        self._open_store = open_store
        self._clock = clock
        self._guard = threading.Lock()
        self._stores: dict[Kind, ChunkStore] = {}
        self._identity: Identity = {}
        self._chunk_files: ChunkFiles | None = None
        self._following: Following | None = None
        self._fresh_until = self._record_after = self._last_search = float("-inf")
        self._was_replaced = False
        self._shown: Counter[str] = Counter()
        self._proved_whole_at = float("-inf")

    @property
    def key(self) -> str:
        """Names the project among jobs and cursors."""
        return str(self.root)

    @property
    def tree(self) -> Tree:
        """Its files."""
        return self.settings.tree

    def adopt(self, settings: ProjectSettings) -> None:
        """Go on under other settings."""
        with self._guard:
            if self.settings.store_name != settings.store_name:
                self._stores = {}  # not closed: a reader may still finish
            self.settings = settings
            self._fresh_until = float("-inf")
            files, self._chunk_files = self._chunk_files, None  # their service may be another
        if files:
            files.close()

    def is_indexed(self) -> bool:
        """Whether an index was begun; it may still be growing."""
        return (self.folder / "metadata.json").exists()

    # what is remembered of its use

    def note_search(self) -> None:
        """Note that it was searched just now."""
        self._last_search = self._clock()

    @property
    def last_search(self) -> float:
        """When it was last searched, by its clock; minus infinity if never."""
        return self._last_search

    def seconds_since_search(self) -> float:
        """How long ago it was last searched; infinite if never."""
        return self._clock() - self._last_search

    def note_shown(self, path: str) -> None:
        """Note that a search showed this file."""
        self._shown[path] += 1

    def most_shown(self, limit: int) -> list[str]:
        """The files that searches show most; they get their deep vectors first."""
        return [path for path, _ in self._shown.most_common(limit)]

    def mark_fresh(self, seconds: float) -> None:
        """Let the index count as fresh for a while after a full comparison."""
        self._fresh_until = self._clock() + seconds

    def is_fresh(self) -> bool:
        """Whether a search need not compare the files first."""
        return self._clock() < self._fresh_until

    def defer_records(self, seconds: float) -> None:
        """Let a while pass before the records of the index are written again."""
        self._record_after = self._clock() + seconds

    def are_records_due(self) -> bool:
        """Whether the records may be written again."""
        return self._clock() >= self._record_after

    def take_replaced(self) -> bool:
        """Whether the stores were deleted or replaced by others since this was last asked."""
        with self._guard:
            replaced, self._was_replaced = self._was_replaced, False
        return replaced

    # following

    @property
    def following(self) -> Following | None:
        """What keeps the index current, in a server."""
        return self._following

    def start_following(self, start: Callable[[], Following]) -> None:
        """Start following, unless it is followed already."""
        with self._guard:
            if self._following is None or not self._following.is_alive():
                self._following = start()

    def stop_following(self) -> None:
        """Stop following, if it is followed."""
        following, self._following = self._following, None
        if following:
            following.stop()

    # stores

    def stores(self) -> Mapping[Kind, ChunkStore]:
        """Both stores, opened on first use, and again when their files were replaced."""
        with self._guard:
            if self._stores and _identify(self._identity) != self._identity:
                self._stores = {}  # not closed: a reader may still finish
                self._fresh_until = float("-inf")
                self._was_replaced = True
            if not self._stores:
                self._stores = self.open_stores(self.settings.store_name)
                self._identity = _identify(self.folder / name for name in _DATABASES)
            return dict(self._stores)

    def list_open(self) -> list[ChunkStore]:
        """The stores that are open, that of the views included."""
        views = self.views.is_open()
        with self._guard:
            return [*self._stores.values(), *([views] if views else [])]

    def open_chunk_files(self, own: Embedder | None, *, follow: bool) -> ChunkFiles | None:
        """The searcher over the project's chunk files; None where there are none."""
        from sonde.searching.chunk_files import ChunkFiles, identify

        folder = self.settings.chunk_folder
        found = identify(folder) if folder else None
        with self._guard:
            files = self._chunk_files
            if files and files.identity != found:
                files.close()
                files = self._chunk_files = None
            if folder is None or (found is None and not self.settings.needs_chunks):
                return None
            if files is None:
                files = ChunkFiles(folder, self.settings.chunk_embedder or own)
                if follow:
                    files.follow()
                self._chunk_files = files
            return files

    def open_stores(self, name: str) -> dict[Kind, ChunkStore]:
        """Stores of a backend, in use or not; the caller closes them."""
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
        """Move the files of a broken store to `<name>.bak`, so that its next use starts empty.

        The other store, if it is whole, stays.
        """
        broken = [kind for kind in _STEMS if self._is_broken(kind)]
        self.close()
        if not broken:
            # another process may have repaired it; if it happens again, none has
            before, self._proved_whole_at = self._proved_whole_at, self._clock()
            if self._proved_whole_at - before > _SECOND_SUSPICION_S:
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
        """Whether a newly opened store is broken: an open one may remember how it was."""
        try:
            store = self._open_store(self.settings.store_name, kind)
            try:
                return bool(store.verify())
            finally:
                store.close()
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
            if self._chunk_files:
                self._chunk_files.close()
            self._chunk_files = None
        self.views.close()
