"""Protocols and values of disk storage: scanned trees, and saved handles on them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from sonde.stores.disk.filters import KINDS, Condition, Filter

FILE, FOLDER, LINK, OTHER = range(len(KINDS))
STATES = tuple("ok pending unreadable mount loop too_deep vanished linked outside".split())
OK, PENDING, UNREADABLE, MOUNT, LOOP, TOO_DEEP, VANISHED, LINKED, OUTSIDE = range(9)
"""`linked`: a hard link of a file counted elsewhere. `outside`: a link that is not followed."""

ROOT_ID = 1  # the first row of a tree; 0 means no parent
_SURROGATE = re.compile("[\ud800-\udfff]")

Sort = Literal["name", "size", "modified"]
Combination = Literal["union", "intersection", "difference"]
ReportKind = Literal[
    "largest", "oldest", "newest", "by-extension", "by-age", "duplicates", "growth", "empty-folders"
]
Key = Sequence[Any]
"""The sort key of the last row of a page, after which the next page starts."""


class Node(NamedTuple):
    """A file, folder, link or special file of a tree."""

    id: int
    parent: int
    name: str
    kind: int
    depth: int
    size: int
    """Bytes; of a folder, of all files below it."""
    disk: int
    """Bytes on disk; of a folder, including all below it."""
    mtime_ms: int
    mode: int
    links: int
    state: int
    files: int
    """Files below a folder, at any depth."""
    folders: int
    children: int
    """Nodes directly in a folder."""
    target: str
    """The target of a link, as written."""
    born: int
    """The scan that found it first."""

    @property
    def listable(self) -> bool:
        """Whether it can be listed: a folder, or a link that was followed into one."""
        return self.kind == FOLDER or (self.kind == LINK and self.state == OK and self.children > 0)


@dataclass(slots=True)
class Batch:
    """Changes to write in one transaction."""

    inserted: dict[int, Node] = field(default_factory=dict)
    """By id, so that a folder completed before the batch is written is stored once."""
    updated: list[Node] = field(default_factory=list)
    past: list[tuple[int, int, int]] = field(default_factory=list)
    """Node, size and bytes on disk before this scan."""
    removed: list[int] = field(default_factory=list)
    """Nodes removed with all below them."""
    emptied: list[int] = field(default_factory=list)
    """Folders whose content is removed."""

    def __len__(self) -> int:
        return len(self.inserted) + len(self.updated) + len(self.removed) + len(self.emptied)


class Scan(NamedTuple):
    """A scan of the tree."""

    id: int
    started_ms: int
    finished_ms: int | None
    nodes: int
    size: int


class RankedNode(NamedTuple):
    """A row of `largest`, `oldest`, `newest` and `empty-folders`."""

    key: Key
    node: Node


class ExtensionTotal(NamedTuple):
    """A row of `by-extension`."""

    key: Key
    extension: str
    files: int
    size: int
    disk: int


class AgeTotal(NamedTuple):
    """A row of `by-age`; `max_days` is None for the oldest."""

    key: Key
    age: str
    max_days: int | None
    files: int
    size: int


class Copies(NamedTuple):
    """A row of `duplicates`: files with equal contents, of which `nodes` has the first."""

    key: Key
    digest: bytes
    size: int
    copies: int
    nodes: Sequence[Node]


class Growth(NamedTuple):
    """A row of `growth`; `node` is None for a removed one."""

    key: Key
    id: int
    node: Node | None
    name: str
    before: int
    now: int


ReportRow = RankedNode | ExtensionTotal | AgeTotal | Copies | Growth


class Plan(NamedTuple):
    """A statement, its parameters and the steps of its query plan."""

    sql: str
    parameters: Sequence[object]
    steps: Sequence[str]


class Member(NamedTuple):
    """An entry of a selection; `node` is None once it is gone."""

    id: int
    node: Node | None
    name: str
    size: int
    stale: Literal["", "changed", "gone"]


class Totals(NamedTuple):
    """The current totals of a selection; overlapping folders and hard links count once."""

    entries: int
    files: int
    folders: int
    size: int
    stale: int


@dataclass(frozen=True, slots=True)
class Context:
    """Inputs of a filter other than the tree: the time, and nodes that match by content."""

    now_ms: int
    found: Mapping[Condition, Collection[int]] = field(default_factory=dict)
    """The nodes that match, by condition on contents."""


class TreeStore(Protocol):
    """The nodes of one index.

    Every write is atomic. Any number of threads and processes may read while one writes.
    """

    def begin_scan(self, started_ms: int) -> tuple[int, int]:
        """Open a scan. Returns its number and the first free id."""

    def finish_scan(self, scan: int, finished_ms: int, *, nodes: int, size: int) -> None:
        """Close a scan and drop the oldest history."""

    def scans(self) -> list[Scan]:
        """The kept scans, newest first."""

    def apply(self, scan: int, batch: Batch) -> None:
        """Write a batch."""

    def between(self, parent: int, low: str | None, high: str | None) -> Mapping[str, Node]:
        """Children by name with low <= name < high, in the order of `sort_names`."""

    def get(self, id_: int) -> Node | None:
        """One node."""

    def find(self, names: Sequence[str]) -> Node | None:
        """The node at these names from the root down."""

    def trail(self, id_: int) -> list[Node]:
        """The nodes from the root to this one; empty if it is gone."""

    def children(
        self, parent: int, limit: int, sort: Sort = "name", after: Key | None = None
    ) -> list[Node]:
        """Children in that order, starting after a key."""

    def report(
        self,
        kind: ReportKind,
        limit: int,
        after: Key | None = None,
        *,
        now_ms: int = 0,
        since_scan: int = 0,
    ) -> Sequence[ReportRow]:
        """Rows of a report, starting after a key.

        `by-age` measures ages from `now_ms`; `growth` compares with the scan `since_scan`.
        """

    def explain_report(
        self, kind: ReportKind, limit: int, *, now_ms: int = 0, since_scan: int = 0
    ) -> Plan:
        """The query plan of a report."""

    def history(self, id_: int) -> list[tuple[Scan, int]]:
        """A node's size at each kept scan since it was first seen, newest first."""

    def select(self, selection: str, where: Filter, context: Context) -> int:
        """Replace a selection by the nodes that match. Returns how many."""

    def explain(self, where: Filter, context: Context) -> Plan:
        """The query plan of a filter."""

    def add(self, selection: str, nodes: Iterable[int]) -> None:
        """Add nodes to a selection; those that do not exist are left out."""

    def discard(self, selection: str, nodes: Iterable[int] | None = None) -> None:
        """Remove some or all nodes from a selection."""

    def combine(self, selection: str, how: Combination, other: str) -> None:
        """Replace a selection by its combination with another."""

    def members(self, selection: str, limit: int, after: int = 0) -> list[Member]:
        """Entries of a selection by id."""

    def totals(self, selection: str) -> Totals:
        """The totals of a selection."""

    def undigested(self, min_bytes: int) -> Iterator[Node]:
        """Files of equal size without a current digest."""

    def keep_digests(self, digests: Iterable[tuple[int, int, int, bytes]]) -> None:
        """Store digests: node, size, time and digest."""

    def digest(self, node: Node) -> bytes | None:
        """The digest of a file's current contents; None if it is unknown."""

    def close(self) -> None:
        """Release the file."""


