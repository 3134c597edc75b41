"""The verb that searches by chunk types and tags, and what stands behind it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from sonde.app import App, Project
from sonde.errors import Cancelled, EmptyQuery, IndexCorrupt, SondeError
from sonde.indexing.refine import refine_vectors
from sonde.indexing.views import update_views
from sonde.paging.results import count_tokens, fill_page
from sonde.projects.find import find_project, indexed_project
from sonde.projects.follow import refresh
from sonde.projects.update import mend_files, rebuilding, tidy_soon
from sonde.runtime.locks import WriterLock
from sonde.runtime.work import Work
from sonde.searching.contexts import (
    DEFAULT_LIMIT,
    MOST,
    SearchOptions,
    SearchResult,
    ViewSearcher,
    embed_query,
)
from sonde.searching.freshness import find_changed
from sonde.tools.schema import Param
from sonde.tools.shapes.cortex import CortexAnswer, show_result
from sonde.types import FileState

_PATIENCE_S = 20.0
"""How long a caller of a server waits for views; what is there by then answers."""
_SHORTEST = 200
"""Characters of text that a chunk keeps, however small the budget."""

log = logging.getLogger(__name__)
T = TypeVar("T")

TagsParam = Annotated[
    tuple[str, ...] | None,
    Param("Only what has all of these tags (see cortex_search)", max_length=100, listed=False),
]
TypesParam = Annotated[
    tuple[str, ...] | None,
    Param("Only these views of files (see cortex_search)", max_length=100, listed=False),
]


def cortex_search(
    app: App,
    query: Annotated[str, Param("What to look for", max_length=100_000, terse=True)] = "",
    limit: Annotated[int, Param("Results", minimum=1, maximum=MOST, clamp=True)] = DEFAULT_LIMIT,
    tags: Annotated[
        tuple[str, ...] | None, Param("It must have all of these", max_length=100, terse=True)
    ] = None,
    chunk_types: Annotated[
        tuple[str, ...] | None,
        Param("Any of documentation, symbols, definitions, data", max_length=100),
    ] = None,
    project: Annotated[
        str | None, Param("Folder of the project; default: here", max_length=4096, listed=False)
    ] = None,
    max_tokens: Annotated[
        int | None, Param("Size of the answer", minimum=200, maximum=20_000, listed=False)
    ] = None,
    cursor: Annotated[
        str | None, Param("nextCursor of an answer", max_length=2_000, listed=False)
    ] = None,
    *,
    work: Work,
) -> CortexAnswer:
    """Search for relevant context in the project codebase and documentation."""
    # what a filter lets through is found, however little it has to do with the query
    options = SearchOptions(limit, -1.0, tuple(tags or ()), tuple(chunk_types or ()))
    note = ""
    asked = {"tool": "cortex_search", "query": query, "options": repr(options)}
    if cursor:
        given = {"tool": "cortex_search"} | ({"query": query} if query else {})
        kept, offset = app.results.resume(cursor, given)
    else:
        if not query.strip():
            raise EmptyQuery("neither `query` nor `cursor` was given")
        results, note = find_context(app, project, query, options, work)
        kept, offset = app.results.keep(asked, results), 0
    budget = max_tokens or app.max_tokens
    rows = fill_page(kept.hits[offset:], show_result, budget)
    while len(rows) > 1 and count_tokens(rows) + 100 > budget:
        rows.pop()
    while rows and len(rows[0]["chunk"]["text"]) > _SHORTEST and count_tokens(rows) + 100 > budget:
        text = rows[0]["chunk"]["text"]
        rows[0]["chunk"]["text"] = text[: max(_SHORTEST, len(text) * 2 // 3)]
    answer: CortexAnswer = {"results": rows, "total": len(kept.hits)}
    if next_cursor := app.results.cursor_at(kept, offset + len(rows)):
        answer |= {"truncated": True, "nextCursor": next_cursor}
    if note:
        answer["note"] = note
    return answer


def find_context(
    app: App, project: str | None, query: str, options: SearchOptions, work: Work
) -> tuple[list[SearchResult], str]:
    """The best chunks of a project, and a word on what is still missing."""
    found = find_project(app, project)
    files = found.open_chunk_files(app.static or app.deep, follow=app.stays)
    if files:
        return files.query(query, options), ""
    indexed_project(app, project)
    if found.viewed is None and not app.static:
        embed_query(app.deep, query)  # a service that is gone is told at once, not after all views

    def run() -> list[SearchResult]:
        searcher = found.searcher
        if searcher is None:
            searcher = found.searcher = ViewSearcher(found.views(), app.static or app.deep)
        return searcher.query(query, options)

    with rebuilding(app, found):
        note = refresh_views(app, found, work)
        results = read_views(app, found, work, run)
        if _mend(app, found, results, work):
            note = refresh_views(app, found, work, again=True)
            results = read_views(app, found, work, run)
    return results, note


def read_views(app: App, project: Project, work: Work, run: Callable[[], T]) -> T:
    """Read from the views; broken ones are made anew, whatever else there is stays."""
    try:
        return run()
    except IndexCorrupt as error:
        log.warning("making the views of %s anew: %s", project.root, error)
        project.forget_views()
        refresh_views(app, project, work, again=True)
        return run()


class ProjectSearcher:
    """A `ContextSearcher` over a project: its chunk files where it has some, else its index."""

    def __init__(self, app: App, project: str | None = None) -> None:
        self._app, self._project = app, project

    def query(self, query: str, options: SearchOptions) -> list[SearchResult]:
        """The best chunks."""
        return find_context(self._app, self._project, query, options, Work())[0]


def refresh_views(app: App, project: Project, work: Work, *, again: bool = False) -> str:
    """Bring the views in step with the index; in a server nobody waits long for it."""
    if not again:
        refresh(app, project, work)
    stamp = tuple(store.generation() for store in project.stores().values())
    if project.viewed == stamp:
        return ""
    job = app.jobs.submit(
        f"views:{project.key}", "views", lambda own: _make_views(app, project, own)
    )
    if not job.wait(work, _PATIENCE_S if app.stays else None):
        done, total = job.progress.done, job.progress.total
        return f"views are being made, {done} of {total} files done"
    try:
        job.outcome()
    except Cancelled:
        raise
    except SondeError as error:
        log.warning("views of %s are as they were: %s", project.root, error)
        return error.user_message
    return ""


def _make_views(app: App, project: Project, work: Work) -> int:
    lock = WriterLock(project.folder, "views.lock")
    with lock.held(work):
        stamp = tuple(store.generation() for store in project.stores().values())
        embedder = app.static or app.deep
        try:
            made = update_views(project.tree, project.stores(), project.views(), embedder, work)
        except IndexCorrupt:
            project.forget_views()
            made = update_views(project.tree, project.stores(), project.views(), embedder, work)
        if embedder:
            # views that were made under another model have no vectors of this one yet
            made += refine_vectors({"code": project.views()}, embedder, lock, work)
        project.viewed = stamp
    if made:
        tidy_soon(app, project)
    return made


def _mend(app: App, project: Project, results: Sequence[SearchResult], work: Work) -> bool:
    """Index again the files among the results that changed since."""
    paths = {str(one.chunk.metadata["file_path"]) for one in results}
    states: dict[str, FileState] = {}
    for store in project.stores().values():
        states |= store.states(paths)
    changed = find_changed(paths, states, project.tree.check_all)
    return bool(changed) and mend_files(app, project, changed, work)
