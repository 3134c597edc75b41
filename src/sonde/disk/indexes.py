"""Indexes: the scanned folders of a caller, their scans, and what each found."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from sonde.disk.scan import TreeScan
from sonde.disk.scope import read_path, resolve_path, shorten_path
from sonde.disk.trees import Disk, ScanReport
from sonde.errors import NodeMissing
from sonde.policy.metadata import look_live
from sonde.policy.roots import show_path
from sonde.projects.find import require_consent
from sonde.runtime.jobs import Job, JobRecord, mint_handle
from sonde.runtime.system import find_home_folder, now_ms
from sonde.runtime.work import Work
from sonde.stores.disk.base import ROOT_ID, DiskIndex, Node
from sonde.types import Caller

_INDEX_HANDLE_LENGTH = 8  # shorter than other handles: it is part of every node's


@dataclass(frozen=True, slots=True)
class IndexState:
    """A scanned folder: its root node, once there is one, and its newest scan job."""

    index: DiskIndex
    root: Node | None
    job: JobRecord | None

    @property
    def scanning(self) -> bool:
        """Whether a scan is running."""
        return self.job is not None and self.job.status == "running"


def list_index_states(disk: Disk, caller: Caller) -> list[IndexState]:
    """Every scanned folder of a caller, newest first."""
    return [read_index_state(disk, index) for index in disk.list_indexes(caller.user)]


def read_index_state(disk: Disk, index: DiskIndex) -> IndexState:
    """The state of a scanned folder."""
    record = disk.workspace.jobs.look_up(index.job) if index.job else None
    return IndexState(index, disk.tree(index.id).get(ROOT_ID), record)


def read_root(disk: Disk, root: str, cwd: str) -> Path:
    """The folder to scan. A folder outside the roots is refused whether it exists or not."""
    place = resolve_path(read_path(root, cwd, find_home_folder()))
    if not disk.workspace.reach.includes(place):
        raise disk.workspace.reach.make_refusal("Name a folder below your home, or add it to")
    # unlike Path.is_dir, this returns False for a name that is too long
    facts = look_live(place, "") if os.path.isdir(place) else None  # noqa: PTH112
    if facts is None or facts.kind != "directory":
        raise NodeMissing("it is no folder", what="folder", path=shorten_path(str(place)))
    return place


def start_scan(
    disk: Disk, caller: Caller, root: Path, *, depth_limit: int | None = None, follow: bool = False
) -> Job:
    """Start the job that scans a folder, or rescans it; at most one runs for each index."""

    def scan(work: Work) -> ScanReport:
        with disk.lock(handle).held(work):
            tree, links = disk.tree(handle), within if follow else ()
            return TreeScan(tree, root, work, depth_limit=depth_limit, follow=links).run()

    within = disk.workspace.reach.roots or (Path(root.anchor),)
    with disk.starting:
        known = find_index_of(disk, caller, root)
        handle = known.id if known else mint_handle(_INDEX_HANDLE_LENGTH)
        job = disk.workspace.jobs.submit(
            f"scan:{handle}", "scan", scan, owner=caller.user, subject=handle, lasting=True
        )
        created = known.created_ms if known else now_ms()
        disk.saved.put(
            DiskIndex(handle, caller.user, str(root), depth_limit, follow, created, job.id)
        )
    return job


def find_index_of(disk: Disk, caller: Caller, root: Path) -> DiskIndex | None:
    """The index of a folder, if it was scanned."""
    known = disk.list_indexes(caller.user)
    return next((index for index in known if index.root == str(root)), None)


def delete_scan_index(disk: Disk, index: DiskIndex, work: Work, confirm: str | None) -> None:
    """Delete an index with its sets and queries, after consent. Files are not touched."""
    question = f"Forget the scan of {show_path(index.root)} with its sets and queries?"
    require_consent(disk.workspace, work, "delete_disk_index", index.id, question, confirm)
    disk.workspace.jobs.cancel(f"scan:{index.id}")
    disk.workspace.jobs.cancel(f"duplicates:{index.id}")
    with disk.lock(index.id).held(work):
        disk.saved.delete(DiskIndex, index.id, index.owner)
    disk.delete_tree(index.id)
