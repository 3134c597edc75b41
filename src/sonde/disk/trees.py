"""Disk: the scanned trees of an installation, and the pages, sets and reports made from them."""

from __future__ import annotations

import copy
import logging
import shutil
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qs, urlsplit

from sonde.errors import IndexCorrupt
from sonde.paging.cursor import decode_key, encode_key
from sonde.policy.roots import show_path
from sonde.projects.project import Workspace
from sonde.runtime.jobs import HANDLE_LENGTH, HANDLE_LETTERS
from sonde.runtime.work import WriterLock
from sonde.stores.disk import base
from sonde.stores.disk.base import Key, Member, Node, ResourceSet, Totals
from sonde.stores.disk.sqlite import SavedStore, TreeStore

_MAX_OPEN_TREES = 16  # each keeps a few file descriptors and a page cache
_MAX_CONNECTIONS = 1_000
"""Connections whose session is remembered; a session can always be named by its handle."""

T = TypeVar("T")

log = logging.getLogger(__name__)


def join_node(index: str, number: int) -> str:
    """The handle of a node: its index, and its number there."""
    digits = ""
    while number:
        number, digit = divmod(number, len(HANDLE_LETTERS))
        digits = HANDLE_LETTERS[digit] + digits
    return f"{index}.{digits or '0'}"


def split_node(handle: str) -> tuple[str, int] | None:
    """The index and number of a node's handle, or None if it is not one."""
    index, dot, digits = handle.partition(".")
    if not dot or not index or not 1 <= len(digits) <= HANDLE_LENGTH:
        return None
    number = 0
    for digit in digits:
        value = HANDLE_LETTERS.find(digit)
        if value < 0:
            return None
        number = number * len(HANDLE_LETTERS) + value
    return index, number


def list_node_names(tree: TreeStore, node: Node) -> tuple[str, ...]:
    """The names from the root of a tree down to a node."""
    return tuple(step.name for step in tree.trail(node.id)[1:])


