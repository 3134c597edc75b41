"""One search from question to page: rank, compare with the files, keep the ranking."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from sonde.embedding.nearness import describe_language
from sonde.errors import Cancelled, CatalogError, DocsIndexNotFound, EmptyQuery
from sonde.paging.cursor import ResultSet
from sonde.projects.deep_vectors import (
    begin_background_work,
    count_damaged,
    describe_damage,
    mend_vectors,
    model_mismatch_note,
)
from sonde.projects.find import ALL, name_scope, note_missing, projects_asked, require_index
from sonde.projects.freshness import find_stale_files, is_searchable
from sonde.projects.lines import LineScan, find_changed_hits, find_files_holding, present_hit
from sonde.projects.literal import EXACT, OWN_HITS, LiteralHits, LiteralSearch, read_origin
from sonde.projects.project import Project, Workspace
from sonde.projects.searches import selection
from sonde.projects.searches.history import rank_commits
from sonde.projects.unindexed import NO_INDEX, index_best_files
from sonde.projects.update import AS_WATCHED, refresh, reindex_stale_files, repairing_corruption
from sonde.projects.views import Views, read_views, refresh_views
from sonde.ranking.question import Question, read_question
from sonde.runtime.work import Work
from sonde.searching.filters import split_view
from sonde.searching.hits import explain_missing_words, explain_no_results
from sonde.searching.modes import MODES, fill_up
from sonde.searching.query_language import fits_symbol
from sonde.searching.readings import read_literally
from sonde.searching.request import Request, read_asked, recall_request
from sonde.searching.search import QueryVectors, Search
from sonde.stores.chunks.base import ChunkStore
from sonde.types import Hit, Kind

_LONGEST_QUERY = 100_000  # characters, as the tools declare; nothing longer is read
_CHECKED_HITS = 20  # hits whose files are compared with the disk before they are shown: two pages
_RANKING_SLOTS = threading.BoundedSemaphore(4)
"""Rankings at a time: each takes tens of megabytes, and more of them only wait for each other."""
_CANCEL_POLL_S = 0.1  # how often a search that waits for a slot looks whether its caller is gone


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best hits in total order, and how far they can be trusted."""

    hits: Sequence[Hit]
    freshness: str = ""
    """How much of the project the index covers."""
    note: str = ""
    """What the caller should know about this ranking; empty if nothing."""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The hits from a page on, in a ranking that is kept; their text is cut when shown."""

    results: ResultSet
    offset: int
    question: Question
    changed: Collection[tuple[str, str]]
    """Project and path of files that have changed since they were searched."""
    freshness: str = ""
    """Empty on further pages."""
    note: str = ""

    @property
    def hits(self) -> Sequence[Hit]:
        """The hits of this page and of those after it."""
        return self.results.hits[self.offset :]

    @property
    def total(self) -> int:
        """How many hits all pages have."""
        return len(self.results.hits)

    @property
    def spans_projects(self) -> bool:
        """Whether several projects were searched, or every one of this machine."""
        is_everywhere: bool = self.results.parameters["project"] == ALL
        return is_everywhere or len({hit.project for hit in self.results.hits}) > 1

    def present(self, workspace: Workspace, hit: Hit, length: int) -> Hit:
        """The hit as its file is now, with at most `length` characters of text."""
        moved = (hit.project, hit.path) in self.changed
        return present_hit(workspace, self.question, hit, length, moved=moved)


def open_search_page(
    workspace: Workspace, request: Request, work: Work, cursor: str | None = None
) -> SearchPage:
    """The first page of a new search, or the page that a cursor points at."""
    if cursor:

        def search_again(recipe: Mapping[str, Any]) -> ResultSet:
            return open_search_page(workspace, Request(**recall_request(recipe)), work).results

        results, offset = workspace.results.resume(cursor, request.given(), search_again)
        question, ranking = read_asked(str(results.parameters["query"])), Ranking(results.hits)
    else:
        request = replace(request, project=name_scope(workspace, request.project))
        if request.kinds == ("docs",) and request.project != ALL:
            project, *others = projects_asked(workspace, request.project, ())
            if not others and not project.tree.index_docs:
                raise DocsIndexNotFound(f"No docs index at {project.folder}/")
        if not request.query.strip():
            raise EmptyQuery("neither `query` nor `cursor` was given")
        rank = {"related": _rank_related, "history": _rank_history}.get(request.mode, _rank_asked)
        question, ranking = rank(workspace, request, work)
        asked, recipe = request.parameters(), request.given()
        results, offset = workspace.results.freeze(asked, ranking.hits, recipe=recipe), 0
    changed: Collection[tuple[str, str]] = ()
    if results.parameters["mode"] != "history":  # a commit never changes
        changed = find_changed_hits(workspace, results.hits[offset:], just_searched=not cursor)
    return SearchPage(results, offset, question, changed, ranking.freshness, ranking.note)


def _rank_asked(workspace: Workspace, request: Request, work: Work) -> tuple[Question, Ranking]:
    question = read_asked(request.query[:_LONGEST_QUERY])
    return question, rank_everywhere(workspace, request, question, work)


def _rank_related(workspace: Workspace, request: Request, work: Work) -> tuple[Question, Ranking]:
    """Hits similar to a place or a passage, without the place itself."""
    request = request.read(named_only=True)
    projects = projects_asked(workspace, request.project, request.conditions)
    for project in projects:
        require_index(project)
    origin = read_origin(projects, request.query[:_LONGEST_QUERY], work)
    question = read_question(origin.text)
    wider = replace(request, query="", top_k=request.top_k + OWN_HITS)
    ranking = rank_everywhere(workspace, wider, question, work)
    others = [hit for hit in ranking.hits if not origin.covers(hit)]
    return question, replace(ranking, hits=others[: request.top_k])


def _rank_history(workspace: Workspace, request: Request, work: Work) -> tuple[Question, Ranking]:
    request = request.read(named_only=True)
    question = read_question(request.query[:_LONGEST_QUERY])
    hits: list[Hit] = []
    freshness = "complete"
    for project in projects_asked(workspace, request.project, request.conditions):
        require_index(project)
        found, left_out = rank_commits(
            workspace, project, question, request.top_k, request.under, work
        )
        hits += found
        freshness = f"incomplete; {left_out}" if left_out else freshness
    hits.sort(key=lambda hit: (-hit.score, hit.path))
    note = "" if hits else "No commit is near in words or meaning."
    return question, Ranking(hits[: request.top_k], freshness, note)


def rank_everywhere(
    workspace: Workspace, request: Request, question: Question, work: Work
) -> Ranking:
    """The best hits of every project in scope."""
    hits: list[Hit] = []
    notes: list[str] = []
    damage: list[str] = []
    failures: dict[str, CatalogError] = {}
    is_final = False
    request = request.read()
    projects = projects_asked(workspace, request.project, request.conditions)
    if len(projects) == 1 and not is_searchable(projects[0]):
        return _rank_unindexed(workspace, projects[0], request, question, work)
    may_load = workspace.stays and len(projects) == 1
    vectors = QueryVectors(question, workspace.static, workspace.deep, may_load=may_load)
    choosing = selection.begin_selection(projects, request, question, vectors)
    asked: dict[Project, Request] = {}
    covered: dict[Project, str] = {}
    for project in projects:
        work.check()
        with _noting_failure(project, failures), repairing_corruption(workspace, project):
            covered[project] = refresh(workspace, project, work, follow=request.project != ALL)
            held = find_files_holding(project, request.conditions, work)
            if choosing:
                choosing.look(project, replace(request, held=held))
            asked[project] = replace(request, held=held)
    choices = choosing.choose() if choosing else {}
    chosen = [project for project in asked if not choices or project.key in choices]
    is_literal = request.is_open and (not request.query or read_literally(request.query))
    for project in asked if is_literal else chosen:
        choice = choices.get(project.key, selection.WHOLE)
        own = replace(asked[project], held=choice.files) if choice.files else asked[project]
        with _noting_failure(project, failures):
            found, covered[project], left_out = _rank_fresh(
                workspace, project, own, question, vectors, work, covered[project],
                ranks=project in chosen,
            )  # fmt: skip
            hits += [selection.lower_hit(hit, choice.loss) for hit in found.hits]
            is_final |= found.is_final and bool(found.hits)
            notes[:0] = [found.note] if found.note else []
            if request.mode != "lexical" and (note := model_mismatch_note(workspace, project)):
                notes.append(note)
            if left_out:
                damage.append(describe_damage(project, left_out))
            begin_background_work(workspace, project, follow=request.project != ALL)
    if failures and (request.project != ALL or not hits):
        raise list(failures.values())[-1]
    notes += [*vectors.notes, *(f"{key}: {one.user_message}" for key, one in failures.items())]
    partly = [said for said in covered.values() if said != "complete"]
    freshness = [note_missing(workspace, request.project) or "complete", *partly][-1]
    if is_final:  # in another project, its words may have been searched
        hits = [hit for hit in hits if hit.score_type == EXACT]
    hits.sort(key=lambda hit: (-hit.score, hit.path, hit.span.start_line))
    # what a query names or spells was looked up in all of them
    is_exact = bool(hits) and hits[0].score_type == EXACT
    if not hits and not notes:
        notes.append(_explain_nothing(projects, request, question))
    elif not notes and request.is_open and not is_exact:
        notes.append(describe_language(workspace.deep, question.text))
        if not notes[0] and not (choosing and choosing.holds_every_term()):
            stores = [project.stores()[kind] for project in projects for kind in request.kinds]
            notes[0] = explain_missing_words(stores, question)
    scope = "" if is_exact else selection.describe_choice(chosen, len(asked))
    note = "; ".join(filter(None, [*damage, *notes[:1]]))
    return Ranking(
        selection.take_best(hits, request), freshness, " ".join(filter(None, (note, scope)))
    )


@contextmanager
def _noting_failure(project: Project, failures: dict[str, CatalogError]) -> Iterator[None]:
    """Record a failure in `failures`, so that one broken project does not fail a search of many."""
    try:
        yield
    except Cancelled:
        raise
    except CatalogError as error:
        failures[project.key] = error


def _rank_unindexed(
    workspace: Workspace, project: Project, request: Request, question: Question, work: Work
) -> Ranking:
    """The best hits of a project before its first index is done, by words."""
    if request.of_views:
        require_index(project)
    covered = refresh(workspace, project, work) if project.is_indexed() else ""
    scan = LineScan(
        "",
        paths=(request.under,) if request.under else (),
        include=request.include,
        exclude=request.exclude,
        language=request.language,
    )
    vectors = QueryVectors(question, workspace.static, workspace.deep)
    terms = question.report.terms if question.report else question.terms
    best = index_best_files(project, terms, request.kinds, scan, workspace.static, work)
    with best as (scratch, looked_at):
        hits = rank_project(scratch, request, question, vectors, work)
    hits.sort(key=lambda hit: (-hit.score, hit.path, hit.span.start_line))
    return Ranking(hits[: request.top_k], covered or looked_at, NO_INDEX)


def _open_searched(project: Project, request: Request, kind: Kind) -> ChunkStore:
    return project.part(Views).store() if request.of_views else project.stores()[kind]


def _explain_nothing(projects: Sequence[Project], request: Request, question: Question) -> str:
    """Why there is no hit in any of these projects."""
    pairs = [(project, kind) for project in projects for kind in request.kinds]
    stores = [project.stores()[kind] for project, kind in pairs]
    every = [store for project in projects for store in project.stores().values()]
    if not any(store.counts().files for store in stores) and any(s.counts().files for s in every):
        if request.kinds == ("docs",):
            return "No documentation is indexed here; search the code instead."
        return "No code is indexed here; search the documentation instead."
    lists = {name: getattr(request, name) for name in ("include", "exclude", "tags", "chunk_types")}
    filters = [f"the folder {request.under}"] if request.under else []
    filters += [f"the language {request.language}"] if request.language else []
    filters += [f"{name} {', '.join(given)}" for name, given in lists.items() if given]
    filters += map(str, request.conditions)
    opened = [(_open_searched(project, request, kind), kind) for project, kind in pairs if filters]
    wheres = [request.narrow(store, kind) for store, kind in opened]
    allowed = sum(len(where.paths or ()) for where in wheres)
    return explain_no_results(stores, question, filters, allowed)


def _rank_fresh(
    workspace: Workspace,
    project: Project,
    request: Request,
    question: Question,
    vectors: QueryVectors,
    work: Work,
    covered: str,
    *,
    ranks: bool,
) -> tuple[LiteralHits, str, int]:
    """The hits of a project that is `covered` so far, how far it is then, and how many vectors were
    left out. Unless it `ranks`, only those that the query names or spells."""
    with repairing_corruption(workspace, project):
        literal = LiteralHits()
        literal_search = LiteralSearch(project, request.narrow, request.kinds, request.top_k, work)

        def rank() -> list[Hit]:
            nonlocal literal
            ranked: list[Hit] = []
            work.check()  # the caller may be gone by now
            if request.is_open:
                literal = literal_search.find(request.query, question)
            if ranks and not literal.is_final:
                ranked = rank_project(project, request, question, vectors, work)
            ranked = literal_search.lead(literal, ranked) if literal.hits else ranked
            return [hit for hit in ranked if fits_symbol(request.conditions, hit.names)]

        if request.of_views:
            refresh_views(workspace, project, work, again=True)
        ranked = read_views(workspace, project, work, rank) if request.of_views else rank()
        if ranks and not ranked and covered == AS_WATCHED:  # that nothing is there must be so
            covered = refresh(workspace, project, work, follow=request.project != ALL, look=True)
            if covered != AS_WATCHED:
                ranked = read_views(workspace, project, work, rank) if request.of_views else rank()
        left_out = count_damaged(project)
        if left_out and mend_vectors(workspace, project, work):
            ranked, left_out = rank(), count_damaged(project)
        best = ranked[:_CHECKED_HITS]
        states = {hit.path: hit.state for hit in best}
        # the files of a shared index never change: another commit is another project
        changed = set() if project.settings.name else find_stale_files(project, states)
        if changed and reindex_stale_files(workspace, project, changed, work):
            if request.of_views:
                refresh_views(workspace, project, work, again=True)
            ranked = rank()
            return replace(literal, hits=ranked), covered, left_out
        compared = [replace(hit, compared=hit.path not in changed) for hit in best]
        return replace(literal, hits=compared + ranked[_CHECKED_HITS:]), covered, left_out


def rank_project(
    project: Project, request: Request, question: Question, vectors: QueryVectors, work: Work
) -> list[Hit]:
    """The hits of a project as its index is; unordered where there are several kinds."""
    hits = []
    rank = MODES["hybrid" if request.mode == "auto" else request.mode]
    for kind in request.kinds:
        work.check()
        store = _open_searched(project, request, kind)
        where = request.narrow(store, kind)
        probe = None if request.mode == "lexical" else vectors.probe(store)
        deep = vectors.deep(store, kind, probe) if probe else None
        generation = store.generation()
        search = Search(store, where, request.top_k, probe, deep, of_views=request.of_views)
        with _take_turn(work):
            found_here = rank(search, question)
            if request.whole:
                found_here = fill_up(search, question, found_here)
        states = store.files({found.chunk.path for found in found_here})
        # the definitions of files whose hits are no definitions themselves
        plain = {found.chunk.path for found in found_here if found.definition is None}
        outlines = {} if request.of_views else store.symbols_of(plain)
        steady = store.generation() == generation
        for found in found_here:
            state, path = states.get(found.chunk.path), found.chunk.path
            if request.of_views:
                path = split_view(path)[1]
                state = state and replace(state, path=path)
            known, span = outlines.get(path), found.chunk.span
            around = known.touch(span.start_line, span.end_line) if known else ()
            hits.append(
                Hit(
                    project=project.key,
                    kind=kind,
                    path=path,
                    span=span,
                    text=found.chunk.text,
                    score=found.score,
                    score_type=found.score_type,
                    language=state.language if state else "",
                    symbol=found.chunk.symbol,
                    definition=found.definition,
                    symbols=() if found.definition else tuple(around),
                    why=found.why,
                    state=state if steady else None,
                )
            )
    return hits


@contextmanager
def _take_turn(work: Work) -> Iterator[None]:
    """Hold one of the few slots for rankings; `Cancelled` when the caller leaves the queue."""
    while not _RANKING_SLOTS.acquire(timeout=_CANCEL_POLL_S):
        work.check()
    try:
        yield
    finally:
        _RANKING_SLOTS.release()
