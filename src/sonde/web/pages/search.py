"""The search page: a box, tabs, filters, and results that update while one types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from starlette.routing import BaseRoute

from sonde.app import App
from sonde.errors import SondeError
from sonde.projects.find import ALL, find_project
from sonde.runtime.work import Work
from sonde.text.highlight import Finder, find_query_words
from sonde.tools.index import list_projects
from sonde.tools.route import Content
from sonde.tools.schema import Param
from sonde.web.application import Parts
from sonde.web.pages.endpoints import serve_page
from sonde.web.pages.html import Markup, frame, join, show_error, show_note, tag
from sonde.web.pages.results import (
    TABS,
    Mode,
    ResultItem,
    ResultPage,
    SearchForm,
    mark_spans,
    mark_words,
)

_MODES = {"hybrid": "Best of all", "lexical": "Words", "semantic": "Meaning"}

Text = Annotated[str, Param("As in the form", max_length=4096)]
TabName = Literal["all", "code", "docs", "lines", "paths", "knowledge"]


def add_search(parts: Parts) -> Sequence[BaseRoute]:
    """The page at `/`."""
    return [serve_page("/", show_search, parts)]


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
    fields = TABS[asked.tab].fields
    tabs = [
        tag("a", tab.name, href=asked.link(tab=key if key != "all" else ""), data_tab=key,
            aria_current="true" if key == asked.tab else None)
        for key, tab in TABS.items()
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
                placeholder=TABS[asked.tab].placeholder, autocomplete="off", autocapitalize="none",
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
    if not known and asked.tab not in ("knowledge", "lines"):
        return show_note(
            "Nothing is indexed yet",
            tag("p", "Name a project's folder under ", tag("a", "Projects", href="/projects"),
                ", or go there and let sonde read it once; it follows every change from then on."),
            tag("pre", tag("code", "cd your/project\nsonde index")),
        )  # fmt: skip
    if not asked.query and not asked.cursor:
        return _show_beginning()
    try:
        found = TABS[asked.tab].find(app, asked, work)
    except SondeError as error:
        # inside the page, so that the query can be corrected
        return show_error(error)
    if not found.rows:
        reason = found.note or "Nothing here fits what you asked for."
        hint = "Notes, documents and chats come in with sonde knowledge import FOLDER."
        more = tag("p", hint) if asked.tab == "knowledge" else None
        return show_note("Nothing found", tag("p", reason), more)
    highlight = _choose_highlight(asked)
    rows = [_show_item(item, highlight) for item in found.rows]
    return join([
        _show_summary(found),
        tag("ol", rows, class_="hits paths" if asked.tab == "paths" else "hits"),
        _show_ways(asked, found),
    ])  # fmt: skip


def _choose_highlight(asked: SearchForm) -> Finder:
    """What is marked in titles and texts whose matches are not known exactly."""
    if asked.tab == "lines":
        return lambda _text: []
    if asked.tab == "paths":
        words = [re.escape(word) for word in re.split(r"[*?\[\]{},/]+", asked.query) if word]
        pattern = re.compile("|".join(words) or "(?!)", re.IGNORECASE)
        return lambda text: [match.span() for match in pattern.finditer(text)]
    return find_query_words(asked.query)


def _show_beginning() -> Markup:
    keys = [("/", "search"), ("j k", "next, previous"), ("Enter", "open"), ("Esc", "leave")]
    return show_note(
        "Ask, and read the lines that answer",
        tag("p", "A question in your words, a symbol, a path, a regular expression."),
        tag("p", [tag("span", [tag("kbd", key) for key in keys.split()], " ", what)
                  for keys, what in keys], class_="keys"),
    )  # fmt: skip


def _show_summary(found: ResultPage) -> Markup:
    plural = "" if found.total == 1 else "s"
    parts = [tag("strong", f"{found.total:,}"), f" {found.noun}{plural}"]
    if found.milliseconds is not None:
        parts.append(f" in {found.milliseconds} ms")
    fresh = found.freshness if found.freshness != "complete" else ""
    if fresh:
        parts.append(tag("span", fresh, class_="badge"))
    if found.note:
        parts.append(f" · {found.note}")
    return tag("p", parts, class_="summary")


def _show_item(item: ResultItem, find: Finder) -> Markup:
    folder, slash, name = item.title.rpartition("/")
    title = [tag("span", mark_words(folder + slash, find), class_="folder") if folder else None,
             tag("span", mark_words(name, find), class_="name")]  # fmt: skip
    head = tag(
        "h2",
        tag("a", title, href=item.href, class_="open"),
        tag("span", item.lines, class_="lines") if item.lines else None,
        [tag("span", badge, class_="badge") for badge in item.badges if badge],
        tag("span", "changed since", class_="badge warn") if item.stale else None,
    )
    return tag("li", head, _show_text(item, find) if item.text else None)


def _show_text(item: ResultItem, find: Finder) -> Markup:
    if item.spans is not None:
        return _number_lines([mark_spans(item.text, item.spans)], item.first)
    if not item.first:
        return tag("p", mark_words(item.text, find), class_="excerpt")
    return _number_lines([mark_words(line, find) for line in item.text.split("\n")], item.first)


def _number_lines(lines: Sequence[Markup], first: int) -> Markup:
    shown = [
        tag("span", tag("i", at, aria_hidden="true"), tag("span", line), "\n")
        for at, line in enumerate(lines, first)
    ]
    return tag("pre", tag("code", shown), class_="code", tabindex="-1")


def _show_ways(asked: SearchForm, found: ResultPage) -> Markup | None:
    """To the first page and to the next one."""
    began = bool(asked.cursor or asked.offset)
    if not began and not found.more:
        return None
    return tag(
        "nav",
        tag("a", "First page", href=asked.link()) if began else None,
        tag("a", "Next page", href=asked.link(**found.more), rel="next", class_="next")
        if found.more else None,
        class_="ways", aria_label="Pages",
    )  # fmt: skip
