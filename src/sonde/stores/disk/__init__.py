"""Scanned disk trees, selections of their nodes, saved queries and sessions."""
