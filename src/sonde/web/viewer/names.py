"""A name in a project: where it is defined, and every line that uses it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Literal

from sonde.app import App
from sonde.projects.find import readable_project
from sonde.projects.project import Project
from sonde.projects.update import repairing_corruption
from sonde.runtime.work import Work
from sonde.text.formats import count_of
from sonde.tools.code import grep
from sonde.tools.schema import Param
from sonde.types import Content, Symbol
from sonde.web.pages.html import Markup, frame, join, link_file, link_to, show_note, tag

_MAX_USES = 200  # lines; more are searched, not read
_MAX_DEFINITIONS = 50  # of one name: overloads, and the same name in many files


def show_names(
    app: App,
    name: Annotated[str, Param("An identifier", min_length=1, max_length=200)],
    project: Annotated[str | None, Param("Folder of the project", max_length=4096)] = None,
    path: Annotated[str, Param("Where one is: its definitions come first", max_length=4096)] = "",
    part: Annotated[Literal["names"] | None, Param("Only the lists")] = None,
    *,
    work: Work,
) -> Content:
    """The definitions of a name, and the lines that contain it as a whole word."""
    place = readable_project(app.workspace, project)
    root, name = place.key, name.strip()
    definitions = _find_named_symbols(app, place, name, path)
    found = grep(
        app, name, fixed_string=True, whole_word=True, limit=_MAX_USES, project=root, work=work
    )
    defined = {(path, symbol.line) for path, symbol in definitions}
    uses = [
        (str(row["path"]), int(row["line"]), str(row["text"]))
        for row in found["matches"]
        if (row["path"], row["line"]) not in defined
    ]
    more = "+" if found["truncated"] else ""
    lists = join([
        tag("h2", "Definitions", tag("span", len(definitions), class_="count")),
        _list_lines(root, [(path, each.line, each.name) for path, each in definitions])
        if definitions else tag("p", "Not defined in this project.", class_="faint"),
        tag("h2", "Uses", tag("span", f"{len(uses)}{more}", class_="count")),
        _list_lines(root, uses)
        if uses else tag("p", "No other line uses this name.", class_="faint"),
        tag("p", tag("a", "Search all lines",
                     href=link_to("/", q=rf"\b{name}\b", tab="lines", project=root)))
        if more else None,
    ])  # fmt: skip
    if part:
        return Content(lists, "text/html")
    about = f"{count_of(len(definitions), 'definition')}, {count_of(len(uses), 'use')}"
    head = tag("div", tag("h1", tag("code", name)), tag("p", about, class_="facts"), class_="head")
    nothing = not definitions and not uses
    body = show_note(f"Nothing is named {name}") if nothing else tag("div", lists, class_="names")
    return frame(name, "", head, body, kind="names-page")


def _find_named_symbols(app: App, place: Project, name: str, here: str) -> list[tuple[str, Symbol]]:
    """The symbols with this name, qualified or not; those of the file `here` come first."""
    last = name.rpartition(".")[2]
    if not place.is_indexed():
        return []
    found: list[tuple[str, Symbol]] = []
    with repairing_corruption(app.workspace, place):
        for store in place.stores().values():
            paths = store.paths_named([last])
            for path, symbols in store.symbols_of(paths).items():
                found += [
                    (path, each)
                    for each in symbols
                    if name in (each.name, last) and each.name.rpartition(".")[2] == last
                ]
    minor = ("section", "key")
    found.sort(key=lambda row: (row[0] != here, row[1].kind in minor, row[0], row[1].line))
    return found[:_MAX_DEFINITIONS]


def _list_lines(project: str, rows: Sequence[tuple[str, int, str]]) -> Markup:
    """Lines grouped by file; each links to its place."""
    groups = []
    for path, lines in groupby(rows, key=lambda row: row[0]):
        folder, slash, file = path.rpartition("/")
        shown = [
            tag("li", tag("a", tag("i", at), " ", tag("code", text.strip()[:200]),
                          href=link_file(project, path, at), class_="open"))
            for _, at, text in lines
        ]  # fmt: skip
        head = tag("p", tag("span", folder + slash, class_="folder"), tag("b", file), class_="path")
        groups.append(tag("li", head, tag("ol", shown)))
    return tag("ul", groups, class_="places")
