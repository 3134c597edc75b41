"""What a store of disk trees promises: one scanned folder, its nodes, its past, its selections."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from sonde.stores.disk.filters import Condition, Filter

KINDS = ("file", "directory", "symlink", "other")
FILE, FOLDER, LINK, OTHER = range(4)
STATES = (
    "ok",
    "pending",
    "unreadable",
    "mount",
    "loop",
    "too_deep",
    "vanished",
    "linked",
    "outside",
)
OK, PENDING, UNREADABLE, MOUNT, LOOP, TOO_DEEP, VANISHED, LINKED, OUTSIDE = range(9)
"""`linked`: a further name of a file that is counted already. `outside`: a link not followed."""

ROOT_ID = 1

Sort = Literal["name", "size", "modified"]


class Node(NamedTuple):
    """One file, folder, link or other thing of a tree."""

    id: int
    parent: int
    name: str
    kind: int
    depth: int
    size: int
    """Of a folder: of all files below it."""
    disk: int
    """Of a folder: of all that is below it, and itself."""
    mtime_ms: int
    mode: int
    links: int
    state: int
    files: int
    """Below a folder, at any depth."""
    folders: int
    children: int
    """Directly in a folder."""
    target: str
    """Where a link says that it leads."""
    born: int
    """The scan that first saw it."""


@dataclass(slots=True)
class Batch:
    """Changes that are written together."""

    inserted: dict[int, Node] = field(default_factory=dict)
    """By id: a folder that is done before it was written is written once."""
    updated: list[Node] = field(default_factory=list)
    past: list[tuple[int, int, int]] = field(default_factory=list)
    """Node, size and bytes on disk as they were before this scan."""
    removed: list[int] = field(default_factory=list)
    """Each with all that is below it."""
    emptied: list[int] = field(default_factory=list)
    """Only what is below them is removed."""

    def __len__(self) -> int:
        return len(self.inserted) + len(self.updated) + len(self.removed) + len(self.emptied)


class Scan(NamedTuple):
    """One run over the tree."""

    id: int
    started_ms: int
    finished_ms: int | None
    nodes: int
    size: int


class Past(NamedTuple):
    """How a node grew or shrank since an earlier scan; `node` is None for what is gone."""

    node: Node | None
    name: str
    before: int
    now: int
    id: int


class Member(NamedTuple):
    """An entry of a selection; `node` is None once it is gone, `stale` says what became of it."""

    id: int
    node: Node | None
    name: str
    size: int
    stale: Literal["", "changed", "gone"]


class Totals(NamedTuple):
    """How much a selection holds as things are now; hard links count once."""

    entries: int
    files: int
    folders: int
    size: int
    stale: int


@dataclass(frozen=True, slots=True)
class Context:
    """What a filter cannot know by itself."""

    now_ms: int
    found: Mapping[Condition, Collection[int]] = field(default_factory=dict)
    """Nodes that the conditions on content found."""


class TreeStore(Protocol):
    """The nodes of one index.

    Every write is atomic. Any number of threads and processes may read while one writes.
    """

    def begin_scan(self, started_ms: int) -> tuple[int, int]:
        """Open a scan; its number, and the first id that is free."""

    def finish_scan(self, scan: int, finished_ms: int, *, nodes: int, size: int) -> None:
        """Close a scan and drop what history no longer needs."""

    def scans(self) -> list[Scan]:
        """Every kept scan, the newest first."""

    def apply(self, scan: int, batch: Batch) -> None:
        """Write a batch."""

    def between(self, parent: int, low: str | None, high: str | None) -> Mapping[str, Node]:
        """Children by name from `low` on and before `high`, in the order of `sort_names`."""

    def get(self, id_: int) -> Node | None:
        """One node."""

    def find(self, names: Sequence[str]) -> Node | None:
        """The node at these names from the root down."""

    def trail(self, id_: int) -> list[Node]:
        """The nodes from the root down to this one; empty when it is gone."""

    def children(
        self, parent: int, limit: int, sort: Sort = "name", after: Sequence[Any] | None = None
    ) -> list[Node]:
        """Children in the order asked for, from after a key (`key_of` a node) on."""

    def rank(
        self, report: str, limit: int, after: Sequence[Any] | None = None
    ) -> list[tuple[Node, list[Any]]]:
        """Nodes of a ranked report (largest, oldest, newest, empty) and the key of each."""

    def by_extension(self, limit: int, after: Sequence[Any] | None = None) -> list[dict[str, Any]]:
        """Files and bytes per extension, the largest first."""

    def by_age(self, now_ms: int) -> list[dict[str, Any]]:
        """Files and bytes per span of age."""

    def growth(self, since_scan: int, limit: int, after: Sequence[Any] | None = None) -> list[Past]:
        """What changed most in size since a scan, the largest growth first."""

    def explain_reading(self, read: Callable[[], object]) -> dict[str, Any]:
        """The statement that a reading runs, its parameters and plan."""

    def history(self, id_: int) -> list[tuple[Scan, int]]:
        """The size that each kept scan found, the newest first; from when it was first seen."""

    def select(self, selection: str, where: Filter, context: Context) -> int:
        """Make a selection of the nodes that fit; how many."""

    def explain(self, where: Filter, context: Context) -> dict[str, Any]:
        """The statement, its parameters and the plan of a filter."""

    def add(self, selection: str, nodes: Iterable[int]) -> int:
        """Add nodes to a selection; how many of them exist."""

    def discard(self, selection: str, nodes: Iterable[int] | None = None) -> int:
        """Take nodes, or all, out of a selection; how many were in it."""

    def combine(
        self, selection: str, how: Literal["union", "intersection", "difference"], other: str
    ) -> None:
        """Make a selection what it and another are together."""

    def members(self, selection: str, limit: int, after: int = 0) -> list[Member]:
        """Entries of a selection by id."""

    def totals(self, selection: str) -> Totals:
        """How much a selection holds."""

    def undigested(self, smallest: int) -> Iterator[Node]:
        """Files that share their size with another and have no digest of what they are now."""

    def keep_digests(self, digests: Iterable[tuple[int, int, int, bytes]]) -> None:
        """Remember the digest of (node, size, time) pairs."""

    def digest(self, node: Node) -> bytes | None:
        """The digest of a file as it is now, when it is known."""

    def duplicates(
        self, limit: int, after: Sequence[Any] | None = None
    ) -> list[tuple[bytes, int, int]]:
        """Digest, size and number of files with equal contents, the most wasteful first."""

    def twins(self, digest: bytes, size: int, limit: int) -> list[Node]:
        """Files of one content."""

    def close(self) -> None:
        """Release the file."""


def sort_names(names: Iterable[str]) -> list[str]:
    """Names in the order in which a store keeps them: by code point, those that are no Unicode
    last."""
    listed = list(names)
    if "".join(listed).isascii():
        return sorted(listed)
    plain: list[str] = []
    odd: list[tuple[bytes, str]] = []
    for name in listed:
        try:
            name.encode()
            plain.append(name)
        except UnicodeEncodeError:
            odd.append((name.encode("utf-8", "surrogatepass"), name))
    return sorted(plain) + [name for _, name in sorted(odd)]


@dataclass(frozen=True, slots=True)
class ShellSession:
    """Where somebody is; `cwd` is a path, `index` the tree that it lies in."""

    id: str
    owner: str
    cwd: str = ""
    index: str = ""
    previous: str = ""
    """Where it was before, for `cd -`."""
    preferences: Mapping[str, Any] = field(default_factory=dict)
    updated_ms: int = 0


@dataclass(frozen=True, slots=True)
class DiskIndex:
    """A folder that is scanned."""

    id: str
    owner: str
    root: str
    depth_limit: int | None = None
    follow_symlinks: bool = False
    created_ms: int = 0
    job: str = ""
    """The newest scan's."""


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
    """A filter under a name, and the selection that it last made."""

    id: str
    owner: str
    index: str
    name: str
    filter: str
    created_ms: int = 0
    executed_ms: int = 0
    selection: str = ""


