"""HTML as values (text is escaped unless it is `Markup`): pages, and the parts they share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from sonde.errors import FileMissing, IndexNotFound, NoSuchAddress, SondeError, TokenRequired
from sonde.runtime.system import find_home_folder
from sonde.text.formats import count_of, format_age, format_bytes
from sonde.text.syntax_highlighting import Token
from sonde.types import Content
from sonde.web.rest import shape_error

_BADGES = {"ready": "good", "running": "busy", "indexing": "busy", "done": "good"}
_SPECIAL = re.compile("[&<>\"']")
_VOID_ELEMENTS = frozenset({"input", "link", "meta", "br", "hr", "img"})


class Markup(str):
    """Text that is already HTML; created only here, and by `viewer.rendering` after sanitising."""

    __slots__ = ()


def tag(name: str, /, *inner: object, **attributes: object) -> Markup:
    """An element. In the names of attributes, a trailing `_` is dropped and others become `-`.
    Attributes and children that are None or False are left out. True is a bare attribute."""
    opened = ""
    for key, value in attributes.items():
        if value is not None and value is not False:
            opened += f" {key.rstrip('_').replace('_', '-')}"
            opened += "" if value is True else f'="{_clean(str(value))}"'
    if name in _VOID_ELEMENTS:
        return Markup(f"<{name}{opened}>")
    return Markup(f"<{name}{opened}>{join(inner)}</{name}>")


def join(parts: Iterable[object]) -> Markup:
    """Texts, markup and lists of them as one piece; None and False are left out."""
    return Markup("".join(map(_show, parts)))


def _show(part: object) -> str:
    if isinstance(part, Markup):
        return part
    if part is None or part is False:
        return ""
    if isinstance(part, list | tuple):
        return join(part)
    return _clean(str(part))


def _clean(text: str) -> str:
    """The text escaped, and valid as UTF-8: names of files may be any bytes."""
    if text.isascii():
        return escape(text) if _SPECIAL.search(text) else text
    try:
        whole = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate, as in exported chats that cut an emoji in two
        whole = text.encode("utf-8", "replace")
    return escape(whole.decode("utf-8", "backslashreplace"))


def link_to(path: str, /, **query: object) -> str:
    """The address of a page; arguments that are empty or None are left out."""
    given = {key.rstrip("_"): value for key, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, errors='surrogateescape')}" if given else path


MENU = {
    "/": ("Search", "search", "Ask a question, or type a symbol, a path or a pattern"),
    "/projects": ("Projects", "layers", "Indexed projects and their state"),
    "/knowledge": ("Knowledge", "book-open", "Notes, documents, chats, characters and prompts"),
    "/disk": ("Disk", "hard-drive", "What takes up space, folder by folder"),
    "/jobs": ("Jobs", "clock", "What is running, and its progress"),
    "/queries": ("Queries", "list-filter", "Saved filters over a disk"),
    "/sets": ("Sets", "files", "Saved selections of files and folders"),
}
"""The parts of the site in the order of its menu: address -> name, icon, purpose."""


STATIC = {
    file.name: file.read_bytes()
    for file in files("sonde.web").joinpath("static").iterdir()
    if file.name.endswith((".css", ".js", ".svg"))
}
"""The static files by name: read once, so that there is no folder to traverse."""
_ASSETS: Mapping[str, Sequence[str]] = {
    "search": ("search", "home"),
    "setup": ("home",),
    "file": ("viewer",),
    "names-page": ("viewer",),
    "entry": ("viewer", "knowledge"),
    "knowledge": ("knowledge",),
    "jobs": ("jobs",),
    "projects": ("home", "jobs"),
    "disk": ("disk", "jobs"),
}
"""The style sheets and scripts of each kind of page besides `tokens` and `page`."""


def frame(title: str, here: str, *inner: object, kind: str = "", menu: bool = True) -> Content:
    """A whole page; without `menu`, one that needs no token."""
    parts = [
        tag("a", name, href=path, aria_current="page" if path == here else None)
        for path, (name, *_) in MENU.items()
    ]
    assets = ("page", "palette", *_ASSETS.get(kind, ())) if menu else ("page",)
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · sonde" if title else "sonde"),
        tag("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        [tag("link", rel="stylesheet", href=f"/static/{name}.css")
         for name in ("tokens", *assets) if f"{name}.css" in STATIC],
        [tag("script", src=f"/static/{name}.js", defer=True, blocking="render")  # no shift
         for name in assets if menu and f"{name}.js" in STATIC],
    ]  # fmt: skip
    body = [
        tag("a", "Skip to content", class_="skip", href="#main"),
        tag(
            "header",
            tag("a", tag("span", class_="mark", aria_hidden="true"), "sonde", class_="brand",
                href="/"),
            tag("nav", parts, aria_label="Parts") if menu else None,
            tag("a", show_icon("search"), tag("span", "Go to…"),
                tag("kbd", "Ctrl K", aria_hidden="true"), href="/go", class_="go",
                aria_keyshortcuts="Control+K") if menu else None,
            class_="top",
        ),
        tag("main", inner, id="main", class_=kind or None, tabindex="-1"),
        tag("footer", tag("a", "Sign out", href="/logout"), class_="faint") if menu else None,
    ]  # fmt: skip
    page = join([Markup("<!doctype html>\n"),
                 tag("html", tag("head", head), tag("body", body), lang="en")])  # fmt: skip
    return Content(page, "text/html")


def show_sentence(text: str) -> Markup:
    """A message, with text in backticks shown as code."""
    parts = text.split("`")
    return join(tag("code", part) if at % 2 else part for at, part in enumerate(parts))


def show_error(error: SondeError) -> Markup:
    """What went wrong, and what to do."""
    advice: object = show_sentence(error.next_action)
    if isinstance(error, FileMissing):  # its advice names a tool, which a page does not have
        name = str(error.facts.get("path", "")).rstrip("/").rpartition("/")[2]
        advice = tag("a", "Look for it by name", href=link_to("/", tab="paths", q=name))
    if isinstance(error, IndexNotFound):
        advice = tag("a", "Index it on the page of projects", href="/projects")
    return tag(
        "section",
        tag("h2", show_sentence(error.user_message)),
        tag("p", advice),
        tag("p", tag("code", error.code)),
        class_="note error",
        role="alert",
    )


def show_note(title: str, *inner: object, kind: str = "empty") -> Markup:
    """A note in place of a list that is empty."""
    return tag("section", tag("h2", title), *inner, class_=f"note {kind}")


def show_icon(name: str) -> Markup:
    """An icon of `icons.svg`, hidden from screen readers."""
    use = Markup(f'<use href="/static/icons.svg#{name}"/>')
    return tag("svg", use, class_="icon", aria_hidden="true")


def show_copy_button(path: str, title: str = "Copy the path") -> Markup:
    """A button that copies a path. Needs `page.js`; without scripts it is hidden."""
    return tag("button", show_icon("copy"), tag("span", "Copy path"), type="button", class_="tool",
               data_copy=path, title=title)  # fmt: skip


def show_tokens(tokens: Iterable[Token]) -> Markup:
    """A line of highlighted code."""
    parts = (
        f'<span class="c-{kind}">{_clean(text)}</span>' if kind else _clean(text)
        for kind, text in tokens
    )  # a page has thousands of tokens: written out, they take a third of the time of `tag`
    return Markup("".join(parts))


def show_line(number: int, href: str, code: Markup) -> Markup:
    """A numbered line of code; `href` is the address of its file, escaped here."""
    link = f'<a href="{_clean(href)}#L{number}" tabindex="-1" aria-hidden="true">{number}</a>'
    return Markup(f"<span>{link}{code}\n</span>")


def show_age(moment: str | None) -> Markup | str:
    """An ISO time as its age, with the time itself as the tooltip."""
    if not moment:
        return tag("span", "never", class_="faint")
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    age = format_age((datetime.now(UTC) - then).total_seconds())
    return tag("time", age, datetime=moment, title=moment)


def link_file(project: str, path: str, first: int = 0, last: int = 0) -> str:
    """The address of a file's page with some lines highlighted."""
    lines = (f"{first}-{last}" if last > first else str(first)) if first else ""
    at = f"#L{first}" if first else ""
    return link_to("/view", project=project, path=path, lines=lines) + at


