"""The trees that are open, and the handles that lead to them."""

from __future__ import annotations

import logging
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sonde.errors import IndexCorrupt
from sonde.runtime.work import Work
from sonde.stores.disk.base import SavedStore, TreeStore

_MOST_OPEN = 16
_MOST_SESSIONS = 1_000

log = logging.getLogger(__name__)


class Lock(Protocol):
    """The right to write something, across processes."""

    def held(
        self, work: Work | None = None, wait_s: float | None = None
    ) -> AbstractContextManager[None]:
        """Hold it for a block."""


class Disk:
    """What the verbs on files share; stores are opened when they are first asked for."""

    def __init__(
        self,
        folder: Path,
        open_saved: Callable[[], SavedStore],
        open_tree: Callable[[str], TreeStore],
        open_lock: Callable[[str], Lock],
        roots: tuple[Path, ...],
    ) -> None:
        self.folder = folder
        self.roots = roots
        """Folders that may be scanned, with all that is below them."""
        self.sessions: dict[tuple[str, str], str] = {}
        """User and connection -> the session that stands for a handle left out."""
        self.starting = threading.Lock()
        """Held while an index is looked up and made, so that a folder gets only one."""
        self._open_saved = open_saved
        self._open_tree = open_tree
        self._open_lock = open_lock
        self._locks: dict[str, Lock] = {}
        self._saved: SavedStore | None = None
        self._trees: OrderedDict[str, TreeStore] = OrderedDict()
        self._guard = threading.Lock()

    def remember(self, key: tuple[str, str], session: str) -> None:
        """The session of a connection; those of connections long gone make room."""
        with self._guard:
            self.sessions.pop(key, None)
            self.sessions[key] = session
            while len(self.sessions) > _MOST_SESSIONS:
                self.sessions.pop(next(iter(self.sessions)))

    @property
    def saved(self) -> SavedStore:
        """Sessions, indexes, resource sets and queries."""
        with self._guard:
            if self._saved is None:
                self._saved = self._open_saved()
            return self._saved

    def tree(self, index: str) -> TreeStore:
        """The nodes of an index."""
        with self._guard:
            tree = self._trees.pop(index, None) or self._open(index)
            self._trees[index] = tree
            while len(self._trees) > _MOST_OPEN:
                # not closed: whoever is reading it may finish
                self._trees.popitem(last=False)
            return tree

    def _open(self, index: str) -> TreeStore:
        """The store of an index; a file that cannot be read is set aside and scanned anew."""
        try:
            return self._open_tree(index)
        except IndexCorrupt as error:
            log.warning("the tree %s is set aside: %s", index, error)
            # logs before their database: one that is left would be replayed into the new one
            for path in sorted(self.folder.glob(f"trees/{index}.db*"), reverse=True):
                if not path.name.endswith(".bak"):
                    path.replace(path.with_name(f"{path.name}.bak"))
            return self._open_tree(index)

    def lock(self, index: str) -> Lock:
        """The right to scan an index."""
        with self._guard:
            if index not in self._locks:
                self._locks[index] = self._open_lock(index)
            return self._locks[index]

    def forget(self, index: str) -> None:
        """Close the tree of an index and delete its file."""
        with self._guard:
            tree = self._trees.pop(index, None)
        if tree:
            tree.close()
        for path in self.folder.glob(f"trees/{index}.db*"):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "trees" / index, ignore_errors=True)

    def close(self) -> None:
        """Close every file."""
        with self._guard:
            for tree in self._trees.values():
                tree.close()
            self._trees.clear()
            if self._saved:
                self._saved.close()
                self._saved = None
