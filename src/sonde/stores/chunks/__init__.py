"""Chunks of a project: one protocol, the SQLite and LanceDB stores behind it."""
