"""What every page has: the frame around it, errors as pages, and the endpoint that serves it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as HttpRoute

from sonde.errors import SondeError
from sonde.tools.route import Content, Route
from sonde.web.application import Parts
from sonde.web.errors import shape_error
from sonde.web.html import Markup, join, link_to, tag
from sonde.web.rest import RouteEndpoint

PARTS = {"/": "Search", "/projects": "Projects", "/disk": "Disk", "/sets": "Sets"}
"""The parts of the site, in the order of its menu."""
_STEPS = ((60, "s"), (60, "min"), (24, "h"), (30, "d"), (12, "mo"), (1e9, "y"))


class PageEndpoint(RouteEndpoint):
    """A verb that answers with a page; what it raises is shown as one, too."""

    def read_texts(self, request: Request) -> dict[str, list[str]]:
        """The arguments; a form sends empty fields, which mean nothing."""
        texts = super().read_texts(request)
        kept = {name: [each for each in values if each] for name, values in texts.items()}
        return {name: values for name, values in kept.items() if values}

    def refuse(self, error: Exception, request: Request) -> Response:
        """An error as a page, or as a part of one where a part was asked for."""
        shaped = shape_error(error)
        if not isinstance(error, SondeError):
            error = SondeError("see the log")
        shown = Content(show_error(error))
        if request.query_params.get("part") is None:
            shown = frame("Error", "", tag("h1", "Error", class_="hidden"), show_error(error))
        headers = dict(shaped.headers)
        del headers["content-type"], headers["content-length"]
        return Response(shown.body, shaped.status_code, headers, "text/html")


class FormEndpoint(PageEndpoint):
    """A verb that takes what a form sends, and leads to another page."""

    async def read_object(self, request: Request) -> dict[str, Any]:
        """The fields of the form; a list where the verb takes one."""
        sent = parse_qs((await request.body()).decode("utf-8", "replace"))
        lists = {each.name for each in self._route.arguments if each.kind == "array"}
        return {name: all_ if name in lists else all_[-1] for name, all_ in sent.items()}


def serve_form(path: str, verb: Callable[..., Response], parts: Parts) -> HttpRoute:
    """The route that a form is sent to."""
    route = Route(path.lstrip("/"), verb, "A form", method="POST")
    return HttpRoute(path, FormEndpoint(route, parts.app, parts.calls), methods=["POST"])


def serve_page(path: str, verb: Callable[..., Content], parts: Parts) -> HttpRoute:
    """The route of a page."""
    route = Route(path.lstrip("/"), verb, "A page", mime="text/html")
    return HttpRoute(path, PageEndpoint(route, parts.app, parts.calls), methods=["GET"])


def frame(title: str, here: str, *inner: Any, kind: str = "") -> Content:
    """A whole page."""
    menu = [
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
        tag("script", src="/static/page.js", defer=True),
    ]
    body = [
        tag("a", "Skip to the content", class_="skip", href="#main"),
        tag(
            "header",
            tag("a", tag("span", class_="mark", aria_hidden="true"), "sonde", class_="brand",
                href="/"),
            tag("nav", menu, aria_label="Parts"),
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
