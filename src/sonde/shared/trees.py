"""A commit of a shared index as files on disk, with an index that knows them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sonde.errors import IndexCorrupt
from sonde.indexing.pipeline import recipe_of
from sonde.policy.roots import clamp_mtime, stamp_file
from sonde.projects.project import Project, Workspace
from sonde.projects.update import update_project
from sonde.runtime.private import make_folder
from sonde.runtime.work import Work
from sonde.shared.index import SharedIndex
from sonde.shared.manifest import FileFacts, leads_below
from sonde.stores.records import Metadata, save_metadata, stamp_now
from sonde.types import Progress


def write_tree(
    shared: SharedIndex,
    root: Path,
    files: Mapping[str, FileFacts],
    pushed_ms: int,
    older: Path | None,
    work: Work,
) -> dict[str, str]:
    """Write files below a root. Contents in `older`, the root of another commit, are not fetched.

    Files are copied, not linked: a second name would change a file's stamp. Returns the new digests
    of files that were in another encoding, since texts are stored as UTF-8.
    """
    places: dict[str, list[str]] = {}
    for path, fact in files.items():
        if leads_below(path):
            places.setdefault(fact.digest, []).append(path)
    total, changed = len(places), dict[str, str]()
    make_folder(root)

    def put(digest: str, data: bytes) -> None:
        found = hashlib.sha256(data).hexdigest()
        for path in places.pop(digest):
            target = root / path
            make_folder(target.parent)
            mode = 0o700 if files[path].executable else 0o600
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.utime(target, ns=(pushed_ms * 10**6,) * 2)
            if found != digest:
                changed[path] = found
        work.report(Progress("fetching", total - len(places), total))

    for digest, data in _read_older(older, places):
        put(digest, data)
    for digest, data in shared.read_texts(list(places)):
        if digest in places:
            put(digest, data)
    if places:
        missing = next(iter(places.values()))[0]
        raise IndexCorrupt(f"{len(places)} texts are missing, such as that of {missing}")
    return changed


def _read_older(older: Path | None, places: Mapping[str, object]) -> Iterator[tuple[str, bytes]]:
    """Contents that are wanted, from the files of another commit."""
    for folder, _, names in os.walk(older) if older else ():
        for name in names:
            with suppress(OSError):
                data = Path(folder, name).read_bytes()
                digest = hashlib.sha256(data).hexdigest()
                if digest in places:
                    yield digest, data


def finish_index(
    workspace: Workspace, project: Project, changed: Mapping[str, str], work: Work
) -> None:
    """Record the local files' stamps in a filled index, and write its metadata."""
    for store in project.stores().values():
        states = []
        for path, state in store.files().items():
            with suppress(OSError):
                facts = os.lstat(project.root / path)
                known = replace(state, size=facts.st_size, hash=changed.get(path, state.hash))
                stamp = stamp_file(facts)
                states.append(replace(known, mtime_ns=clamp_mtime(facts), stamp=stamp))
        store.touch(states)
    now = stamp_now()
    about = Metadata(str(project.root), now, last_full_index=now, recipe=recipe_of(project.tree))
    save_metadata(project.folder, about)
    update_project(workspace, project, work)
