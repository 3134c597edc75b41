"""Pushing: index the commit that is checked out, and add to a shared index what it has not.

The work is done in a folder of its own that starts from the nearest pushed commit, so nothing that
is only on this machine can get into it. Rows and blocks come first, then the commit, at last the
branch: a push that is killed leaves rows that nothing names, which the next one uses.
"""

from __future__ import annotations

import re
import secrets
import shutil
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from sonde.errors import FileMissing, Uncommitted
from sonde.indexing.diff import Diff, Stores, compare_index
from sonde.indexing.pipeline import recipe_of, refine_vectors, update_index
from sonde.policy.commits import (
    Checkout,
    is_ancestor,
    list_commit_ids,
    list_committed,
    list_uncommitted,
    read_checkout,
)
from sonde.projects.project import Project, Workspace
from sonde.runtime.private import make_folder
from sonde.runtime.work import Work, WriterLock
from sonde.shared.index import SharedIndex
from sonde.shared.manifest import FileFacts, PushedCommit, pack_manifest, shorten_recipe
from sonde.shared.rows import RowWriter, Written, facts_of, read_vectors
from sonde.shared.snapshot import Snapshot, save_snapshot
from sonde.shared.tables import clock_ms
from sonde.stores.chunks.base import ChunkStore, Vectors
from sonde.stores.files import translate_os_errors
from sonde.types import FileState, Kind, ParsedFile, Progress, Skipped

HISTORY = 2_000  # commits back from the one that is checked out, among which a pushed one is sought
_MISSING_AT_ONCE = 4_096  # chunks without a deep vector that are looked up together
_ADDRESS = re.compile(r"(?:[a-z+]+://)?(?:[^@/]*@)?[^/:]+(?::\d+/|[:/])(?P<path>.+?)(?:\.git)?/*")


@dataclass(frozen=True, slots=True)
class PushReport:
    """What a push did."""

    url: str
    repository: str
    branch: str
    """Empty if no branch was moved."""
    commit: str
    base: str
    """The pushed commit that it started from; empty if there was none."""
    files: int
    chunks: int
    left_out: int
    """Files that were here and admitted, but not in the commit."""
    added: Written
    deep: tuple[int, int]
    """How many chunks have deep vectors, and how many there are."""
    snapshot_bytes: int
    seconds: float
    note: str = ""

    def as_dict(self) -> dict[str, object]:
        """The report as JSON."""
        return asdict(self) | {"seconds": round(self.seconds, 2)}


class _RecordedStore:
    """A store whose new files and vectors are written to the shared index, too."""

    def __init__(self, store: ChunkStore, writer: RowWriter) -> None:
        self._store, self._writer = store, writer

    def replace(self, files: Sequence[ParsedFile]) -> None:
        self._store.replace(files)
        self._writer.add_files(files)

    def put_vectors(self, model: str, digests: Sequence[bytes], vectors: Vectors) -> None:
        self._store.put_vectors(model, digests, vectors)
        self._writer.add_vectors(model, digests, vectors)

    def touch(self, states: Sequence[FileState]) -> None:
        """Times of this checkout say nothing elsewhere; without them snapshots differ less."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def name_repository(remote: str, root: Path) -> str:
    """The name of a repository: the path in its remote's address, or else its folder's name."""
    match = _ADDRESS.fullmatch(remote)
    return match["path"].strip("/") if match else root.name


def push_project(
    workspace: Workspace,
    project: Project,
    url: str,
    work: Work,
    *,
    repository: str = "",
    branch: str = "",
    complete: bool = True,
) -> PushReport:
    """Push the commit that is checked out; `complete` makes deep vectors first.

    Raises `Uncommitted` if tracked files differ from the commit, and what opening the shared index
    raises. The project's own index is not changed.
    """
    began = time.monotonic()
    head, changed = read_checkout(project.root), list_uncommitted(project.root)
    if changed:
        raise Uncommitted("; ".join(changed[:20]), count=len(changed), path=changed[0])
    shared = SharedIndex.open(url, create=True)
    name = repository or name_repository(head.remote, project.root)
    recipe = recipe_of(project.tree)
    base = find_base(shared, name, project.root, recipe)
    before = Snapshot.unpack(base.snapshot) if base else Snapshot()
    writer = RowWriter(shared.tables, recipe, lambda state: _read_text(project, state))
    with _workplace(project, work) as folder:
        if base:
            shared.fill(name, base.commit, folder, work=work)
        files, left_out, deep = _index_commit(workspace, project, folder, writer, work, complete)
        writer.flush()
        snapshot, written = _seal(shared, folder, before, work)
        chunks = deep[1]
        models = _list_models(project, folder)
    row = {
        "repository": name, "commit": head.commit, "pushed_ms": clock_ms(), "recipe": recipe,
        "models": "\n".join(models), "files": len(files), "chunks": chunks,
        "manifest": pack_manifest(files), "snapshot": snapshot.pack(),
    }  # fmt: skip
    shared.tables.put("commits", ("repository", "commit"), row)
    moved, note = _move_branch(shared, project.root, name, branch or head.branch, head)
    return PushReport(
        url, name, moved, head.commit, base.commit if base else "", len(files), chunks, left_out,
        writer.written, deep, written, time.monotonic() - began, note,
    )  # fmt: skip


def find_base(shared: SharedIndex, repository: str, root: Path, recipe: str) -> PushedCommit | None:
    """The nearest commit back from what is checked out whose index can be used here."""
    commit = shared.nearest(repository, list_commit_ids(root, HISTORY))
    found = shared.read_commit(repository, commit) if commit else None
    same = found and shorten_recipe(found.recipe) == shorten_recipe(recipe)
    return found if same else None


@contextmanager
def _workplace(project: Project, work: Work) -> Iterator[Path]:
    """An empty folder for one push at a time, removed afterwards."""
    folder = project.folder / "push"
    with translate_os_errors(folder), WriterLock(project.folder, "push.lock").held(work):
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _index_commit(
    workspace: Workspace,
    project: Project,
    folder: Path,
    writer: RowWriter,
    work: Work,
    complete: bool,
) -> tuple[dict[str, FileFacts], int, tuple[int, int]]:
    """Bring the stores in a folder in step with the commit: its files, and the deep vectors."""
    committed = list_committed(project.root)
    own = project.at(folder)
    stores = own.open_stores("sqlite")
    try:
        recorded: dict[Kind, ChunkStore] = {
            kind: cast("ChunkStore", _RecordedStore(store, writer))
            for kind, store in stores.items()
        }
        diff, left_out = _keep_committed(compare_index(project.tree, recorded, work), committed)
        update_index(project.tree, recorded, workspace.static, work, diff)
        if workspace.static:
            refine_vectors(recorded, workspace.static, own.lock, work)
        deep = workspace.deep
        if deep and complete:
            _recall_vectors(project, stores, writer, deep.name, work)
            refine_vectors(recorded, deep, own.lock, work)
        states = {path: state for store in stores.values() for path, state in store.files().items()}
        files = {p: facts_of(s, executable=committed.get(p, False)) for p, s in states.items()}
        pairs = [store.coverage(deep.name if deep else "") for store in stores.values()]
        return files, left_out, (sum(have for have, _ in pairs), sum(n for _, n in pairs))
    finally:
        for store in stores.values():
            store.close()


def _keep_committed(diff: Diff, committed: Collection[str]) -> tuple[Diff, int]:
    """A diff without files that are not in the commit; those of an earlier one are removed."""
    changed = [(kind, entry) for kind, entry in diff.changed if entry.path in committed]
    gone = {
        (kind, path)
        for kind, files in diff.known.items()
        for path in files
        if path not in committed
    }
    removed = sorted({*diff.removed, *gone})
    return replace(diff, changed=changed, removed=removed), len(diff.changed) - len(changed)


def _recall_vectors(
    project: Project, stores: Stores, writer: RowWriter, model: str, work: Work
) -> None:
    """Take vectors from the shared index and from the project's own before any is made."""
    own = project.stores() if project.is_indexed() else {}
    for kind, store in stores.items():
        chunks = store.missing(model, sum(store.coverage(model)) + 1)
        for start in range(0, len(chunks), _MISSING_AT_ONCE):
            missing = {chunk.digest for chunk in chunks[start : start + _MISSING_AT_ONCE]}
            for digests, vectors in read_vectors(writer.tables, model, missing):
                store.put_vectors(model, digests, vectors)
                missing -= set(digests)
            if kind in own and missing:
                _copy_vectors(own[kind], store, writer, model, missing)
            work.report(Progress("refining", start + len(missing), len(chunks)))


