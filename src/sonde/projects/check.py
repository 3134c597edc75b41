"""Checking a project's index against its files, and keeping count of what was found."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

from sonde.errors import IndexCorrupt, SondeError
from sonde.indexing.integrity import Findings, check_index
from sonde.projects.project import Project
from sonde.projects.update import repairing_corruption, schedule_deep_embedding, update_project
from sonde.projects.workspace import Workspace
from sonde.runtime.jobs import Job
from sonde.runtime.work import Work
from sonde.stores.records import (
    load_fingerprints,
    load_metadata,
    load_refused,
    read_json,
    save_fingerprints,
    save_refused,
    write_json,
)
from sonde.types import Progress

_FILE = "integrity.json"
_COUNTS = ("changed", "missing", "gone", "broken", "strays", "vectors")
_EVERY = timedelta(hours=24)
"""How often every single word is looked at."""

_LATELY = timedelta(minutes=10)
_POLL_S = 0.2
_MOST_SAID = 20
"""Lines of complaints that an error repeats."""

log = logging.getLogger(__name__)


def check_soon(workspace: Workspace, project: Project, *, asked: bool = False) -> Job:
    """Check the project in the background, yielding to everything else unless somebody asked.

    It is done by a process of its own: what a look at every word leaves behind in a heap would
    make a third of a server that only watches.
    """
    if asked:
        workspace.jobs.cancel(f"check:{project.key}")  # one that yields may take very long
    return workspace.jobs.submit(
        f"check:{project.key}",
        "check",
        lambda work: _check_apart(workspace, project, work),
        gently=not asked,
        lasting=asked,
    )


def check_now(
    workspace: Workspace, project: Project, work: Work, *, thorough: bool | None = None
) -> Findings:
    """Check the project as a job, and wait for it."""
    job = workspace.jobs.submit(
        f"check:{project.key}",
        "check",
        lambda inner: check_project(workspace, project, inner, thorough=thorough),
        lasting=True,
    )
    findings: Findings = job.join(work)
    return findings


def _check_apart(workspace: Workspace, project: Project, work: Work) -> dict[str, Any]:
    command = [
        sys.executable,
        "-P",
        "-m",
        "sonde.cli.main",
        "check",
        "--quiet",
        "--while-stdin-open",
    ]
    told: deque[dict[str, Any]] = deque(maxlen=1)
    complaints: deque[bytes] = deque(maxlen=_MOST_SAID)
    # its input closes with this process, however that ends
    with subprocess.Popen(
        [*command, "-p", str(project.root)],
        env={**os.environ, "SONDE_HOME": str(workspace.home)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout
        assert process.stderr
        readers = [
            threading.Thread(target=_read_along, args=(process.stdout, told), daemon=True),
            threading.Thread(target=complaints.extend, args=(process.stderr,), daemon=True),
        ]
        for reader in readers:
            reader.start()
        try:
            while process.poll() is None:
                work.check()
                last = told[-1] if told else {}
                if "stage" in last:
                    work.report(Progress(**last))
                time.sleep(_POLL_S)
        except BaseException:
            process.kill()
            raise
        for reader in readers:
            reader.join()
    if process.returncode:
        said = b"".join(complaints).decode("utf-8", "replace")
        raise SondeError(f"the check of {project.root} ended with {process.returncode}: {said}")
    return told[-1] if told and "stage" not in told[-1] else {}


def _read_along(lines: IO[bytes], told: deque[dict[str, Any]]) -> None:
    """Keep the last of what a check says: how far it is, then what it found."""
    for line in lines:
        with suppress(ValueError):
            told.append(json.loads(line))


def check_project(
    workspace: Workspace, project: Project, work: Work, *, thorough: bool | None = None
) -> Findings:
    """Compare an index with its files and with itself, repair it, and write down what was found.

    Every word is looked at once a day; `thorough` says so regardless. An index that cannot be
    repaired piece by piece is set aside and built anew.
    """
    past = _load(project.folder)
    if thorough is None:
        thorough = _is_due(past.get("lastThorough"))
    refused = load_refused(project.folder)
    before = dict(refused)
    try:
        with repairing_corruption(workspace, project):
            findings = check_index(
                project.tree,
                project.stores(),
                workspace.static,
                project.lock,
                work,
                refused=refused,
                thorough=thorough,
            )
    except IndexCorrupt as error:
        log.warning("the index of %s is built anew: %s", project.root, error)
        _save(project.folder, past, Findings(thorough=thorough), corrupt=True)
        update_project(workspace, project, work, existing=True)
        return Findings()
    if refused != before:
        save_refused(project.folder, refused)
    if findings.drift:
        log.warning("the index of %s had drifted: %s", project.root, findings)
        schedule_deep_embedding(workspace, project)
    _bring_records_up(workspace, project, work)
    _save(project.folder, past, findings)
    return findings


def was_checked_lately(folder: Path) -> bool:
    """Whether servers that come and go need not check the same index again."""
    return not _is_due(_load(folder).get("lastCheck"), _LATELY)


def _bring_records_up(workspace: Workspace, project: Project, work: Work) -> None:
    """Write down what the index holds, if that was torn, edited or not done before a crash."""
    metadata = load_metadata(project.folder)
    whole = metadata is not None and metadata.last_full_index is not None
    project.record_after = 0.0
    update_project(workspace, project, work, paths=set() if whole else None, existing=True)
    for kind, store in project.stores().items():
        hashes = {path: state.hash for path, state in store.files().items()}
        if load_fingerprints(project.folder, kind) != hashes:
            with project.lock.held(work):
                save_fingerprints(project.folder, kind, store.files())


def describe_checks(folder: Path) -> dict[str, Any]:
    """When the index was last checked, what was found then and in all; empty before that."""
    known = _load(folder)
    kept = ("lastCheck", "lastThorough", "checks", "rebuilt", "repaired", "last")
    return {key: known[key] for key in kept if key in known}


def _save(folder: Path, past: dict[str, Any], findings: Findings, *, corrupt: bool = False) -> None:
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
            "rebuilt": _count(past, "rebuilt") + corrupt,
            "repaired": {name: _count(total, name) + facts[name] for name in _COUNTS},
            "last": {name: facts[name] for name in ("files", *_COUNTS)}
            | {"seconds": round(findings.seconds, 1)},
        },
    )


def _load(folder: Path) -> dict[str, Any]:
    value = read_json(folder / _FILE)
    return value if isinstance(value, dict) else {}


def _count(table: dict[str, Any], key: str) -> int:
    value = table.get(key)
    return value if isinstance(value, int) and value > 0 else 0


def _is_due(stamp: object, every: timedelta = _EVERY) -> bool:
    """Whether a time is so far away, on either side: clocks are set back, too."""
    try:
        then = datetime.fromisoformat(str(stamp))
        return abs(datetime.now(UTC) - then) >= every
    except (ValueError, TypeError):
        return True
