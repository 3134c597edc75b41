"""The pages, downloads and static files that are served besides verbs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sonde.web.application import Pages, Parts
from sonde.web.downloads import add_file_routes
from sonde.web.pages.disk import add_disk_pages
from sonde.web.pages.endpoints import add_login
from sonde.web.pages.files import add_file_pages
from sonde.web.pages.projects import add_project_pages
from sonde.web.pages.queries import add_query_pages
from sonde.web.pages.reports import add_report_pages
from sonde.web.pages.search import add_search
from sonde.web.pages.sets import add_set_pages

_TYPES = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}


def add_assets(_parts: Parts) -> Sequence[BaseRoute]:
    """One route for each static file: there is no folder to traverse."""
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


PAGES: tuple[Pages, ...] = (
    add_login,
    add_file_routes,
    add_assets,
    add_search,
    add_file_pages,
    add_project_pages,
    add_disk_pages,
    add_report_pages,
    add_query_pages,
    add_set_pages,
)
"""Each makes routes out of the parts of the server."""
