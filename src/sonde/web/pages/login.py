"""The page on which a person gives a token once; the browser keeps it in a cookie."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from sonde.web.application import Parts
from sonde.web.guard import COOKIE, LOGIN
from sonde.web.pages.endpoints import keep_here
from sonde.web.pages.html import frame, tag

_MONTH_S = 30 * 24 * 3600


def add_login(parts: Parts) -> Sequence[BaseRoute]:
    """The page, and what it sends."""

    async def show(request: Request) -> Response:
        way = keep_here(request.query_params.get("next", "/"))
        return RedirectResponse(way, 303) if not parts.access.tokens else _show_page(way)

    async def take(request: Request) -> Response:
        given = parse_qs((await request.body()).decode("utf-8", "replace"))
        token, way = given.get("token", [""])[0].strip(), keep_here(given.get("next", ["/"])[0])
        if parts.access.tokens.find_user(token) is None:
            return _show_page(way, "That is not a token of this server.")
        response = RedirectResponse(way, 303)
        response.set_cookie(
            COOKIE,
            token,
            max_age=_MONTH_S,
            httponly=True,
            samesite="lax",
            secure=parts.access.public_url.startswith("https:"),
        )
        return response

    return [Route(LOGIN, show), Route(LOGIN, take, methods=["POST"])]


def _show_page(way: str, problem: str = "") -> Response:
    token = tag("input", name="token", type="password", required=True, autofocus=True,
                class_="field", autocomplete="current-password",
                aria_invalid="true" if problem else None,
                aria_describedby="problem" if problem else None)  # fmt: skip
    form = tag(
        "form",
        tag("label", "Token ", token),
        tag("input", type="hidden", name="next", value=way),
        tag("p", problem, id="problem", class_="problem", role="alert") if problem else None,
        tag("button", "Go in"),
        method="post", action=LOGIN, class_="sheet",
    )  # fmt: skip
    about = (
        "The token is in the file that the server was started with, or is a key you were given; "
        "sonde users add NAME gives one out."
    )
    page = frame("Token", "", tag("h1", "Who is there?"), form, tag("p", about, class_="faint"),
                 kind="login", menu=False)  # fmt: skip
    return HTMLResponse(page.body, 401 if problem else 200, {"cache-control": "no-store"})
