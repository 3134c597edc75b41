"""The page on which a person gives a token once; the browser keeps it in a cookie."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from sonde.web.application import Parts
from sonde.web.guard import COOKIE, LOGIN

_MONTH_S = 30 * 24 * 3600
_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>sonde: token</title>
<style>
:root {{ color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif; }}
body {{ max-width: 26rem; margin: 15vh auto; padding: 0 1rem; }}
input, button {{ font: inherit; padding: .5rem .75rem; width: 100%; box-sizing: border-box; }}
button {{ margin-top: 1rem; }}
</style>
<main>
<h1>sonde</h1>
<form method="post" action="{action}">
<label>Token <input name="token" type="password" required autofocus
 autocomplete="current-password"></label>
<input type="hidden" name="next" value="{next}">
<p role="alert">{problem}</p>
<button>Go in</button>
</form>
</main>
</html>
"""


def add_login(parts: Parts) -> Sequence[BaseRoute]:
    """The page, and what it sends."""

    async def show(request: Request) -> Response:
        way = _keep_here(request.query_params.get("next", "/"))
        return RedirectResponse(way, 303) if not parts.access.tokens else _show_page(way)

    async def take(request: Request) -> Response:
        given = parse_qs((await request.body()).decode("utf-8", "replace"))
        token, way = given.get("token", [""])[0].strip(), _keep_here(given.get("next", ["/"])[0])
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
    page = _PAGE.format(action=LOGIN, next=escape(way), problem=escape(problem))
    status = 401 if problem else 200
    return HTMLResponse(page, status, {"cache-control": "no-store"})


def _keep_here(way: str) -> str:
    """A path on this server; anything else would lead a person elsewhere with our name on it."""
    split = urlsplit(way)
    plain = way.startswith("/") and not way.startswith(("//", "/\\")) and way.isprintable()
    return way if plain and not split.netloc and not split.scheme else "/"
