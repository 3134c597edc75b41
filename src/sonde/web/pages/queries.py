"""The pages of saved queries: write a filter, see its plan, run it into a set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from starlette.responses import Response

from sonde.app import App
from sonde.disk import sets
from sonde.disk.indexes import list_index_states
from sonde.errors import InvalidPattern
from sonde.policy.roots import show_path
from sonde.runtime.work import Work
from sonde.stores.disk.base import Plan, SavedQuery
from sonde.tools.schema import CursorParam, Param
from sonde.tools.sets import QueryParam, edit_query, make_query
from sonde.tools.shapes.shell import show_epoch, show_name
from sonde.types import Content
from sonde.web.pages import html
from sonde.web.pages.html import Markup, frame, name_folder, redirect_to, tag
from sonde.web.pages.nodes import format_counts, show_entry_table

_CARDS = 50  # a few screens
_SAMPLE = 10  # a first look; the whole set has its own page
_HELP = (
    ("name:*.log", "the name matches a glob; path:build/** matches the whole path"),
    ("name~^test_", "the name matches a regular expression; so does path~"),
    ("ext:py  kind:file  under:src", "the extension, the kind, the folder it is in"),
    ("size>10MB  depth<=3", "compared with < <= > >= ="),
    ("age>30d  modified<2026-01-31", "last changed more than 30 days ago, or before a date"),
    ("is:duplicate", "or empty, hidden, unreadable"),
    ('content~"TODO|FIXME"', "a line of the file matches"),
    (
        'hybrid:"where prices are made"',
        "among the best search results; also lexical: and semantic:",
    ),
    ("not ext:log  (a or b)", "`and` is optional; `or` binds loosest"),
)

FilterParam = Annotated[str, Param("The filter", max_length=4000)]
NameParam = Annotated[str, Param("Its name", max_length=200)]
ThenParam = Annotated[Literal["run"] | None, Param("What to do next")]


@dataclass(frozen=True, slots=True)
class _Draft:
    """The contents of the form, and the error in it."""

    filter: str = ""
    name: str = ""
    index: str = ""
    problem: InvalidPattern | None = None


def save(
    app: App,
    index_id: Annotated[str, Param("The folder it is about", min_length=1, max_length=64)],
    filter: FilterParam = "",  # noqa: A002 - the word that the form uses
    name: NameParam = "",
    then: ThenParam = None,
    *,
    work: Work,
) -> Response:
    """Save a new query; an invalid filter is shown again with its error."""
    try:
        made = make_query(app, index_id, filter.strip(), None, name.strip() or None, work=work)
    except InvalidPattern as error:
        return _show_again(_list(app, _Draft(filter, name, index_id, error), None, work))
    query_id = str(made["queryId"])
    return run(app, query_id, work=work) if then else redirect_to(f"/queries/{query_id}")


def change(
    app: App,
    query_id: QueryParam,
    filter: FilterParam = "",  # noqa: A002
    name: NameParam = "",
    then: ThenParam = None,
    *,
    work: Work,
) -> Response:
    """Change a query; an invalid filter is shown again with its error."""
    try:
        edit_query(app, query_id, filter.strip(), None, name.strip() or None, work=work)
    except InvalidPattern as error:
        return _show_again(_show_one(app, query_id, _Draft(filter, name, "", error), work))
    return run(app, query_id, work=work) if then else redirect_to(f"/queries/{query_id}")


def _show_again(page: Content) -> Response:
    return Response(page.body, 400, {"cache-control": "no-store"}, page.mime)


def run(app: App, query_id: QueryParam, *, work: Work) -> Response:
    """Run a query, and show what it finds."""
    sets.run_query(app.disk, sets.find_query(app.disk, work.caller, query_id), work)
    return redirect_to(f"/queries/{query_id}")


def show_queries(
    app: App,
    index: Annotated[str, Param("The folder that a new one is about", max_length=64)] = "",
    filter: FilterParam = "",  # noqa: A002
    cursor: CursorParam = None,
    *,
    work: Work,
) -> Content:
    """Every saved query, and the form for a new one."""
    return _list(app, _Draft(filter, index=index), cursor, work)


def _list(app: App, draft: _Draft, cursor: str | None, work: Work) -> Content:
    roots = _list_roots(app, work)
    page = sets.list_queries(app.disk, work.caller, limit=_CARDS, cursor=cursor)
    cards = [_show_card(query, roots) for query in page.rows]
    if not roots:
        return frame("Queries", "/queries", tag("h1", "Queries"), html.show_note(
            "No folder is scanned yet",
            tag("p", "A query looks through the names, sizes and times that a scan has read."),
            tag("p", tag("a", "Scan a folder", href="/disk")),
        ))  # fmt: skip
    places = [
        tag("option", name_folder(root), value=key, selected=key == draft.index, title=root)
        for key, root in roots.items()
    ]
    place = tag("label", tag("span", "In"), tag("select", places, name="index_id"))
    return frame(
        "Queries",
        "/queries",
        tag("h1", "Queries"),
        _show_form("/queries", draft, place),
        tag("h2", "Saved"),
        tag("ul", cards, class_="cards") if cards else html.show_note(
            "No saved queries yet", tag("p", "Write a filter above. What it finds is saved as a "
                                        "set that you can browse.")),
        html.show_next(page.cursor, "/queries"),
    )  # fmt: skip


def _list_roots(app: App, work: Work) -> dict[str, str]:
    states = list_index_states(app.disk, work.caller)
    return {state.index.id: show_path(state.index.root) for state in states}


def _show_last_run(query: SavedQuery, otherwise: str) -> list[str | Markup]:
    ran = query.executed_ms
    return ["run ", html.show_age(show_epoch(ran))] if ran else [otherwise]


def _show_card(query: SavedQuery, roots: Mapping[str, str]) -> Markup:
    address, root = f"/queries/{query.id}", roots.get(query.index, "")
    name = show_name(query.title)
    return tag(
        "li",
        tag("h2", tag("a", name, href=address, class_="open")),
        tag("p", tag("code", query.filter or "everything")),
        tag("p", f"in {name_folder(root)} · ", _show_last_run(query, "not run yet"),
            class_="faint"),
        tag("div", html.show_button(f"{address}/run", "Run", label=f"Run {name}"), class_="below"),
    )  # fmt: skip


def show_query_page(app: App, query_id: QueryParam, *, work: Work) -> Content:
    """One query: its filter, the result of its last run, and its plan."""
    return _show_one(app, query_id, None, work)


def _show_one(app: App, query_id: str, draft: _Draft | None, work: Work) -> Content:
    query = sets.find_query(app.disk, work.caller, query_id)
    root, address = _list_roots(app, work).get(query.index, ""), f"/queries/{query_id}"
    name = show_name(query.title)
    return frame(
        name,
        "/queries",
        tag("div",
            tag("div", tag("h1", name),
                tag("p", tag("a", name_folder(root), href=f"/disk/{query.index}", title=root),
                    tag("span", _show_last_run(query, "not run since it was changed")),
                    class_="facts")),
            tag("div", html.show_button(f"{address}/run", "Run", kind=""),
                html.show_button(f"{address}/forget", "Delete"), class_="below"),
            class_="head split"),
        _show_form(address, draft or _Draft(query.filter, name)),
        tag("h2", "Found"),
        _show_found(app, query, work),
        tag("details", tag("summary", "Query plan"),
            _show_plan(sets.explain_query(app.disk, query)), class_="more"),
    )  # fmt: skip


def _show_found(app: App, query: SavedQuery, work: Work) -> Markup:
    if not query.selection or not query.executed_ms:
        return html.show_note("Not run yet", tag("p", "Run it to see what it finds."))
    found = sets.describe_set(app.disk, sets.find_set(app.disk, work.caller, query.selection))
    entries = sets.list_entries(app.disk, found.set, limit=_SAMPLE, cursor=None)
    if not entries.page.rows:
        return html.show_note("Nothing matches", tag("p", "No file or folder in the scan matches."))
    return tag(
        "div",
        tag("p", tag("strong", html.show_size(found.totals.size)), " in ",
            format_counts(found.totals), class_="summary"),
        show_entry_table(entries, ticks=False),
        tag("p", tag("a", "Show all", href=f"/sets/{query.selection}"), class_="below"),
    )  # fmt: skip


def _show_plan(plan: Plan) -> Markup:
    values = ", ".join(repr(value) for value in plan.parameters) or "none"
    return tag(
        "div",
        tag("h3", "Statement"), tag("pre", tag("code", plan.sql), tabindex="0"),
        tag("h3", "Values"), tag("pre", tag("code", values), tabindex="0"),
        tag("h3", "Steps"), tag("ol", [tag("li", tag("code", step)) for step in plan.steps]),
        tag("p", "Conditions on contents are searched first; the statement then selects from the "
            "files they found.", class_="faint"),
    )  # fmt: skip


def _show_form(action: str, draft: _Draft, place: Markup | None = None) -> Markup:
    """The filter and its name; for a new query also the folder to search (`place`)."""
    wrong, text, error = draft.problem, draft.filter, None
    if wrong:
        at = min(int(wrong.facts.get("at") or 0), len(text))
        word = text[at:].split(" ", 1)[0]
        marked = tag("code", text[:at], tag("mark", word or "…"), text[at + len(word) :])
        error = tag("p", f"{wrong.facts['problem']} ", marked, id="problem", class_="problem",
                    role="alert")  # fmt: skip
    box = tag("input", name="filter", id="filter", value=draft.filter, maxlength=4000,
              placeholder="size>10MB ext:log not path:build/**", class_="field mono",
              autocomplete="off", autocapitalize="none", spellcheck="false",
              aria_invalid="true" if wrong else None, autofocus=bool(wrong),
              aria_describedby="problem" if wrong else None)  # fmt: skip
    name = tag("input", name="name", value=draft.name, maxlength=200, class_="field",
               autocomplete="off", placeholder="the filter itself")  # fmt: skip
    return tag(
        "form",
        tag("label", "Filter", for_="filter"), box, error,
        tag("div", place, tag("label", tag("span", "Name"), name),
            None if place else tag("button", "Save", class_="quiet"),
            tag("button", "Save and run", name="then", value="run",
                class_=None if place else "quiet"),
            class_="below"),
        tag("details", tag("summary", "Filter syntax"),
            tag("dl", [tag("div", tag("dt", tag("code", text)), tag("dd", about))
                       for text, about in _HELP], class_="help"),
            class_="more", open=bool(wrong)),
        method="post", action=action, class_="sheet",
    )  # fmt: skip
