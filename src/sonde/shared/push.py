"""Push: index the checked-out commit, and add to a shared index what is missing there.

The commit is indexed in a separate folder that starts from the nearest pushed commit, so nothing
uncommitted can get into it. Rows and blocks are written first, then the commit, then the branch: a
push that is killed leaves only unnamed rows, which the next push reuses.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

from sonde.embedding.base import Embedder
from sonde.errors import FileMissing, InvalidRequest, Uncommitted
from sonde.indexing.diff import Diff, Stores, compare_index, coverage_of, generation_of
from sonde.indexing.pipeline import recipe_of, refine_vectors, update_index
from sonde.policy.commits import (
    Checkout,
    is_ancestor,
    list_committed,
    list_uncommitted,
    read_checkout,
)
from sonde.projects.project import Project, Workspace
from sonde.runtime.private import make_folder
from sonde.runtime.system import now_ms
from sonde.runtime.work import Work
from sonde.shared.cleanup import maintain_tables
from sonde.shared.index import SharedIndex
from sonde.shared.manifest import FileFacts, leads_below, name_repository, pack_manifest
from sonde.shared.rows import RowWriter, Written, facts_of, read_vectors
from sonde.shared.seed import collect_vectors, find_base, open_workplace
from sonde.shared.snapshot import Snapshot, save_snapshot
from sonde.stores.chunks.base import ChunkStore, Vectors
from sonde.types import FileState, Kind, ParsedFile, Progress, Skipped
from sonde.values import to_camel

_MISSING_AT_ONCE = 4_096  # chunks without a deep vector that are looked up together


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
        facts = asdict(self) | {"seconds": round(self.seconds, 2)}
        return _spell_keys(facts | {"added": _spell_keys(facts["added"])})


def _spell_keys(facts: Mapping[str, object]) -> dict[str, object]:
    """As other answers spell them: `left_out` is `leftOut`."""
    return {to_camel(name): value for name, value in facts.items()}


class _RecordedStore:
    """A store that also writes new files and vectors to the shared index."""

    def __init__(self, store: ChunkStore, writer: RowWriter) -> None:
        self._store, self._writer = store, writer

    def replace(self, files: Sequence[ParsedFile], *, more: bool = False) -> None:
        self._store.replace(files, more=more)
        self._writer.add_files(files)

    def put_vectors(self, model: str, digests: Sequence[bytes], vectors: Vectors) -> None:
        self._store.put_vectors(model, digests, vectors)
        self._writer.add_vectors(model, digests, vectors)

    def touch(self, states: Sequence[FileState]) -> None:
        """Do nothing: times of this checkout mean nothing elsewhere and would change snapshots."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


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

    Raises `Uncommitted` if tracked files differ from the commit, `InvalidRequest` for a name that
    leads elsewhere, and what opening the shared index raises. The project's own index is
    not changed.
    """
    began = time.monotonic()
    head, changed = read_checkout(project.root), list_uncommitted(project.root)
    if changed:
        raise Uncommitted("; ".join(changed[:20]), count=len(changed), path=changed[0])
    name = repository or name_repository(head.remote, project.root)
    if "@" in name or not leads_below(name):
        raise InvalidRequest(
            f"repository={name!r}",
            user_message=f"'{name}' cannot be the name of a repository: no '@', no '..'.",
            next_action="Name it by --repository, such as team/shop.",
        )
    shared = SharedIndex(url, create=True)
    recipe = recipe_of(project.tree)
    base = find_base(shared, name, project.root, recipe)
    before = Snapshot()
    writer = RowWriter(shared.tables, recipe, lambda state: _read_text(project, state))
    with open_workplace(project, "push", work) as folder:
        if base and shared.fill(name, base.commit, folder, work=work).source == "snapshot":
            before = Snapshot.unpack(base.snapshot)  # one that is damaged is written whole again
        done = _index_commit(workspace, project, folder, writer, work, complete)
        writer.flush()
        if done.changed or not before.files:
            snapshot, written = _seal(shared, folder, before, work)
        else:
            snapshot, written = before, 0
    row = (
        name, head.commit, now_ms(), recipe, "\n".join(done.models), len(done.files),
        done.deep[1], pack_manifest(done.files), snapshot.pack(),
    )  # fmt: skip
    shared.tables.put("commits", ("repository", "commit"), row)
    moved, note = _move_branch(shared, project.root, name, branch or head.branch, head)
    note = "; ".join(filter(None, (note, maintain_tables(shared, work))))
    return PushReport(
        url, name, moved, head.commit, base.commit if base else "", len(done.files), done.deep[1],
        done.left_out, writer.written, done.deep, written, time.monotonic() - began, note,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Indexed:
    """A commit in the stores of a folder."""

    files: dict[str, FileFacts]
    left_out: int
    deep: tuple[int, int]
    models: list[str]
    changed: bool
    """Whether anything differs from what the folder was filled with."""


def _index_commit(
    workspace: Workspace,
    project: Project,
    folder: Path,
    writer: RowWriter,
    work: Work,
    complete: bool,
) -> _Indexed:
    """Bring the stores in a folder in step with the commit: its files, and the deep vectors."""
    committed = list_committed(project.root)
    own = project.with_folder(folder)
    with own.open_stores("sqlite") as stores:
        before = _describe_stores(stores, workspace.deep)
        recorded: dict[Kind, ChunkStore] = {
            kind: cast("ChunkStore", _RecordedStore(store, writer))
            for kind, store in stores.items()
        }
        diff, left_out = _keep_committed(compare_index(project.tree, recorded, work), committed)
        update_index(project.tree, recorded, workspace.static, work, diff)
        refine_vectors(recorded, workspace.static, own.lock, work)
        deep = workspace.deep
        if deep and complete:
            _recall_vectors(project, stores, writer, deep.name, work)
            refine_vectors(recorded, dict.fromkeys(recorded, deep), own.lock, work)
        states = {path: state for store in stores.values() for path, state in store.files().items()}
        files = {p: facts_of(s, executable=committed.get(p, False)) for p, s in states.items()}
        _, covered, models = after = _describe_stores(stores, deep)
        return _Indexed(files, left_out, covered, models, after != before)


def _describe_stores(
    stores: Stores, deep: Embedder | None
) -> tuple[int, tuple[int, int], list[str]]:
    """Their generation, how many chunks have deep vectors, of how many, and the models."""
    covered = coverage_of(stores, deep.name if deep else "")
    models = sorted({model for store in stores.values() for model in store.models()})
    return generation_of(stores), covered, models


def _keep_committed(diff: Diff, committed: Collection[str]) -> tuple[Diff, int]:
    """The diff restricted to files of the commit, and the number left out; others are removed."""
    changed = [(kind, entry) for kind, entry in diff.changed if entry.path in committed]
    known = ((kind, path) for kind, files in diff.known.items() for path in files)
    removed = sorted({*diff.removed, *(each for each in known if each[1] not in committed)})
    return replace(diff, changed=changed, removed=removed), len(diff.changed) - len(changed)


def _recall_vectors(
    project: Project, stores: Stores, writer: RowWriter, model: str, work: Work
) -> None:
    """Copy vectors from the shared index and from the project's own, before computing the rest."""
    import numpy as np

    own = project.stores() if project.is_indexed() else {}
    for kind, store in stores.items():
        chunks = store.missing(model, store.counts().chunks)
        for start in range(0, len(chunks), _MISSING_AT_ONCE):
            missing = {chunk.digest for chunk in chunks[start : start + _MISSING_AT_ONCE]}
            for digests, vectors in read_vectors(writer.tables, model, missing):
                store.put_vectors(model, digests, vectors)
                missing -= set(digests)
            found = collect_vectors(own[kind], model, missing) if kind in own else {}
            if found:
                rows = np.stack(list(found.values()))
                store.put_vectors(model, list(found), rows)
                writer.add_vectors(model, list(found), rows)
            work.report(Progress("refining", start + len(missing), len(chunks)))


