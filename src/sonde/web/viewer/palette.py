"""The palette, one box to go to projects, files, symbols and actions; and the list of keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from itertools import islice
from typing import Annotated, Literal

from sonde.app import App
from sonde.errors import SondeError
from sonde.projects.find import list_project_names, readable_project
from sonde.projects.freshness import list_current_paths
from sonde.projects.project import Project
from sonde.projects.update import repairing_corruption
from sonde.runtime.work import Work
from sonde.text.words import fold_name
from sonde.tools.schema import Param
from sonde.types import Content
from sonde.web.pages import html
from sonde.web.pages.html import Markup, frame, link_file, show_icon, show_note, tag
from sonde.web.viewer.panels import link_path

_SHOWN = 7  # of each kind: all four fit on a screen
_SEARCHED_PROJECTS = 5  # the caller's own and a few others; more would be slow while one types
_NAMED_FILES = 60  # files whose symbols are read for a name: a few milliseconds
_MIN_NAME = 2  # letters, before symbols are looked up: one letter begins them all

_ACTIONS = html.MENU | {
    "/setup": ("Set up agents", "terminal", "Let an agent search with sonde"),
    "/keys": ("Keys", "keyboard", "All keyboard shortcuts"),
}
"""Address -> title, icon, purpose."""

KEYS = {
    "Everywhere": (
        ("Ctrl K", "go to a project, a file, a symbol"), ("/", "search"), ("?", "these keys"),
        ("j k", "next and previous entry"), ("Enter", "open it"), ("Esc", "close or leave"),
    ),
    "In a file": (
        ("f", "find in the file"), ("n p", "next and previous match"),
        ("[ ]", "previous and next search result"), ("d", "definitions and uses of a name"),
        ("o", "outline"), ("t", "files"), ("r", "rendered or source"), ("w", "raw"),
        ("c", "copy the path"), ("y", "copy a permanent link"), ("e", "open in an editor"),
    ),
}  # fmt: skip
"""Keys by where they work."""


def show_palette(
    app: App,
    q: Annotated[str, Param("Part of a name", max_length=200)] = "",
    project: Annotated[str | None, Param("Where one is", max_length=4096)] = None,
    part: Annotated[Literal["items"] | None, Param("Only the list")] = None,
    *,
    work: Work,
) -> Content:
    """Projects, files, symbols and actions with a matching name."""
    groups = _find_groups(app, q.strip(), project, work)
    shown = [
        tag("section",
            tag("h2", name),
            tag("ul", items), aria_label=name)
        for name, items in groups.items() if items
    ]  # fmt: skip
    body = tag("div", shown, class_="palette-items") if shown else show_note("Nothing matches")
    if part:
        return Content(body, "text/html")
    form = tag(
        "form",
        html.hidden_fields(project=project),
        tag("input", type="search", name="q", value=q, class_="field", autofocus=True,
            aria_label="Go to", placeholder="A project, a file, a symbol, an action"),
        tag("button", "Go"), action="/go", class_="inline",
    )  # fmt: skip
    return frame("Go to", "", tag("h1", "Go to"), form, body, kind="palette")


def show_keys(
    app: App, part: Annotated[Literal["keys"] | None, Param("Only the list")] = None, *, work: Work
) -> Content:
    """Every key and what it does."""
    groups = [
        tag("section", tag("h2", where), tag("dl", [
            tag("div", tag("dt", [tag("kbd", key) for key in keys.split()]), tag("dd", what))
            for keys, what in rows], class_="key-list"))
        for where, rows in KEYS.items()
    ]  # fmt: skip
    body = tag("div", groups, class_="key-groups")
    if part:
        return Content(body, "text/html")
    return frame("Keys", "", tag("h1", "Keys"), body, kind="palette")


def _show_item(title: str, href: str, icon: str, detail: str) -> Markup:
    """An entry of the palette."""
    return tag("li", tag("a", show_icon(icon), tag("b", title), tag("span", detail, class_="faint"),
                         href=href, class_="open"))  # fmt: skip


def _find_groups(
    app: App, query: str, project: str | None, work: Work
) -> dict[str, Sequence[Markup]]:
    roots = list_project_names(app.workspace)
    fits = re.compile(".*?".join(map(re.escape, query.replace(" ", ""))), re.IGNORECASE)
    named = [root for root in roots if fits.search(html.name_folder(root))]
    actions = [
        _show_item(title, href, icon, about)
        for href, (title, icon, about) in _ACTIONS.items()
        if fits.search(title) and (href != "/setup" or work.caller.is_person)
    ]
    groups: dict[str, Sequence[Markup]] = {
        "Projects": [
            _show_item(html.name_folder(root), link_path(root, ""), "layers", root)
            for root in named[:_SHOWN]
        ]
    }
    if query:
        places = list(_open_places(app, project, roots))
        groups["Files"] = _find_files(places, query, fits)
        groups["Symbols"] = _find_symbols(app, places, query)
    return groups | {"Actions": actions[: None if not query else _SHOWN]}


def _open_places(app: App, project: str | None, roots: Sequence[str]) -> Iterator[Project]:
    """The current project, then others."""
    wanted = dict.fromkeys([*([project] if project else []), *roots])
    for root in islice(wanted, _SEARCHED_PROJECTS):
        try:
            place = readable_project(app.workspace, root)
        except SondeError:  # it was moved, or is written by a newer version
            continue
        if place.is_indexed():
            yield place


def _find_files(places: Sequence[Project], query: str, fits: re.Pattern[str]) -> Sequence[Markup]:
    """Files whose path contains the letters in order; matches in the name come first."""
    found: list[tuple[tuple[int, int, int, str], tuple[str, str, str, str]]] = []
    for rank, place in enumerate(places):
        root = place.key
        for path in list_current_paths(place):
            name = path.rpartition("/")[2]
            match = fits.search(name) or fits.search(path)
            if not match:
                continue
            in_name = match.string is name
            spread = match.end() - match.start() - len(query)
            key = (0 if in_name else 1, spread + rank, len(path), path)
            about = f"{html.name_folder(root)} · {path.rpartition('/')[0]}"
            found.append((key, (name, link_path(root, path), "file", about)))
    return [_show_item(*item) for _, item in nsmallest(_SHOWN, found)]


def _find_symbols(app: App, places: Sequence[Project], query: str) -> Sequence[Markup]:
    """Definitions whose name begins with the query; whole names first."""
    wanted = fold_name(query)
    if len(wanted) < _MIN_NAME:
        return []
    found: list[tuple[tuple[bool, bool, int, int, str], tuple[str, str, str, str]]] = []
    for rank, place in enumerate(places):
        root = place.key
        with repairing_corruption(app.workspace, place):
            store = place.stores()["code"]
            paths = [*sorted(store.paths_named([wanted]))[:_NAMED_FILES],
                     *store.paths_beginning(wanted, _NAMED_FILES)]  # fmt: skip
            symbols = store.symbols_of(dict.fromkeys(paths).keys())
        for path, rows in symbols.items():
            for each in rows:
                last = fold_name(each.name.rpartition(".")[2])
                if each.kind == "key" or not last.startswith(wanted):
                    continue
                minor = each.kind not in ("type", "function")
                key = (last != wanted, minor, rank, len(each.name), f"{path}:{each.line:9}")
                about = f"{each.kind} · {path}:{each.line}"
                href = link_file(root, path, each.line)
                found.append((key, (each.name, href, "braces", about)))
    return [_show_item(*item) for _, item in nsmallest(_SHOWN, found)]