def is_person(scope: Scope) -> bool:
    """Whether the client is a browser: programs do not ask for HTML explicitly."""
    return scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", "")


def refuse_request(error: Exception, scope: Scope) -> Response:
    """The response for an error: a page for browsers, JSON for programs."""
    return refuse_person(error) if is_person(scope) else shape_error(error)


def refuse_person(error: Exception, *, part: bool = False) -> Response:
    """An error as a page, or as a part of one; status and headers as for programs."""
    shaped = shape_error(error)
    if not isinstance(error, SondeError):
        error = SondeError("see the log")
    if part:
        shown = Content(show_error(error))
    elif isinstance(error, NoSuchAddress):
        shown = _show_missing(error)
    elif isinstance(error, TokenRequired):
        shown = frame("Token", "", tag("h1", "Token", class_="hidden"), show_note(
            error.user_message, tag("p", tag("a", "Sign in", href="/login"))))  # fmt: skip
    else:
        shown = frame("Error", "", tag("h1", "Error", class_="hidden"), show_error(error))
    headers = dict(shaped.headers)
    del headers["content-type"], headers["content-length"]
    return Response(shown.body, shaped.status_code, headers, "text/html")


def _show_missing(error: NoSuchAddress) -> Content:
    ways = [
        tag("li", tag("h2", tag("a", name, href=path, class_="open")),
            tag("p", about, class_="faint"))
        for path, (name, _, about) in MENU.items()
    ]  # fmt: skip
    return frame(
        "Not found",
        "",
        tag("h1", "Not found", class_="hidden"),
        show_note(
            error.user_message,
            tag("p", "The address may be mistyped, or what it led to has expired."),
            kind="missing",
        ),
        tag("h2", "Where to go"),
        tag("ul", ways, class_="cards"),
    )


