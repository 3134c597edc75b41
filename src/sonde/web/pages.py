"""What is served besides verbs: pages, downloads, event streams. One row for each file."""

from __future__ import annotations

from sonde.web.application import Pages
from sonde.web.files import add_file_routes
from sonde.web.login import add_login

PAGES: tuple[Pages, ...] = (
    add_login,
    add_file_routes,
)
"""Each takes the parts of the server and gives Starlette routes."""