def _read_text(project: Project, state: FileState) -> bytes:
    found = project.tree.read(state.path)
    if isinstance(found, Skipped) or found.hash != state.hash:
        raise FileMissing(
            f"{state.path} changed while it was pushed",
            user_message=f"'{state.path}' changed while it was pushed.",
            next_action="Push again; what was stored so far is used.",
        )
    return found.text.encode("utf-8", "surrogatepass")


def _seal(shared: SharedIndex, folder: Path, before: Snapshot, work: Work) -> tuple[Snapshot, int]:
    from sonde.stores.chunks.integrity import copy_stores

    sealed = folder / "sealed"
    make_folder(sealed)
    copy_stores(folder, sealed, "sqlite")
    pack = f"pack_{now_ms()}_{secrets.token_hex(4)}"
    return save_snapshot(shared.tables, sealed, before, pack, work)


def _move_branch(
    shared: SharedIndex, root: Path, repository: str, branch: str, head: Checkout
) -> tuple[str, str]:
    """Move a branch to the commit, unless it is ahead. Returns the branch moved, or why not."""
    if not branch:
        return "", "no branch was moved: none is checked out, name one with --branch"
    named = (x for x in shared.list_branches() if (x.repository, x.branch) == (repository, branch))
    now = next(named, None)
    if now and now.commit != head.commit and is_ancestor(root, head.commit, now.commit):
        return "", f"{branch} was not moved: it is at a later commit, {now.commit[:12]}"
    row = (repository, branch, head.commit, now_ms(), branch == head.default_branch)
    shared.tables.put("refs", ("repository", "branch"), row)
    return branch, ""
