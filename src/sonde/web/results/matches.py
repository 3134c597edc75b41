"""The searches of the search page; passages, lines and paths are grouped by file."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from sonde.app import App
from sonde.everything import rate_files
from sonde.projects.find import readable_project
from sonde.projects.freshness import list_current_paths
from sonde.projects.lines import find_changed_hits, present_hit
from sonde.projects.literal import EXACT
from sonde.projects.pages import MatchPage, PageMode, PageRequest, PageView, open_match_page
from sonde.projects.search import open_search_page
from sonde.projects.update import repairing_corruption
from sonde.ranking.evidence import find_least_shown
from sonde.runtime.work import Work
from sonde.searching.filters import match_paths
from sonde.searching.query_language import QueryCondition, kind_of_file, parse_query
from sonde.searching.request import Request
from sonde.searching.search import QueryVectors
from sonde.text.highlight import find_query_words
from sonde.text.syntax_highlighting import highlight_code
from sonde.types import Hit, Kind
from sonde.web.pages.html import Markup, link_file
from sonde.web.results.facets import show_facets
from sonde.web.results.groups import (
    FileGroup,
    ResultPage,
    Row,
    SearchForm,
    describe_reasons,
    link_hit,
    number_rows,
    show_match,
)

_PAGE_FILES = 8
"""Files per page: a few screens, and fast enough to show while typing."""
_BEST = 40
"""Passages ranked of code, and of docs: more than anyone reads."""
_PATHS_PAGE_SIZE = 100  # paths are short: a few screens
_MAX_PATHS = 1000  # a glob that matches more is too wide to read through
_FIRST_CHARS = 600  # of the best match of a file: about twelve lines
_FURTHER_CHARS = 250  # of the others: about five, so that a screen shows several files
_MOST_MATCHES, _MOST_LINES = 6, 60  # of a file that are shown at all, folded or not
_NOTES_AT = 3  # files before the notes: what a query is about is more often code
_GLOB_CHARS = frozenset("*?[{")
_TAB_CONDITIONS: Mapping[str, tuple[QueryCondition, ...]] = {
    "code": (QueryCondition("kind", "code"), QueryCondition("kind", "config")),
    "docs": (QueryCondition("kind", "docs"),),
}


ShownHit = tuple[Hit, Markup]
"""A hit cut to what is shown of it, and that as markup."""


def find_hits(
    app: App, asked: SearchForm, work: Work, notes: Sequence[FileGroup] = ()
) -> ResultPage:
    """Passages, best first, or lines by path; grouped by file, with facets. Notes come early, and
    first if they are likelier to answer than any file."""
    began = time.perf_counter()
    query = parse_query(asked.query)
    is_lines = asked.tab == "lines"
    request = _make_request(asked)
    page = open_match_page(
        app.workspace, request, PageView(page_size=1), work, asked.cursor or None
    )
    hits: Sequence[Hit] = page.results.hits
    files = _group_files(hits)
    shown = files[page.offset : page.offset + _PAGE_FILES]
    most = _MOST_LINES if is_lines else _MOST_MATCHES
    taken = [hit for group in shown for hit in group[:most]]
    changed = find_changed_hits(app.workspace, taken, just_searched=not asked.cursor)
    find = find_query_words(query.text)

    def show_passage(hit: Hit, chars: int) -> ShownHit:
        """Cut to the lines that answer."""
        moved = (hit.project, hit.path) in changed
        assert page.question is not None
        shown = present_hit(app.workspace, page.question, hit, chars, moved=moved)
        rows = number_rows(shown, hit, find) if shown.text else []
        return shown, show_match(shown, rows, describe_reasons(shown))

    def show_line(hit: Hit, _chars: int) -> ShownHit:
        """With what of it matches."""
        shown = page.present(hit, _FIRST_CHARS)
        line, spans = shown.hit, shown.columns if not shown.is_clipped else ()
        tokens = highlight_code(line.text.removesuffix("\r"), line.language)[0]
        row = Row(line.start_line, tokens, spans)
        return line, show_match(line, [row])

    show = show_line if is_lines else show_passage
    several = len({hit.project for hit in hits}) > 1
    groups = [_make_group(group, show, most, name_project=several) for group in shown]
    after = page.offset + _PAGE_FILES
    more = app.workspace.results.cursor_at(page.results, after) if after < len(files) else None
    ranking = page.ranking
    if not hits:  # a word that no file holds: notes without it are no answer either
        notes = [note for note in notes if find(note.title) or find(note.excerpt)]
    best = _rate_best(app, page, hits) if notes and hits else 0.0
    at = 0 if notes and notes[0].score > best else _NOTES_AT
    notes = [note for note in notes if note.score >= min(find_least_shown(best), best)]
    return ResultPage(
        [*groups[:at], *notes, *groups[at:]], len(hits), len(files), {"cursor": more},
        ranking.note, ranking.freshness, round((time.perf_counter() - began) * 1000),
        "line" if is_lines else "match", ranking.is_capped,
        show_facets(asked, hits, len(notes)) if hits else None,
    )  # fmt: skip


def _rate_best(app: App, page: MatchPage, hits: Sequence[Hit]) -> float:
    """How likely the best file answers, on the scale of all sources."""
    assert page.question is not None
    vectors = QueryVectors(page.question, app.workspace.static, app.workspace.deep)
    kinds = {hit.kind for hit in hits}
    found = (
        rate_files(app, kind, vectors, [hit for hit in hits if hit.kind == kind]) for kind in kinds
    )
    return max(ranking[0].score for ranking in found)


def find_similar(app: App, asked: SearchForm, work: Work) -> ResultPage:
    """What is similar to a place or a passage, most similar first."""
    began, workspace = time.perf_counter(), app.workspace
    kinds: tuple[Kind, ...] = ("code", "docs")
    request = Request(
        "find_related", asked.query, kinds, _PAGE_FILES, "related", asked.project or None
    )
    page = open_search_page(workspace, request, work)

    def show(hit: Hit, chars: int) -> ShownHit:
        shown = page.present(workspace, hit, chars)
        return shown, show_match(shown, number_rows(shown, hit, lambda _line: []))

    files = _split_by_file(page.hits)
    groups = [
        _make_group(group, show, _MOST_MATCHES, name_project=page.spans_projects) for group in files
    ]
    took = round((time.perf_counter() - began) * 1000)
    return ResultPage(
        groups, page.total, len(files), note=page.note, freshness=page.freshness, milliseconds=took
    )


def _split_by_file(hits: Iterable[Hit]) -> list[list[Hit]]:
    files: dict[tuple[str, str], list[Hit]] = {}
    for hit in hits:
        files.setdefault((hit.project, hit.path), []).append(hit)
    return list(files.values())


def _group_files(hits: Iterable[Hit]) -> list[list[Hit]]:
    """The hits by file, best first. Scores of code and docs are not comparable, so the kind that
    leads gets two files for each file of the other."""
    groups = _split_by_file(hits)
    counted = Counter[str]()

    def place(group: list[Hit]) -> float:
        kind, is_exact = group[0].kind, group[0].score_type in (EXACT, "regex")
        counted[kind] += not is_exact
        at = counted[kind]
        return 0 if is_exact else at if kind == groups[0][0].kind else 2 * at - 0.5

    return sorted(groups, key=place)


def _make_request(asked: SearchForm) -> PageRequest:
    """The search request of a form; a cursor carries its own."""
    mode: PageMode = "regex" if asked.tab == "lines" else asked.mode
    if asked.cursor:
        return PageRequest(mode)
    text, conditions = asked.query, _TAB_CONDITIONS.get(asked.tab, ())
    if mode == "regex":
        query = parse_query(asked.query, named_only=True)
        text, conditions = query.words, query.conditions
    return PageRequest(
        mode, text, project=asked.project or None, conditions=conditions or None,
        top_k=None if mode == "regex" else _BEST, of_each_kind=mode != "regex" or None,
    )  # fmt: skip


def _make_group(
    hits: Sequence[Hit], show: Callable[[Hit, int], ShownHit], most: int, *, name_project: bool
) -> FileGroup:
    first = hits[0]
    matches = [
        show(hit, _FURTHER_CHARS if at else _FIRST_CHARS) for at, hit in enumerate(hits[:most])
    ]
    return FileGroup(
        first.path, link_hit(matches[0][0]), kind_of_file(first.path, first.kind),
        first.project if name_project else "", first.language, len(hits),
        [match for _, match in matches],
    )  # fmt: skip


def find_paths(app: App, asked: SearchForm, _work: Work) -> ResultPage:
    """Files by a part of their path, or a glob."""
    query = asked.query
    pattern = query if _GLOB_CHARS & set(query) else f"**/*{query}*"
    limit = min(asked.offset + _PATHS_PAGE_SIZE, _MAX_PATHS)
    project = readable_project(app.workspace, asked.project or None)
    with repairing_corruption(app.workspace, project):
        matches = match_paths(pattern, list_current_paths(project))
    groups = [
        FileGroup(path, link_file(asked.project, path), kind_of_file(path, "code"))
        for path in matches[asked.offset : limit]
    ]
    total = len(matches)
    more = {"offset": limit if limit < min(total, _MAX_PATHS) else None}
    return ResultPage(groups, total, more=more, noun="file")
