"""Verbs on how an index is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np

from sonde.app import App, Project
from sonde.errors import InvalidRequest
from sonde.indexing.pipeline import update_index
from sonde.stores.base import ChunkStore
from sonde.stores.records import load_metadata, save_metadata
from sonde.tools.arguments import Param
from sonde.tools.index import ProjectParam
from sonde.tools.scope import indexed_project
from sonde.tools.shapes.rfc import DeleteAnswer
from sonde.tools.strategy import write_setting
from sonde.types import Progress
from sonde.work import Work

_STEP = 200
"""Files whose vectors are copied in one write."""


def convert_store(
    app: App,
    store: Annotated[Literal["sqlite", "lance"], Param("The store to move the index to")],
    project: ProjectParam = None,
    *,
    work: Work,
) -> DeleteAnswer:
    """Move a project's index to the other store; no text is embedded again."""
    found = indexed_project(app, project)
    if found.store_name == store:
        return _answer(found, f"The index is kept in {store} already")
    for kind in ("check", "refine", "index"):
        app.jobs.cancel(f"{kind}:{found.key}")
    app.jobs.submit(
        f"convert:{found.key}",
        "convert",
        lambda inner: _convert(app, found, store, inner),
        lasting=True,
    ).join(work)
    chosen = app.projects.get(found.root)
    if chosen.store_name != store:
        raise InvalidRequest(
            f"the environment sets the store to {chosen.store_name}",
            user_message="SONDE_STORE overrides the store of this project.",
            next_action="Unset SONDE_STORE.",
        )
    return _answer(found, f"The index is kept in {store} now")


def _convert(app: App, found: Project, store: str, work: Work) -> None:
    with found.lock.held(work):
        target = found.open_stores(store)
        try:
            models = [embedder.name for embedder in (app.static, app.deep) if embedder]
            for kind_, source in found.stores().items():
                _copy_vectors(source, target[kind_], models, work)
            update_index(found.tree, target, app.static, work)
        finally:
            for opened in target.values():
                opened.close()
        _choose(found, store)
        found.remove_stores(found.store_name)
        app.projects.forget(found.root)


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
