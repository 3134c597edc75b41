"""Scheduling checks of an index, in a process of their own, and the record of what they found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sonde.errors import SondeError
from sonde.projects.project import Project
from sonde.projects.workspace import Workspace
from sonde.runtime.jobs import Job
from sonde.runtime.work import Work
from sonde.stores.files import read_json, write_json
from sonde.types import Findings, Progress

_FILE = "integrity.json"
_COUNTS = ("changed", "missing", "gone", "broken", "strays", "vectors")
_THOROUGH_EVERY = timedelta(hours=24)
"""How often every single word is looked at."""
_RECENT = timedelta(minutes=10)
"""Servers that come and go do not check an index again within this time."""


def check_soon(workspace: Workspace, project: Project, *, asked: bool = False) -> Job:
    """Check the project in the background, yielding to everything else unless a user asked.

    A process of its own does it: what a look at every word leaves behind in a heap would be a
    third of a server that only watches.
    """
    if asked:
        workspace.jobs.cancel(f"check:{project.key}")  # one that yields may take very long
    return workspace.jobs.submit(
        f"check:{project.key}",
        "check",
        lambda work: _check_in_child(workspace, project, work),
        gently=not asked,
        lasting=asked,
    )


def check_if_due(workspace: Workspace, project: Project) -> None:
    """Check the project in the background, unless that was done minutes ago."""
    if _is_older(_load_checks(project.folder).get("lastCheck"), _RECENT):
        check_soon(workspace, project)


def _check_in_child(workspace: Workspace, project: Project, work: Work) -> Findings:
    child = None
    try:
        child = workspace.start_checker(project.root)
        while isinstance(answer := child.ask(None, work.check), Progress):
            work.report(answer)
    except (OSError, EOFError, RuntimeError) as error:
        raise SondeError(f"the check of {project.root} failed: {error}") from error
    finally:
        if child is not None:
            child.end()
    assert isinstance(answer, Findings)
    return answer


def is_thorough_due(folder: Path) -> bool:
    """Whether the last look at every single word is a day ago."""
    return _is_older(_load_checks(folder).get("lastThorough"), _THOROUGH_EVERY)


def describe_checks(folder: Path) -> dict[str, object]:
    """When the index was last checked, what was found then and in all; empty before that."""
    known = _load_checks(folder)
    kept = ("lastCheck", "lastThorough", "checks", "rebuilt", "repaired", "last")
    return {key: known[key] for key in kept if key in known}


def record_check(folder: Path, findings: Findings, *, rebuilt: bool = False) -> None:
    """Add what a check found to the record."""
    past = _load_checks(folder)
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    facts = asdict(findings)
    total = past.get("repaired")
    total = total if isinstance(total, dict) else {}
    write_json(
        folder / _FILE,
        {
            "formatVersion": 1,
            "lastCheck": now,
            "lastThorough": now if findings.thorough else past.get("lastThorough"),
            "checks": _count(past, "checks") + 1,
            "rebuilt": _count(past, "rebuilt") + rebuilt,
            "repaired": {name: _count(total, name) + facts[name] for name in _COUNTS},
            "last": {name: facts[name] for name in ("files", *_COUNTS)}
            | {"seconds": round(findings.seconds, 1)},
        },
    )


def _load_checks(folder: Path) -> dict[str, object]:
    """The record of past checks; empty if there is none or it is torn."""
    value = read_json(folder / _FILE)
    return value if isinstance(value, dict) else {}


def _count(table: Mapping[str, object], key: str) -> int:
    value = table.get(key)
    return value if isinstance(value, int) and value > 0 else 0


def _is_older(stamp: object, age: timedelta) -> bool:
    """Whether a time is that far away, in the past or, after a clock was set back, the future."""
    try:
        then = datetime.fromisoformat(str(stamp))
        return abs(datetime.now(UTC) - then) >= age
    except (ValueError, TypeError):
        return True
