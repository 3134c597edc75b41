"""The search page: a box, tabs, filters, and the verb of each tab with its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from sonde.app import App
from sonde.errors import SondeError
from sonde.everything import EVERYWHERE, KINDS
from sonde.projects.find import ALL, find_project
from sonde.runtime.work import Work
from sonde.text.highlight import Finder, TextSpan, find_query_words
from sonde.tools.code import search_by_path, search_code, search_docs
from sonde.tools.index import list_projects
from sonde.tools.pages import hybrid_search, lexical_search, regex_search, semantic_search
from sonde.tools.research import search
from sonde.tools.route import Content
from sonde.tools.schema import Param
from sonde.web.pages.home import show_home
from sonde.web.pages.html import Markup, frame, link_file, link_to, show_error, show_note, tag
from sonde.web.pages.results import Mode, ResultItem, ResultPage, SearchForm, show_results

if TYPE_CHECKING:
    from sonde.tools.pages import PageAnswer

_PAGE_SIZE = 20  # results of a page: a few screens, and quick enough to show while one types
_LINES_PAGE_SIZE = 2 * _PAGE_SIZE
_PATHS_PAGE_SIZE = 5 * _PAGE_SIZE
_MAX_PATHS = 1000  # a glob that matches more is too wide to read through
_RANKED_RESULTS = 50  # ranked at once; _ANSWER_TOKENS cuts them into pages
_SNIPPET_CHARS = 450  # of each result: several fit on a screen
_ANSWER_TOKENS = 6_000  # enough for a page of snippets of code
_GLOB_CHARS = frozenset("*?[{")
_KNOWLEDGE = tuple(source for source in EVERYWHERE if source not in KINDS)

_VERBS: Mapping[Mode, Callable[..., PageAnswer]] = {
    "hybrid": hybrid_search,
    "lexical": lexical_search,
    "semantic": semantic_search,
}
_MODES = {"hybrid": "Best of all", "lexical": "Words", "semantic": "Meaning"}

Text = Annotated[str, Param("As in the form", max_length=4096)]
TabName = Literal["all", "code", "docs", "lines", "paths", "knowledge"]


def show_search(
    app: App,
    q: Annotated[str, Param("What to look for", max_length=20_000)] = "",
    tab: Annotated[TabName, Param("Where")] = "all",
    project: Text = "",
    mode: Annotated[Mode, Param("How")] = "hybrid",
    path: Text = "",
    language: Text = "",
    cursor: Text = "",
    offset: Annotated[int, Param("Results before", minimum=0, maximum=1_000_000)] = 0,
    part: Annotated[Literal["results"] | None, Param("Only the results")] = None,
    *,
    work: Work,
) -> Content:
    """The form, and the results if there is a query."""
    known = [row["projectPath"] for row in list_projects(app, work=work)["projects"]]
    if tab == "paths" and project == ALL:
        project = ""  # a glob is matched within one project
    asked = SearchForm(
        q.strip(), tab, project or _choose_project(app, known), mode,
        path, language, cursor, offset,
    )  # fmt: skip
    if part == "results":
        return Content(_show_results(app, asked, work, known), "text/html")
    return frame(
        asked.query,
        "/",
        tag("h1", "Search", class_="hidden"),
        _show_form(asked, known),
        tag("div", _show_results(app, asked, work, known), id="results", aria_live="polite"),
        kind="search",
    )


def _choose_project(app: App, known: Sequence[str]) -> str:
    """The project in which the server was started, else the first."""
    try:
        here = str(find_project(app.workspace).root)
    except SondeError:
        here = ""
    return here if here in known else next(iter(known), here)


def _show_form(asked: SearchForm, known: Sequence[str]) -> Markup:
    fields = _TABS[asked.tab].fields
    tabs = [
        tag("a", tab.name, href=asked.link(tab=key if key != "all" else ""), data_tab=key,
            aria_current="true" if key == asked.tab else None)
        for key, tab in _TABS.items()
    ]  # fmt: skip
    roots = (
        known if not asked.project or asked.project in (*known, ALL) else (asked.project, *known)
    )
    several = [(ALL, "All projects")] if len(known) > 1 and asked.tab != "paths" else []
    places = [*((root, _name_root(root, roots)) for root in roots), *several]
    return tag(
        "form",
        tag("div",
            tag("label", "Search", for_="q", class_="hidden"),
            tag("input", type="search", name="q", id="q", value=asked.query, maxlength=20_000,
                placeholder=_TABS[asked.tab].placeholder, autocomplete="off", autocapitalize="none",
                spellcheck="false", autofocus=not asked.query, enterkeyhint="search"),
            tag("kbd", "/", aria_hidden="true"),
            tag("button", "Search"),
            class_="box"),
        tag("nav", tabs, class_="tabs", aria_label="Where to search"),
        tag("input", type="hidden", name="tab", value=asked.tab) if asked.tab != "all" else None,
        tag("div",
            _choose("project", "Project", places, asked.project) if "project" in fields else None,
            _choose("mode", "By", list(_MODES.items()), asked.mode) if "mode" in fields else None,
            _fill("path", "Folder", "src/", asked.path) if "path" in fields else None,
            _fill("language", "Language", "python", asked.language)
            if "language" in fields else None,
            class_="filters") if fields else None,
        action="/", role="search", id="search",
    )  # fmt: skip


def _name_root(root: str, roots: Sequence[str]) -> str:
    """The shortest end of a root that no other root ends with."""
    parts = root.strip("/").split("/")
    for size in range(1, len(parts)):
        name = "/".join(parts[-size:])
        if sum(other.endswith(f"/{name}") for other in roots) == 1:
            return name
    return root


def _choose(name: str, label: str, choices: Sequence[tuple[str, str]], chosen: str) -> Markup:
    options = [
        tag("option", text, value=value, selected=value == chosen) for value, text in choices
    ]
    return tag("label", tag("span", label), tag("select", options, name=name))


def _fill(name: str, label: str, example: str, value: str) -> Markup:
    given = tag("input", name=name, value=value, placeholder=example, size=10, autocomplete="off",
                autocapitalize="none", spellcheck="false")  # fmt: skip
    return tag("label", tag("span", label), given)


def _show_results(app: App, asked: SearchForm, work: Work, known: Sequence[str]) -> Markup:
    if not asked.query and not asked.cursor:
        return show_home(app, known, work)
    if not known and asked.tab not in ("knowledge", "lines"):
        return show_home(app, known, work)
    try:
        found = _TABS[asked.tab].find(app, asked, work)
    except SondeError as error:
        # inside the page, so that the query can be corrected
        return show_error(error)
    if not found.rows:
        reason = found.note or "Nothing here fits what you asked for."
        hint = "Notes, documents and chats come in with sonde knowledge import FOLDER."
        more = tag("p", hint) if asked.tab == "knowledge" else None
        return show_note("Nothing found", tag("p", reason), more)
    return show_results(asked, found, _choose_highlight(asked))


def _choose_highlight(asked: SearchForm) -> Finder:
    """What is marked in titles and texts whose matches are not known exactly."""
    if asked.tab == "lines":
        return lambda _text: []
    if asked.tab == "paths":
        words = [re.escape(word) for word in re.split(r"[*?\[\]{},/]+", asked.query) if word]
        pattern = re.compile("|".join(words) or "(?!)", re.IGNORECASE)
        return lambda text: [match.span() for match in pattern.finditer(text)]
    return find_query_words(asked.query)


def _find_pages(app: App, asked: SearchForm, work: Work) -> ResultPage:
    verb: Callable[..., PageAnswer] = partial(_VERBS[asked.mode], query=asked.query)
    size, noun = _PAGE_SIZE, "result"
    if asked.tab == "lines":
        verb, size, noun = partial(regex_search, pattern=asked.query), _LINES_PAGE_SIZE, "line"
    scope = asked.scope
    answer = verb(
        app, project=scope.project or None, path=scope.path or None,
        language=scope.language or None, cursor=asked.cursor or None, page_size=size,
        snippet_length=_SNIPPET_CHARS, work=work,
    )  # fmt: skip
    rows = []
    for each in answer["results"]["matches"]:
        file, match = each["file"], each["match"]
        text = match.get("content", "")
        spans = None
        if "columns" in match and len(text) < _SNIPPET_CHARS:
            spans = tuple((start, end) for start, end in match["columns"])
        rows.append(_make_item(
            file.get("project") or asked.project, file["path"], text,
            *match.get("content_lines", (match["span"]["line_start"], match["span"]["line_end"])),
            badges=(file["language"],), spans=spans, stale=match.get("stale", False),
        ))  # fmt: skip
    facts, more = answer["metadata"], {"cursor": answer["pagination"]["next_cursor"]}
    total = answer["results"]
    return ResultPage(
        rows, total["total_count"] or total.get("capped_at", 0), more, facts.get("note", ""),
        facts.get("freshness", ""), facts["search_time_ms"], noun, "capped_at" in total,
    )  # fmt: skip


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
    facts, more = answer["metadata"], {"cursor": answer.get("nextCursor")}
    return ResultPage(
        rows, answer["totalResults"], more, facts.get("note", ""), facts.get("freshness", ""),
        answer["searchTimeMs"],
    )  # fmt: skip


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
    limit = min(asked.offset + _PATHS_PAGE_SIZE, _MAX_PATHS)
    answer = search_by_path(app, pattern, limit, asked.project or None, work=work)
    rows = [
        ResultItem(path, link_file(asked.project, path))
        for path in answer["matches"][asked.offset :]
    ]
    total = answer["totalMatches"]
    more = {"offset": limit if limit < min(total, _MAX_PATHS) else None}
    return ResultPage(rows, total, more, noun="file")


def _find_knowledge(app: App, asked: SearchForm, work: Work) -> ResultPage:
    answer = search(
        app, asked.query, _PAGE_SIZE, asked.offset, _KNOWLEDGE, dedupe=False,
        max_tokens=_ANSWER_TOKENS * 2, work=work,
    )  # fmt: skip
    rows = [
        ResultItem(each["title"] or each["uri"], link_to("/entry", uri=each["uri"]),
                   each["snippet"] or "", badges=(each["source"],))
        for each in answer["results"]
    ]  # fmt: skip
    total = answer["total_estimated"] or len(rows)
    return ResultPage(rows, total, {"offset": answer["next_offset"]})


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab of the search page."""

    name: str
    find: Callable[[App, SearchForm, Work], ResultPage]
    fields: frozenset[str] = frozenset()
    """The filters of the form that it takes."""
    placeholder: str = ""


_TABS: Mapping[str, Tab] = {
    "all": Tab("Everything", _find_pages, frozenset({"project", "mode", "path", "language"}),
               "Ask a question, or name a thing"),
    "code": Tab("Code", _find_ranked, frozenset({"project", "mode", "path"}),
                "A question about the code, or a symbol"),
    "docs": Tab("Docs", _find_ranked, frozenset({"project", "mode", "path"}),
                "A question to the documentation"),
    "lines": Tab("Lines", _find_pages, frozenset({"project", "path", "language"}),
                 "A regular expression, such as TODO|FIXME"),
    "paths": Tab("Paths", _find_paths, frozenset({"project"}),
                 "A part of a path, or a glob such as src/**/*.py"),
    "knowledge": Tab("Knowledge", _find_knowledge, placeholder="Notes, documents, chats"),
}  # fmt: skip
