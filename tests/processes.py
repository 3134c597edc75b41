"""Looking at processes from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def is_running(pid: int) -> bool:
    """Whether a process is there and not only waiting to be collected."""
    if sys.platform != "linux":
        return subprocess.run(["kill", "-0", str(pid)], capture_output=True).returncode == 0
    try:
        return _read_state(Path(f"/proc/{pid}")) != "Z"
    except OSError:
        return False


def suspend(pid: int) -> None:
    """Stop a process, and wait until it has: a thread that is busy goes on for a moment."""
    os.kill(pid, signal.SIGSTOP)
    deadline = time.monotonic() + 60
    while any(_read_state(each) not in "TZ" for each in Path(f"/proc/{pid}/task").glob("*")):
        assert time.monotonic() < deadline, "it does not stop"


def _read_state(process: Path) -> str:
    return (process / "stat").read_text().rpartition(")")[2].split()[0]
