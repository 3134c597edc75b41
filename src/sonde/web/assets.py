"""The stylesheet, the script and the icon: files of the package, read once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sonde.web.application import Parts

_TYPES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


def add_assets(_parts: Parts) -> Sequence[BaseRoute]:
    """One address for each file; there is no folder to wander out of."""
    return [_serve_file(name, mime) for name, mime in _TYPES.items()]


def _serve_file(name: str, mime: str) -> Route:
    body = files("sonde.web").joinpath("static", name).read_bytes()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"etag": etag, "cache-control": "no-cache"}

    async def send(request: Request) -> Response:
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=mime)

    return Route(f"/static/{name}", send)
