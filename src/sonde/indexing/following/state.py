"""What a leader is told of its project, does through others, and tells of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sonde.indexing.sources import Tree
from sonde.runtime.work import Work


class FollowedProject(Protocol):
    """What is to be known of a project; read anew each time."""

    folder: Path
    tree: Tree
    strategy: str
    lazy_idle_s: float
    watching: str

    def is_indexed(self) -> bool:
        """Whether there is an index to keep."""


@dataclass(frozen=True, slots=True)
class Actions:
    """What a leader does through others."""

    update: Callable[[set[str], Work], None]
    find_changes: Callable[[Work], set[str]]
    """Paths that differ from the index, without indexing them."""
    reload: Callable[[], None]
    """Read the project's settings again."""
    rest: Callable[[], None]
    """Nothing is left to do for now; called about once a minute."""
    check: Callable[[], None]
    """Look for damage and drift in the background: when leading begins, and once a day."""


@dataclass(slots=True)
class LeaderState:
    """What is told of a leader."""

    watching: str = "starting"
    current: bool = False
    note: str = ""
    events: int = 0
    restarts: int = 0
    broke: str = ""
    """What the last restart was for."""
    looks: int = 0
    strategy: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For the status, and for the other processes."""
        told: dict[str, Any] = {
            "watching": self.watching,
            "current": self.current,
            "events": self.events,
            "fullComparisons": self.looks,
            "restarts": self.restarts,
            **self.strategy,
        }
        if self.broke:
            told["restartedAfter"] = self.broke
        return told | ({"note": self.note} if self.note else {})
