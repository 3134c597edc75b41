"""Searches that answer in pages: the request, the kept ranking, and one page of it."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from sonde import errors
from sonde.paging.cursor import ResultSet
from sonde.projects.find import ALL, find_project, name_scope, projects_in_scope, projects_to_read
from sonde.projects.lines import (
    LineScan,
    count_file_bytes,
    find_changed_hits,
    find_line,
    list_line_hits,
    list_lines_around,
    present_hit,
    trim_line,
)
from sonde.projects.project import Project, Workspace
from sonde.projects.search import rank_everywhere
from sonde.ranking.question import Question
from sonde.runtime.work import Work
from sonde.searching.filters import read_folder
from sonde.searching.lines.grep import Expression
from sonde.searching.query_language import QueryCondition, compile_conditions
from sonde.searching.request import Request, read_asked, recall_request
from sonde.types import FileText, Hit, Span, StoreCounts

PageMode = Literal["semantic", "lexical", "hybrid", "regex"]

MOST_LINES, MOST_CHUNKS = 10_000, 200
"""Hits of all pages together where the call does not say."""
_MOST_LINE_CHARS = 16_000_000  # text of the lines of one scan; far more than anyone pages through
PAGE_SIZE, SNIPPET_CHARS = 50, 500
"""Matches in a page and characters of each, where the call does not say, as documented."""
_UNCUT = 1 << 30  # characters; no text has as many
_MOST_COLUMNS = 10  # matches of one line whose columns are listed; a minified file has thousands
_DEFAULTS: Mapping[str, object] = {
    **dict.fromkeys(("project", "path", "language", "threshold")),
    **dict.fromkeys(("include", "exclude", "tags", "chunk_types", "conditions"), ()),
    **dict.fromkeys(("ignore_case", "whole_word", "fixed_string", "of_each_kind"), False),
}
"""What a parameter that was not given stands for."""
_OF_CHUNKS = ("include", "exclude", "language", "tags", "chunk_types", "of_each_kind", "conditions")
"""Parameters that a search for chunks takes as they are."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What to search for; bound to the cursor. None stands for what was not given."""

    mode: PageMode
    query: str = ""
    tags: tuple[str, ...] | None = None
    chunk_types: tuple[str, ...] | None = None
    path: str | None = None
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None
    language: str | None = None
    top_k: int | None = None
    threshold: float | None = None
    project: str | None = None
    ignore_case: bool | None = None
    whole_word: bool | None = None
    fixed_string: bool | None = None
    of_each_kind: bool | None = None
    conditions: tuple[QueryCondition, ...] | None = None
    """Besides those in the query; all of them where that is a regular expression."""

    @property
    def most_hits(self) -> int:
        """How many hits all pages may have together."""
        return self.top_k or (MOST_LINES if self.mode == "regex" else MOST_CHUNKS)

    def given(self) -> dict[str, object]:
        """The filters that were given, each in one spelling; the answer repeats them."""
        given = _list_given(self, _DEFAULTS.keys() | {"top_k"})
        if self.path is not None:
            given["path"] = posixpath.normpath(self.path or ".")
        return given

    def bound(self) -> dict[str, object]:
        """The parameters that must match those of the search that a cursor continues."""
        query = {"query": self.query} if self.query else {}
        return {"tool": f"{self.mode}_search"} | query | self.given()

    def parameters(self) -> dict[str, object]:
        """What a cursor is bound to: all of it, with defaults."""
        return {**_DEFAULTS, "top_k": self.most_hits, **self.bound()}

    def scan(self, under: str) -> LineScan:
        """This request as a scan for lines below a folder."""
        given = _list_given(self, LineScan.__dataclass_fields__)
        return LineScan(self.query, paths=(under,) if under else (), **given)


@dataclass(frozen=True, slots=True)
class PageView:
    """How to show it; may change from page to page. None stands for what was not given."""

    page_size: int | None = None
    include_snippet: bool | None = None
    snippet_length: int | None = None
    context_lines: int | None = None
    max_tokens: int | None = None

    def given(self) -> dict[str, Any]:
        """The options that were given; the answer repeats them."""
        return _list_given(self, self.__dataclass_fields__)

    @property
    def size(self) -> int:
        """Matches in a page."""
        return self.page_size or PAGE_SIZE

    @property
    def length(self) -> int:
        """Characters of text in each match."""
        return self.snippet_length or SNIPPET_CHARS

    def budget(self, default: int) -> int | None:
        """Tokens of the answer; None where the number of matches alone decides."""
        return self.max_tokens or (None if self.page_size else default)


