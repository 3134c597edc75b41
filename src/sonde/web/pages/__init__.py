"""The web pages: one file per page."""
