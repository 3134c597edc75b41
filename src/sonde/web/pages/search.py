"""The search page: one box, tabs, filters, results that come while one types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from starlette.routing import BaseRoute

from sonde.app import App
from sonde.errors import SondeError
from sonde.projects.find import ALL, find_project
from sonde.runtime.work import Work
from sonde.tools.index import list_projects
from sonde.tools.route import Content
from sonde.tools.schema import Param
from sonde.web.application import Parts
from sonde.web.pages.endpoints import serve_page
from sonde.web.pages.html import Markup, frame, join, show_error, show_note, tag
from sonde.web.pages.results import (
    TABS,
    Mode,
    PageResults,
    Row,
    SearchForm,
    find,
    make_pattern,
    mark_spans,
    mark_words,
)

_MODES = {"hybrid": "Best of all", "lexical": "Words", "semantic": "Meaning"}
_ASKS = {
    "all": "Ask a question, or name a thing",
    "code": "A question about the code, or a symbol",
    "docs": "A question to the documentation",
    "lines": "A regular expression, such as TODO|FIXME",
    "paths": "A part of a path, or a glob such as src/**/*.py",
    "knowledge": "Notes, documents, chats",
}

Text = Annotated[str, Param("As in the form", max_length=4096)]
Tab = Literal["all", "code", "docs", "lines", "paths", "knowledge"]


def add_search(parts: Parts) -> Sequence[BaseRoute]:
    """The page at `/`."""
    return [serve_page("/", show_search, parts)]


def show_search(
    app: App,
    q: Annotated[str, Param("What to look for", max_length=20_000)] = "",
    tab: Annotated[Tab, Param("Where")] = "all",
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
    """The form, and the results where something is asked."""
    known = [row["projectPath"] for row in list_projects(app, work=work)["projects"]]
    if tab == "paths" and project == ALL:
        project = ""  # a glob is held against one project
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
    """The project around the place where the server was started, else the first."""
    try:
        here = str(find_project(app.workspace).root)
    except SondeError:
        here = ""
    return here if here in known else next(iter(known), here)


def _show_form(asked: SearchForm, known: Sequence[str]) -> Markup:
    fields = TABS[asked.tab][2]
    tabs = [
        tag("a", name, href=asked.link(tab=tab if tab != "all" else ""), data_tab=tab,
            aria_current="true" if tab == asked.tab else None)
        for tab, (name, _, _) in TABS.items()
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
                placeholder=_ASKS[asked.tab], autocomplete="off", autocapitalize="none",
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
    """The last name of a folder; as much more as tells it from the others."""
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
        found = find(app, asked, work)
    except SondeError as error:
        # the box stays where it is: what is wrong can be put right
        return show_error(error)
    if not found.rows:
        told = found.note or "Nothing here fits what you asked for."
        kept = "Notes, documents and chats come in with sonde knowledge import FOLDER."
        more = tag("p", kept) if asked.tab == "knowledge" else None
        return show_note("Nothing found", tag("p", told), more)
    pattern = None if asked.tab in ("lines", "paths") else make_pattern(asked.query)
    if asked.tab == "paths":
        words = [re.escape(word) for word in re.split(r"[*?\[\]{},/]+", asked.query) if word]
        pattern = re.compile("|".join(words), re.IGNORECASE) if words else None
    rows = [_show_row(row, pattern) for row in found.rows]
    return join([
        _show_summary(found),
        tag("ol", rows, class_="hits paths" if asked.tab == "paths" else "hits"),
        _show_ways(asked, found),
    ])  # fmt: skip


def _show_beginning() -> Markup:
    keys = [("/", "search"), ("j k", "next, previous"), ("Enter", "open"), ("Esc", "leave")]
    return show_note(
        "Ask, and read the lines that answer",
        tag("p", "A question in your words, a symbol, a path, a regular expression."),
        tag("p", [tag("span", [tag("kbd", key) for key in keys.split()], " ", what)
                  for keys, what in keys], class_="keys"),
    )  # fmt: skip


def _show_summary(found: PageResults) -> Markup:
    one, many = found.about
    parts: list[Any] = [tag("strong", f"{found.total:,}"), f" {one if found.total == 1 else many}"]
    if found.milliseconds is not None:
        parts.append(f" in {found.milliseconds} ms")
    fresh = found.freshness if found.freshness != "complete" else ""
    if fresh:
        parts.append(tag("span", fresh, class_="badge"))
    if found.note:
        parts.append(f" · {found.note}")
    return tag("p", parts, class_="summary")


def _show_row(row: Row, pattern: re.Pattern[str] | None) -> Markup:
    folder, slash, name = row.title.rpartition("/")
    title = [tag("span", mark_words(folder + slash, pattern), class_="folder") if folder else None,
             tag("span", mark_words(name, pattern), class_="name")]  # fmt: skip
    head = tag(
        "h2",
        tag("a", title, href=row.href, class_="open"),
        tag("span", row.lines, class_="lines") if row.lines else None,
        [tag("span", badge, class_="badge") for badge in row.badges if badge],
        tag("span", "changed since", class_="badge warn") if row.stale else None,
    )
    return tag("li", head, _show_text(row, pattern) if row.text else None)


def _show_text(row: Row, pattern: re.Pattern[str] | None) -> Markup:
    if row.spans is not None:
        return _number_lines([mark_spans(row.text, row.spans)], row.first)
    if not row.first:
        return tag("p", mark_words(row.text, pattern), class_="excerpt")
    return _number_lines([mark_words(line, pattern) for line in row.text.split("\n")], row.first)


def _number_lines(lines: Sequence[Markup], first: int) -> Markup:
    shown = [
        tag("span", tag("i", at, aria_hidden="true"), tag("span", line), "\n")
        for at, line in enumerate(lines, first)
    ]
    return tag("pre", tag("code", shown), class_="code", tabindex="-1")


def _show_ways(asked: SearchForm, found: PageResults) -> Markup | None:
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
