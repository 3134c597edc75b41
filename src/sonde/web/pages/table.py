"""The pages, forms, downloads and static files."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from sonde.tools.disk import delete_scan
from sonde.tools.index import delete_index
from sonde.tools.sets import remove_query, remove_set
from sonde.types import Content
from sonde.web.application import Pages, Parts
from sonde.web.downloads import add_file_routes
from sonde.web.pages import disk, knowledge, projects, queries, search, sets
from sonde.web.pages.endpoints import add_login, redirect_after, serve_form, serve_page
from sonde.web.pages.html import STATIC
from sonde.web.pages.nodes import show_node_page
from sonde.web.uploads import add_uploads
from sonde.web.viewer.names import show_names
from sonde.web.viewer.page import send_original, show_file
from sonde.web.viewer.palette import show_keys, show_palette

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_PAGES: Mapping[str, Callable[..., Content | Response]] = {
    "/": search.show_search,
    "/view": show_file,
    "/original": send_original,
    "/names": show_names,
    "/go": show_palette,
    "/keys": show_keys,
    "/knowledge": knowledge.show_knowledge,
    "/entry": knowledge.show_entry_page,
    "/entry/picture": knowledge.send_picture,
    "/jobs": projects.show_jobs_page,
    "/projects": projects.show_projects,
    "/project": projects.show_project,
    "/disk": disk.show_disk,
    "/disk/{index_id}": disk.show_folder,
    "/disk/{index_id}/nodes/{node_id}": show_node_page,
    "/disk/{index_id}/reports/{report}": disk.show_report_page,
    "/queries": queries.show_queries,
    "/queries/{query_id}": queries.show_query_page,
    "/sets": sets.show_sets,
    "/sets/{selection_id}": sets.show_set_page,
}
_FORMS: Mapping[str, Callable[..., Response]] = {
    "/projects": projects.begin,
    "/project/forget": redirect_after(delete_index, "/projects"),
    "/jobs/{job_id}/stop": projects.stop,
    "/disk": disk.start_scan_form,
    "/disk/{index_id}/forget": redirect_after(delete_scan, "/disk"),
    "/queries": queries.save,
    "/queries/{query_id}": queries.change,
    "/queries/{query_id}/run": queries.run,
    "/queries/{query_id}/forget": redirect_after(remove_query, "/queries"),
    "/knowledge/agents": knowledge.let_agents,
    "/sets": sets.keep,
    "/sets/{selection_id}/remove": sets.take_out,
    "/sets/{selection_id}/combine": sets.combine_sets_form,
    "/sets/{selection_id}/forget": redirect_after(remove_set, "/sets"),
}


def add_pages(parts: Parts) -> Sequence[BaseRoute]:
    """The routes of pages, and those that forms are sent to."""
    pages = [serve_page(path, verb, parts) for path, verb in _PAGES.items()]
    return [*pages, *(serve_form(path, verb, parts) for path, verb in _FORMS.items())]


def add_assets(_parts: Parts) -> Sequence[BaseRoute]:
    """One route for each static file: there is no folder to traverse."""
    return [_serve_file(name, body) for name, body in STATIC.items()]


def _serve_file(name: str, body: bytes) -> Route:
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    headers = {"etag": etag, "cache-control": "no-cache"}

    async def send(request: Request) -> Response:
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=_TYPES[name.rpartition(".")[2]])

    return Route(f"/static/{name}", send)


PAGES: tuple[Pages, ...] = (add_login, add_file_routes, add_uploads, add_assets, add_pages)
"""Functions that create the routes of the pages."""
