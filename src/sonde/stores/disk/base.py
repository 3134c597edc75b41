"""Values of disk storage: scanned trees, and saved handles on them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from sonde.stores.disk.filters import KINDS, Condition

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