def _copy_vectors(
    source: ChunkStore, store: ChunkStore, writer: RowWriter, model: str, missing: set[bytes]
) -> None:
    known = source.known_digests(model, missing)
    if not known:
        return
    import numpy as np

    found: dict[bytes, Vectors] = {}
    for path in source.files():
        chunks = [chunk for chunk in source.chunks_of(path) if chunk.digest in known]
        rows = source.vectors(model, [chunk.id for chunk in chunks])
        found |= {chunk.digest: rows[chunk.id] for chunk in chunks if chunk.id in rows}
    if found:
        rows_found = np.stack(list(found.values()))
        store.put_vectors(model, list(found), rows_found)
        writer.add_vectors(model, list(found), rows_found)


def _read_text(project: Project, state: FileState) -> bytes:
    found = project.tree.read_again(state.path, None)
    if isinstance(found, Skipped) or (found.size, found.mtime_ns) != (state.size, state.mtime_ns):
        raise FileMissing(
            f"{state.path} changed while it was pushed",
            user_message="'{path}' changed while it was pushed.",
            next_action="Push again; what was stored so far is used.",
            path=state.path,
        )
    return found.data


def _seal(shared: SharedIndex, folder: Path, before: Snapshot, work: Work) -> tuple[Snapshot, int]:
    from sonde.stores.chunks.integrity import copy_stores

    sealed = folder / "sealed"
    make_folder(sealed)
    copy_stores(folder, sealed, "sqlite")
    pack = f"pack_{clock_ms()}_{secrets.token_hex(4)}"
    return save_snapshot(shared.tables, sealed, before, pack, work)


def _list_models(project: Project, folder: Path) -> list[str]:
    stores = project.at(folder).open_stores("sqlite")
    try:
        return sorted({model for store in stores.values() for model in store.models()})
    finally:
        for store in stores.values():
            store.close()


def _move_branch(
    shared: SharedIndex, root: Path, repository: str, branch: str, head: Checkout
) -> tuple[str, str]:
    """Point a branch at the commit, unless it is further already. Returns it, and why not."""
    if not branch:
        return "", "no branch was moved: none is checked out, name one with --branch"
    known = {each.name: each for each in shared.repositories()}.get(repository)
    now = known.heads.get(branch) if known else None
    if now and now.commit != head.commit and is_ancestor(root, head.commit, now.commit):
        return "", f"{branch} was not moved: it is at a later commit, {now.commit[:12]}"
    row: Mapping[str, object] = {
        "repository": repository, "branch": branch, "commit": head.commit,
        "pushed_ms": clock_ms(), "is_default": branch == head.default_branch,
    }  # fmt: skip
    shared.tables.put("refs", ("repository", "branch"), row)
    return branch, ""
