"""Maintenance of a project's index: checks, strategy, store, and export to chunk files."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NotRequired, TypedDict

import numpy as np

from sonde.chunking.views import VIEW_TYPES
from sonde.embedding.base import Embedder
from sonde.errors import EmbeddingFailed, IndexCorrupt, InvalidRequest, SondeError
from sonde.indexing.diff import compare_index
from sonde.indexing.integrity import check_index
from sonde.indexing.pipeline import update_index
from sonde.policy.changes import has_hook, install_hook, remove_hook
from sonde.projects.check import is_thorough_due, record_check
from sonde.projects.find import indexed_project
from sonde.projects.project import Project
from sonde.projects.update import (
    index_job,
    repairing_corruption,
    schedule_deep_embedding,
    update_project,
)
from sonde.projects.views import refresh_views
from sonde.projects.workspace import Workspace
from sonde.runtime.work import Work
from sonde.searching.contexts import show_view
from sonde.searching.filters import split_view
from sonde.stores.chunks.base import ChunkStore
from sonde.stores.files import (
    load_fingerprints,
    load_heads,
    load_metadata,
    load_refused,
    save_dirty,
    save_fingerprints,
    save_metadata,
    save_refused,
    write_text,
)
from sonde.types import Findings, IndexReport, Progress
from sonde.version import __version__

log = logging.getLogger(__name__)


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


def check_project(
    workspace: Workspace, project: Project, work: Work, *, thorough: bool | None = None
) -> Findings:
    """Compare an index with its files and with itself, repair it, and record what was found.

    A `thorough` check looks at every single word; by default it is one a day. An index that cannot
    be repaired piece by piece is set aside and rebuilt.
    """
    if thorough is None:
        thorough = is_thorough_due(project.folder)
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
        log.warning("rebuilding the index of %s: %s", project.root, error)
        record_check(project.folder, Findings(thorough=thorough), rebuilt=True)
        update_project(workspace, project, work, existing=True)
        return Findings()
    if refused != before:
        save_refused(project.folder, refused)
    if findings.drift:
        log.warning("the index of %s had drifted: %s", project.root, findings)
        schedule_deep_embedding(workspace, project)
    _restore_records(workspace, project, work)
    record_check(project.folder, findings)
    return findings


def _restore_records(workspace: Workspace, project: Project, work: Work) -> None:
    """Write the records of the index again if they are torn, edited or missing after a crash."""
    metadata = load_metadata(project.folder)
    whole = metadata is not None and metadata.last_full_index is not None
    project.defer_records(0.0)
    update_project(workspace, project, work, paths=set() if whole else None, existing=True)
    for kind, store in project.stores().items():
        hashes = {path: state.hash for path, state in store.files().items()}
        if load_fingerprints(project.folder, kind) != hashes:
            with project.lock.held(work):
                save_fingerprints(project.folder, kind, store.files())


_QUESTION = (
    "Install a post-commit hook in this repository? Commits are then indexed even while no"
    " server runs."
)


class StrategyAnswer(TypedDict):
    """When changes are indexed, and what was done about it."""

    status: str
    projectPath: str
    strategy: str
    hook: bool
    message: NotRequired[str]


def choose_strategy(
    workspace: Workspace,
    strategy: Literal["realtime", "lazy", "git"] | None = None,
    hook: bool | None = None,
    project: str | None = None,
    *,
    work: Work,
) -> StrategyAnswer:
    """Choose when changes are indexed, or with None report it; running servers switch at once.

    `hook` installs or removes the post-commit hook; None asks.
    """
    found = indexed_project(workspace, project)
    if strategy and strategy != found.settings.strategy:
        write_setting(found, "indexingStrategy", strategy)
        workspace.projects.reload(found.root)
        if found.settings.strategy != strategy:
            raise InvalidRequest(
                f"another source sets indexingStrategy to {found.settings.strategy}",
                user_message="Another setting overrides the strategy of this project.",
                next_action="See `sonde config` for where it is set.",
            )
    message = _set_hook(workspace, found, strategy, hook, work)
    answer: StrategyAnswer = {
        "status": "success",
        "projectPath": str(found.root),
        "strategy": found.settings.strategy,
        "hook": _has_hook(found),
    }
    return {**answer, "message": message} if message else answer


def flush_index(
    workspace: Workspace, project: str | None = None, *, work: Work
) -> dict[str, object]:
    """Index all pending changes, whatever the strategy."""
    found = indexed_project(workspace, project)
    running = workspace.jobs.find(f"index:{found.key}")
    if running:
        running.wait(work)  # it may have begun before the last change
    report: IndexReport = index_job(workspace, found, existing=True).join(work)
    with found.lock.held(work):
        save_dirty(found.folder, (), load_heads(found.folder))
    return {
        "status": "success",
        "projectPath": str(found.root),
        "filesIndexed": report.files_indexed,
        "filesRemoved": report.files_removed,
    }


def _set_hook(
    workspace: Workspace, project: Project, strategy: str | None, hook: bool | None, work: Work
) -> str:
    if hook is None and strategy == "git" and not _has_hook(project):
        hook = workspace.assume_yes or bool(work.ask(_QUESTION))
    if hook:
        command = [sys.executable, "-P", "-m", "sonde.cli.main", "flush", "--quiet"]
        storage = f"SONDE_HOME={workspace.home}"
        path = install_hook(project.root, ["env", storage, *command, "-p", str(project.root)])
        return f"A post-commit hook is installed: {path}"
    leaves = strategy is not None and strategy != "git"
    if (hook is False or leaves) and _has_hook(project):
        remove_hook(project.root)
        return "The post-commit hook is removed"
    return ""


def _has_hook(project: Project) -> bool:
    with suppress(SondeError):
        return has_hook(project.root)
    return False


def write_setting(project: Project, name: str, value: str) -> None:
    """Change one setting in a project's own config.json."""
    config = project.folder / "config.json"
    try:
        entries = json.loads(config.read_text("utf-8"))
    except (OSError, ValueError):
        entries = json.loads(project.settings.config_text)
    write_text(config, json.dumps({**entries, name: value}, indent=2, ensure_ascii=False) + "\n")


