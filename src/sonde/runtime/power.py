"""Whether the machine has power and time to spare for background work."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from sonde.runtime.system import read_battery

ON_BATTERY = "the machine runs on battery power"
BUSY = "the machine is busy"
_SUPPLIES = Path("/sys/class/power_supply")  # where Linux lists batteries and mains
_BUSY_LOAD = 1.5  # programs that want to run, per core, over the last minute


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
