"""Searches by mode: a question, what is related to a place or a passage, and commits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sonde.errors import EmptyQuery, InvalidRequest
from sonde.projects.find import projects_in_scope, require_index
from sonde.projects.lines import find_changed_hits
from sonde.projects.literal import LiteralSearch
from sonde.projects.project import Project, Workspace
from sonde.projects.search import Ranking, SearchPage, open_search_page, rank_everywhere
from sonde.projects.searches.history import rank_commits
from sonde.ranking.question import read_question
from sonde.runtime.work import Work
from sonde.searching.readings import read_literally
from sonde.searching.request import Request
from sonde.stores.chunks.base import EVERYTHING
from sonde.types import Hit

_OWN_HITS = 5  # hits that the place itself may be: its chunks, and the definition around them


@dataclass(frozen=True, slots=True)
class Origin:
    """A passage to start from, and where it lies if it is one of the project's."""

    text: str
    project: str = ""
    path: str = ""
    lines: tuple[int, int] = (0, 0)

    def covers(self, hit: Hit) -> bool:
        """Whether a hit is the passage itself, or holds it."""
        if (hit.project, hit.path) == (self.project, self.path):
            return hit.start_line <= self.lines[1] and self.lines[0] <= hit.end_line
        return not self.path and self.text.strip() in hit.text


def open_page(
    workspace: Workspace, request: Request, work: Work, cursor: str | None = None
) -> SearchPage:
    """The first page of a search in any mode, or the page that a cursor points at."""
    if cursor or request.mode not in ("related", "history"):
        page = open_search_page(workspace, request, work, cursor)
        is_history = page.results.parameters["mode"] == "history"
        return replace(page, changed=()) if is_history else page  # a commit never changes
    if not request.query.strip():
        raise EmptyQuery("neither `query` nor `cursor` was given")
    projects = projects_in_scope(workspace, request.project)
    for project in projects:
        require_index(project)
    rank = _rank_history if request.mode == "history" else _rank_related
    ranking, text = rank(workspace, projects, request, work)
    results = workspace.results.freeze(request.parameters(), ranking.hits)
    changed = (
        find_changed_hits(workspace, ranking.hits, just_searched=True)
        if request.mode == "related"
        else set()
    )
    question = read_question(text)
    return SearchPage(results, 0, question, changed, ranking.freshness, ranking.note)


def _rank_history(
    workspace: Workspace, projects: Sequence[Project], request: Request, work: Work
) -> tuple[Ranking, str]:
    """The best commits of these projects."""
    question = read_question(request.query)
    hits = [
        hit
        for project in projects
        for hit in rank_commits(workspace, project, question, request.top_k, request.under, work)
    ]
    hits.sort(key=lambda hit: (-hit.score, hit.path))
    note = "" if hits else "No commit is near in words or meaning."
    return Ranking(hits[: request.top_k], "complete", note), request.query


def _rank_related(
    workspace: Workspace, projects: Sequence[Project], request: Request, work: Work
) -> tuple[Ranking, str]:
    """What is near to a place or a passage, without itself."""
    origin = read_origin(projects, request.query, work)
    wider = replace(request, top_k=request.top_k + _OWN_HITS)
    ranking = rank_everywhere(workspace, wider, read_question(origin.text), work)
    others = [hit for hit in ranking.hits if not origin.covers(hit)]
    return replace(ranking, hits=others[: request.top_k]), origin.text


def read_origin(projects: Sequence[Project], text: str, work: Work) -> Origin:
    """The definition or section around a place such as `cart.py:120`; any other text is itself."""
    reading = read_literally(text)
    if reading is None or reading.kind != "path":
        return Origin(text)
    for project in projects:
        look = LiteralSearch(project, lambda *_: EVERYTHING, ("code", "docs"), 1, work)
        named = look.find(text, read_question(text))
        if not named.hits or named.is_final:
            continue
        (hit,) = look.lead(named, ())[:1]
        store = project.stores()[hit.kind]
        symbols = store.symbols_of([hit.path]).get(hit.path, ())
        around = [one for one in symbols if one.start_line <= hit.focus <= one.end_line]
        first, last = hit.start_line, hit.end_line
        if around:
            inner = min(around, key=lambda one: one.end_line - one.start_line)
            first, last = max(first, inner.start_line), min(last, inner.end_line)
        lines = hit.text.split("\n")[first - hit.start_line : last - hit.start_line + 1]
        return Origin("\n".join(lines), hit.project, hit.path, (first, last))
    if not reading.is_certain:
        return Origin(text)
    raise InvalidRequest(
        f"no indexed file for {text!r}",
        user_message="No indexed file is called '{place}'.",
        next_action="Name a place as path:line, or pass the passage itself.",
        place=reading.text,
    )
