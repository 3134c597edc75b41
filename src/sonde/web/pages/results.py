"""The results of the search page: each tab's verb, its answer read into one form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sonde.app import App
from sonde.everything import EVERYWHERE, KINDS
from sonde.runtime.work import Work
from sonde.text.highlight import Finder, TextSpan, join_parts
from sonde.tools.code import search_by_path, search_code, search_docs
from sonde.tools.pages import hybrid_search, lexical_search, regex_search, semantic_search
from sonde.tools.research import search
from sonde.web.pages.html import Markup, join, link_file, link_to, tag

if TYPE_CHECKING:
    from sonde.tools.pages import PageAnswer

PAGE_SIZE = 20
"""Results of a page: a few screens, and quick enough to show while one types."""
_LINES_PAGE_SIZE = 2 * PAGE_SIZE
_PATHS_PAGE_SIZE = 5 * PAGE_SIZE
MAX_PATHS = 1000
"""A glob that matches more is too wide to read through."""
_RANKED_RESULTS = 50
_SNIPPET_CHARS = 450
_ANSWER_TOKENS = 6_000
"""Enough for a page of snippets of code."""
_GLOB_CHARS = frozenset("*?[{")
_KNOWLEDGE = tuple(source for source in EVERYWHERE if source not in KINDS)

Mode = Literal["hybrid", "lexical", "semantic"]


@dataclass(frozen=True, slots=True)
class SearchForm:
    """The fields of the search form."""

    query: str = ""
    tab: str = "all"
    project: str = ""
    mode: Mode = "hybrid"
    path: str = ""
    language: str = ""
    cursor: str = ""
    offset: int = 0

    @property
    def scope(self) -> SearchForm:
        """The form with the filters to send: none with a cursor, which carries its own."""
        return SearchForm() if self.cursor else self

    def link(self, **changes: str | int) -> str:
        """The address of the same search with some fields changed."""
        kept = {
            "q": self.query,
            "tab": self.tab if self.tab != "all" else "",
            "project": self.project,
            "mode": self.mode if self.mode != "hybrid" else "",
            "path": self.path,
            "language": self.language,
        }
        return link_to("/", **{**kept, **changes})


@dataclass(frozen=True, slots=True)
class ResultItem:
    """One result."""

    title: str
    href: str
    text: str = ""
    first: int = 0
    """The number of the first line of `text`; 0 if it is not whole lines of a file."""
    lines: str = ""
    badges: tuple[str, ...] = ()
    spans: tuple[TextSpan, ...] | None = None
    """The matches in `text`, if they are known exactly."""
    stale: bool = False


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A page of results."""

    rows: list[ResultItem]
    total: int
    more: Mapping[str, str | int] | None = None
    """The fields in which the address of the next page differs."""
    note: str = ""
    freshness: str = ""
    milliseconds: int | None = None
    noun: str = "result"


def _find_pages(app: App, asked: SearchForm, work: Work) -> ResultPage:
    verb = {"semantic": semantic_search, "lexical": lexical_search}.get(asked.mode, hybrid_search)
    scope = asked.scope
    answer = verb(
        app, query=asked.query, project=scope.project or None, path=scope.path or None,
        language=scope.language or None, cursor=asked.cursor or None, page_size=PAGE_SIZE,
        snippet_length=_SNIPPET_CHARS, work=work,
    )  # fmt: skip
    return _read_pages(answer, asked)


def _find_lines(app: App, asked: SearchForm, work: Work) -> ResultPage:
    scope = asked.scope
    answer = regex_search(
        app, pattern=asked.query, project=scope.project or None, path=scope.path or None,
        language=scope.language or None, cursor=asked.cursor or None, page_size=_LINES_PAGE_SIZE,
        snippet_length=_SNIPPET_CHARS, work=work,
    )  # fmt: skip
    return _read_pages(answer, asked)


def _read_pages(answer: PageAnswer, asked: SearchForm) -> ResultPage:
    rows = []
    for each in answer["results"]["matches"]:
        file, match = each["file"], each["match"]
        first, last = match["span"]["line_start"], match["span"]["line_end"]
        text = match.get("content", "")
        spans = None
        if "columns" in match and len(text) < _SNIPPET_CHARS:
            spans = tuple((start, end) for start, end in match["columns"])
        where = file.get("project") or asked.project
        rows.append(_make_item(
            where, file["path"], text, first, last,
            badges=(file["language"],), spans=spans, stale=match.get("stale", False),
        ))  # fmt: skip
    cursor = answer["pagination"]["next_cursor"]
    facts = answer["metadata"]
    return ResultPage(
        rows,
        answer["results"]["total_count"],
        {"cursor": cursor} if cursor else None,
        facts.get("note", ""),
        facts.get("freshness", ""),
        facts["search_time_ms"],
        "line" if asked.tab == "lines" else "result",
    )


