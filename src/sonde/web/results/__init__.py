"""Search results on a page: the searches behind it, groups by file, facets."""
