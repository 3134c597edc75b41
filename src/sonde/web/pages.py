"""What is served besides verbs: pages, downloads, event streams. One row for each file."""

from __future__ import annotations

from sonde.web.application import Pages
from sonde.web.assets import add_assets
from sonde.web.disk_pages import add_disk_pages
from sonde.web.file_page import add_file_pages
from sonde.web.files import add_file_routes
from sonde.web.login import add_login
from sonde.web.project_pages import add_project_pages
from sonde.web.query_pages import add_query_pages
from sonde.web.report_pages import add_report_pages
from sonde.web.search_page import add_search
from sonde.web.set_pages import add_set_pages

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
"""Each takes the parts of the server and gives Starlette routes."""