def _find_ranked(app: App, asked: SearchForm, work: Work) -> ResultPage:
    verb = search_docs if asked.tab == "docs" else search_code
    scope = asked.scope
    answer = verb(
        app, query=asked.query, top_k=_RANKED_RESULTS, mode=asked.mode,
        project=scope.project or None, path=scope.path or None, cursor=asked.cursor or None,
        max_tokens=_ANSWER_TOKENS, work=work,
    )  # fmt: skip
    rows = [
        _make_item(
            each.get("project") or asked.project, each["path"], each["text"],
            each["startLine"], each["endLine"],
            badges=tuple(filter(None, (each.get("symbol"),))), stale=each.get("stale", False),
        )
        for each in answer["results"]
    ]  # fmt: skip
    cursor = answer.get("nextCursor")
    facts = answer["metadata"]
    return ResultPage(
        rows,
        answer["totalResults"],
        {"cursor": cursor} if cursor else None,
        facts.get("note", ""),
        facts.get("freshness", ""),
        answer["searchTimeMs"],
    )


def _make_item(
    project: str,
    path: str,
    text: str,
    first: int,
    last: int,
    *,
    badges: tuple[str, ...] = (),
    spans: tuple[TextSpan, ...] | None = None,
    stale: bool = False,
) -> ResultItem:
    whole = text.count("\n") == last - first
    lines = f"{first}" if first == last else f"{first}–{last}"
    href = link_file(project, path, first, last)
    return ResultItem(path, href, text, first if whole else 0, lines, badges, spans, stale)


def _find_paths(app: App, asked: SearchForm, work: Work) -> ResultPage:
    pattern = asked.query if _GLOB_CHARS & set(asked.query) else f"**/*{asked.query}*"
    limit = min(asked.offset + _PATHS_PAGE_SIZE, MAX_PATHS)
    answer = search_by_path(app, pattern, limit, asked.project or None, work=work)
    rows = [
        ResultItem(path, link_file(asked.project, path))
        for path in answer["matches"][asked.offset :]
    ]
    total = answer["totalMatches"]
    more = {"offset": limit} if limit < min(total, MAX_PATHS) else None
    return ResultPage(rows, total, more, noun="file")


def _find_knowledge(app: App, asked: SearchForm, work: Work) -> ResultPage:
    answer = search(
        app, asked.query, PAGE_SIZE, asked.offset, _KNOWLEDGE, dedupe=False,
        max_tokens=_ANSWER_TOKENS * 2, work=work,
    )  # fmt: skip
    rows = [
        ResultItem(each["title"] or each["uri"], link_to("/entry", uri=each["uri"]),
                   each["snippet"] or "", badges=(each["source"],))
        for each in answer["results"]
    ]  # fmt: skip
    after = answer["next_offset"]
    more = {"offset": after} if after is not None else None
    return ResultPage(rows, answer["total_estimated"] or len(rows), more)


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab of the search page."""

    name: str
    find: Callable[[App, SearchForm, Work], ResultPage]
    fields: frozenset[str] = frozenset()
    """The filters of the form that it takes."""
    placeholder: str = ""


TABS: Mapping[str, Tab] = {
    "all": Tab("Everything", _find_pages, frozenset({"project", "mode", "path", "language"}),
               "Ask a question, or name a thing"),
    "code": Tab("Code", _find_ranked, frozenset({"project", "mode", "path"}),
                "A question about the code, or a symbol"),
    "docs": Tab("Docs", _find_ranked, frozenset({"project", "mode", "path"}),
                "A question to the documentation"),
    "lines": Tab("Lines", _find_lines, frozenset({"project", "path", "language"}),
                 "A regular expression, such as TODO|FIXME"),
    "paths": Tab("Paths", _find_paths, frozenset({"project"}),
                 "A part of a path, or a glob such as src/**/*.py"),
    "knowledge": Tab("Knowledge", _find_knowledge, placeholder="Notes, documents, chats"),
}  # fmt: skip


def mark_words(text: str, find: Finder) -> Markup:
    """The text with everything marked that the finder finds."""
    return mark_spans(text, join_parts(text, find(text)))


def mark_spans(text: str, spans: Iterable[TextSpan]) -> Markup:
    """The text with these characters marked; spans that overlap an earlier one are skipped."""
    parts: list[str] = []
    at = 0
    for start, end in spans:
        if start < at or end <= start or end > len(text):
            continue
        parts += [text[at:start], tag("mark", text[start:end])]
        at = end
    return join([*parts, text[at:]])
