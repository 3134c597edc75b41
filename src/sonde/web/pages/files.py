"""The page of a file, with numbered lines, and that of a knowledge entry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from starlette.routing import BaseRoute

from sonde.app import App
from sonde.runtime.work import Work
from sonde.tools.code import FileParam, read_file_text
from sonde.tools.research import fetch
from sonde.tools.route import Content
from sonde.tools.schema import Param
from sonde.web.application import Parts
from sonde.web.pages.endpoints import serve_page
from sonde.web.pages.html import Markup, frame, link_to, show_note, tag

_PAGE_LINES = 3_000
"""More lines make a browser slow to lay out the page."""
_LINES = re.compile(r"([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?")


def add_file_pages(parts: Parts) -> Sequence[BaseRoute]:
    """The pages of files and entries."""
    return [serve_page("/view", show_file, parts), serve_page("/entry", show_entry_page, parts)]


def show_file(
    app: App,
    path: FileParam,
    project: Annotated[str | None, Param("Folder of the project", max_length=4096)] = None,
    lines: Annotated[str, Param("To highlight, such as '10-40'", max_length=20)] = "",
    page: Annotated[int | None, Param("Of a long file", minimum=1, maximum=1_000_000)] = None,
    *,
    work: Work,
) -> Content:
    """A file as it is on disk, under the same policy as searches."""
    content = read_file_text(app, path, None, project, work=work)
    text = str(content.body)
    first, last = _read_lines(lines)
    rows = text.removesuffix("\n").split("\n") if text else []
    number = page or max(first - 1, 0) // _PAGE_LINES + 1
    start = min((number - 1) * _PAGE_LINES, max(len(rows) - 1, 0) // _PAGE_LINES * _PAGE_LINES)
    shown = rows[start : start + _PAGE_LINES]
    head = tag(
        "div",
        tag("h1", _show_trail(path)),
        tag("p",
            f"{len(rows):,} {'line' if len(rows) == 1 else 'lines'}",
            tag("a", "Raw", href=_link_raw(path, project)),
            tag("a", "Search in this folder",
                href=link_to("/", project=project, path=path.rpartition("/")[0])),
            class_="facts"),
        class_="head",
    )  # fmt: skip
    body = _show_lines(shown, start, first, last) if rows else show_note("The file is empty")
    ways = _show_pages(path, project, start, len(rows)) if len(rows) > _PAGE_LINES else None
    return frame(path.rpartition("/")[2], "", head, ways, body, ways, kind="file")


def _read_lines(lines: str) -> tuple[int, int]:
    found = _LINES.fullmatch(lines)
    if not found:
        return 0, 0
    first = int(found[1])
    return first, max(int(found[2] or first), first)


def _show_trail(path: str) -> list[object]:
    *folders, name = path.split("/")
    steps = [[tag("span", folder, class_="folder"), "/"] for folder in folders]
    return [*steps, tag("span", name, class_="name")]


def _link_raw(path: str, project: str | None) -> str:
    return link_to(f"/api/files/{quote(path, safe='/', errors='surrogateescape')}", project=project)


def _show_lines(rows: Sequence[str], start: int, first: int, last: int) -> Markup:
    lines = [
        tag("span",
            tag("a", at, href=f"#L{at}", aria_label=f"Line {at}", tabindex="-1"),
            tag("span", row.removesuffix("\r")), "\n",
            id=f"L{at}", class_="on" if first <= at <= last else None)
        for at, row in enumerate(rows, start + 1)
    ]  # fmt: skip
    return tag("pre", tag("code", lines), class_="code whole", tabindex="0",
               role="region", aria_label="Contents")  # fmt: skip


def _show_pages(path: str, project: str | None, start: int, total: int) -> Markup:
    number = start // _PAGE_LINES + 1

    def way(page: int, text: str) -> Markup:
        return tag("a", text, href=link_to("/view", project=project, path=path, page=page))

    end = min(start + _PAGE_LINES, total)
    return tag(
        "nav",
        way(number - 1, "Lines before") if start else None,
        tag("span", f"{start + 1:,}–{end:,} of {total:,}"),
        way(number + 1, "Lines after") if end < total else None,
        class_="ways",
        aria_label="Parts of the file",
    )


def show_entry_page(
    app: App,
    uri: Annotated[str, Param("Of a result", min_length=1, max_length=5000)],
    offset: Annotated[int, Param("Where to go on", minimum=0)] = 0,
    *,
    work: Work,
) -> Content:
    """One knowledge entry."""
    retrieval = {"mode": "full", "offset": offset} if offset else None
    answer = fetch(app, uri, None, retrieval, work=work)
    meta = answer["meta"]
    title = meta.get("title") or uri
    tags = [tag("span", each, class_="badge") for each in meta.get("tags") or ()]
    head = tag(
        "div",
        tag("h1", title),
        tag("p", tag("span", meta["source"], class_="badge"), tags,
            tag("span", meta["last_modified"]) if meta.get("last_modified") else None,
            class_="facts"),
        class_="head",
    )  # fmt: skip
    after = answer.get("next_offset")
    way = link_to("/entry", uri=uri, offset=after)
    more = tag("nav", tag("a", "Read on", href=way), class_="ways") if after is not None else None
    return frame(str(title), "", head, _show_content(answer["content"]), more, kind="entry")


def _show_content(content: str | Mapping[str, Any]) -> Markup | list[Markup]:
    if isinstance(content, str):
        return tag("div", content, class_="prose")
    if "messages" in content:
        return [
            tag("article", tag("h2", each.get("sender") or "?"),
                tag("div", each["content"], class_="prose"))
            for each in content["messages"]
        ]  # fmt: skip
    return [
        tag("article", tag("h2", name), tag("div", str(value), class_="prose"))
        for name, value in content.items()
        if value
    ]
