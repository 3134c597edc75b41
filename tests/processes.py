"""Looking at processes from outside."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether a process is there and not only waiting to be collected."""
    if sys.platform != "linux":
        return subprocess.run(["kill", "-0", str(pid)], capture_output=True).returncode == 0
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
