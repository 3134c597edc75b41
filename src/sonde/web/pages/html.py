"""HTML as values: text is escaped unless it is already markup."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape
from typing import Any
from urllib.parse import urlencode

from sonde.errors import SondeError
from sonde.tools.route import Content

_EMPTY = frozenset({"input", "link", "meta", "br", "hr", "img"})


class Markup(str):
    """Text that is HTML already; only this module and `tag` make it."""

    __slots__ = ()


def tag(name: str, /, *inner: Any, **attributes: Any) -> Markup:
    """An element; a trailing or inner `_` of an attribute's name is left out or becomes `-`.

    Attributes that are None or False are left out; so are children. True is a bare attribute.
    """
    opened = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{_clean(str(value))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _EMPTY:
        return Markup(f"<{name}{opened}>")
    return Markup(f"<{name}{opened}>{join(inner)}</{name}>")


def join(parts: Iterable[Any]) -> Markup:
    """Texts and markup, lists of them, and nothing for None and False, as one piece."""
    return Markup("".join(map(_show, parts)))


def _show(part: Any) -> str:
    if isinstance(part, Markup):
        return part
    if part is None or part is False:
        return ""
    if isinstance(part, list | tuple):
        return join(part)
    return _clean(str(part))


def _clean(text: str) -> str:
    """Escaped, and without what UTF-8 cannot hold: names of files may be any bytes."""
    try:
        whole = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a pair, as exports of chats hold that cut an emoji in two
        whole = text.encode("utf-8", "replace")
    return escape(whole.decode("utf-8", "backslashreplace"))


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def link_to(path: str, /, **query: Any) -> str:
    """An address of a page; empty and missing arguments are left out."""
    given = {key.rstrip("_"): value for key, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(given, errors='surrogateescape')}" if given else path


PARTS = {
    "/": "Search",
    "/projects": "Projects",
    "/disk": "Disk",
    "/queries": "Queries",
    "/sets": "Sets",
}
"""The parts of the site, in the order of its menu."""
_STEPS = ((60, "s"), (60, "min"), (24, "h"), (30, "d"), (12, "mo"), (1e9, "y"))


def frame(title: str, here: str, *inner: Any, kind: str = "", menu: bool = True) -> Content:
    """A whole page; who has no token yet is shown no menu, and nothing that needs one."""
    parts = [
        tag("a", name, href=path, aria_current="page" if path == here else None)
        for path, name in PARTS.items()
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


def show_note(title: str, *inner: Any, kind: str = "empty") -> Markup:
    """What is said where there is nothing to list."""
    return tag("section", tag("h2", title), *inner, class_=f"note {kind}")


def show_age(moment: str | None) -> Any:
    """An ISO time as how long ago it was, with the whole in its title."""
    if not moment:
        return tag("span", "never", class_="faint")
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    if then.tzinfo is None:
        then = then.replace(tzinfo=UTC)
    return tag("time", _tell_age(then), datetime=moment, title=moment)


def _tell_age(then: datetime) -> str:
    value = max((datetime.now(UTC) - then).total_seconds(), 0.0)
    if value < 10:
        return "just now"
    at = 0
    while value >= _STEPS[at][0]:
        value /= _STEPS[at][0]
        at += 1
    return f"{value:.0f} {_STEPS[at][1]} ago"


def link_file(project: str, path: str, first: int = 0, last: int = 0) -> str:
    """The address of a file's page, at some of its lines."""
    lines = (f"{first}-{last}" if last > first else str(first)) if first else ""
    at = f"#L{first}" if first else ""
    return link_to("/view", project=project, path=path, lines=lines) + at
