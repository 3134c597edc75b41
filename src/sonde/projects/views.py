"""Views of a project: kept current, searched, and exported; chunk files may replace them."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sonde import errors
from sonde.chunking.views import VIEW_TYPES
from sonde.embedding.base import Embedder
from sonde.indexing.pipeline import refine_vectors
from sonde.indexing.sources import Identity, identify_files
from sonde.indexing.views import update_views
from sonde.projects.find import find_project, indexed_project
from sonde.projects.freshness import find_stale_files
from sonde.projects.project import Project, ProjectPart, Workspace
from sonde.projects.update import (
    follow_project,
    refresh,
    reindex_stale_files,
    repairing_corruption,
    schedule_compaction,
)
from sonde.runtime.work import Work, WriterLock
from sonde.searching.contexts import (
    SearchOptions,
    SearchResult,
    ViewSearcher,
    embed_query,
    show_view,
)
from sonde.searching.filters import split_view
from sonde.stores.chunks.base import ChunkStore
from sonde.stores.files import write_text
from sonde.stores.records import stamp_now
from sonde.types import FileState, Progress
from sonde.version import __version__

if TYPE_CHECKING:
    from sonde.searching.chunk_files import ChunkFiles

_VIEWS_WAIT_S = 20.0  # how long a search in a server waits for views before it does without
_FILES = {
    "documentation": "doc-chunks.json",
    "symbols": "code-symbols.json",
    "definitions": "code-definitions.json",
    "data": "code-data.json",
}

log = logging.getLogger(__name__)
T = TypeVar("T")


class Views(ProjectPart):
    """The views of a project: their store, its searcher, the index state they were made from."""

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self._identity: Identity = {}
        self._searcher: ViewSearcher | None = None
        self._made: tuple[object, int] = (None, 0)

    def store(self) -> ChunkStore:
        """Their store, opened on first use, and again when its files were replaced."""
        with self._guard:
            if self._store and identify_files(self._identity) != self._identity:
                self._store = self._searcher = None  # not closed: a reader may still finish
            if self._store is None:
                self._store, self._made = self.project.open_views(), (None, 0)
                self._identity = identify_files(self.project.folder.glob("views-*/index.db"))
            return self._store

    def searcher(self, embedder: Embedder | None) -> ViewSearcher:
        """A searcher that caches the results of filters."""
        with self._guard:
            store = self.store()
            if self._searcher is None:
                self._searcher = ViewSearcher(store, embedder)
            return self._searcher

    def made_from(self) -> object:
        """The state of the index they were made from; None if they have changed since."""
        state, generation = self._made
        with suppress(errors.IndexCorrupt):
            if state is not None and self.store().generation() == generation:
                return state
        return None

    def mark_made(self, state: object) -> None:
        """Record the index state that the views were made from."""
        self._made = (state, self.store().generation())

    def delete(self) -> None:
        """Delete all views; the next search makes them again."""
        with self._guard:
            self.close()
            for path in self.project.folder.glob("views-*"):
                shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        """Close the store; it opens again on the next use."""
        with self._guard:
            self._searcher = None
            super().close()


class ChunkFolder(ProjectPart):
    """The searcher over a project's chunk files, while there are some."""

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self._files: ChunkFiles | None = None
        self._settings = project.settings

    def open(self, own: Embedder | None, *, follow: bool) -> ChunkFiles | None:
        """The searcher; None if there are no chunk files. If their folder disappears, the last
        state is kept."""
        from sonde.searching.chunk_files import ChunkFiles  # numpy is slow to import

        with self._guard:
            settings, folder = self.project.settings, self.project.settings.chunk_folder
            if self._files is None or self._settings is not settings:
                self.close()
                if folder is None or not (settings.needs_chunks or folder.is_dir()):
                    return None
                self._files = ChunkFiles(folder, settings.chunk_embedder or own)
                self._settings = settings
            if follow:
                self._files.follow()
            else:
                self._files.catch_up()
            return self._files

    def close(self) -> None:
        """Stop following them."""
        with self._guard:
            old, self._files = self._files, None
            if old:
                old.close()