_COPIED_FILES = 200
"""Files whose vectors are copied in one write."""


class StoreAnswer(TypedDict):
    """Which store holds an index."""

    status: str
    projectPath: str
    message: str


def convert_store(
    workspace: Workspace,
    store: Literal["sqlite", "lance"],
    project: str | None = None,
    *,
    work: Work,
) -> StoreAnswer:
    """Move a project's index to the other store; no text is embedded again."""
    found = indexed_project(workspace, project)
    if found.settings.store_name == store:
        return _answer(found, f"The index is kept in {store} already")
    for kind in ("check", "refine", "index"):
        workspace.jobs.cancel(f"{kind}:{found.key}")
    workspace.jobs.submit(
        f"convert:{found.key}",
        "convert",
        lambda inner: _convert(workspace, found, store, inner),
        lasting=True,
    ).join(work)
    chosen = workspace.projects.get(found.root)
    if chosen.settings.store_name != store:
        raise InvalidRequest(
            f"the environment sets the store to {chosen.settings.store_name}",
            user_message="SONDE_STORE overrides the store of this project.",
            next_action="Unset SONDE_STORE.",
        )
    return _answer(found, f"The index is kept in {store} now")


def _convert(workspace: Workspace, found: Project, store: str, work: Work) -> None:
    with found.lock.held(work):
        target = found.open_stores(store)
        try:
            models = [embedder.name for embedder in (workspace.static, workspace.deep) if embedder]
            for kind_, source in found.stores().items():
                _copy_vectors(source, target[kind_], models, work)
            diff = compare_index(found.tree, target, work)
            update_index(found.tree, target, workspace.static, work, diff)
        finally:
            for opened in target.values():
                opened.close()
        _record_store(found, store)
        found.remove_stores(found.settings.store_name)
        workspace.projects.forget(found.root)


