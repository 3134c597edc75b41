"""Folders of files for tests to look at."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path


def write_files(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write these files below a folder, and give the folder."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def read_clock_later() -> int:
    """The clock in nanoseconds, ten seconds on: what was written just now was written a while ago,
    which its time of change cannot be made to say."""
    return time.time_ns() + 10_000_000_000
