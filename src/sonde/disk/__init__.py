"""Scanned disks: scans, handles, listings, reports, resource sets, saved queries."""
