"""Child processes and what they cost: wall and CPU seconds, peak and present memory."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")
_SAMPLE_S = 0.1


@dataclass(frozen=True)
class Cost:
    """What one child took, its own children included."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    output: str


def run_child(
    command: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    *,
    allowed: Sequence[int] = (0,),
    behind: int = 0,
) -> Cost:
    """Run to the end; the peak is that of all its processes together, looked at all the time. The
    CPU that a process `behind` it uses meanwhile is added to its own."""
    before = read_cpu_ns(behind) if behind else 0
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        child = subprocess.Popen(
            command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )
        ended, sizes = threading.Event(), [0.0]
        watch = threading.Thread(target=_watch_memory, args=(child.pid, ended, sizes))
        watch.start()
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - began
        ended.set()
        watch.join()
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        if child.returncode not in allowed:
            err.seek(0)
            said = err.read().decode(errors="replace")[-2000:]
            raise SystemExit(f"{command} failed with {child.returncode}:\n{said}")
        text = out.read().decode(errors="replace")
    cpu = used.ru_utime + used.ru_stime + ((read_cpu_ns(behind) - before) / 1e9 if behind else 0.0)
    return Cost(wall, cpu, max(sizes[0], used.ru_maxrss / 1024), text)


def find_background(sonde: str, env: Mapping[str, str], cwd: Path) -> int:
    """The background process that serves these commands; 0 if there is none."""
    said = run_child([sonde, "daemon", "--json"], env, cwd, allowed=(0, 1))
    return next((int(one["pid"]) for one in json.loads(said.output)["processes"]), 0)


def _watch_memory(pid: int, ended: threading.Event, sizes: list[float]) -> None:
    while not ended.wait(_SAMPLE_S):
        sizes[0] = max(sizes[0], read_memory(pid)["rss_mb"])


def list_tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for each in found:
        for path in Path(f"/proc/{each}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, path.read_text().split())
    return found


def read_cpu(pid: int) -> float:
    """CPU seconds of a running process, all its threads; in steps of a hundredth."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def read_cpu_ns(pid: int) -> int:
    """CPU nanoseconds of a running process, all its threads."""
    return time.clock_gettime_ns((~pid << 3) | 2)  # its CPU-time clock, as clock_getcpuclockid(3)


def read_memory(pid: int) -> dict[str, float]:
    """Resident MB of a process and its children: all of it, and what is not pages of files."""
    names = {"rss_mb": "VmRSS", "anon_mb": "RssAnon"}
    sums = dict.fromkeys(names, 0.0)
    for each in list_tree(pid):
        with contextlib.suppress(OSError, KeyError):  # gone, or on its way
            lines = Path(f"/proc/{each}/status").read_text().splitlines()
            rows = dict(line.split(":", 1) for line in lines)
            for name, row in names.items():
                sums[name] += int(rows[row].split()[0]) / 1024
    return sums


def settle(pid: int, limit_s: float = 20.0) -> None:
    """Wait until the process has used no CPU for half a second."""
    deadline = time.monotonic() + limit_s
    before = -1.0
    while time.monotonic() < deadline and (now := read_cpu(pid)) != before:
        before = now
        time.sleep(0.5)


def forget_pages(folder: Path) -> None:
    """Ask the kernel to drop a folder's files from its cache, as after a reboot."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def folder_mb(folder: Path) -> float:
    """Size of all files below, in MB of disk blocks."""
    return sum(p.lstat().st_blocks * 512 for p in folder.rglob("*") if p.is_file()) / 1e6
