"""HTML as values (text is escaped unless it is `Markup`), the frame of pages, error pages."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from urllib.parse import urlencode

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from sonde.errors import NoSuchAddress, SondeError, TokenRequired
from sonde.text.times import format_age
from sonde.tools.route import Content
from sonde.web.rest import shape_error

_VOID_ELEMENTS = frozenset({"input", "link", "meta", "br", "hr", "img"})


class Markup(str):
    """Text that is HTML already; only this module makes it."""

    __slots__ = ()


def tag(name: str, /, *inner: object, **attributes: object) -> Markup:
    """An element. In the names of attributes, a trailing `_` is dropped and others become `-`.

    Attributes and children that are None or False are left out. True is a bare attribute.
    """
    opened = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{_clean(str(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
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
    try:
        whole = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate, as in exported chats that cut an emoji in two
        whole = text.encode("utf-8", "replace")
    return escape(whole.decode("utf-8", "backslashreplace"))


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def link_to(path: str, /, **query: object) -> str:
    """The address of a page; arguments that are empty or None are left out."""
    given = {key.rstrip("_"): value for key, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, errors='surrogateescape')}" if given else path


_MENU = {
    "/": ("Search", "Ask a question, or name a symbol, a path, a pattern"),
    "/projects": ("Projects", "What is indexed, and what is being done"),
    "/disk": ("Disk", "What takes the space, folder by folder"),
    "/queries": ("Queries", "Filters over a disk, kept under a name"),
    "/sets": ("Sets", "Files and folders that were put together"),
}
"""The parts of the site in the order of its menu: address -> name, purpose."""


def frame(title: str, here: str, *inner: object, kind: str = "", menu: bool = True) -> Content:
    """A whole page; without `menu`, one that asks for nothing that needs a token."""
    parts = [
        tag("a", name, href=path, aria_current="page" if path == here else None)
        for path, (name, _) in _MENU.items()
    ]
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} · sonde" if title else "sonde"),
        tag("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href="/static/page.css"),
        tag("script", src="/static/page.js", defer=True) if menu else None,
    ]
    body = [
        tag("a", "Skip to the content", class_="skip", href="#main"),
        tag(
            "header",
            tag("a", tag("span", class_="mark", aria_hidden="true"), "sonde", class_="brand",
                href="/"),
            tag("nav", parts, aria_label="Parts") if menu else None,
            class_="top",
        ),
        tag("main", inner, id="main", class_=kind or None, tabindex="-1"),
    ]  # fmt: skip
    page = join([Markup("<!doctype html>\n"),
                 tag("html", tag("head", head), tag("body", body), lang="en")])  # fmt: skip
    return Content(page, "text/html")


def show_error(error: SondeError) -> Markup:
    """What went wrong, and what to do."""
    return tag(
        "section",
        tag("h2", error.user_message),
        tag("p", error.next_action),
        tag("p", tag("code", error.code)),
        class_="note error",
        role="alert",
    )


def show_note(title: str, *inner: object, kind: str = "empty") -> Markup:
    """A note in place of a list that is empty."""
    return tag("section", tag("h2", title), *inner, class_=f"note {kind}")


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
    """Whether the client is a browser: programs do not accept HTML by name."""
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
            error.user_message, tag("p", tag("a", "Give it", href="/login"))))  # fmt: skip
    else:
        shown = frame("Error", "", tag("h1", "Error", class_="hidden"), show_error(error))
    headers = dict(shaped.headers)
    del headers["content-type"], headers["content-length"]
    return Response(shown.body, shaped.status_code, headers, "text/html")


def _show_missing(error: NoSuchAddress) -> Content:
    ways = [
        tag("li", tag("h2", tag("a", name, href=path, class_="open")),
            tag("p", about, class_="faint"))
        for path, (name, about) in _MENU.items()
    ]  # fmt: skip
    return frame(
        "Nothing here",
        "",
        tag("h1", "Nothing here", class_="hidden"),
        show_note(
            error.user_message,
            tag("p", "The address may be mistyped, or what it led to was forgotten."),
            kind="missing",
        ),
        tag("h2", "What there is"),
        tag("ul", ways, class_="cards"),
    )