def _list_given(options: PageRequest | PageView, names: Collection[str]) -> dict[str, Any]:
    values = ((name, getattr(options, name)) for name in options.__dataclass_fields__)
    given = {name: value for name, value in values if name in names and value is not None}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}


@dataclass(frozen=True, slots=True)
class PagedRanking:
    """The result of a paged search, and the facts that every page repeats."""

    hits: Sequence[Hit]
    stats: StoreCounts
    """The size of the indexes that were searched."""
    is_capped: bool
    """There may be more hits than were taken."""
    request: PageRequest
    view: PageView
    freshness: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class PageMatch:
    """A hit as a page shows it."""

    hit: Hit
    """With the lines that are shown of it."""
    span: Span
    """All of it, however little is shown."""
    is_clipped: bool = False
    columns: tuple[tuple[int, int], ...] = ()
    """The characters of the line that match, for regular expressions."""
    around: tuple[list[str], list[str]] | None = None
    """Lines before and after; None where none are wanted."""


@dataclass(frozen=True, slots=True)
class MatchPage:
    """One page of matches, not yet cut to its budget; each file is read once."""

    workspace: Workspace
    results: ResultSet
    offset: int
    ranking: PagedRanking
    view: PageView
    changed: Collection[tuple[str, str]]
    """Project and path of files that have changed since they were searched."""
    question: Question | None
    """For chunks: they are cut to the lines that answer it."""
    expression: Expression | None
    """For lines: they are cut around its first match."""
    _texts: dict[tuple[str, str], FileText | None] = field(default_factory=dict)

    @property
    def hits(self) -> Sequence[Hit]:
        """The hits of this page, before the budget is applied."""
        return self.results.hits[self.offset : self.offset + self.view.size]

    @property
    def number(self) -> int:
        """Counts pages from 1."""
        return self.results.pages.get(self.offset, 1)

    @property
    def spans_projects(self) -> bool:
        """Whether several projects were searched, or every one of this machine."""
        roots = {hit.project for hit in self.results.hits}
        return self.ranking.request.project == ALL or len(roots) > 1

    @property
    def include_snippet(self) -> bool:
        """Whether matches are shown with their text."""
        return self.view.include_snippet is not False

    def present(self, hit: Hit, length: int) -> PageMatch:
        """One row; its text and each line around it have at most `length` characters."""
        whole = self._cut(hit, _UNCUT, moved=(hit.project, hit.path) in self.changed)
        shown = self._cut(whole, length, moved=False) if self.include_snippet else whole
        content = None if whole.stale else self._read(hit)
        around = None
        if self.include_snippet and self.view.context_lines:
            around = list_lines_around(content, shown.span, self.view.context_lines, length)
        columns: list[tuple[int, int]] = []
        if self.expression is not None:
            width = len(hit.text.removesuffix("\r"))
            spans = self.expression.find_spans(hit.text)[:_MOST_COLUMNS]
            columns = [(min(start, width), min(end, width)) for start, end in spans]
        span = count_file_bytes(content, whole.span)
        return PageMatch(shown, span, shown.text != whole.text, tuple(columns), around)

    def _cut(self, hit: Hit, limit: int, *, moved: bool) -> Hit:
        """The hit as its file is now, cut to the limit; once that is done it has not moved."""
        if self.question is not None:
            return present_hit(self.workspace, self.question, hit, limit, moved=moved)
        # the equal line nearest to where it was, cut around its first match
        if moved:
            hit = find_line(hit, self._read(hit))
        known = self.expression if len(hit.text) > limit else None
        spans = known.find_spans(hit.text) if known else []
        return trim_line(hit, spans[0][0] if spans else 0, limit)

    def _read(self, hit: Hit) -> FileText | None:
        """The current text of a file; None if it can no longer be read."""
        key = (hit.project, hit.path)
        if key not in self._texts:
            content = None
            with suppress(
                errors.FileMissing, errors.PermissionDenied
            ):  # the project's folder itself is gone
                tree = self.workspace.projects.get(hit.project).tree
                content = tree.read_utf8(hit.path)
            self._texts[key] = content if isinstance(content, FileText) else None
        return self._texts[key]


