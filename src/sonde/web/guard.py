"""The guard in front of everything that is served over HTTP.

It checks the Host and Origin headers, the path, the token, the size of the body and the rate.
Requests that pass carry a `Caller`; nothing behind the guard checks any of this again.
"""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sonde import errors
from sonde.knowledge.retrieval import check_preferences
from sonde.mcp.calls import SCOPE_CALLER
from sonde.mcp.http import replay
from sonde.mcp.listing import Buckets
from sonde.types import LOCAL, Caller
from sonde.web.accounts import BrowserSessions, Keyring
from sonde.web.oidc import Person
from sonde.web.pages.html import is_person, refuse_request

MAX_BODY_BYTES = 4 * 1024 * 1024
"""The limit of a request body and of a WebSocket message; far more than any call needs."""
UPLOADS = ("/knowledge/files", "/api/knowledge/files")
"""Addresses of uploads, whose bodies may be larger and are not held in memory."""
MAX_UPLOAD_BYTES = 257 << 20  # 256 MiB, the largest file that is imported, and what is around it
BODY_TIMEOUT_S = 30.0
"""Time for a body to arrive; bounds what a client that sends slowly can hold open."""
WRONG_TOKENS_PER_S, WRONG_TOKENS_BURST = 0.5, 10
"""Wrong tokens per address: enough for typing errors, far too few for guessing."""
LOGIN = "/login"
LOGOUT = "/logout"
PROVIDER_PATHS = (f"{LOGIN}/provider", f"{LOGIN}/back")
"""Where a browser leaves for the OpenID Connect provider, and where it returns."""
OPEN_PATHS = frozenset({
    "/healthz", "/readyz", LOGIN, *PROVIDER_PATHS,
    "/static/tokens.css", "/static/page.css", "/static/icon.svg",
})  # fmt: skip
"""Addresses served without a token, because they contain no user data."""

_ANONYMOUS = "anonymous"
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
        "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
}


