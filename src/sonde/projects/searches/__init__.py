"""Searches of something else than files: the commits of a project."""
