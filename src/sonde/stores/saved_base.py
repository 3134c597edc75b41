"""What the store of handles promises: sessions, indexes, selections, queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


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
