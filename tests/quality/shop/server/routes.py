"""Which function answers which path."""


class RouteTable:
    """Paths in the order they were registered; the first that matches wins."""

    def __init__(self):
        self.entries = []

    def add(self, pattern, function):
        self.entries.append((pattern, function))

    def match(self, path):
        for pattern, function in self.entries:
            if pattern.fullmatch(path):
                return function
        raise LookupError(path)


def register_routes():
    """The table with every route of the shop."""
    return RouteTable()
