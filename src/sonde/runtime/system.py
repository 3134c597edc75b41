"""Everything that differs between operating systems: locks, limits, priorities, power, `/proc`.

Where a system cannot do something, the function says so by its result: nothing else asks which
system this is before it calls one of these. `docs/platforms.md` has the table.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

_LOWEST_PRIORITY = 19  # of nice(2)
PROC = Path("/proc")
"""Linux: the kernel's data on processes, mounts and limits; missing elsewhere."""
ON_BATTERY = "the machine runs on battery power"
BUSY = "the machine is busy"
_SUPPLIES = Path("/sys/class/power_supply")  # where Linux lists batteries and mains
_BUSY_LOAD = 1.5  # programs that want to run, per core, over the last minute
OUT_OF_TIME = getattr(signal, "SIGPROF", 0)
"""The signal that ends a process at the end of its `limit_time`; 0 on Windows."""

if sys.platform == "win32":
    import ctypes
    import msvcrt

    def try_lock(descriptor: int) -> bool:
        """Lock a file until it is closed here; false if another process holds it."""
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def read_address_limit() -> int | None:
        """The limit of this process's address space in bytes; None if there is none."""
        return None

    def raise_file_limit(wanted: int) -> int:
        """Raise the limit of open files towards `wanted`; the limit that holds now."""
        return wanted

    def limit_process(memory: int) -> None:
        """Limit this process to so much memory, no core dump and no writing; none on Windows."""

    def limit_time(seconds: float) -> None:
        """End this process after so much more processor time; not on Windows."""

    def lower_priority(thread: int = 0) -> None:
        """Run this process, or a thread of it, when nothing else wants to; not on Windows."""

    def read_battery() -> bool | None:
        """Whether the machine runs on its battery; None where only files say so."""
        status = (ctypes.c_ubyte * 12)()  # SYSTEM_POWER_STATUS; ACLineStatus is its first byte
        known = ctypes.windll.kernel32.GetSystemPowerStatus(ctypes.byref(status))
        return bool(known) and status[0] == 0
else:
    import fcntl
    import resource

    def try_lock(descriptor: int) -> bool:
        """Lock a file until it is closed here; false if another process holds it."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # any other error means that there are no locks here
            return False
        return True

    def read_address_limit() -> int | None:
        """The limit of this process's address space in bytes; None if there is none."""
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        return None if limit == resource.RLIM_INFINITY else limit

    def raise_file_limit(wanted: int) -> int:
        """Raise the limit of open files towards `wanted`; the limit that holds now."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = max(soft, min(hard, wanted))
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most

    def limit_process(memory: int) -> None:
        """Limit this process to so much memory, no core dump and no writing."""
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        if sys.platform == "linux":  # macOS refuses a limit below what is mapped already
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    def limit_time(seconds: float) -> None:
        """End this process by `OUT_OF_TIME` after so much more processor time; 0 is no limit."""
        signal.setitimer(signal.ITIMER_PROF, seconds)

    def read_battery() -> bool | None:
        """Whether the machine runs on its battery; None where only files say so."""
        return None

    def lower_priority(thread: int = 0) -> None:
        """Run this process, or on Linux a thread of it, when nothing else wants to."""
        if not thread or sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, thread, _LOWEST_PRIORITY)


def now_ms() -> int:
    """The current time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


def find_home_folder() -> Path | None:
    """The home folder, if there is one."""
    try:
        return Path.home()
    except RuntimeError:
        return None


def count_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def call_library(name: str, *values: int) -> None:
    """Call a function of the C library that only Linux has."""
    if sys.platform == "linux":
        import ctypes

        if (function := getattr(ctypes.CDLL(None), name, None)) is not None:
            function(*values)


def read_memory(process: int | None = None) -> tuple[int, int]:
    """A process's address space and resident memory in bytes; zeros where unknown."""
    try:
        text = (PROC / str(process or "self") / "statm").read_text()
        mapped, resident = (int(pages) * os.sysconf("SC_PAGESIZE") for pages in text.split()[:2])
    except (OSError, ValueError):
        return 0, 0
    return mapped, resident


def read_birth(number: int) -> str:
    """The start time of a process in ticks since boot; empty if it has ended, and outside Linux."""
    try:
        text = (PROC / str(number) / "stat").read_text(errors="replace")
        return text.rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def read_watch_limit() -> int | None:
    """How many folders a user may watch; None where there is no limit to read."""
    try:
        return int((PROC / "sys/fs/inotify/max_user_watches").read_text("ascii"))
    except (OSError, ValueError):
        return None


def find_pause(
    supplies: Path = _SUPPLIES,
    read_load: Callable[[], tuple[float, float, float]] | None = None,
    cores: int | None = None,
) -> str:
    """Why background work should wait, in words for a status; empty if it need not."""
    if _is_discharging(supplies):
        return ON_BATTERY
    read = read_load or getattr(os, "getloadavg", None)
    if read and read()[0] / (cores or os.cpu_count() or 1) > _BUSY_LOAD:
        return BUSY
    return ""


def _is_discharging(supplies: Path) -> bool:
    """Whether the machine runs on its own battery; unknown counts as no."""
    if (on_battery := read_battery()) is not None:
        return on_battery
    try:
        found = [path for path in supplies.iterdir() if _read(path / "type") == "Battery"]
    except OSError:
        return False
    own = [path for path in found if _read(path / "scope") != "Device"]  # a mouse has one, too
    return any(_read(path / "status") == "Discharging" for path in own)


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""