def _copy_vectors(
    source: ChunkStore, target: ChunkStore, models: Sequence[str], work: Work
) -> None:
    paths = list(source.files())
    for start in range(0, len(paths), _COPIED_FILES):
        work.report(Progress("copying", start, len(paths)))
        digests = {
            chunk.id: chunk.digest
            for path in paths[start : start + _COPIED_FILES]
            for chunk in source.chunks_of(path)
        }
        for model in models:
            vectors = source.vectors(model, list(digests))
            if vectors:
                rows = np.stack(list(vectors.values()))
                target.put_vectors(model, [digests[key] for key in vectors], rows)


def _record_store(project: Project, store: str) -> None:
    """Record the store in config.json and metadata.json."""
    write_setting(project, "store", store)
    metadata = load_metadata(project.folder)
    if metadata:
        save_metadata(project.folder, replace(metadata, store=store))


def _answer(project: Project, message: str) -> StoreAnswer:
    return {"status": "success", "projectPath": str(project.root), "message": message}


_FILES = {
    "documentation": "doc-chunks.json",
    "symbols": "code-symbols.json",
    "definitions": "code-definitions.json",
    "data": "code-data.json",
}


class ExportAnswer(TypedDict):
    """What was written."""

    projectPath: str
    folder: str
    files: dict[str, int]
    """File -> how many chunks it holds."""
    message: str


def export_chunks(
    workspace: Workspace,
    output: str | None = None,
    project: str | None = None,
    *,
    work: Work,
) -> ExportAnswer:
    """Write every view with its embedding to chunk files, by default in `.cortex/chunks`."""
    found = indexed_project(workspace, project)
    embedder = workspace.static or workspace.deep
    if embedder is None:
        raise EmbeddingFailed("chunk files need embeddings, and embedding = none")
    note = refresh_views(workspace, found, work)
    if note:
        raise InvalidRequest(note, user_message="{note}.", note=note)
    folder = found.root / (Path(output).expanduser() if output else Path(".cortex", "chunks"))
    counts: dict[str, int] = workspace.jobs.submit(
        f"export:{found.key}",
        "export",
        lambda own: _write_files(found, folder, embedder, own),
        lasting=True,
    ).join(work)
    total = sum(counts.values())
    return {
        "projectPath": str(found.root),
        "folder": str(folder),
        "files": counts,
        "message": f"{total:,} chunks were written to {folder}"
        + (
            ", which answers cortex_search from now on"
            if folder.resolve() == (found.settings.chunk_folder or folder).resolve()
            else ""
        ),
    }


def _write_files(found: Project, folder: Path, embedder: Embedder, work: Work) -> dict[str, int]:
    """Write one file for each type; how many chunks each holds."""
    stamp = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    counts = {}
    for type_ in VIEW_TYPES:
        rows = list(_list_rows(found, type_, embedder, work))
        facts: Mapping[str, object] = {
            "model": embedder.name,
            "dimensions": embedder.dimensions,
            "chunk_type": type_,
            "generated": stamp,
            "version": __version__,
        }
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        # names that are not Unicode cannot be written
        text = f'{{"_metadata": {json.dumps(facts)},\n"chunks": [\n{lines}\n]}}\n'
        write_text(folder / _FILES[type_], text.encode("utf-8", "replace").decode())
        counts[_FILES[type_]] = len(rows)
    return counts


def _list_rows(
    project: Project, type_: str, embedder: Embedder, work: Work
) -> Iterator[dict[str, object]]:
    views = project.views.store()
    states, tags = views.files(), views.tags()
    paths = sorted(path for path in states if split_view(path)[0] == type_)
    for done, path in enumerate(paths):
        work.check()
        if done % 100 == 0:
            work.report(Progress(f"writing {type_}", done, len(paths)))
        chunks = views.chunks_of(path)
        vectors = views.vectors(embedder.name, [chunk.id for chunk in chunks])
        for chunk in chunks:
            shown = show_view(chunk, states[path], tags.get(path, ())).as_dict()
            if (vector := vectors.get(chunk.id)) is not None:
                shown["embedding"] = [round(float(number), 7) for number in vector]
            yield shown
