"""The pages of resource sets: named selections from listings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from starlette.responses import RedirectResponse

from sonde.app import App
from sonde.disk import sets
from sonde.errors import InvalidRequest
from sonde.runtime.work import Work
from sonde.stores.disk.base import Combination
from sonde.tools.schema import CursorParam, Param
from sonde.tools.sets import NodesParam, SetParam
from sonde.tools.shapes.shell import show_name
from sonde.types import Content
from sonde.web.pages import html
from sonde.web.pages.html import Markup, frame, redirect_to, tag
from sonde.web.pages.nodes import format_counts, list_choices, show_entry_table, show_name_field

_CARDS = 50  # each costs the totals of a set
_ROWS = 100  # a few screens of names
_COMBINATIONS: Mapping[Combination, str] = {
    "union": "what is in either",
    "intersection": "what is in both",
    "difference": "what is only in this one",
}


def keep(
    app: App,
    node_ids: NodesParam = (),
    name: Annotated[str, Param("Of a new set", max_length=200)] = "",
    into: Annotated[str, Param("Or the set to add to", max_length=64)] = "",
    *,
    work: Work,
) -> RedirectResponse:
    """Put the selected nodes into a new or an existing set."""
    if not node_ids:
        raise InvalidRequest(
            "no node_ids",
            user_message="Nothing is selected.",
            next_action="Go back and select what to put into the set.",
        )
    disk, caller = app.disk, work.caller
    if into:
        kept = sets.change_set(disk, sets.find_set(disk, caller, into), add=node_ids)
    else:
        kept = sets.create_set(disk, caller, name.strip(), node_ids)
    return redirect_to(f"/sets/{kept.id}")


def take_out(
    app: App, selection_id: SetParam, node_ids: NodesParam = (), *, work: Work
) -> RedirectResponse:
    """Remove the selected nodes from a set; the files stay."""
    sets.change_set(app.disk, sets.find_set(app.disk, work.caller, selection_id), remove=node_ids)
    return redirect_to(f"/sets/{selection_id}")


def combine_sets_form(
    app: App,
    selection_id: SetParam,
    other: SetParam,
    op: Annotated[Combination, Param("What the new set holds")] = "union",
    name: Annotated[str, Param("Of the new set", max_length=200)] = "",
    *,
    work: Work,
) -> RedirectResponse:
    """Combine two sets into a new one, leaving both unchanged."""
    first, second = (sets.find_set(app.disk, work.caller, each) for each in (selection_id, other))
    return redirect_to(f"/sets/{sets.combine_sets(app.disk, first, op, second, name.strip()).id}")


def show_sets(app: App, cursor: CursorParam = None, *, work: Work) -> Content:
    """Every set."""
    page = sets.list_sets(app.disk, work.caller, limit=_CARDS, cursor=cursor)
    cards = [
        tag("li",
            tag("h2", tag("a", show_name(row.set.name), href=f"/sets/{row.set.id}", class_="open"),
                tag("span", html.show_size(row.totals.size), class_="badge")),
            tag("p", format_counts(row.totals), class_="faint"))
        for row in page.rows
    ]  # fmt: skip
    nothing = html.show_note(
        "There are no sets yet",
        tag("p", "Select files and folders in a disk listing and save them under a name."),
        tag("p", tag("a", "Go to the disk", href="/disk")),
    )
    return frame(
        "Sets",
        "/sets",
        tag("h1", "Sets"),
        tag("ul", cards, class_="cards") if cards else nothing,
        html.show_next(page.cursor, "/sets"),
    )


def show_set_page(
    app: App, selection_id: SetParam, cursor: CursorParam = None, *, work: Work
) -> Content:
    """One set, whose entries can be selected and removed."""
    found = sets.describe_set(app.disk, sets.find_set(app.disk, work.caller, selection_id))
    entries = sets.list_entries(app.disk, found.set, limit=_ROWS, cursor=cursor)
    totals = found.totals
    index, address, name = found.set.index, f"/sets/{selection_id}", show_name(found.set.name)
    return frame(
        name,
        "/sets",
        tag("div",
            tag("div", tag("h1", name),
                tag("p", html.show_size(totals.size), tag("span", format_counts(totals)),
                    tag("a", "Open the folder", href=f"/disk/{index}"), class_="facts")),
            html.show_button(f"{address}/forget", "Delete this set"),
            class_="head split"),
        tag("form", show_entry_table(entries),
            tag("p", tag("button", "Remove selected", class_="quiet"), class_="below"),
            method="post", action=f"{address}/remove")
        if entries.page.rows else html.show_note("This set is empty"),
        html.show_next(entries.page.cursor, address),
        _show_combining(address, list_choices(app, index, work, but=selection_id)),
    )  # fmt: skip


def _show_combining(address: str, others: Sequence[Markup]) -> Markup | None:
    if not others:
        return None
    kept = [tag("option", label, value=op) for op, label in _COMBINATIONS.items()]
    return tag(
        "form",
        tag("label", tag("span", "Combine with"), tag("select", others, name="other")),
        tag("label", tag("span", "and keep"), tag("select", kept, name="op")),
        show_name_field("Name of the new set"),
        tag("button", "Combine", class_="quiet"),
        method="post", action=f"{address}/combine", class_="below",
    )  # fmt: skip
