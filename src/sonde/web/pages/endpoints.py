"""The endpoints of pages and forms: errors are pages, and what must be confirmed is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route as HttpRoute

from sonde.errors import ConfirmationRequired, FileLimitWarning, SondeError
from sonde.tools.route import Content, Route
from sonde.web.application import Parts
from sonde.web.pages.errors import refuse_person
from sonde.web.pages.html import Markup, frame, tag
from sonde.web.rest import RouteEndpoint


class PageEndpoint(RouteEndpoint):
    """A verb that answers with a page; what it raises is shown as one, too."""

    def read_texts(self, request: Request) -> dict[str, list[str]]:
        """The arguments; a form sends empty fields, which mean nothing."""
        texts = super().read_texts(request)
        kept = {name: [each for each in values if each] for name, values in texts.items()}
        return {name: values for name, values in kept.items() if values}

    def refuse(self, error: Exception, request: Request) -> Response:
        """An error as a page, or as a part of one where a part was asked for."""
        return refuse_person(error, part=request.query_params.get("part") is not None)


class FormEndpoint(PageEndpoint):
    """A verb that takes what a form sends, and leads to another page."""

    async def read_object(self, request: Request) -> dict[str, Any]:
        """The fields of the form; a list where the verb takes one."""
        sent = parse_qs((await request.body()).decode("utf-8", "replace"))
        request.state.sent = sent
        lists = {each.name for each in self._route.arguments if each.kind == "array"}
        return {name: all_ if name in lists else all_[-1] for name, all_ in sent.items()}

    def refuse(self, error: Exception, request: Request) -> Response:
        """An error as a page; where a yes is missing, a page that asks for it."""
        if isinstance(error, ConfirmationRequired | FileLimitWarning) and "token" in error.facts:
            page = _ask(error, request.url.path, request.state.sent, find_way_back(request))
            return Response(page.body, 200, {"cache-control": "no-store"}, page.mime)
        return super().refuse(error, request)


def serve_form(path: str, verb: Callable[..., Response], parts: Parts) -> HttpRoute:
    """The route that a form is sent to."""
    route = Route(path.lstrip("/"), verb, "A form", method="POST")
    return HttpRoute(path, FormEndpoint(route, parts.app, parts.calls), methods=["POST"])


def serve_page(path: str, verb: Callable[..., Content], parts: Parts) -> HttpRoute:
    """The route of a page."""
    route = Route(path.lstrip("/"), verb, "A page", mime="text/html")
    return HttpRoute(path, PageEndpoint(route, parts.app, parts.calls), methods=["GET"])


def lead_to(path: str) -> RedirectResponse:
    """On to another page, which is then asked for by GET."""
    return RedirectResponse(path, 303)


def show_button(action: str, name: str, *, kind: str = "quiet", label: str | None = None) -> Markup:
    """A form that is one button: pressing it is all there is to say."""
    button = tag("button", name, class_=kind or None, aria_label=label)
    return tag("form", button, method="post", action=action, class_="one")


def find_way_back(request: Request) -> str:
    """The page of ours that the form was on."""
    scheme, _, way = request.headers.get("referer", "").partition(f"://{request.headers['host']}")
    return keep_here(way) if scheme in ("http", "https") else "/"


def keep_here(way: str) -> str:
    """A path on this server; anything else would lead a person elsewhere with our name on it."""
    plain = way.startswith("/") and not way.startswith(("//", "/\\")) and way.isprintable()
    return way if plain else "/"


def _ask(error: SondeError, path: str, sent: Mapping[str, Sequence[str]], back: str) -> Content:
    """The question, and the same form again with the answer to it."""
    kept = [
        tag("input", type="hidden", name=name, value=value)
        for name, values in sent.items() if name != "confirm" for value in values
    ]  # fmt: skip
    return frame(
        "Are you sure?",
        "",
        tag("section",
            tag("h1", error.user_message),
            tag("form", kept,
                tag("input", type="hidden", name="confirm", value=error.facts["token"]),
                tag("button", "Yes, go on", class_="danger", autofocus=True),
                tag("a", "No, leave it", href=back, class_="button quiet"),
                method="post", action=path, class_="below"),
            class_="note ask"),
    )  # fmt: skip