def show_tree_path(tree: TreeStore, node: Node) -> str:
    """The path of a node inside its tree, for people."""
    return show_path(str(Path(*list_node_names(tree, node))))


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Rows of one page, and the cursor of the next."""

    rows: tuple[T, ...]
    more: bool
    """Whether rows follow after the last one."""
    sign: Callable[[T], str]
    """Makes the cursor that continues after a row."""

    @property
    def cursor(self) -> str | None:
        """The cursor of the next page, or None on the last one."""
        return self.sign(self.rows[-1]) if self.more and self.rows else None

    def take(self, count: int) -> Page[T]:
        """The first rows of this page; the rest belongs to the next one."""
        return replace(self, rows=self.rows[:count], more=self.more or count < len(self.rows))


@dataclass(frozen=True, slots=True)
class SetSummary:
    """A resource set with its totals and, when shown alone, its first entries."""

    set: ResourceSet
    totals: Totals
    sample: tuple[Member, ...] = ()


@dataclass(frozen=True, slots=True)
class SetEntries:
    """One page of the entries of a set."""

    set: ResourceSet
    page: Page[Member]
    paths: Mapping[int, str]
    """Node -> its path in the tree."""
    limit: int


@dataclass(frozen=True, slots=True)
class NodeMatches:
    """The largest nodes that match a filter."""

    index: base.DiskIndex
    totals: Totals
    nodes: tuple[Node, ...]
    paths: Mapping[int, str]
    """Node -> its path in the tree."""


@dataclass(slots=True)
class ScanReport:
    """Totals and changes of one scan."""

    files: int = 0
    folders: int = 0
    size: int = 0
    disk: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    seconds: float = 0.0
    problems: dict[str, int] = field(default_factory=dict)
    """State -> number of nodes, for states other than ok."""

    def as_dict(self) -> dict[str, object]:
        """The report as a job carries it."""
        shown = asdict(self) | {"seconds": round(self.seconds, 2)}
        if not self.problems:
            del shown["problems"]
        return {"sizeOnDisk" if name == "disk" else name: value for name, value in shown.items()}


class Disk:
    """Scanned trees with their handles; stores are opened on first use."""

    def __init__(self, folder: Path, workspace: Workspace) -> None:
        self.folder = folder
        self.workspace = workspace
        """Its jobs, its signing key, and the projects that search contents."""
        self.starting = threading.Lock()
        """Held while looking up or creating an index, so that a folder gets only one."""
        self._sessions: OrderedDict[tuple[str, str], str] = OrderedDict()
        """User and connection -> the session that a call without a handle means."""
        self._locks: dict[str, WriterLock] = {}
        self._saved: list[SavedStore] = []
        """At most one, once it is open; a list, because views share it."""
        self._trees: OrderedDict[str, TreeStore] = OrderedDict()
        self._guard = threading.Lock()

    def seen_by(self, workspace: Workspace) -> Disk:
        """A view of this disk for the caller of a workspace; stores are shared."""
        view = copy.copy(self)
        view.workspace = workspace
        return view

    def list_indexes(self, user: str) -> list[base.DiskIndex]:
        """The scanned folders of a user that are within reach, newest first."""
        return [one for one in self.saved.newest(base.DiskIndex, user) if self._admits(one)]

    def get_index(self, handle: str, user: str) -> base.DiskIndex | None:
        """The scanned folder with this handle, if it is the user's and within reach."""
        found = self.saved.get(base.DiskIndex, handle, user)
        return found if found and self._admits(found) else None

    def _admits(self, index: base.DiskIndex) -> bool:
        """Whether a folder may still be looked at; its roots may have been withdrawn since."""
        return self.workspace.reach.may_change(Path(index.root))

    def recall_session(self, user: str, connection: str) -> str | None:
        """The session of a connection, if it has one."""
        return self._sessions.get((user, connection))

    def remember_session(self, user: str, connection: str, session: str) -> None:
        """Bind a session to a connection; the oldest connections are forgotten."""
        with self._guard:
            self._sessions[user, connection] = session
            self._sessions.move_to_end((user, connection))
            while len(self._sessions) > _MAX_CONNECTIONS:
                self._sessions.popitem(last=False)

    @property
    def saved(self) -> SavedStore:
        """Sessions, indexes, resource sets and queries."""
        with self._guard:
            if not self._saved:
                self._saved.append(SavedStore(self.folder / "files.db"))
            return self._saved[0]

    def tree(self, index: str) -> TreeStore:
        """The nodes of an index."""
        with self._guard:
            tree = self._trees.pop(index, None) or self._open(index)
            self._trees[index] = tree
            while len(self._trees) > _MAX_OPEN_TREES:
                # not closed: another thread may still be reading it
                self._trees.popitem(last=False)
            return tree

    def _open(self, index: str) -> TreeStore:
        """The store of an index; a damaged file is set aside, to be scanned again."""
        place = self.folder / "trees" / f"{index}.db"
        try:
            return TreeStore(place)
        except IndexCorrupt as error:
            log.warning("the tree %s is set aside: %s", index, error)
            # logs before their database: one left behind would be replayed into the new one
            for path in sorted(self.folder.glob(f"trees/{index}.db*"), reverse=True):
                if not path.name.endswith(".bak"):
                    path.replace(path.with_name(f"{path.name}.bak"))
            return TreeStore(place)

    def lock(self, index: str) -> WriterLock:
        """The right to scan an index."""
        with self._guard:
            if index not in self._locks:
                self._locks[index] = WriterLock(self.folder / "trees" / index)
            return self._locks[index]

    def delete_tree(self, index: str) -> None:
        """Close the tree of an index and delete its files."""
        with self._guard:
            tree = self._trees.pop(index, None)
        if tree:
            tree.close()
        for path in self.folder.glob(f"trees/{index}.db*"):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.folder / "trees" / index, ignore_errors=True)

    def read_cursor(self, cursor: str | None, scope: str) -> list[Any] | None:
        """The key in a cursor of this listing; agents may pass the nextPageUrl that holds it."""
        if cursor and "cursor=" in cursor:
            cursor = parse_qs(urlsplit(cursor).query).get("cursor", [cursor])[0]
        return decode_key(cursor, scope, self.workspace.key) if cursor else None

    def cut_page(
        self, found: Sequence[T], limit: int, scope: str, key_of: Callable[[T], Key]
    ) -> Page[T]:
        """The first `limit` of the rows; one more than that means that a page follows."""

        def sign(row: T) -> str:
            return encode_key(list(key_of(row)), scope, self.workspace.key)

        return Page(tuple(found[:limit]), len(found) > limit, sign)

    def close(self) -> None:
        """Close every file."""
        with self._guard:
            for tree in self._trees.values():
                tree.close()
            self._trees.clear()
            while self._saved:
                self._saved.pop().close()
