"""The panels around a file: its path, the file tree, its outline, and links to editors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from sonde.app import App
from sonde.projects.project import Project
from sonde.text.languages import language_of
from sonde.tools.shapes.shell import show_epoch
from sonde.types import LOCAL, Symbol
from sonde.web.pages import html
from sonde.web.pages.html import Markup, join, link_to, show_icon, show_note, tag
from sonde.web.viewer.contents import PICTURES, FolderItem, ProjectFolder, ending_of, list_items
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
_ICONS = {"code": "file-code", "docs": "file-text", "data": "file-cog"}


def link_path(project: str, path: str, **more: object) -> str:
    """The page of a file or a folder of a project; the root is `/`."""
    return link_to("/view", project=project, path=path or "/", **more)


def show_path_links(project: str, path: str) -> Markup:
    """The project, the folders and the name, each but the last a link."""
    names = [each for each in path.split("/") if each]
    steps = [(html.name_folder(project), ""), *(
        (name, "/".join(names[: at + 1])) for at, name in enumerate(names)
    )]  # fmt: skip
    links = [
        [tag("a", name, href=link_path(project, to), class_="folder"), tag("span", "/")]
        for name, to in steps[:-1]
    ]
    return tag("h1", links, tag("span", steps[-1][0], class_="name", aria_current="page"),
               class_="crumbs")  # fmt: skip


def choose_icon(item: FolderItem) -> str:
    """The icon of an entry: a folder, or the kind of a file."""
    if item.is_folder:
        return "folder"
    if ending_of(item.path) in PICTURES:
        return "image"
    return _ICONS.get(language_of(item.path).kind, "file")


def show_files(project: Project, path: str) -> Markup:
    """Every folder on the way to a path, opened; the rest is fetched when it is opened."""
    root, names = project.key, [each for each in path.split("/") if each]
    above = ["/".join(names[:count]) for count in range(len(names))]
    inner: Markup | None = None
    for folder in reversed(above):
        inner = show_branch(root, list_items(project, folder), path, inner)
    return inner or show_branch(root, list_items(project, ""), path)


def show_branch(
    project: str, folder: ProjectFolder, here: str, inner: Markup | None = None
) -> Markup:
    """The entries of a folder; the one on the way to `here` holds `inner`."""
    rows = [_show_item(project, item, here, inner) for item in folder.items]
    if folder.left_out:
        rows.append(tag("li", f"and {folder.left_out:,} more", class_="faint"))
    return tag("ul", rows)


def _show_item(project: str, item: FolderItem, here: str, inner: Markup | None) -> Markup:
    is_here = item.path == here
    is_open = item.is_folder and inner is not None and here.startswith(f"{item.path}/")
    icon = "chevron-down" if is_open else "chevron-right" if item.is_folder else choose_icon(item)
    return tag(
        "li",
        tag("a", show_icon(icon), tag("span", item.name), href=link_path(project, item.path),
            aria_current="page" if is_here else None, title=item.path,
            data_folder=item.path if item.is_folder else None,
            aria_expanded=("true" if is_open else "false") if item.is_folder else None),
        inner if is_open else None,
        class_=None if item.is_folder else "leaf",
    )  # fmt: skip


def show_listing(project: str, folder: ProjectFolder) -> Markup:
    """A folder as a table of its entries."""
    if not folder.items:
        return show_note("There is nothing to show here")
    rows: Sequence[Markup] = [
        tag("tr",
            tag("td", tag("a", show_icon(choose_icon(item)), tag("span", item.name), class_="open",
                          href=link_path(project, item.path))),
            tag("td", None if item.is_folder else html.show_size(item.size), class_="number"),
            tag("td", html.show_age(show_epoch(item.mtime_ms)), class_="number faint"))
        for item in folder.items
    ]  # fmt: skip
    heads = [tag("th", "Name", scope="col"), tag("th", "Size", scope="col", class_="number"),
             tag("th", "Changed", scope="col", class_="number")]  # fmt: skip
    more = tag("p", f"And {folder.left_out:,} more.", class_="faint") if folder.left_out else None
    return join([tag("div", html.show_rows(heads, rows), class_="folder-list"), more])


@dataclass(frozen=True, slots=True)
class FileView:
    """The part of a file to show."""

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
    """Links that open the file in an editor; only for the user of this machine."""
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
            tag("a", "similar", class_="uses", aria_label=f"Similar to {symbol.name}",
                href=link_to("/", q=f"{asked.path}:{symbol.line}", tab="related",
                             project=asked.project)),
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
