"""The pages of resource sets: what was ticked in listings, kept under a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute

from sonde.app import App
from sonde.disk.sets import Combination
from sonde.errors import InvalidRequest
from sonde.runtime.work import Work
from sonde.tools.disk_routes import ConfirmParam
from sonde.tools.route import Content
from sonde.tools.schema import Param
from sonde.tools.set_routes import (
    NodesParam,
    SetParam,
    change_entries,
    combine_with,
    make_set,
    read_entries,
    read_set,
    read_sets,
    remove_set,
)
from sonde.web.application import Parts
from sonde.web.pages.disk import CursorParam, list_choices, show_next
from sonde.web.pages.endpoints import lead_to, serve_form, serve_page, show_button
from sonde.web.pages.html import Markup, frame, show_note, tag
from sonde.web.pages.widgets import count, show_size, show_tick

_ROWS = 100
_KEPT: Mapping[Combination, str] = {
    "union": "what is in either",
    "intersection": "what is in both",
    "difference": "what is only in this one",
}


def add_set_pages(parts: Parts) -> Sequence[BaseRoute]:
    """All sets, one set, and the forms that change them."""
    return [
        serve_page("/sets", show_sets, parts),
        serve_form("/sets", keep, parts),
        serve_page("/sets/{selection_id}", show_set_page, parts),
        serve_form("/sets/{selection_id}/remove", take_out, parts),
        serve_form("/sets/{selection_id}/combine", combine_sets_form, parts),
        serve_form("/sets/{selection_id}/forget", forget_set, parts),
    ]


def keep(
    app: App,
    node_ids: NodesParam = (),
    name: Annotated[str, Param("Of a new set", max_length=200)] = "",
    into: Annotated[str, Param("Or the set to add to", max_length=64)] = "",
    *,
    work: Work,
) -> RedirectResponse:
    """Put what was ticked into a new set, or into one there is."""
    if not node_ids:
        raise InvalidRequest(
            "no node_ids",
            user_message="Nothing is ticked.",
            next_action="Go back and tick what the set is to hold.",
        )
    if into:
        change_entries(app, into, tuple(node_ids), work=work)
        return lead_to(f"/sets/{into}")
    made = make_set(app, name.strip(), tuple(node_ids), work=work)
    return lead_to(f"/sets/{made['selectionId']}")


def take_out(
    app: App, selection_id: SetParam, node_ids: NodesParam = (), *, work: Work
) -> RedirectResponse:
    """Take what was ticked out of a set; the files stay."""
    change_entries(app, selection_id, remove=tuple(node_ids), work=work)
    return lead_to(f"/sets/{selection_id}")


def combine_sets_form(
    app: App,
    selection_id: SetParam,
    other: SetParam,
    op: Annotated[Combination, Param("What the new set holds")] = "union",
    name: Annotated[str, Param("Of the new set", max_length=200)] = "",
    *,
    work: Work,
) -> RedirectResponse:
    """Make a new set of two; they stay as they are."""
    made = combine_with(app, selection_id, op, other, name.strip(), work=work)
    return lead_to(f"/sets/{made['selectionId']}")


def forget_set(
    app: App, selection_id: SetParam, confirm: ConfirmParam = None, *, work: Work
) -> RedirectResponse:
    """Forget a set, once confirmed; the files stay."""
    remove_set(app, selection_id, confirm, work=work)
    return lead_to("/sets")


def show_sets(app: App, cursor: CursorParam = None, *, work: Work) -> Content:
    """Every set."""
    answer = read_sets(app, 50, cursor, work=work)
    cards = [_show_card(row) for row in answer["sets"]]
    nothing = show_note(
        "There are no sets yet",
        tag("p", "Tick files and folders in a listing of the disk and keep them under a name."),
        tag("p", tag("a", "To the disk", href="/disk")),
    )
    return frame(
        "Sets",
        "/sets",
        tag("h1", "Sets"),
        tag("ul", cards, class_="cards") if cards else nothing,
        show_next(answer["nextPageUrl"], "/sets", {}),
    )


def _show_card(row: Mapping[str, Any]) -> Markup:
    return tag(
        "li",
        tag("h2", tag("a", row["name"], href=f"/sets/{row['selectionId']}", class_="open"),
            tag("span", show_size(row["totalSize"]), class_="badge")),
        tag("p", tell_counts(row["counts"]), class_="faint"),
    )  # fmt: skip


def tell_counts(counts: Mapping[str, int]) -> str:
    """How many of what, and how many are not as they were."""
    kinds = {"file": counts["files"], "folder": counts["folders"]}
    told = [count(number, what) for what, number in kinds.items() if number] or ["nothing"]
    if counts.get("stale"):
        told.append(f"{counts['stale']:,} changed or gone since")
    return " · ".join(told)


def show_set_page(
    app: App, selection_id: SetParam, cursor: CursorParam = None, *, work: Work
) -> Content:
    """One set, its entries to be ticked and taken out."""
    found = read_set(app, selection_id, work=work)
    page = read_entries(app, selection_id, _ROWS, cursor, work=work)
    index, address = found["indexId"], f"/sets/{selection_id}"
    rows = page["entries"]
    return frame(
        found["name"],
        "/sets",
        tag("div",
            tag("div", tag("h1", found["name"]),
                tag("p", show_size(found["totalSize"]), tag("span", tell_counts(found["counts"])),
                    tag("a", "The folder they are in", href=f"/disk/{index}"), class_="facts")),
            show_button(f"{address}/forget", "Forget this set"),
            class_="head split"),
        tag("form", show_entries(index, rows),
            tag("p", tag("button", "Take out what is ticked", class_="quiet"), class_="below"),
            method="post", action=f"{address}/remove")
        if rows else show_note("This set is empty"),
        show_next(page["nextPageUrl"], address, {}),
        _show_combining(address, list_choices(app, index, work, but=selection_id)),
    )  # fmt: skip


def _show_combining(address: str, others: Sequence[Markup]) -> Markup | None:
    """The form that makes a new set of this one and another of the same folder."""
    if not others:
        return None
    kept = [tag("option", told, value=op) for op, told in _KEPT.items()]
    return tag(
        "form",
        tag("label", tag("span", "Combine with"), tag("select", others, name="other")),
        tag("label", tag("span", "and keep"), tag("select", kept, name="op")),
        tag("input", name="name", class_="field", placeholder="its name", maxlength=200,
            aria_label="Name of the new set", autocomplete="off"),
        tag("button", "Combine", class_="quiet"),
        method="post", action=f"{address}/combine", class_="below",
    )  # fmt: skip


def show_entries(index: str, rows: Sequence[Mapping[str, Any]], *, ticks: bool = True) -> Markup:
    """Entries of a set as a table."""
    heads = tag("tr", tag("th", "Tick", class_="tick", scope="col") if ticks else None,
                tag("th", "Name", scope="col"),
                tag("th", "Size", class_="number", scope="col"))  # fmt: skip
    body = [_show_row(index, row, ticks=ticks) for row in rows]
    table = tag("table", tag("thead", heads), tag("tbody", body), class_="listing")
    return tag("div", table, class_="wide")


def _show_row(index: str, row: Mapping[str, Any], *, ticks: bool) -> Markup:
    node, name = row["nodeId"], row["name"]
    folder = row.get("path", "").rpartition("/")[0]
    directory = row.get("kind") == "directory"
    link = tag("a", name, href=f"/disk/{index}/nodes/{node}", class_="open")
    return tag(
        "tr",
        tag("td", show_tick(node, name), class_="tick") if ticks else None,
        tag("td", tag("i", class_="kind folder-icon" if directory else "kind", aria_hidden="true"),
            link if "link" in row else name, "/" if directory else None,
            tag("span", folder, class_="folder beside-name") if folder else None,
            tag("span", row["stale"], class_="badge warn") if row.get("stale") else None),
        tag("td", show_size(row["size"]), class_="number"),
    )  # fmt: skip
