"""The verb that writes a project's views as chunk files, to be shipped and searched elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from sonde.app import App, Project
from sonde.chunking.views import VIEW_TYPES
from sonde.embedding.base import Embedder
from sonde.errors import EmbeddingFailed, InvalidRequest
from sonde.searching.views import show_view, split_view
from sonde.stores.records import write_text
from sonde.tools.arguments import Param
from sonde.tools.contexts import refresh_views
from sonde.tools.index import ProjectParam
from sonde.tools.scope import indexed_project
from sonde.tools.shapes.cortex import show_chunk
from sonde.types import Progress
from sonde.version import __version__
from sonde.work import Work

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
    app: App,
    output: Annotated[str | None, Param("Folder to write to; default: .cortex/chunks")] = None,
    format: Annotated[Literal["cortex"], Param("How the files are laid out")] = "cortex",  # noqa: A002
    project: ProjectParam = None,
    *,
    work: Work,
) -> ExportAnswer:
    """Write every view with its embedding to chunk files."""
    del format  # there is one so far
    found = indexed_project(app, project)
    embedder = app.static or app.deep
    if embedder is None:
        raise EmbeddingFailed("chunk files need embeddings, and embedding = none")
    note = refresh_views(app, found, work)
    if note:
        raise InvalidRequest(note, user_message="{note}.", note=note)
    folder = found.root / (Path(output).expanduser() if output else Path(".cortex", "chunks"))
    counts: dict[str, int] = app.jobs.submit(
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