@dataclass(frozen=True)
class Access:
    """Where the server listens, and who may use it."""

    host: str = "127.0.0.1"
    port: int = 0
    tokens: Keyring | None = None
    """Identifies users; None admits everyone, for an application with a guard of its own."""
    browsers: BrowserSessions = field(default_factory=BrowserSessions)
    public_url: str = ""
    """The server's address as clients see it, if a proxy is in front."""
    rate_limit: int = 200
    """Requests per second for one caller; 0 means no limit."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return self.host == "localhost" or _is_address(self.host, loopback=True)


class Guard:
    """Rejects forbidden requests and identifies the caller of all others."""

    def __init__(
        self, app: ASGIApp, access: Access, sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    ) -> None:
        self._sleep = sleep
        self._app = app
        self._access = access
        self._public = urlsplit(access.public_url.lower())
        self._names = {"localhost", self._public.hostname or "localhost"}
        if not access.is_loopback:
            self._names |= {access.host.lower(), socket.gethostname().lower()}
        rate = access.rate_limit
        self._buckets = Buckets(rate, 2 * rate) if rate else None
        self._failures = Buckets(WRONG_TOKENS_PER_S, WRONG_TOKENS_BURST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, socket or lifetime."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            scope[SCOPE_CALLER] = self._admit(scope, Headers(scope=scope))
            if scope["type"] == "http":
                sent = Headers(scope=scope)
                if scope["path"] in UPLOADS and scope["method"] == "POST":
                    receive = _limit_body(sent, receive, MAX_UPLOAD_BYTES)
                else:
                    receive = await _read_body(sent, receive)
        except errors.SondeError as error:
            nameless = isinstance(error, errors.TokenRequired)
            if nameless and is_person(scope) and scope["method"] == "GET":
                query = scope["query_string"].decode("latin-1")
                way = quote(scope["path"] + (f"?{query}" if query else ""), safe="/")
                await RedirectResponse(f"{LOGIN}?next={way}", 303)(scope, receive, send)
            else:
                await _refuse(error, scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                if _is_login(scope) and message["status"] == 401:
                    self._failures.take(_address_of(scope))
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["type"] == "websocket" and self._buckets:
            receive = self._pace(self._buckets, scope, receive)
        await self._app(scope, receive, send_with_headers)

    def _admit(self, scope: Scope, headers: Headers) -> Caller:
        host = headers.get("host", "")
        if len(headers.getlist("host")) != 1 or not self._is_ours(host):
            raise errors.UnknownHost(f"Host: {host!r}", host=host)
        path: str = scope["path"]
        if "\0" in path or "\\" in path or ".." in path.split("/"):
            raise errors.InvalidRequest(
                f"path {path!r}", user_message="The path is not a plain path."
            )
        self._check_origin(headers, host, scope)
        identity, is_person = self._find_user(scope, headers, host)
        user, groups = identity.user, identity.groups
        self._take(user, scope)
        scheme = "https" if scope["scheme"] in ("https", "wss") else "http"
        base = self._access.public_url.rstrip("/") or f"{scheme}://{host}"
        config = _read_config(scope)
        return Caller(user=user, base_url=base, is_person=is_person, groups=groups, config=config)

    def _take(self, user: str, scope: Scope) -> None:
        who = _name_caller(user, scope)
        wait = self._buckets.take(who) if self._buckets else 0
        if wait:
            raise errors.TooManyRequests(who, seconds=wait)

    def _pace(self, buckets: Buckets, scope: Scope, receive: Receive) -> Receive:
        """Count the messages of a socket like requests; delay those over the limit."""
        who = _name_caller(scope[SCOPE_CALLER].user, scope)

        async def receive_in_turn() -> Message:
            message = await receive()
            if message["type"] == "websocket.receive":
                while wait := buckets.take(who):
                    await self._sleep(wait)
            return message

        return receive_in_turn

    def _is_ours(self, host: str) -> bool:
        name = _name_of(host)
        if name in self._names:
            return True
        # Any name can resolve to us (DNS rebinding); an address in the Host header is safe.
        return _is_address(name, loopback=self._access.is_loopback)

    def _check_origin(self, headers: Headers, host: str, scope: Scope) -> None:
        origin = headers.get("origin")
        if origin is not None:
            scheme, _, netloc = origin.lower().partition("://")
            ours = netloc == host.lower() or (scheme, netloc) == self._public[:2]
            if len(headers.getlist("origin")) > 1 or not netloc or not ours:
                raise errors.ForeignOrigin(f"Origin: {origin!r}, Host: {host!r}")
        elif headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            # Browsers omit Origin from plain GETs. Following a link is fine, embedding is not.
            followed = headers.get("sec-fetch-mode") == "navigate" and scope.get("method") == "GET"
            if not followed or headers.get("sec-fetch-dest") != "document":
                raise errors.ForeignOrigin("Sec-Fetch-Site names another site")

    def _find_user(self, scope: Scope, headers: Headers, host: str) -> tuple[Person, bool]:
        """The user of a request, and whether it came from a signed-in browser."""
        tokens = self._access.tokens
        if tokens is None:
            return Person(LOCAL), False
        address = _address_of(scope)
        if _is_login(scope) and (wait := self._failures.wait_for(address)):
            raise errors.TooManyRequests(f"wrong tokens from {address}", seconds=wait)
        scheme, _, given = headers.get("authorization", "").partition(" ")
        token = given.strip() if scheme.lower() == "bearer" else ""
        kept = "" if token else self._access.browsers.find_token(read_cookie(headers, host))
        identity = tokens.identify(token or kept) if token or kept else None
        if identity is not None:
            return identity, bool(kept)
        if scope["path"] in OPEN_PATHS:
            return Person(_ANONYMOUS), False
        self._take(_ANONYMOUS, scope)
        wait = self._failures.take(address) if token else 0
        if wait:
            raise errors.TooManyRequests(f"wrong tokens from {address}", seconds=wait)
        raise errors.TokenRequired("no token" if not token else "a token that nobody was given")


def _address_of(scope: Scope) -> str:
    return str((scope.get("client") or ("",))[0])


def _name_caller(user: str, scope: Scope) -> str:
    return f"{user} at {_address_of(scope)}"


def _is_login(scope: Scope) -> bool:
    """Whether this request tries a token on the login page."""
    return bool(scope["path"] == LOGIN and scope.get("method") == "POST")


def _read_config(scope: Scope) -> Mapping[str, Any]:
    """The preferences in the query string: `config`, a JSON object in base64."""
    encoded = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("config")
    if not encoded:
        return {}
    try:
        padded = encoded[-1].replace(" ", "+") + "=" * (-len(encoded[-1]) % 4)
        body = json.loads(base64.b64decode(padded, altchars=b"-_" if "-" in padded else None))
        if not isinstance(body, dict):
            raise TypeError("not an object")
    except (ValueError, TypeError, RecursionError) as error:
        problem = "`config` must be a JSON object in base64."
        raise errors.InvalidRequest(f"config: {error}", user_message=problem) from error
    return check_preferences(body)


def name_cookie(host: str) -> str:
    """The name of the session cookie: one per port, since browsers share cookies between ports."""
    port = host.rpartition(":")[2]
    return f"sonde_{port}" if port.isdecimal() else "sonde"


def read_cookie(headers: Headers, host: str) -> str:
    """The session that a browser names."""
    try:
        cookies: Mapping[str, object] = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    morsel = cookies.get(name_cookie(host))
    return str(getattr(morsel, "value", ""))


async def _read_body(headers: Headers, receive: Receive) -> Receive:
    """Read the whole body or refuse it. Returns a `receive` that replays it."""
    read = _limit_body(headers, receive, MAX_BODY_BYTES)
    messages: list[Message] = []
    with anyio.move_on_after(BODY_TIMEOUT_S):
        while True:
            message = await read()
            if message["type"] == "http.disconnect":
                raise errors.Cancelled("the client disconnected before its request was complete")
            messages.append(message)
            if not message.get("more_body", False):
                return replay(messages, receive)
    problem = f"The body did not come within {BODY_TIMEOUT_S:.0f} s."
    again = "Send it again on a faster line, or in smaller requests."
    raise errors.InvalidRequest("timeout", user_message=problem, next_action=again)


def _limit_body(headers: Headers, receive: Receive, most: int) -> Receive:
    """A `receive` that refuses a body of more than so many bytes, whether declared or not."""
    declared = headers.get("content-length", "0")
    if not declared.isdecimal() or int(declared) > most:
        raise errors.BodyTooLarge(f"Content-Length: {declared[:40]}", most=most)
    size = 0

    async def count() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > most:
            raise errors.BodyTooLarge(f"more than {most} bytes", most=most)
        return message

    return count


async def _refuse(error: errors.SondeError, scope: Scope, receive: Receive, send: Send) -> None:
    response = refuse_request(error, scope)
    if scope["type"] == "http":
        response.headers.update(_HEADERS)
        response.headers["connection"] = "close"  # part of the body may still be on its way
        await response(scope, receive, send)
    elif "websocket.http.response" in scope.get("extensions", {}):
        await receive()
        await response(scope, receive, send)
        await receive()  # until it disconnects: uvicorn reports an earlier return as a defect
    else:
        await send({"type": "websocket.close", "code": 1008})


def _name_of(host: str) -> str:
    """The name or address of a Host header without its port; empty if it is malformed."""
    try:
        split = urlsplit(f"//{host}")
        _ = split.port
    except ValueError:
        return ""
    plain = split.path == "" and split.query == "" and "@" not in host and "#" not in host
    if "[" in host:  # urlsplit accepts anything around an address in brackets
        plain = plain and host[0] == "[" and host.partition("]")[2][:1] in ("", ":")
    return (split.hostname or "").removesuffix(".") if plain else ""


def _is_address(name: str, *, loopback: bool = False) -> bool:
    try:
        return ip_address(name).is_loopback or not loopback
    except ValueError:
        return False