def redirect_to(path: str) -> RedirectResponse:
    """A redirect to another page, requested by GET."""
    return RedirectResponse(path, 303)


def hidden_fields(**fields: str | None) -> list[Markup]:
    """Hidden fields of a form; those without a value are left out."""
    return [tag("input", type="hidden", name=k, value=text) for k, text in fields.items() if text]


def show_button(
    action: str, name: str, *, kind: str = "quiet", label: str | None = None, **fields: str
) -> Markup:
    """A form with a button and hidden fields only."""
    button = tag("button", name, class_=kind or None, aria_label=label)
    return tag("form", hidden_fields(**fields), button, method="post", action=action, class_="one")


def show_folder_form(action: str, name: str, button: str, example: str) -> Markup:
    """A form that takes a folder of the server's machine."""
    return tag(
        "form",
        tag("label", f"Folder to {button.lower()}", for_="folder", class_="hidden"),
        tag("input", name=name, id="folder", required=True, placeholder=example, class_="field",
            autocapitalize="none", spellcheck="false"),
        tag("button", button), method="post", action=action, class_="inline",
    )  # fmt: skip


def show_facts(facts: Sequence[tuple[str, str | Markup]]) -> Markup:
    """Names and values side by side."""
    rows = [tag("div", tag("dt", name), tag("dd", fact)) for name, fact in facts]
    return tag("dl", rows, class_="facts-grid")


def name_folder(path: str) -> str:
    """The last name of a path."""
    return path.rstrip("/").rpartition("/")[2] or path


def show_place(path: str) -> Markup:
    """The path of a file or folder; `~` stands for the home folder."""
    home, place = find_home_folder(), Path(path)
    if home and place.is_relative_to(home):
        return tag("code", "~" / place.relative_to(home), title=path)
    return tag("code", path)


def _describe_state(row: Mapping[str, Any], job: Mapping[str, Any] | None) -> list[object]:
    """The state of a project in words: `ready, last change 2 min ago`."""
    if job:
        progress = job.get("progress") or {}
        total, done = progress.get("total"), progress.get("done", 0)
        return ["indexing", f", {done:,} of {total:,} files" if total else None]
    status = row["status"]
    words = {"ready": "ready", "incomplete": "not finished: the last run was interrupted"}
    changed = row.get("lastUpdated")
    return [words.get(status, status.replace("_", " ")),
            [", last change ", show_age(str(changed))] if changed else None]  # fmt: skip


def show_card(row: Mapping[str, Any], job: Mapping[str, Any] | None) -> Markup:
    """A project: name, state, folder, size."""
    root = str(row["projectPath"])
    kind = "busy" if job else "good" if row["status"] == "ready" else "warn"
    return tag(
        "li",
        tag("h3", show_icon("layers"),
            tag("a", name_folder(root), href=link_to("/view", project=root, path="/"),
                class_="open")),
        tag("p", tag("i", class_=f"dot {kind}", aria_hidden="true"),
            tag("span", _describe_state(row, job)), class_="state"),
        tag("p", show_place(root), class_="faint"),
        tag("p", tag("span", count_of(row["totalFiles"], "file"), f" · {row['storageSize']}"),
            tag("a", "Search", href=link_to("/", project=root), data_project=root,
                aria_label=f"Search {name_folder(root)}"),
            tag("a", "Status", href=link_to("/project", project=root),
                aria_label=f"Status of {name_folder(root)}"), class_="facts"),
    )  # fmt: skip


def show_size(size: int | None) -> str:
    """A size; empty if it is not known."""
    return "" if size is None else format_bytes(size, "iec")


def show_status(status: str, **attributes: object) -> Markup:
    """A status as a badge."""
    kind = f"badge {_BADGES.get(status, 'warn')}"
    return tag("span", status.replace("_", " "), class_=kind, **attributes)


def show_bars(rows: Sequence[tuple[object, float, str]]) -> Markup:
    """A small chart: names, bars, figures; negative bars have another colour."""
    return tag(
        "dl",
        [
            tag("div", tag("dt", name),
                tag("dd", tag("i", style=f"--share:{abs(share):.3f}",
                              class_="less" if share < 0 else None), figure))
            for name, share, figure in rows
        ],
        class_="bars",
    )  # fmt: skip


def show_next(cursor: str | None, path: str, /, **kept: str | None) -> Markup | None:
    """The link to the next page, if there is one."""
    link = tag("a", "Next page", href=link_to(path, **kept, cursor=cursor), rel="next")
    return tag("nav", link, class_="ways", aria_label="Pages") if cursor else None


def show_rows(
    heads: Sequence[Markup | None], rows: Sequence[Markup], kind: str = "listing"
) -> Markup:
    """Rows as a table that scrolls sideways if it is too wide."""
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_=kind)
    return tag("div", table, class_="wide")
