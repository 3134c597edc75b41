"""A disk as a shell: scans, handles, places, selections, reports."""
