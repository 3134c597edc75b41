"""Verbs on how an index is stored."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import numpy as np

from sonde.chunking.views import VIEW_TYPES
from sonde.embedding.base import Embedder
from sonde.errors import EmbeddingFailed, InvalidRequest, SondeError
from sonde.indexing.pipeline import update_index
from sonde.policy.git import has_hook, install_hook, remove_hook
from sonde.projects.find import indexed_project
from sonde.projects.project import Project
from sonde.projects.update import index_job
from sonde.projects.views import refresh_views
from sonde.projects.workspace import Workspace
from sonde.runtime.work import Work
from sonde.searching.contexts import show_view, split_view
from sonde.stores.chunks.base import ChunkStore
from sonde.stores.records import load_heads, load_metadata, save_dirty, save_metadata, write_text
from sonde.tools.schema import Param, ProjectParam
from sonde.tools.shapes.cortex import show_chunk
from sonde.tools.shapes.rfc import DeleteAnswer
from sonde.types import IndexReport, Progress
from sonde.version import __version__

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
    strategy: Annotated[
        Literal["realtime", "lazy", "git"] | None, Param("When changes are indexed")
    ] = None,
    hook: Annotated[bool | None, Param("Install or remove the hook; None asks")] = None,
    project: ProjectParam = None,
    *,
    work: Work,
) -> StrategyAnswer:
    """Say, or choose, when changes are indexed; running servers switch at once."""
    found = indexed_project(workspace, project)
    if strategy and strategy != found.strategy:
        write_setting(found, "indexingStrategy", strategy)
        workspace.projects.reload(found.root)
        if found.strategy != strategy:
            raise InvalidRequest(
                f"another source sets indexingStrategy to {found.strategy}",
                user_message="Another setting overrides the strategy of this project.",
                next_action="See `sonde config` for where it is set.",
            )
    done = _see_to_hook(workspace, found, strategy, hook, work)
    answer: StrategyAnswer = {
        "status": "success",
        "projectPath": str(found.root),
        "strategy": found.strategy,
        "hook": _has_hook(found),
    }
    return {**answer, "message": done} if done else answer


def flush_index(
    workspace: Workspace, project: ProjectParam = None, *, work: Work
) -> dict[str, object]:
    """Index everything that waits, whatever the strategy."""
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


def _see_to_hook(
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
        entries = json.loads(project.config_text)
    write_text(config, json.dumps({**entries, name: value}, indent=2, ensure_ascii=False) + "\n")


_STEP = 200
"""Files whose vectors are copied in one write."""


def convert_store(
    workspace: Workspace,
    store: Annotated[Literal["sqlite", "lance"], Param("The store to move the index to")],
    project: ProjectParam = None,
    *,
    work: Work,
) -> DeleteAnswer:
    """Move a project's index to the other store; no text is embedded again."""
    found = indexed_project(workspace, project)
    if found.store_name == store:
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
    if chosen.store_name != store:
        raise InvalidRequest(
            f"the environment sets the store to {chosen.store_name}",
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
            update_index(found.tree, target, workspace.static, work)
        finally:
            for opened in target.values():
                opened.close()
        _choose(found, store)
        found.remove_stores(found.store_name)
        workspace.projects.forget(found.root)


def _copy_vectors(
    source: ChunkStore, target: ChunkStore, models: Sequence[str], work: Work
) -> None:
    paths = list(source.files())
    for start in range(0, len(paths), _STEP):
        work.report(Progress("copying", start, len(paths)))
        digests = {
            chunk.id: chunk.digest
            for path in paths[start : start + _STEP]
            for chunk in source.chunks_of(path)
        }
        for model in models:
            vectors = source.vectors(model, list(digests))
            if vectors:
                rows = np.stack(list(vectors.values()))
                target.put_vectors(model, [digests[key] for key in vectors], rows)


def _choose(project: Project, store: str) -> None:
    """Write the store down in config.json and metadata.json."""
    write_setting(project, "store", store)
    metadata = load_metadata(project.folder)
    if metadata:
        save_metadata(project.folder, replace(metadata, store=store))


def _answer(project: Project, message: str) -> DeleteAnswer:
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
    output: Annotated[str | None, Param("Folder to write to; default: .cortex/chunks")] = None,
    format: Annotated[Literal["cortex"], Param("How the files are laid out")] = "cortex",  # noqa: A002
    project: ProjectParam = None,
    *,
    work: Work,
) -> ExportAnswer:
    """Write every view with its embedding to chunk files."""
    del format  # there is one so far
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
            if folder.resolve() == (found.chunk_folder or folder).resolve()
            else ""
        ),
    }


def _write_files(found: Project, folder: Path, embedder: Embedder, work: Work) -> dict[str, int]:
    """Write one file for each type; how many chunks each holds."""
    stamp = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    counts = {}
    for type_ in VIEW_TYPES:
        rows = list(_list_rows(found, type_, embedder, work))
        facts: Mapping[str, Any] = {
            "model": embedder.name,
            "dimensions": embedder.dimensions,
            "chunk_type": type_,
            "generated": stamp,
            "version": __version__,
        }
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        # names that are no Unicode cannot be written; nobody could read them either
        text = f'{{"_metadata": {json.dumps(facts)},\n"chunks": [\n{lines}\n]}}\n'
        write_text(folder / _FILES[type_], text.encode("utf-8", "replace").decode())
        counts[_FILES[type_]] = len(rows)
    return counts


def _list_rows(
    project: Project, type_: str, embedder: Embedder, work: Work
) -> Iterator[dict[str, Any]]:
    views = project.views()
    states, tags = views.files(), views.tags()
    paths = sorted(path for path in states if split_view(path)[0] == type_)
    for done, path in enumerate(paths):
        work.check()
        if done % 100 == 0:
            work.report(Progress(f"writing {type_}", done, len(paths)))
        chunks = views.chunks_of(path)
        vectors = views.vectors(embedder.name, [chunk.id for chunk in chunks])
        for chunk in chunks:
            shown = show_chunk(show_view(chunk, states[path], tags.get(path, ())))
            vector = vectors.get(chunk.id)
            if vector is not None:
                shown["embedding"] = [round(float(number), 7) for number in vector]
            yield shown