@dataclass(frozen=True, slots=True)
class ContextRanking:
    """The best chunks of a project."""

    project: Project
    results: Sequence[SearchResult]
    note: str = ""
    """What is still missing."""
    states: Mapping[str, FileState] | None = None
    """The files that views were made from; None if chunk files answered."""

    def list_stale(self, workspace: Workspace) -> set[str]:
        """The ids of the chunks that have changed since they were searched."""
        chunks = [result.chunk for result in self.results]
        if self.states is None:
            files = open_chunk_files(workspace, self.project)
            return files.list_stale(chunks) if files else {chunk.id for chunk in chunks}
        try:
            changed: Collection[str] = find_stale_files(self.project, self.states)
        except (errors.FileMissing, errors.PermissionDenied):  # the project's folder itself is gone
            changed = self.states.keys()
        return {chunk.id for chunk in chunks if chunk.metadata["file_path"] in changed}


def open_chunk_files(workspace: Workspace, project: Project) -> ChunkFiles | None:
    """The project's chunk files, if it has some; a server follows them."""
    folder = project.part(ChunkFolder)
    return folder.open(workspace.static.get("code") or workspace.deep, follow=workspace.stays)


def begin_chunk_files(workspace: Workspace) -> None:
    """Read the chunk files of the project that a server was started in, and report problems."""
    try:
        project = find_project(workspace)
        files = open_chunk_files(workspace, project)
        if files and project.settings.chunk_embedder:
            embed_query(project.settings.chunk_embedder, "ready")
    except errors.SondeError as error:
        log.warning("chunk files cannot be searched: %s", error.user_message)


def find_context(
    workspace: Workspace, project: str | None, query: str, options: SearchOptions, work: Work
) -> ContextRanking:
    """The best chunks of a project."""
    found = find_project(workspace, project)
    if files := open_chunk_files(workspace, found):
        results = files.query(query, options)
        return ContextRanking(found, results, _explain_filters(results, options))
    indexed_project(workspace, project)
    if found.part(Views).made_from() is None and not workspace.static:
        # report an unreachable service at once, not after making all views
        embed_query(workspace.deep, query)

    def run() -> list[SearchResult]:
        searcher = found.part(Views).searcher(workspace.static.get("code") or workspace.deep)
        return searcher.query(query, options)

    with repairing_corruption(workspace, found):
        note = refresh_views(workspace, found, work)
        results = read_views(workspace, found, work, run)
        states = _read_states(found, results)
        changed = find_stale_files(found, states)
        if changed and reindex_stale_files(workspace, found, changed, work):
            note = refresh_views(workspace, found, work, again=True)
            results = read_views(workspace, found, work, run)
            states = _read_states(found, results)
    return ContextRanking(found, results, note or _explain_filters(results, options), states)


def _explain_filters(results: Sequence[SearchResult], options: SearchOptions) -> str:
    """A note where filters let nothing through."""
    given = [f"all of the tags {', '.join(options.tags)}"] if options.tags else []
    given += [f"a type of {', '.join(options.chunk_types)}"] if options.chunk_types else []
    return "" if results or not given else f"No chunk has {' and '.join(given)}."


def _read_states(project: Project, results: Sequence[SearchResult]) -> dict[str, FileState]:
    paths = {str(one.chunk.metadata["file_path"]) for one in results}
    return {k: v for store in project.stores().values() for k, v in store.files(paths).items()}


def read_views(workspace: Workspace, project: Project, work: Work, run: Callable[[], T]) -> T:
    """Run a search over the views; rebuild them first if they are damaged."""
    try:
        found = run()
        if damaged := project.part(Views).store().count_damaged():
            raise errors.IndexCorrupt(f"{damaged} vectors are damaged")
        return found
    except errors.IndexCorrupt as error:
        log.warning("rebuilding the views of %s: %s", project.root, error)
        project.part(Views).delete()
        refresh_views(workspace, project, work, again=True)
        return run()


