"""One page: find or resume, show the hits as their files are now, keep to size and budget."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from sonde.errors import CatalogError, EmptyQuery, InvalidRequest, OutsideRoots
from sonde.paging.budget import fit_page
from sonde.paging.results import ResultSet
from sonde.projects.find import ALL, find_project, projects_in_scope
from sonde.projects.lines import LineScan, scan_project
from sonde.projects.project import Project
from sonde.projects.rows import RowOptions, Rows, settle_line, settle_ranked
from sonde.projects.search import Request, find_changed_hits, rank_everywhere
from sonde.projects.workspace import Workspace
from sonde.ranking.question import read_question
from sonde.runtime.work import Work
from sonde.searching.filters import read_folder
from sonde.text.languages import language_of
from sonde.tools.shapes.page import (
    PageAnswer,
    refuse_oversize,
    show_parameters,
    show_score,
    show_search_query,
)
from sonde.types import FileState, Hit, Span

Mode = Literal["semantic", "lexical", "hybrid", "regex"]

_MOST_CHARS = 16_000_000
"""Text of the lines of one scan; far more than anyone pages through."""


def find_ranked(
    workspace: Workspace, mode: Mode, asked: Mapping[str, Any], work: Work
) -> tuple[Sequence[Hit], dict[str, Any]]:
    """Chunks, best first, and what every page says of them."""
    project, under = _place(workspace, asked)
    request = Request(
        tool=asked["tool"],
        query=asked["query"],
        kinds=("code", "docs"),
        top_k=asked["top_k"],
        mode=mode,
        project=project,
        under=under,
        include=asked["include"],
        exclude=asked["exclude"],
        language=asked["language"],
        tags=asked["tags"],
        chunk_types=asked["chunk_types"],
        whole=mode == "hybrid",
    )
    hits, metadata = rank_everywhere(workspace, request, read_question(asked["query"]), work)
    least = asked["threshold"]
    if least is not None:
        hits = [hit for hit in hits if show_score(hit.score) >= least]
    stats = _count_index(projects_in_scope(workspace, project))
    capped = len(hits) >= asked["top_k"]
    return hits, {"index_stats": stats, "metadata": metadata, "capped": capped}


def find_lines(
    workspace: Workspace, mode: Mode, asked: Mapping[str, Any], work: Work
) -> tuple[Sequence[Hit], dict[str, Any]]:
    """Lines by path and line, and what every page says of them."""
    del mode
    project, under = _place(workspace, asked)
    scan = read_scan(asked, under)
    scan.compile()  # a pattern that is wrong is told before anything is walked
    several = project == ALL
    projects = projects_in_scope(workspace, ALL) if several else [find_project(workspace, project)]
    hits: list[Hit] = []
    room = _MOST_CHARS
    capped = False
    for hit in chain.from_iterable(_lines_of(found, scan, work) for found in projects):
        if len(hits) == asked["top_k"] or room < 0:
            capped = True
            break
        hits.append(hit)
        room -= len(hit.text)
    facts = {"index_stats": _count_index(projects), "metadata": {}, "capped": capped}
    return hits, facts


def _lines_of(project: Project, scan: LineScan, work: Work) -> Iterator[Hit]:
    """Matching lines as hits that know the state of their file."""
    state: FileState | None = None
    for text, line in scan_project(project, scan, work, spans=False):
        if state is None or state.path != text.path:
            kind = project.tree.kind_of(text.path) or "docs"
            name = language_of(text.path).name
            state = FileState(text.path, "", text.size, text.mtime_ns, name, kind)
        end = line.start_byte + len(line.text.encode("utf-8", "surrogatepass"))
        yield Hit(
            project=str(project.root),
            kind=state.kind,
            path=line.path,
            span=Span(line.line, line.line, line.start_byte, end),
            text=line.text,
            score=1.0,
            score_type="regex",
            language=state.language,
            state=state,
        )


def read_scan(asked: Mapping[str, Any], under: str) -> LineScan:
    """The scan that the parameters of a search ask for."""
    return LineScan(
        asked["query"],
        ignore_case=asked["ignore_case"],
        whole_word=asked["whole_word"],
        fixed_string=asked["fixed_string"],
        paths=(under,) if under else (),
        include=asked["include"],
        exclude=asked["exclude"],
        language=asked["language"],
    )


def _place(workspace: Workspace, asked: Mapping[str, Any]) -> tuple[str | None, str]:
    """The project and the folder in it; a whole path names both."""
    project, path = asked["project"], asked["path"]
    if not path or not Path(path).is_absolute():
        return project, read_folder(path)
    real = Path(path).resolve()
    if project is None:
        project = str(real if real.is_dir() else real.parent)
    if project == ALL:
        raise InvalidRequest(f"path {path!r} with project 'all'")
    root = find_project(workspace, project).root
    if not real.is_relative_to(root):
        raise OutsideRoots(f"{path} is not below {root}")
    return str(root), read_folder(real.relative_to(root).as_posix())


def _count_index(projects: Sequence[Project]) -> dict[str, int]:
    """What the index holds; nothing where there is none, or none that can be read."""
    files = chunks = 0
    for project in projects:
        try:
            for store in project.stores().values() if project.is_indexed() else ():
                counts = store.counts()
                files, chunks = files + counts.files, chunks + counts.chunks
        except CatalogError:
            continue
    return {"total_files": files, "total_chunks": chunks}


_PAGE_SIZE = 50
_SNIPPET = 500
_SHORTEST = 20
"""Characters of text that a row keeps, however small the budget."""
_DEFAULTS: dict[str, Any] = {
    "project": None,
    "path": None,
    "include": (),
    "exclude": (),
    "language": None,
}
_LISTS = ("include", "exclude", "tags", "chunk_types")
_OF_RANKED: dict[str, Any] = {"top_k": 200, "threshold": None, "tags": (), "chunk_types": ()}
_OF_REGEX: dict[str, Any] = {
    "top_k": 10_000,
    "ignore_case": False,
    "whole_word": False,
    "fixed_string": False,
}


def answer_page(
    workspace: Workspace,
    mode: Mode,
    query: str,
    given: Mapping[str, Any],
    view: Mapping[str, Any],
    cursor: str | None,
    work: Work,
) -> PageAnswer:
    """The first page of a new search, or the page that a cursor points at.

    `given` says what is found and is bound to the cursor; `view` says how it is shown and may
    change from page to page. None stands for what was not given.
    """
    began = time.perf_counter()
    view = {name: value for name, value in view.items() if value is not None}
    named = {name: _tidy(name, value) for name, value in given.items() if value is not None}
    tool = {"tool": f"{mode}_search"}
    if cursor:
        bound = tool | named | ({"query": query} if query else {})
        results, offset = workspace.results.resume(cursor, bound)
        view = {**results.facts["view"], **view}
    else:
        if not query.strip():
            raise EmptyQuery(f"neither `{'pattern' if mode == 'regex' else 'query'}` nor `cursor`")
        own = _OF_REGEX if mode == "regex" else _OF_RANKED
        asked = tool | {"query": query} | _DEFAULTS | own | named
        find = find_lines if mode == "regex" else find_ranked
        hits, facts = find(workspace, mode, asked, work)
        # the answer repeats what was given, not what stands for it
        results = workspace.results.keep(asked, hits, facts | {"view": view, "given": named})
        offset = 0
    return _cut_page(workspace, mode, results, offset, view, began, read_now=not cursor)


def _tidy(name: str, value: Any) -> Any:
    """One spelling of what can be written in several."""
    if name == "path":
        return posixpath.normpath(value or ".")
    return tuple(value) if name in _LISTS else value


def _cut_page(
    workspace: Workspace,
    mode: Mode,
    results: ResultSet,
    offset: int,
    view: Mapping[str, Any],
    began: float,
    *,
    read_now: bool,
) -> PageAnswer:
    """As many matches as the page takes; the cursor leads to the next one."""
    asked, facts = results.parameters, results.facts
    size = view.get("page_size", _PAGE_SIZE)
    budget = view.get("max_tokens") or (None if "page_size" in view else workspace.max_tokens)
    limit = view.get("snippet_length", _SNIPPET)
    wanted = results.hits[offset : offset + size]
    # lines of a search that was just made are those of the files as they are
    moved = (
        set()
        if read_now and mode == "regex"
        else find_changed_hits(workspace, wanted, at_once=read_now)
    )
    rows = _open_rows(workspace, mode, asked, view, moved)
    number = results.pages.get(offset, 1)

    def answer_with(matches: list[dict[str, Any]]) -> PageAnswer:
        end = offset + len(matches)
        cut = len(matches) < len(wanted)
        metadata = {
            "search_time_ms": round((time.perf_counter() - began) * 1000),
            "index_stats": facts["index_stats"],
            **facts["metadata"],
        }
        return {
            "search": {
                "query": show_search_query(asked["query"]),
                "mode": mode,
                "parameters": show_parameters({**facts["given"], **view}),
            },
            "results": {
                "matches": matches,
                "count": len(matches),
                "total_count": len(results.hits),
                "has_more": end < len(results.hits),
                "truncated": cut or facts["capped"],
            },
            "pagination": {
                "next_cursor": workspace.results.cursor_at(results, end),
                "page_size": size,
                "current_page": number,
            },
            "metadata": metadata,
        }

    answer = fit_page(wanted, rows.show, answer_with, budget, length=limit, shortest=_SHORTEST)
    refuse_oversize(answer)
    results.pages.setdefault(offset + answer["results"]["count"], number + 1)
    return answer


def _open_rows(
    workspace: Workspace,
    mode: Mode,
    asked: Mapping[str, Any],
    view: Mapping[str, Any],
    moved: set[tuple[str, str]],
) -> Rows:
    shown = RowOptions(
        include_snippet=view.get("include_snippet", True),
        context_lines=view.get("context_lines", 0),
        name_project=asked["project"] == ALL,
    )
    if mode == "regex":
        return Rows(workspace, mode, shown, settle_line, moved, read_scan(asked, "").compile())
    return Rows(workspace, mode, shown, settle_ranked(read_question(asked["query"])), moved)