def sort_names(names: Iterable[str]) -> list[str]:
    """Names in the order of a store: by code point, with names that are not Unicode last."""
    listed = list(names)
    if "".join(listed).isascii():
        return sorted(listed)
    # UTF-8 has the order of code points
    listed.sort(key=lambda name: name.encode("utf-8", "surrogatepass"))
    return sorted(listed, key=lambda name: _SURROGATE.search(name) is not None)


@dataclass(frozen=True, slots=True)
class ShellSession:
    """The working folder and preferences of a caller; `index` is the tree of `cwd`."""

    id: str
    owner: str
    cwd: str = ""
    index: str = ""
    previous: str = ""
    """The previous cwd, for `cd -`."""
    preferences: Mapping[str, str | int] = field(default_factory=dict)
    updated_ms: int = 0


@dataclass(frozen=True, slots=True)
class DiskIndex:
    """A scanned folder."""

    id: str
    owner: str
    root: str
    depth_limit: int | None = None
    follow_symlinks: bool = False
    created_ms: int = 0
    job: str = ""
    """The job of the newest scan."""


@dataclass(frozen=True, slots=True)
class ResourceSet:
    """A named selection of nodes of one index."""

    id: str
    owner: str
    index: str
    name: str
    created_ms: int = 0


@dataclass(frozen=True, slots=True)
class SavedQuery:
    """A filter and the selection of its last run; listed if it has a name."""

    id: str
    owner: str
    index: str
    name: str
    filter: str
    created_ms: int = 0
    executed_ms: int = 0
    selection: str = ""

    @property
    def title(self) -> str:
        """The name, or else the filter."""
        return self.name or self.filter or "everything"


Saved = TypeVar("Saved", ShellSession, DiskIndex, ResourceSet, SavedQuery)


class SavedStore(Protocol):
    """The saved handles of an installation. Callers get only their own."""

    def put(self, value: ShellSession | DiskIndex | ResourceSet | SavedQuery) -> None:
        """Insert or replace a value, and drop the oldest sessions and unnamed queries."""

    def get(self, kind: type[Saved], id_: str, owner: str) -> Saved | None:
        """A value of this owner."""

    def newest(
        self,
        kind: type[Saved],
        owner: str,
        limit: int | None = None,
        after: Key | None = None,
        *,
        named: bool = False,
    ) -> list[Saved]:
        """Values of this owner other than sessions, newest first, starting after a key.

        With `named`, only those with a name.
        """

    def delete(self, kind: type[Saved], id_: str, owner: str) -> bool:
        """Delete a value, and with an index its sets and queries. Returns whether it existed."""

    def close(self) -> None:
        """Release the file."""
