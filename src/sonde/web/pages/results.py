"""What the search page finds: each tab's verb, its answer brought into one form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sonde.app import App
from sonde.everything import EVERYWHERE, KINDS
from sonde.ranking.question import STOP_WORDS, read_question
from sonde.runtime.work import Work
from sonde.text.words import find_words
from sonde.tools.code import search_by_path, search_code, search_docs
from sonde.tools.pages import hybrid_search, lexical_search, regex_search, semantic_search
from sonde.tools.research import search
from sonde.web.pages.html import Markup, join, link_file, link_to, tag

PAGE_SIZE = 20
MOST_PATHS = 1000
_SNIPPET = 450
_TOKENS = 6_000
_GLOB = frozenset("*?[{")
_KNOWLEDGE = tuple(source for source in EVERYWHERE if source not in KINDS)


Mode = Literal["hybrid", "lexical", "semantic"]


@dataclass(frozen=True)
class SearchForm:
    """What the form holds."""

    query: str = ""
    tab: str = "all"
    project: str = ""
    mode: Mode = "hybrid"
    path: str = ""
    language: str = ""
    cursor: str = ""
    offset: int = 0

    def link(self, **changes: Any) -> str:
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


@dataclass(frozen=True)
class Row:
    """One result."""

    title: str
    href: str
    text: str = ""
    first: int = 0
    """The number of the first line of `text`, 0 where it has no lines of a file."""
    lines: str = ""
    badges: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] | None = None
    """Characters of `text` that match, where that is known exactly."""
    stale: bool = False


@dataclass(frozen=True)
class PageResults:
    """A page of results."""

    rows: list[Row]
    total: int
    more: Mapping[str, Any] | None = None
    """What the address of the next page says differently."""
    note: str = ""
    freshness: str = ""
    milliseconds: int | None = None
    about: tuple[str, str] = field(default=("result", "results"))


def find(app: App, asked: SearchForm, work: Work) -> PageResults:
    """The page of results that is asked for."""
    return TABS[asked.tab][1](app, asked, work)


def _find_pages(app: App, asked: SearchForm, work: Work) -> PageResults:
    verb = {"semantic": semantic_search, "lexical": lexical_search}.get(asked.mode, hybrid_search)
    answer = verb(
        app,
        **({"cursor": asked.cursor} if asked.cursor else _narrow(asked)),
        query=asked.query,
        page_size=PAGE_SIZE,
        snippet_length=_SNIPPET,
        work=work,
    )
    return _read_pages(answer, asked)


def _find_lines(app: App, asked: SearchForm, work: Work) -> PageResults:
    answer = regex_search(
        app,
        **({"cursor": asked.cursor} if asked.cursor else _narrow(asked)),
        pattern=asked.query,
        page_size=PAGE_SIZE * 2,
        snippet_length=_SNIPPET,
        work=work,
    )
    return _read_pages(answer, asked)


def _narrow(asked: SearchForm) -> dict[str, Any]:
    fields = {"project": asked.project, "path": asked.path, "language": asked.language}
    return {name: value for name, value in fields.items() if value}


def _read_pages(answer: Mapping[str, Any], asked: SearchForm) -> PageResults:
    rows = []
    for each in answer["results"]["matches"]:
        file, match = each["file"], each["match"]
        first, last = match["span"]["line_start"], match["span"]["line_end"]
        text = match.get("content", "")
        spans = None
        if "columns" in match and len(text) < _SNIPPET:
            spans = tuple((start, end) for start, end in match["columns"])
        where = file.get("project") or asked.project
        rows.append(
            _make_row(
                where,
                file["path"],
                text,
                first,
                last,
                badges=(file["language"],),
                spans=spans,
                stale=match.get("stale", False),
            )
        )
    cursor = answer["pagination"]["next_cursor"]
    facts = answer["metadata"]
    return PageResults(
        rows,
        answer["results"]["total_count"],
        {"cursor": cursor} if cursor else None,
        facts.get("note", ""),
        facts.get("freshness", ""),
        facts["search_time_ms"],
        ("line", "lines") if asked.tab == "lines" else ("result", "results"),
    )


def _find_ranked(app: App, asked: SearchForm, work: Work) -> PageResults:
    verb = search_docs if asked.tab == "docs" else search_code
    where = {"project": asked.project or None, "path": asked.path or None}
    answer = verb(
        app,
        query=asked.query,
        top_k=50,
        mode=asked.mode,
        max_tokens=_TOKENS,
        **({"cursor": asked.cursor} if asked.cursor else where),
        work=work,
    )
    rows = [
        _make_row(
            each.get("project") or asked.project,
            each["path"],
            each["text"],
            each["startLine"],
            each["endLine"],
            badges=tuple(filter(None, (each.get("symbol"),))),
            stale=each.get("stale", False),
        )
        for each in answer["results"]
    ]
    cursor = answer.get("nextCursor")
    facts = answer["metadata"]
    return PageResults(
        rows,
        answer["totalResults"],
        {"cursor": cursor} if cursor else None,
        facts.get("note", ""),
        facts.get("freshness", ""),
        answer["searchTimeMs"],
    )


def _make_row(
    project: str,
    path: str,
    text: str,
    first: int,
    last: int,
    *,
    badges: tuple[str, ...] = (),
    spans: tuple[tuple[int, int], ...] | None = None,
    stale: bool = False,
) -> Row:
    whole = text.count("\n") == last - first
    return Row(
        path,
        link_file(project, path, first, last),
        text,
        first if whole else 0,
        f"{first}" if first == last else f"{first}–{last}",
        badges,
        spans,
        stale,
    )


def _find_paths(app: App, asked: SearchForm, work: Work) -> PageResults:
    pattern = asked.query if _GLOB & set(asked.query) else f"**/*{asked.query}*"
    limit = min(asked.offset + PAGE_SIZE * 5, MOST_PATHS)
    answer = search_by_path(app, pattern, limit, asked.project or None, work=work)
    rows = [Row(path, link_file(asked.project, path)) for path in answer["matches"][asked.offset :]]
    total = answer["totalMatches"]
    more = {"offset": limit} if limit < min(total, MOST_PATHS) else None
    return PageResults(rows, total, more, about=("file", "files"))


def _find_knowledge(app: App, asked: SearchForm, work: Work) -> PageResults:
    answer = search(
        app, asked.query, PAGE_SIZE, asked.offset, _KNOWLEDGE, dedupe=False,
        max_tokens=_TOKENS * 2, work=work,
    )  # fmt: skip
    rows = [
        Row(
            each["title"] or each["uri"],
            link_to("/entry", uri=each["uri"]),
            each["snippet"] or "",
            badges=(each["source"],),
        )
        for each in answer["results"]
    ]
    after = answer["next_offset"]
    more = {"offset": after} if after is not None else None
    return PageResults(rows, answer["total_estimated"] or len(rows), more)


TABS: dict[str, tuple[str, Callable[[App, SearchForm, Work], PageResults], frozenset[str]]] = {
    "all": ("Everything", _find_pages, frozenset({"project", "mode", "path", "language"})),
    "code": ("Code", _find_ranked, frozenset({"project", "mode", "path"})),
    "docs": ("Docs", _find_ranked, frozenset({"project", "mode", "path"})),
    "lines": ("Lines", _find_lines, frozenset({"project", "path", "language"})),
    "paths": ("Paths", _find_paths, frozenset({"project"})),
    "knowledge": ("Knowledge", _find_knowledge, frozenset()),
}
"""Each tab: its name, what finds, and the fields of the form that it takes."""


_LONGEST = 2_000
_SHORT = 3


def make_pattern(query: str) -> re.Pattern[str] | None:
    """Matches what a question asks for: its words as written, and their stems."""
    query = query[:_LONGEST]
    words = {word for word in find_words(query) if word.lower() not in STOP_WORDS}
    words |= set(read_question(query).words) | set(read_question(query).spelled)
    if not words:
        return None
    ordered = sorted(words, key=lambda word: (-len(word), word))
    parts = [
        re.escape(word) if len(word) > _SHORT else rf"(?<![^\W_]){re.escape(word)}(?![^\W_])"
        for word in ordered
    ]
    return re.compile("|".join(parts), re.IGNORECASE)


def mark_words(text: str, pattern: re.Pattern[str] | None) -> Markup:
    """The text with every match marked."""
    if pattern is None:
        return join([text])
    return mark_spans(text, (match.span() for match in pattern.finditer(text)))


def mark_spans(text: str, spans: Iterable[tuple[int, int]]) -> Markup:
    """The text with these characters marked."""
    parts: list[str] = []
    at = 0
    for start, end in spans:
        if start < at or end <= start or end > len(text):
            continue
        parts += [text[at:start], tag("mark", text[start:end])]
        at = end
    return join([*parts, text[at:]])
