"""Errors for people: the same object that programs get, as a page of the site."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from sonde.errors import NoSuchAddress, SondeError, TokenRequired
from sonde.tools.route import Content
from sonde.web.errors import shape_error
from sonde.web.pages.html import PARTS, frame, show_error, show_note, tag

_ABOUT = {
    "/": "Ask a question, or name a symbol, a path, a pattern",
    "/projects": "What is indexed, and what is being done",
    "/disk": "What takes the space, folder by folder",
    "/queries": "Filters over a disk, kept under a name",
    "/sets": "Files and folders that were put together",
}


def is_person(scope: Scope) -> bool:
    """Whether a browser asks for a page; programs take JSON, and say so or say nothing."""
    return scope["type"] == "http" and "text/html" in Headers(scope=scope).get("accept", "")


def refuse_request(error: Exception, scope: Scope) -> Response:
    """The response for an error, as the one who asked can read it."""
    return refuse_person(error) if is_person(scope) else shape_error(error)


def refuse_person(error: Exception, *, part: bool = False) -> Response:
    """An error as a page, or as a part of one."""
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
            tag("p", _ABOUT[path], class_="faint"))
        for path, name in PARTS.items()
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
