"""The page of a file: its text or its rendered form, its outline, and the files around it."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal
from urllib.parse import quote

from starlette.responses import Response

from sonde.app import App
from sonde.errors import FileMissing, SondeError
from sonde.projects.find import readable_project
from sonde.projects.project import Project
from sonde.runtime.work import Work
from sonde.text.formats import count_of
from sonde.text.languages import language_of
from sonde.text.syntax_highlighting import highlight_code
from sonde.tools.code import read_file_text
from sonde.tools.schema import Param
from sonde.types import Content
from sonde.web.pages import html
from sonde.web.pages.html import Markup, frame, join, link_to, show_icon, show_note, tag
from sonde.web.results.groups import mark_tokens, name_language
from sonde.web.viewer import contents
from sonde.web.viewer.panels import (
    PAGE_LINES,
    FileView,
    show_branch,
    show_editors,
    show_files,
    show_listing,
    show_outline,
    show_path_links,
)
from sonde.web.viewer.rendering import DocumentPlace, render_markdown, render_notebook

_LINES = re.compile(r"([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?")
_SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'"
_README = re.compile(r"readme(?:\.(?:md|markdown|txt))?", re.IGNORECASE)

ProjectParam = Annotated[str | None, Param("Folder of the project", max_length=4096)]
PathParam = Annotated[str, Param("Path of a file or folder; / is the root", max_length=4096)]


def show_file(
    app: App,
    path: PathParam = "/",
    project: ProjectParam = None,
    lines: Annotated[str, Param("To highlight, such as '10-40'", max_length=20)] = "",
    page: Annotated[int | None, Param("Of a long file", minimum=1, maximum=1_000_000)] = None,
    find: Annotated[str, Param("Text to find in it", max_length=500)] = "",
    view: Annotated[Literal["source", "rendered"] | None, Param("How to show it")] = None,
    at: Annotated[str, Param("Checksum of the first line", max_length=8)] = "",
    part: Annotated[Literal["tree"] | None, Param("Only the entries of a folder")] = None,
    *,
    work: Work,
) -> Content:
    """A file or folder as it is on disk, under the same policy as searches."""
    place = readable_project(app.workspace, project)
    root = place.key
    if contents.is_folder(place, path):
        folder = contents.list_items(place, path)
        if part:
            return Content(show_branch(root, folder, path), "text/html")
        return _show_folder(app, place, folder, work)
    found = _LINES.fullmatch(lines)
    first = int(found[1]) if found else 0
    last = max(int(found[2] or first), first) if found else 0
    asked = FileView(root, path, first, last, find.strip(), view == "source")
    if contents.is_original(path) and not (asked.source and contents.ending_of(path) == "svg"):
        return _show_original(app, place, asked)
    text = str(read_file_text(app, path, None, root, work=work).body)
    rows = text.removesuffix("\n").split("\n") if text else []
    asked, moved = _follow_line(asked, rows, at)
    symbols = contents.outline_of(place, path, text)
    rendered = None if asked.source or asked.find else _render(asked, text)
    start = _find_start(asked, page, len(rows))
    if rendered:
        body: Markup = tag("article", rendered, class_="prose rendered")
    elif rows:
        body = join([_show_pages(asked, start, len(rows)), _show_lines(asked, rows, start),
                     _show_pages(asked, start, len(rows))])  # fmt: skip
    else:
        body = show_note("The file is empty")
    facts = [count_of(len(rows), "line"), html.show_size(len(text.encode("utf-8", "replace"))),
             name_language(language_of(path).name)]  # fmt: skip
    renders = language_of(path).name in ("markdown", "jupyter") or path.lower().endswith(".svg")
    head = _show_head(app, place, asked, facts, renders, rows)
    outline = show_outline(asked, symbols, is_rendered=rendered is not None)
    note = tag("p", moved, class_="summary") if moved else None
    return _lay_out(place, asked, head, join([note, body]), outline)


def _lay_out(
    place: Project, asked: FileView, head: Markup, body: Markup, outline: Markup | None = None
) -> Content:
    names = tag("section", id="names", class_="panel names", hidden=True, tabindex="-1",
                aria_label="Definitions and uses")  # fmt: skip
    tree = tag("nav", tag("h2", show_icon("folder-tree"), "Files"), show_files(place, asked.path),
               id="files", class_="panel tree", aria_label="Files", tabindex="-1")  # fmt: skip
    side = tag("aside", names, outline, class_="side", aria_label="Names")
    inner = tag("div", tag("div", head, body, class_="whole-file"), side, tree, class_="viewer",
                data_project=asked.project, data_path=asked.path)  # fmt: skip
    return frame(asked.path.rpartition("/")[2], "", inner, kind="file")


def _find_start(asked: FileView, page: int | None, total: int) -> int:
    """The first line of the page to show, counted from 0."""
    number = page or max(asked.first - 1, 0) // PAGE_LINES + 1
    return min((number - 1) * PAGE_LINES, max(total - 1, 0) // PAGE_LINES * PAGE_LINES)


def checksum(line: str) -> str:
    """The checksum of a line in a permalink, used to find the line again."""
    return f"{zlib.crc32(line.strip().encode('utf-8', 'replace')):08x}"


def _follow_line(asked: FileView, rows: Sequence[str], at: str) -> tuple[FileView, str]:
    """The lines of a permanent link where they are now, and a note if they moved or are gone."""
    first = asked.first
    if not at or not first or (first <= len(rows) and checksum(rows[first - 1]) == at):
        return asked, ""
    same = [number for number, row in enumerate(rows, 1) if checksum(row) == at]
    if not same:
        return asked, f"Line {first:,} has changed since this link was made."
    now = min(same, key=lambda number: abs(number - first))
    moved = replace(asked, first=now, last=now + asked.last - first)
    return moved, f"This was line {first:,} when the link was made; it is line {now:,} now."


def _render(asked: FileView, text: str) -> Markup | None:
    place, name = DocumentPlace(asked.project, asked.path), language_of(asked.path).name
    if name == "markdown":
        return render_markdown(text, place, (asked.first, asked.last))
    return render_notebook(text, place) if name == "jupyter" and not asked.first else None


def _show_lines(asked: FileView, rows: Sequence[str], start: int) -> Markup:
    """A page of numbered lines, highlighted as part of the whole file."""
    pattern = re.compile(re.escape(asked.find) or "(?!)", re.IGNORECASE)
    coloured = highlight_code("\n".join(rows), language_of(asked.path).name)
    shown = [
        tag("span",
            tag("a", at, href=f"#L{at}", aria_label=f"Line {at}", tabindex="-1"),
            tag("span", mark_tokens(coloured[at - 1], [
                found.span() for found in pattern.finditer(rows[at - 1])])), "\n",
            id=f"L{at}", class_="on" if asked.first <= at <= asked.last else None)
        for at in range(start + 1, min(start + PAGE_LINES, len(rows)) + 1)
    ]  # fmt: skip
    return tag("pre", tag("code", shown), class_="code whole", tabindex="0",
               role="region", aria_label="Contents")  # fmt: skip


def _show_pages(asked: FileView, start: int, total: int) -> Markup | None:
    if total <= PAGE_LINES:
        return None
    number, end = start // PAGE_LINES + 1, min(start + PAGE_LINES, total)

    def way(page: int, text: str) -> Markup:
        return tag("a", text, href=asked.link(page=page, lines=None))

    return tag(
        "nav",
        way(number - 1, "Lines before") if start else None,
        tag("span", f"{start + 1:,}–{end:,} of {total:,}"),
        way(number + 1, "Lines after") if end < total else None,
        class_="ways",
        aria_label="Parts of the file",
    )


def _show_head(
    app: App, place: Project, asked: FileView, facts: Sequence[str], renders: bool,
    rows: Sequence[str] = (),
) -> Markup:  # fmt: skip
    """The path of the file, and its tools."""
    folder = asked.path.rpartition("/")[0]
    line = rows[asked.first - 1] if 0 < asked.first <= len(rows) else None
    permanent = asked.link(at=checksum(line) if line is not None else None)
    raw = f"/api/files/{quote(asked.path, safe='/', errors='surrogateescape')}"
    is_bytes = contents.is_original(asked.path)
    raw = link_to("/original" if is_bytes else raw, project=asked.project,
                  path=asked.path if is_bytes else None)  # fmt: skip
    shows_source = asked.source or bool(asked.find)
    tools = [
        tag("nav",
            tag("a", "Rendered", href=asked.link(view=None, find=None), data_key="r",
                aria_current=None if shows_source else "true"),
            tag("a", "Source", href=asked.link(view="source"), data_key="r",
                aria_current="true" if shows_source else None),
            class_="switch", aria_label="View") if renders else None,
        None if is_bytes else _show_find(asked),
        html.show_copy_button(asked.path, "Copy the path (c)"),
        tag("a", show_icon("link"), tag("span", "Permalink"), href=permanent, class_="tool",
            data_permalink=True, title="Copy a link that follows these lines (y)"),
        show_editors(app, place, asked),
        tag("a", show_icon("download" if is_bytes else "code"), tag("span", "Raw"), href=raw,
            class_="tool", title="Open the raw file (w)", data_raw=True),
        tag("a", show_icon("search"), tag("span", "Search here"), class_="tool",
            href=link_to("/", project=asked.project, path=folder), title="Search in this folder"),
    ]  # fmt: skip
    return tag(
        "div",
        tag("div", show_path_links(asked.project, asked.path),
            tag("p", [tag("span", each) for each in facts],
                tag("span", class_="place", data_results=True, hidden=True),
                tag("a", "Outline", href="#outline", class_="jump"),
                tag("a", "Files", href="#files", class_="jump"), class_="facts"),
            class_="where"),
        tag("div", tools, class_="tools"),
        class_="head",
    )  # fmt: skip


def _show_find(asked: FileView) -> Markup:
    return tag(
        "form",
        html.hidden_fields(project=asked.project, path=asked.path),
        show_icon("search"),
        tag("input", type="search", name="find", value=asked.find, placeholder="Find in file",
            aria_label="Find in file", autocomplete="off", spellcheck="false", maxlength=500),
        tag("output", class_="found", aria_live="polite"),
        action="/view", class_="find", role="search",
    )  # fmt: skip


def _show_original(app: App, place: Project, asked: FileView) -> Content:
    address = link_to("/original", project=asked.project, path=asked.path)
    data, mime = contents.read_original(place, asked.path)
    facts = [html.show_size(len(data)), mime.rpartition("/")[2].partition("+")[0]]
    if contents.ending_of(asked.path) == contents.PDF:
        try:
            text = contents.read_pdf_text(place, asked.path)
        except FileMissing:
            raise
        except SondeError as error:
            body = show_note("The text of this PDF cannot be shown", tag("p", error.user_message))
        else:
            body = tag("article", text, class_="prose plain") if text.strip() else show_note(
                "This PDF has no text", tag("p", "Its pages are pictures."))  # fmt: skip
    else:
        picture = tag("img", src=address, alt=asked.path.rpartition("/")[2])
        body = tag("figure", picture, class_="picture")
    renders = contents.ending_of(asked.path) == "svg"
    return _lay_out(place, asked, _show_head(app, place, asked, facts, renders), body)


def _show_folder(app: App, place: Project, folder: contents.ProjectFolder, work: Work) -> Content:
    asked = FileView(place.key, folder.path)
    readme = next((item for item in folder.items if _README.fullmatch(item.name)), None)
    about: Markup | None = None
    if readme:
        text = str(read_file_text(app, readme.path, None, asked.project, work=work).body)
        inner = _render(replace(asked, path=readme.path), text) or tag("pre", text)
        about = tag("article", inner, class_="prose rendered")
    search = link_to("/", project=asked.project, path=folder.path)
    head = tag(
        "div",
        tag("div", show_path_links(asked.project, folder.path),
            tag("p", tag("span", count_of(len(folder.items), "entry")),
                class_="facts"), class_="where"),
        tag("div", tag("a", show_icon("search"), tag("span", "Search here"), href=search,
                       class_="tool"), class_="tools"),
        class_="head",
    )  # fmt: skip
    return _lay_out(place, asked, head, join([show_listing(asked.project, folder), about]))


def send_original(
    app: App, path: PathParam, project: ProjectParam = None, *, work: Work
) -> Response:
    """The bytes of a picture or a PDF, sandboxed because a picture may contain scripts."""
    data, mime = contents.read_original(readable_project(app.workspace, project), path)
    headers = {"content-security-policy": _SANDBOX, "cache-control": "private, no-cache",
               "x-content-type-options": "nosniff"}  # fmt: skip
    return Response(data, 200, headers, mime)