class ProjectSearcher:
    """A `ContextSearcher` over a project: its chunk files where it has some, else its index."""

    def __init__(self, workspace: Workspace, project: str | None = None) -> None:
        self._workspace, self._project = workspace, project

    def query(self, query: str, options: SearchOptions) -> list[SearchResult]:
        """The best chunks."""
        found = find_context(self._workspace, self._project, query, options, Work())
        return list(found.results)


def refresh_views(
    workspace: Workspace, project: Project, work: Work, *, again: bool = False
) -> str:
    """Bring the views up to date with the index. Returns a note if that is not done in time."""
    if not again:
        refresh(workspace, project, work)
        follow_project(workspace, project)
    stamp = tuple(store.generation() for store in project.stores().values())
    if project.part(Views).made_from() == stamp:
        return ""
    job = workspace.jobs.submit(
        f"views:{project.key}", "views", lambda own: _make_views(workspace, project, own)
    )
    if not job.wait(work, _VIEWS_WAIT_S if workspace.stays else None):
        done, total = job.progress.done, job.progress.total
        return f"views are being made, {done} of {total} files done"
    try:
        job.outcome()
    except errors.Cancelled:
        raise
    except errors.SondeError as error:
        log.warning("views of %s are as they were: %s", project.root, error)
        return error.user_message
    return ""


def _make_views(workspace: Workspace, project: Project, work: Work) -> int:
    lock = WriterLock(project.folder, "views.lock")
    with lock.held(work):
        stamp = tuple(store.generation() for store in project.stores().values())
        embedder = workspace.static.get("code") or workspace.deep
        views, tree, stores = project.part(Views), project.tree, project.stores()
        try:
            made = update_views(tree, stores, views.store(), embedder, work)
        except errors.IndexCorrupt:
            views.delete()
            made = update_views(tree, stores, views.store(), embedder, work)
        if embedder:
            # views that were made under another model have no vectors of this one yet
            made += refine_vectors({"docs": views.store()}, {"docs": embedder}, lock, work)
        views.mark_made(stamp)
    if made:
        schedule_compaction(workspace, project)
    return made


def export_chunks(
    workspace: Workspace, output: str | None = None, project: str | None = None, *, work: Work
) -> dict[str, object]:
    """Write every view with its embedding to chunk files, by default in `.cortex/chunks`."""
    found = indexed_project(workspace, project)
    embedder = workspace.static.get("code") or workspace.deep
    if embedder is None:
        raise errors.EmbeddingFailed("chunk files need embeddings, and embedding = none")
    note = refresh_views(workspace, found, work)
    if note:
        again = "Try again in a moment; `sonde status` shows the state of the index."
        raise errors.InvalidRequest(note, user_message=f"{note}.", next_action=again)
    folder = found.root / (Path(output).expanduser() if output else Path(".cortex", "chunks"))
    counts: dict[str, int] = workspace.jobs.submit(
        f"export:{found.key}",
        "export",
        lambda own: _write_files(found, folder, embedder, own),
        lasting=True,
    ).join(work)
    message = f"{sum(counts.values()):,} chunks were written to {folder}"
    if folder.resolve() == (found.settings.chunk_folder or folder).resolve():
        message += ", which answers cortex_search from now on"
    return {"projectPath": found.key, "folder": str(folder), "files": counts, "message": message}


def _write_files(found: Project, folder: Path, embedder: Embedder, work: Work) -> dict[str, int]:
    """Write one file for each type; how many chunks each holds."""
    stamp = stamp_now()
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
    views = project.part(Views).store()
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
            vector = vectors.get(chunk.id)
            if vector is not None:
                shown["embedding"] = [round(float(number), 7) for number in vector]
            yield shown
