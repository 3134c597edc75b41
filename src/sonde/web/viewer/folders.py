"""Folders of a project: the page of one, and the tree of files beside a file."""

from __future__ import annotations

from collections.abc import Sequence

from sonde.projects.project import Project
from sonde.text.languages import language_of
from sonde.tools.shapes.shell import show_epoch
from sonde.web.pages import html
from sonde.web.pages.html import Markup, link_to, show_icon, show_rows, tag
from sonde.web.viewer.contents import PICTURES, FolderItem, ProjectFolder, ending_of, list_items

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
        return html.show_note("Nothing here can be shown")
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
    return html.join([tag("div", show_rows(heads, rows), class_="folder-list"), more])
