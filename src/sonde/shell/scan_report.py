"""What one scan found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ScanReport:
    """What one scan found."""

    files: int = 0
    folders: int = 0
    size: int = 0
    disk: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    seconds: float = 0.0
    problems: dict[str, int] = field(default_factory=dict)
    """State -> how many, of what is not simply there."""

    def as_dict(self) -> dict[str, Any]:
        """The report as a job carries it."""
        shown: dict[str, Any] = {
            "files": self.files,
            "folders": self.folders,
            "size": self.size,
            "sizeOnDisk": self.disk,
            "added": self.added,
            "changed": self.changed,
            "removed": self.removed,
            "seconds": round(self.seconds, 2),
        }
        return shown | ({"problems": self.problems} if self.problems else {})
