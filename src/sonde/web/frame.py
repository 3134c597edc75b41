"""The frame around every page, and what several of them say: errors, nothing to list, ages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sonde.errors import SondeError
from sonde.tools.route import Content
from sonde.web.html import Markup, join, link_to, tag

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