def open_match_page(
    workspace: Workspace, request: PageRequest, view: PageView, work: Work, cursor: str | None
) -> MatchPage:
    """The first page of a new search, or the page that a cursor points at."""
    if cursor:

        def search_again(recipe: Mapping[str, Any]) -> ResultSet:
            asked = recall_request(recipe)
            shown, mode = PageView(**asked.pop("view")), asked.pop("tool").removesuffix("_search")
            return open_match_page(workspace, PageRequest(mode, **asked), shown, work, None).results

        results, offset = workspace.results.resume(cursor, request.bound(), search_again)
        ranking: PagedRanking = results.facts
        request, view = ranking.request, replace(ranking.view, **view.given())
    else:
        if not request.query.strip():
            name = "pattern" if request.mode == "regex" else "query"
            action = f"Pass what to search for in `{name}`."
            raise errors.EmptyQuery(f"neither `{name}` nor `cursor`", next_action=action)
        request = replace(request, project=name_scope(workspace, request.project))
        find = _find_lines if request.mode == "regex" else _find_chunks
        ranking = find(workspace, request, view, work)
        asked, recipe = request.parameters(), request.bound() | {"view": view.given()}
        results, offset = workspace.results.freeze(asked, ranking.hits, ranking, recipe), 0
    changed: Collection[tuple[str, str]] = ()
    is_regex = request.mode == "regex"
    if cursor or not is_regex:  # lines of a search that was just made are those of the files
        wanted = results.hits[offset : offset + view.size]
        changed = find_changed_hits(workspace, wanted, just_searched=not cursor)
    question = None if is_regex else read_asked(request.query)
    expression = request.scan("").compile() if is_regex else None
    return MatchPage(workspace, results, offset, ranking, view, changed, question, expression)


def _find_chunks(
    workspace: Workspace, request: PageRequest, view: PageView, work: Work
) -> PagedRanking:
    project, under = _locate(workspace, request)
    wanted = Request(
        f"{request.mode}_search",
        request.query,
        top_k=request.most_hits,
        mode=request.mode,
        project=project,
        under=under,
        whole=request.mode == "hybrid",
        **_list_given(request, _OF_CHUNKS),
    )
    found = rank_everywhere(workspace, wanted, read_asked(request.query), work)
    hits, least = found.hits, request.threshold
    if least is not None:
        hits = [hit for hit in hits if round_score(hit.score) >= least]
    stats = _count_index(projects_in_scope(workspace, project))
    is_capped = len(hits) >= request.most_hits
    return PagedRanking(hits, stats, is_capped, request, view, found.freshness, found.note)


def round_score(score: float) -> float:
    """Six digits: the rest only costs room. Thresholds are compared with what is shown."""
    return float(f"{score:.6g}")


def _find_lines(
    workspace: Workspace, request: PageRequest, view: PageView, work: Work
) -> PagedRanking:
    project, under = _locate(workspace, request)
    scan = request.scan(under)
    scan.compile()  # refuse a wrong pattern before anything is walked
    conditions = request.conditions or ()
    fits = compile_conditions(conditions)
    projects = projects_to_read(workspace, project, conditions)
    hits: list[Hit] = []
    room = _MOST_LINE_CHARS
    is_capped = False
    for hit in chain.from_iterable(list_line_hits(found, scan, work) for found in projects):
        if not fits(hit.path, hit.kind):
            continue
        if len(hits) == request.most_hits or room < 0:
            is_capped = True
            break
        hits.append(hit)
        room -= len(hit.text)
    note = ""
    if not hits and under and not any(found.tree.holds_files(under) for found in projects):
        note = f"No file that can be searched is at or below {under}."
    return PagedRanking(hits, _count_index(projects), is_capped, request, view, note=note)


def _locate(workspace: Workspace, request: PageRequest) -> tuple[str | None, str]:
    """The project and the folder in it; a whole path names both."""
    project, path = request.project, request.path
    if not path or not Path(path).is_absolute():
        return project, read_folder(path)
    if "\0" in path:
        raise errors.InvalidRequest(f"path {path!r} holds a NUL, which no path does")
    real = Path(path).resolve()
    if project is None:
        # unlike a Path's own question, this one takes a name that is too long
        project = str(real if os.path.isdir(real) else real.parent)  # noqa: PTH112
    if project == ALL:
        raise errors.InvalidRequest(f"path {path!r} with project 'all'")
    found = find_project(workspace, project)
    if not real.is_relative_to(found.root):
        raise errors.OutsideRoots(f"{path} is not below {found.key}")
    return found.key, read_folder(real.relative_to(found.root).as_posix())


def _count_index(projects: Sequence[Project]) -> StoreCounts:
    """The size of the indexes; zero for one that is missing or unreadable."""
    found: list[StoreCounts] = []
    for project in projects:
        with suppress(errors.CatalogError):
            for store in project.stores().values() if project.is_indexed() else ():
                found.append(store.counts())  # noqa: PERF401 - the next one may be broken
    return StoreCounts(
        sum(counts.files for counts in found),
        sum(counts.chunks for counts in found),
        sum(counts.bytes for counts in found),
    )