class SavedStore(Protocol):
    """Handles of one installation. Nobody is given what another owns."""

    def put_session(self, session: ShellSession) -> None:
        """Keep a session as it is now."""

    def session(self, id_: str, owner: str) -> ShellSession | None:
        """A session of this owner."""

    def put_index(self, index: DiskIndex) -> None:
        """Keep an index as it is now."""

    def index(self, id_: str, owner: str) -> DiskIndex | None:
        """An index of this owner."""

    def indexes(self, owner: str) -> list[DiskIndex]:
        """Every index of this owner, the newest first."""

    def delete_index(self, id_: str, owner: str) -> bool:
        """Forget an index and what refers to it."""

    def put_set(self, made: ResourceSet) -> None:
        """Keep a resource set as it is now."""

    def set(self, id_: str, owner: str) -> ResourceSet | None:
        """A resource set of this owner."""

    def sets(
        self, owner: str, limit: int, after: tuple[int, str] | None = None
    ) -> list[ResourceSet]:
        """Resource sets of this owner, the newest first."""

    def delete_set(self, id_: str, owner: str) -> bool:
        """Forget a resource set; whether it was there."""

    def put_query(self, query: SavedQuery) -> None:
        """Keep a query as it is now."""

    def query(self, id_: str, owner: str) -> SavedQuery | None:
        """A query of this owner."""

    def queries(
        self, owner: str, limit: int, after: tuple[int, str] | None = None
    ) -> list[SavedQuery]:
        """Queries of this owner, the newest first."""

    def delete_query(self, id_: str, owner: str) -> bool:
        """Forget a query; whether it was there."""

    def close(self) -> None:
        """Release the file."""
