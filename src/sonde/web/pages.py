"""What is served besides verbs: pages, downloads, event streams. One row for each file."""

from __future__ import annotations

from sonde.web.application import Pages

PAGES: tuple[Pages, ...] = ()
"""Each takes the parts of the server and gives Starlette routes."""
