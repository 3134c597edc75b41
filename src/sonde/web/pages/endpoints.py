"""Endpoints of pages and forms: errors become pages, confirmations are asked for. And login."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from urllib.parse import parse_qs

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute
from starlette.routing import Route as HttpRoute

from sonde.app import App
from sonde.errors import ConfirmationRequired, FileLimitWarning, SondeError
from sonde.mcp.calls import SCOPE_CALLER
from sonde.runtime.work import Work
from sonde.tools.route import Route
from sonde.types import Content
from sonde.web.accounts import SESSION_AGE_S
from sonde.web.application import Parts
from sonde.web.guard import LOGIN, LOGOUT, PROVIDER_PATHS, name_cookie, read_cookie
from sonde.web.oidc import SESSION_S, STEP_S, Provider
from sonde.web.pages.html import frame, hidden_fields, link_to, redirect_to, refuse_person, tag
from sonde.web.rest import RouteEndpoint

_STEP_COOKIE = "sonde_sign_in"  # between leaving for the provider and coming back


class PageEndpoint(RouteEndpoint):
    """A verb that answers with a page; errors are shown as pages, too."""

    def read_texts(self, request: Request) -> dict[str, list[str]]:
        """The arguments; empty fields of a form are left out."""
        texts = super().read_texts(request)
        kept = {name: [each for each in values if each] for name, values in texts.items()}
        return {name: values for name, values in kept.items() if values}

    def refuse(self, error: Exception, request: Request) -> Response:
        """An error as a page, or as a part of one if only that was requested."""
        return refuse_person(error, part=request.query_params.get("part") is not None)


class FormEndpoint(PageEndpoint):
    """A verb that takes the fields of a form and redirects to a page."""

    async def read_object(self, request: Request) -> dict[str, str | list[str]]:
        """The fields of the form, as lists where the verb takes lists."""
        sent = parse_qs((await request.body()).decode("utf-8", "replace"))
        request.state.sent = sent
        lists = {each.name for each in self._route.arguments if each.kind == "array"}
        return {name: each if name in lists else each[-1] for name, each in sent.items()}

    def refuse(self, error: Exception, request: Request) -> Response:
        """An error as a page; if a confirmation is missing, a page that asks for it."""
        if isinstance(error, ConfirmationRequired | FileLimitWarning) and "token" in error.facts:
            page = _ask(error, request.url.path, request.state.sent, _find_referrer(request))
            return Response(page.body, 200, {"cache-control": "no-store"}, page.mime)
        return super().refuse(error, request)


def serve_form(path: str, verb: Callable[..., Response], parts: Parts) -> HttpRoute:
    """The route that a form is sent to."""
    route = Route(path.lstrip("/"), verb, "A form", method="POST")
    return HttpRoute(path, FormEndpoint(route, parts.app, parts.calls), methods=["POST"])


def redirect_after(verb: Callable[..., object], way: str) -> Callable[..., Response]:
    """A form that runs a verb and redirects to a page."""

    @wraps(verb)
    def run(app: App, *, work: Work, **given: object) -> Response:
        verb(app, **given, work=work)
        return redirect_to(way)

    return run


def serve_page(path: str, verb: Callable[..., Content | Response], parts: Parts) -> HttpRoute:
    """The route of a page."""
    route = Route(path.lstrip("/"), verb, "A page", mime="text/html")
    return HttpRoute(path, PageEndpoint(route, parts.app, parts.calls), methods=["GET"])


def _find_referrer(request: Request) -> str:
    scheme, _, way = request.headers.get("referer", "").partition(f"://{request.headers['host']}")
    return local_path(way) if scheme in ("http", "https") else "/"


def local_path(way: str) -> str:
    """The path if it is on this server, else `/`: no open redirects."""
    plain = way.startswith("/") and not way.startswith(("//", "/\\")) and way.isprintable()
    return way if plain else "/"


def _ask(error: SondeError, path: str, sent: Mapping[str, Sequence[str]], back: str) -> Content:
    """A page that asks for confirmation; its form repeats the request with it."""
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
                hidden_fields(confirm=error.facts["token"]),
                tag("button", "Yes, continue", class_="danger", autofocus=True),
                tag("a", "Cancel", href=back, class_="button quiet"),
                method="post", action=path, class_="below"),
            class_="note ask"),
    )  # fmt: skip


def add_login(parts: Parts) -> Sequence[BaseRoute]:
    """The login page: takes a token, or the code of a printed link, and opens a session."""
    tokens, browsers = parts.access.tokens, parts.access.browsers
    provider = tokens.provider if tokens is not None else None

    async def show(request: Request) -> Response:
        way = local_path(request.query_params.get("next", "/"))
        if tokens is None:
            return RedirectResponse(way, 303)
        code = request.query_params.get("code")
        if code is None:
            return _show_login(way, provider=provider)
        session = browsers.redeem(code, tokens)
        if not session:
            return _show_login(way, "This link has been used or has expired.", provider)
        # no redirect: a browser that comes from elsewhere would not send the cookie along
        return keep_session(request, HTMLResponse(_redirect_page(way)), session)

    async def take(request: Request) -> Response:
        given = parse_qs((await request.body()).decode("utf-8", "replace"))
        token, way = given.get("token", [""])[0].strip(), local_path(given.get("next", ["/"])[0])
        if tokens is None or tokens.find_user(token) is None:
            return _show_login(way, "This token is not valid here.", provider)
        return keep_session(request, RedirectResponse(way, 303), browsers.open(token))

    def keep_session(request: Request, response: Response, session: str) -> Response:
        name = name_cookie(request.headers["host"])
        return _keep(parts, response, name, session, SESSION_AGE_S, strict=True)

    async def confirm_logout(_request: Request) -> Response:
        button = tag("button", "Sign out", autofocus=True)
        form = tag("form", button, method="post", action=LOGOUT, class_="below")
        about = tag("p", "This browser then needs a new link (sonde users link) or a key. "
                    "Others stay signed in.")  # fmt: skip
        page = frame("Sign out", "", tag("h1", "Sign this browser out?"), about, form)
        return HTMLResponse(page.body, headers={"cache-control": "no-store"})

    async def leave(request: Request) -> Response:
        host = request.headers["host"]
        browsers.end(read_cookie(request.headers, host))
        response = RedirectResponse(LOGIN if tokens is not None else "/", 303)
        response.delete_cookie(name_cookie(host), httponly=True, samesite="strict")
        return response

    return [
        HttpRoute(LOGIN, show),
        HttpRoute(LOGIN, take, methods=["POST"]),
        HttpRoute(LOGOUT, confirm_logout),
        HttpRoute(LOGOUT, leave, methods=["POST"]),
        *(_add_provider(parts, provider) if provider else ()),
    ]


def _keep(
    parts: Parts, response: Response, name: str, text: str, age_s: int, *, strict: bool
) -> Response:
    response.set_cookie(
        name, text, max_age=age_s, httponly=True, samesite="strict" if strict else "lax",
        secure=parts.access.public_url.startswith("https:"),
    )  # fmt: skip
    response.headers["cache-control"] = "no-store"
    return response


def _add_provider(parts: Parts, provider: Provider) -> Sequence[BaseRoute]:
    """The routes on which a browser leaves for the provider and returns."""
    leave_path, back_path = PROVIDER_PATHS

    async def leave(request: Request) -> Response:
        way = local_path(request.query_params.get("next", "/"))
        back = request.scope[SCOPE_CALLER].base_url + back_path
        try:
            address, step = await anyio.to_thread.run_sync(provider.begin, back, way)
        except SondeError as error:
            return _show_login(way, error.user_message, provider)
        # lax: the browser comes back from another site
        leading = RedirectResponse(address, 303)
        return _keep(parts, leading, _STEP_COOKIE, step, STEP_S, strict=False)

    async def come_back(request: Request) -> Response:
        back = request.scope[SCOPE_CALLER].base_url + back_path
        given, step = dict(request.query_params), request.cookies.get(_STEP_COOKIE, "")
        finish = partial(provider.finish, given, step, back)
        try:
            session, way = await anyio.to_thread.run_sync(finish)
        except SondeError as error:
            return _show_login("/", error.user_message, provider)
        # no redirect: a browser that comes from elsewhere would not send the cookie along
        response = HTMLResponse(_redirect_page(local_path(way)))
        response.delete_cookie(_STEP_COOKIE)
        name = name_cookie(request.headers["host"])
        return _keep(parts, response, name, session, SESSION_S, strict=True)

    return [HttpRoute(leave_path, leave), HttpRoute(back_path, come_back)]


def _redirect_page(way: str) -> str:
    leads = tag("meta", http_equiv="refresh", content=f"0; url={way}")
    return f"<!doctype html>{tag('title', 'sonde')}{leads}{tag('a', 'Go on', href=way)}"


def _show_login(way: str, problem: str = "", provider: Provider | None = None) -> Response:
    token = tag("input", name="token", type="password", required=True, autofocus=True,
                class_="field", autocomplete="current-password",
                aria_invalid="true" if problem else None,
                aria_describedby="problem" if problem else None)  # fmt: skip
    form = tag(
        "form",
        tag("label", "Token ", token),
        hidden_fields(next=way),
        tag("p", problem, id="problem", class_="problem", role="alert") if problem else None,
        tag("button", "Sign in"),
        method="post", action=LOGIN, class_="sheet",
    )  # fmt: skip
    about = (
        "On the server's machine, sonde users link prints a link that signs you in. Otherwise "
        "this is the key you were given."
    )
    door = None
    if provider:
        link = link_to(PROVIDER_PATHS[0], next=way)
        door = tag("p", tag("a", f"Sign in with {provider.name}", href=link, class_="button"))
    page = frame("Token", "", tag("h1", "Sign in"), door, form,
                 tag("p", about, class_="faint"),
                 kind="login", menu=False)  # fmt: skip
    return HTMLResponse(page.body, 401 if problem else 200, {"cache-control": "no-store"})
