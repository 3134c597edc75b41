"""The search page: a box, tabs, and the search of each tab with its answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from sonde.app import App
from sonde.errors import SondeError
from sonde.everything import EVERYWHERE, KINDS
from sonde.projects.find import ALL, find_project, list_project_names
from sonde.projects.index import list_paths
from sonde.runtime.work import Work
from sonde.searching.query_language import Field, QueryCondition, complete_query, parse_query
from sonde.text.highlight import Finder, find_query_words
from sonde.text.languages import NAMES
from sonde.tools.code import search_history
from sonde.tools.research import search
from sonde.tools.schema import Param
from sonde.types import Content, HitRow, Json
from sonde.web.pages import html
from sonde.web.pages.home import show_home
from sonde.web.pages.html import Markup, frame, link_to, show_error, show_icon, show_note, tag
from sonde.web.results.groups import FileGroup, Mode, ResultPage, SearchForm, show_results
from sonde.web.results.matches import find_hits, find_paths, find_similar

_PAGE_SIZE = 20  # entries of a page
_NOTES = 3  # entries of personal knowledge among files
_ANSWER_TOKENS = 12_000  # enough for a page of excerpts
_KNOWLEDGE = tuple(source for source in EVERYWHERE if source not in KINDS)
_MODES = {"hybrid": "Best of all", "lexical": "Words", "semantic": "Meaning"}

Text = Annotated[str, Param("As in the form", max_length=4096)]
TabName = Literal["all", "code", "docs", "lines", "paths", "related", "history", "knowledge"]


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
    part: Annotated[Literal["results", "completions"] | None, Param("Only a part")] = None,
    *,
    work: Work,
) -> Content:
    """The form, and the results if there is a query."""
    known = list_project_names(app.workspace)
    if tab == "paths" and project == ALL:
        project = ""  # a glob is matched within one project
    query = _add_fields(q.strip(), path, language)
    asked = SearchForm(query, tab, project or _choose_project(app, known), mode, cursor, offset)
    if part == "completions":
        return Content(_show_completions(app, q, asked, known), "text/html")
    if part == "results":
        return Content(_show_results(app, asked, work, known), "text/html")
    return frame(
        asked.query,
        "/",
        tag("h1", "Search", class_="hidden"),
        _show_form(asked, known),
        tag("div", _show_results(app, asked, work, known), id="results"),
        tag("p", id="said", class_="hidden", aria_live="polite"),
        kind="search",
    )


def _add_fields(query: str, path: str, language: str) -> str:
    """The query with the folder and language of separate fields added as conditions."""
    given = parse_query(query)
    fields = (("file", f"{path.strip('/')}/" if path.strip("/") else ""), ("lang", language))
    for field, value in fields:
        if value and (one := QueryCondition(field, value)) not in given.conditions:  # type: ignore[arg-type]
            query = f"{query} {one}".strip()
    return query


def _choose_project(app: App, known: Sequence[str]) -> str:
    """The project the server was started in, else the first."""
    try:
        here = find_project(app.workspace).key
    except SondeError:
        here = ""
    return here if here in known else next(iter(known), here)


def _show_form(asked: SearchForm, known: Sequence[str]) -> Markup:
    tabs = [
        tag("a", show_icon(tab.icon), tab.name, href=asked.link(tab=key if key != "all" else ""),
            data_tab=key, aria_current="true" if key == asked.tab else None)
        for key, tab in _TABS.items()
    ]  # fmt: skip
    ours = (*known, ALL)
    roots = known if not asked.project or asked.project in ours else (asked.project, *known)
    several = [(ALL, "All projects")] if len(known) > 1 and asked.tab != "paths" else []
    places = [*several, *((root, _name_root(root, roots)) for root in roots)]
    fields = _TABS[asked.tab].fields
    return tag(
        "form",
        tag("div",
            show_icon("search"),
            tag("label", "Search", for_="q", class_="hidden"),
            tag("input", type="search", name="q", id="q", value=asked.query, maxlength=20_000,
                placeholder=_TABS[asked.tab].placeholder, autocomplete="off", autocapitalize="none",
                spellcheck="false", autofocus=not asked.query, enterkeyhint="search",
                role="combobox", aria_autocomplete="list", aria_expanded="false",
                aria_controls="completions"),
            tag("kbd", "/", aria_hidden="true"),
            tag("button", "Search"),
            tag("ul", id="completions", role="listbox", aria_label="Completions", hidden=True),
            class_="box"),
        tag("div",
            tag("nav", tabs, class_="tabs", aria_label="Where to search"),
            tag("div",
                _choose("project", "Project", places, asked.project)
                if "project" in fields and places else None,
                _choose("mode", "By", list(_MODES.items()), asked.mode)
                if "mode" in fields else None, class_="filters"),
            class_="bar"),
        tag("input", type="hidden", name="tab", value=asked.tab) if asked.tab != "all" else None,
        action="/", role="search", id="search",
    )  # fmt: skip


def _name_root(root: str, roots: Sequence[str]) -> str:
    """The shortest unambiguous suffix of a root."""
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


def _show_completions(app: App, text: str, asked: SearchForm, known: Sequence[str]) -> Markup:
    """The items of the completion list; each carries the completed query."""

    def list_values(field: Field, prefix: str) -> Sequence[str]:
        if field == "lang":
            return sorted(NAMES)
        if field == "repo":
            return [_name_root(root, known) for root in known]
        if field == "file" and asked.project != ALL:
            paths = list_paths(app.workspace, asked.project or None, prefix, 200)
            folders = {path[: path.find("/", len(prefix)) + 1] for path in paths}
            return sorted(filter(None, folders)) + [p for p in paths if "/" not in p[len(prefix) :]]
        return ()

    found = complete_query(text, list_values)
    items = [
        tag("li", tag("code", item), tag("span", about) if about else None, role="option",
            id=f"completion-{at}", data_query=text[: found.start] + item)
        for at, (item, about) in enumerate(found.items)
    ]  # fmt: skip
    return tag("ul", items)


def _show_results(app: App, asked: SearchForm, work: Work, known: Sequence[str]) -> Markup:
    if not (asked.query or asked.cursor) or not (known or asked.tab in ("knowledge", "lines")):
        shown = asked.project if asked.project in known else next(iter(known), "")
        return show_home(app, shown, work)
    try:
        found = _TABS[asked.tab].find(app, asked, work)
    except SondeError as error:
        # inside the page, so that the query can be corrected
        return show_error(error)
    if not found.groups:
        return _show_nothing(asked, found, known)
    return show_results(asked, found, _choose_highlight(asked))


def _show_nothing(asked: SearchForm, found: ResultPage, known: Sequence[str]) -> Markup:
    """Why nothing was found, and what to try instead."""
    query = parse_query(asked.query, named_only=asked.tab == "lines")
    ways = [
        tag("li", tag("a", "Without ", tag("code", one), href=asked.link(q=str(query.toggle(one)))))
        for one in query.conditions
    ]
    if "mode" in _TABS[asked.tab].fields and asked.mode != "semantic":
        ways.append(tag("li", tag("a", "Search by meaning", href=asked.link(mode="semantic"))))
    if asked.tab not in ("paths", "knowledge") and asked.project != ALL and len(known) > 1:
        ways.append(tag("li", tag("a", "Search all projects", href=asked.link(project=ALL))))
    hint = html.show_sentence("Import notes, documents and chats: `sonde knowledge import FOLDER`.")
    return show_note(
        "Nothing found",
        tag("p", html.show_sentence(found.note or "Nothing here matches your search.")),
        tag("p", hint) if asked.tab == "knowledge" else None,
        tag("ul", ways, class_="ways") if ways else None,
    )


def _choose_highlight(asked: SearchForm) -> Finder:
    """The words to highlight in titles, and in texts whose exact matches are unknown."""
    if asked.tab in ("lines", "related"):
        return lambda _text: []
    if asked.tab == "paths":
        words = [re.escape(word) for word in re.split(r"[*?\[\]{},/]+", asked.query) if word]
        pattern = re.compile("|".join(words) or "(?!)", re.IGNORECASE)
        return lambda text: [match.span() for match in pattern.finditer(text)]
    return find_query_words(parse_query(asked.query).text)


def _find_all(app: App, asked: SearchForm, work: Work) -> ResultPage:
    """Files, and the best notes among them."""
    query = parse_query(asked.query)
    wanted = [one.value for one in query.conditions if one.field == "kind" and not one.negated]
    if wanted == ["notes"]:
        return _find_knowledge(app, asked, work)
    notes: Sequence[FileGroup] = ()
    if not asked.cursor and not query.conditions:
        found = _find_knowledge(app, asked, work, limit=_NOTES).groups
        # of a conversation, the best message
        notes = [*{one.href.partition("%23")[0]: one for one in reversed(found)}.values()][::-1]
    return find_hits(app, asked, work, notes)


def _find_knowledge(
    app: App, asked: SearchForm, work: Work, *, limit: int = _PAGE_SIZE
) -> ResultPage:
    answer = search(
        app, parse_query(asked.query).text, limit, asked.offset, _KNOWLEDGE, dedupe=False,
        max_tokens=_ANSWER_TOKENS, work=work,
    )  # fmt: skip
    groups = [_show_entry(row) for row in answer["results"]]
    total = answer["total_estimated"] or len(groups)
    return ResultPage(groups, total, more={"offset": answer["next_offset"]}, noun="result")


def _show_entry(row: Json) -> FileGroup:
    """An entry: its text, and where else the same text is."""
    files = ", ".join(each["file"] for each in row.get("duplicates") or ())
    text = (row["snippet"] or "").removeprefix(f"# {row['title']} ")
    text += f" (also in: {files})" if files else ""
    href = link_to("/entry", uri=row["uri"])
    return FileGroup(row["title"] or row["uri"], href, "notes", "", row["source"],
                     excerpt=text, score=row["score"])  # fmt: skip


def _find_commits(app: App, asked: SearchForm, work: Work) -> ResultPage:
    answer = search_history(
        app, "" if asked.cursor else asked.query, project=asked.project or None,
        top_k=_PAGE_SIZE, max_tokens=_ANSWER_TOKENS, cursor=asked.cursor or None, work=work,
    )  # fmt: skip
    return ResultPage(
        [_show_commit(asked, row) for row in answer["results"]], answer["totalResults"],
        more={"cursor": answer.get("nextCursor")}, note=answer["metadata"].get("note", ""),
        milliseconds=answer["searchTimeMs"], noun="commit",
    )  # fmt: skip


def _show_commit(asked: SearchForm, row: HitRow) -> FileGroup:
    when, subject, *rest = [*row["text"].split("\n"), ""]
    href = asked.link(q=subject, cursor="")
    return FileGroup(f"{row['path'][:10]}  {subject}", href, "notes", language=when,
                     excerpt="\n".join(rest).strip())  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab of the search page."""

    name: str
    find: Callable[[App, SearchForm, Work], ResultPage]
    icon: str
    placeholder: str
    fields: frozenset[str] = frozenset()
    """The fields beside the box that this kind of search uses."""


_ASKED = frozenset({"project", "mode"})
_TABS: Mapping[str, Tab] = {
    "all": Tab("Everything", _find_all, "layers",
               "Ask a question, or type a name: lang:python retry", _ASKED),
    "code": Tab("Code", find_hits, "code", "A question about the code, or a symbol", _ASKED),
    "docs": Tab("Docs", find_hits, "book-open", "A question about the documentation", _ASKED),
    "lines": Tab("Lines", find_hits, "regex",
                 "A regular expression, such as TODO|FIXME lang:python", frozenset({"project"})),
    "paths": Tab("Paths", find_paths, "folder-tree",
                 "A part of a path, or a glob such as src/**/*.py", frozenset({"project"})),
    "related": Tab("Similar", find_similar, "layers",
                   "A place such as src/cart.py:120, or a passage", frozenset({"project"})),
    "history": Tab("Commits", _find_commits, "history",
                   "What a commit did, or why", frozenset({"project"})),
    "knowledge": Tab("Knowledge", _find_knowledge, "sticky-note", "Notes, documents, chats"),
}  # fmt: skip
