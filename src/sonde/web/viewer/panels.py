"""What stands beside and above a file: its outline, and the editors that open it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from sonde.app import App
from sonde.projects.project import Project
from sonde.types import LOCAL, Symbol
from sonde.web.pages.html import Markup, link_to, show_icon, tag
from sonde.web.viewer.folders import link_path
from sonde.web.viewer.rendering import name_heading

PAGE_LINES = 3_000  # more lines make a browser slow to lay out the page
_MAX_OUTLINE = 2_000  # definitions of a page: beyond it the list is longer than the code

EDITORS = {
    "vscode": ("VS Code", "vscode://file{path}:{line}"),
    "cursor": ("Cursor", "cursor://file{path}:{line}"),
    "jetbrains": (
        "JetBrains", "jetbrains://idea/navigate/reference?project={project}&path={inside}:{line}"
    ),
    "zed": ("Zed", "zed://file{path}:{line}"),
}  # fmt: skip
"""Editors by their name in the setting `editor`: title, and the address that opens a file."""


@dataclass(frozen=True, slots=True)
class FileView:
    """What of a file is to be shown."""

    project: str
    path: str
    first: int = 0
    last: int = 0
    find: str = ""
    source: bool = False

    def link(self, **changes: object) -> str:
        """The address of the same file with some arguments changed."""
        lines = f"{self.first}-{self.last}" if self.last > self.first else self.first or ""
        kept = {"find": self.find, "view": "source" if self.source else "", "lines": lines}
        return link_path(self.project, self.path, **(kept | changes))


def show_editors(app: App, place: Project, asked: FileView) -> Markup | None:
    """Links that open the file in an editor on this machine; only its own user has one there."""
    chosen = app.workspace.editor
    if app.workspace.reach.user != LOCAL or chosen == "none":
        return None
    source, below = place.tree.locate(asked.path)
    facts = {
        "path": quote(str(source.root / below)), "project": quote(source.root.name),
        "inside": quote(below), "line": asked.first or 1,
    }  # fmt: skip
    links = {name: pattern.format(**facts) for name, (_, pattern) in EDITORS.items()}
    if chosen not in EDITORS:
        links[chosen] = chosen.format(**facts)
    order = sorted(links, key=lambda name: name != chosen)
    items = [
        tag("a", "Open in ", EDITORS[name][0] if name in EDITORS else "your editor",
            href=links[name], data_editor=name)
        for name in order
    ]  # fmt: skip
    return tag("details", tag("summary", show_icon("square-pen"), tag("span", "Open in…"),
                              class_="tool", title="Open in an editor (e)"),
               tag("div", items), class_="menu editors")  # fmt: skip


def show_outline(asked: FileView, symbols: Sequence[Symbol], *, is_rendered: bool) -> Markup | None:
    """The definitions of a file, nested as they are, each with a link to its uses."""
    if not symbols:
        return None
    rows = []
    open_: list[Symbol] = []
    seen: dict[str, int] = {}
    for symbol in symbols[:_MAX_OUTLINE]:
        while open_ and not open_[-1].start_line <= symbol.line <= open_[-1].end_line:
            open_.pop()
        is_section = symbol.kind == "section"
        name = symbol.name.rpartition(" > " if is_section else ".")[2]
        if is_rendered and is_section:
            href = f"#{name_heading(name, seen)}"
        else:
            href = _link_line(asked, symbol.line, is_rendered=is_rendered)
        uses = link_to("/names", project=asked.project, name=name, path=asked.path)
        rows.append(tag(
            "li",
            tag("a", tag("i", class_=f"sym {symbol.kind}", aria_hidden="true"),
                tag("span", name if open_ or is_section else symbol.name), href=href,
                title=symbol.name, data_line=symbol.line),
            None if symbol.kind in ("section", "key") else tag(
                "a", "uses", class_="uses", aria_label=f"Uses of {symbol.name}", href=uses),
            style=f"--depth:{min(len(open_), 6)}",
        ))  # fmt: skip
        open_.append(symbol)
    return tag("nav", tag("h2", show_icon("list-tree"), "Outline"), tag("ul", rows), id="outline",
               class_="panel outline", aria_label="Outline", tabindex="-1")  # fmt: skip


def _link_line(asked: FileView, line: int, *, is_rendered: bool) -> str:
    """The address of a line: on this page if it is there."""
    page = (line - 1) // PAGE_LINES + 1
    if is_rendered:
        return f"{asked.link(lines=line, view='source')}#L{line}"
    is_here = page == max(asked.first - 1, 0) // PAGE_LINES + 1
    return f"{'' if is_here else asked.link(page=page, lines=None)}#L{line}"
