"""The searches of the search page: passages, lines, paths and entries as groups by file."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sonde.app import App
from sonde.everything import EVERYWHERE, KINDS
from sonde.projects.lines import find_changed_hits, present_hit
from sonde.projects.literal import EXACT
from sonde.projects.pages import MatchPage, PageMode, PageRequest, PageView, open_match_page
from sonde.runtime.work import Work
from sonde.searching.query_language import Condition, kind_of_file, parse_query
from sonde.text.highlight import Finder, find_query_words
from sonde.text.syntax_highlighting import highlight_code
from sonde.tools.code import search_by_path
from sonde.tools.research import search
from sonde.types import Hit
from sonde.web.pages.html import link_file, link_to
from sonde.web.results.facets import show_facets
from sonde.web.results.groups import (
    FileGroup,
    Match,
    ResultPage,
    Row,
    SearchForm,
    describe_reasons,
    link_hit,
    number_rows,
)

_PAGE_FILES = 12
"""Files of a page: a few screens, and quick enough to show while one types."""
_BEST = 40
"""Passages of code, and of docs, that are ranked: more than anybody reads."""
_PAGE_SIZE = 20  # entries of a page
_PATHS_PAGE_SIZE = 100
_MAX_PATHS = 1000  # a glob that matches more is too wide to read through
_SNIPPET_CHARS = 600  # of each match: about twelve lines
_MOST_MATCHES, _MOST_LINES = 10, 60  # of a file that are shown at all, folded or not
_NOTES = 3  # entries of personal knowledge beside files
_ANSWER_TOKENS = 12_000  # enough for a page of excerpts
_GLOB_CHARS = frozenset("*?[{")
_KNOWLEDGE = tuple(source for source in EVERYWHERE if source not in KINDS)
_TAB_CONDITIONS: Mapping[str, tuple[Condition, ...]] = {
    "code": (Condition("kind", "code"), Condition("kind", "config")),
    "docs": (Condition("kind", "docs"),),
}


def find_matches(app: App, asked: SearchForm, work: Work) -> ResultPage:
    """Passages, best first, or lines by path; by file, with facets."""
    began = time.perf_counter()
    query = parse_query(asked.query)
    wanted = [one.value for one in query.conditions if one.field == "kind" and not one.negated]
    if wanted == ["notes"] and asked.tab == "all":
        return find_knowledge(app, asked, work)
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
    show = (
        _LineView(page)
        if is_lines
        else _PassageView(app, page, changed, find_query_words(query.text))
    )
    several = len({hit.project for hit in hits}) > 1
    groups = [_make_group(group, show, most, name_project=several) for group in shown]
    notes: Sequence[FileGroup] = ()
    if asked.tab == "all" and not asked.cursor and not query.conditions:
        notes = find_knowledge(app, asked, work, limit=_NOTES).groups
    after = page.offset + _PAGE_FILES
    more = app.workspace.results.cursor_at(page.results, after) if after < len(files) else None
    ranking = page.ranking
    return ResultPage(
        [*groups[:_NOTES], *notes, *groups[_NOTES:]], len(hits), len(files), {"cursor": more},
        ranking.note, ranking.freshness, round((time.perf_counter() - began) * 1000),
        "line" if is_lines else "match", ranking.is_capped,
        show_facets(asked, hits, len(notes)) if hits else None,
    )  # fmt: skip


def _group_files(hits: Iterable[Hit]) -> list[list[Hit]]:
    """The hits by file, best first. Scores of code and docs are no measure of each other, so the
    files of the kind that leads come first, two for each of the other."""
    files: dict[tuple[str, str], list[Hit]] = {}
    for hit in hits:
        files.setdefault((hit.project, hit.path), []).append(hit)
    groups = list(files.values())
    counted = Counter[str]()

    def place(group: list[Hit]) -> float:
        kind, is_exact = group[0].kind, group[0].score_type in (EXACT, "regex")
        counted[kind] += not is_exact
        at = counted[kind]
        return 0 if is_exact else at if kind == groups[0][0].kind else 2 * at - 0.5

    return sorted(groups, key=place)


def _make_request(asked: SearchForm) -> PageRequest:
    """The search of a form; a cursor carries its own."""
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


@dataclass(frozen=True, slots=True)
class _PassageView:
    """Presents passages, cut to the lines that answer."""

    app: App
    page: MatchPage
    changed: Collection[tuple[str, str]]
    find: Finder

    def __call__(self, hit: Hit) -> Match:
        moved = (hit.project, hit.path) in self.changed
        question = self.page.question
        assert question is not None
        shown = present_hit(self.app.workspace, question, hit, _SNIPPET_CHARS, moved=moved)
        rows = number_rows(shown, hit, self.find) if shown.text else []
        return Match(rows, link_hit(shown), shown.symbol, describe_reasons(shown), shown.stale)


@dataclass(frozen=True, slots=True)
class _LineView:
    """Presents lines, with what of each matches."""

    page: MatchPage

    def __call__(self, hit: Hit) -> Match:
        shown = self.page.present(hit, _SNIPPET_CHARS)
        line, spans = shown.hit, shown.columns if not shown.is_clipped else ()
        tokens = highlight_code(line.text.removesuffix("\r"), line.language)[0]
        return Match([Row(line.start_line, tokens, spans)], link_hit(line), stale=line.stale)


def _make_group(
    hits: Sequence[Hit], show: Callable[[Hit], Match], most: int, *, name_project: bool
) -> FileGroup:
    first = hits[0]
    matches = [show(hit) for hit in hits[:most]]
    return FileGroup(
        first.path, matches[0].href, kind_of_file(first.path, first.kind),
        first.project if name_project else "", first.language, len(hits), matches,
    )  # fmt: skip


def find_paths(app: App, asked: SearchForm, work: Work) -> ResultPage:
    """Files by a part of their path, or a glob."""
    query = asked.query
    pattern = query if _GLOB_CHARS & set(query) else f"**/*{query}*"
    limit = min(asked.offset + _PATHS_PAGE_SIZE, _MAX_PATHS)
    answer = search_by_path(app, pattern, limit, asked.project or None, work=work)
    groups = [
        FileGroup(path, link_file(asked.project, path), kind_of_file(path, "code"))
        for path in answer["matches"][asked.offset :]
    ]
    total = answer["totalMatches"]
    more = {"offset": limit if limit < min(total, _MAX_PATHS) else None}
    return ResultPage(groups, total, more=more, noun="file")


def find_knowledge(
    app: App, asked: SearchForm, work: Work, *, limit: int = _PAGE_SIZE
) -> ResultPage:
    """Entries of personal knowledge."""
    answer = search(
        app, parse_query(asked.query).text, limit, asked.offset, _KNOWLEDGE, dedupe=False,
        max_tokens=_ANSWER_TOKENS, work=work,
    )  # fmt: skip
    groups = [
        FileGroup(each["title"] or each["uri"], link_to("/entry", uri=each["uri"]), "notes",
                  language=each["source"], excerpt=each["snippet"] or "")
        for each in answer["results"]
    ]  # fmt: skip
    total = answer["total_estimated"] or len(groups)
    return ResultPage(groups, total, more={"offset": answer["next_offset"]}, noun="result")
