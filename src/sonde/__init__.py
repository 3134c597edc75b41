"""sonde: find anything in your code and documents, in answers small enough for a context window.

The verbs of the command line and of MCP as plain functions:

    import sonde

    sonde.index("~/src/project")
    for hit in sonde.search("where are sessions refreshed?", project="~/src/project"):
        print(hit.path, hit.start_line, hit.score)

Each call opens what it needs and closes it again; `open` keeps it open for many calls.
"""

from __future__ import annotations

import sys
from types import ModuleType

from sonde.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sonde.api import (
        DiskEntry,
        DiskScan,
        ImportCounts,
        IndexResult,
        KnowledgeResult,
        Sonde,
        Status,
        find_files,
        grep,
        history,
        index,
        open,  # noqa: A004
        projects,
        related,
        scan,
        search,
        select,
        status,
    )
    from sonde.searching.lines.grep import Line
    from sonde.types import Hit

__all__ = [
    "DiskEntry",
    "DiskScan",
    "Hit",
    "ImportCounts",
    "IndexResult",
    "KnowledgeResult",
    "Line",
    "Sonde",
    "Status",
    "__version__",
    "find_files",
    "grep",
    "history",
    "index",
    "open",
    "projects",
    "related",
    "scan",
    "search",
    "select",
    "status",
]


class _Package(ModuleType):
    def __setattr__(self, name: str, value: object) -> None:
        if name != "projects":  # else importing the folder `projects` hides the verb of that name
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> object:
    """Load the verbs on first use, so that `import sonde` costs nothing."""
    if name in __all__:
        from sonde import api

        return getattr(api, name)
    raise AttributeError(f"module 'sonde' has no attribute {name!r}")
