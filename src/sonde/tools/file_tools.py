"""The tools of the toolset `files`: a disk as a shell."""

from __future__ import annotations

from sonde.disk.queries import query_get, query_list, query_run
from sonde.disk.sets import Op, fix_op, resource_set_ops
from sonde.tools.disk import cd, inspect, scan_folder, session_preferences
from sonde.tools.job_routes import job_progress
from sonde.tools.tool import Tool

_DOCUMENTED: tuple[Op, ...] = ("create", "list", "get", "delete", "add", "remove")
"""Operations that the document also writes as tools of their own."""

TOOLS: tuple[Tool, ...] = (
    Tool(
        name="cd",
        call=cd,
        toolset="files",
        title="Change directory",
        description=(
            "Go to a folder of a scanned disk tree and list it with sizes and counts. "
            "Prefer inspect for one file; call index first."
        ),
    ),
    Tool(
        name="index",
        call=scan_folder,
        toolset="files",
        title="Scan a folder",
        description=(
            "Scan names, sizes and times of a folder in the background, not contents. "
            "Prefer create_index to make contents searchable."
        ),
        read_only=False,
    ),
    Tool(
        name="job_progress",
        call=job_progress,
        toolset="files",
        title="Job progress",
        description="Show how far a job is, or what came of it.",
        aliases=("job-progress",),
    ),
    Tool(
        name="inspect",
        call=inspect,
        toolset="files",
        title="Inspect a node",
        description="Show all metadata of one file or folder, and links to more.",
    ),
    Tool(
        name="resource_set_ops",
        call=resource_set_ops,
        toolset="files",
        title="Resource sets",
        description=(
            "Make, list, change, combine and delete named sets of nodes. "
            "Prefer query_run to collect nodes by a filter."
        ),
        read_only=False,
        destructive=True,
        idempotent=False,
        aliases=("resource-set-ops",),
    ),
    Tool(
        name="query_run",
        call=query_run,
        toolset="files",
        title="Run a query",
        description=(
            "Find files by size, time, name, duplicates or contents and keep them as a resource "
            "set. Prefer search_code for passages of text."
        ),
        read_only=False,
        aliases=("query-run",),
    ),
    Tool(
        name="query_list",
        call=query_list,
        toolset="files",
        title="List queries",
        description="List saved queries.",
        aliases=("query-list",),
    ),
    Tool(
        name="query_get",
        call=query_get,
        toolset="files",
        title="Get a query",
        description="Show one saved query and links to its filter and plan.",
        aliases=("query-get",),
    ),
    Tool(
        name="session_preferences",
        call=session_preferences,
        toolset="files",
        title="Session preferences",
        description="Show or set units, order and length of listings.",
        read_only=False,
        aliases=("session-preferences",),
    ),
    *(
        Tool(
            name=f"resource_set_{op}",
            call=fix_op(op),
            toolset="files",
            title=f"Resource sets: {op}",
            description=f"The same as resource_set_ops with op={op}.",
            read_only=op in ("list", "get"),
            destructive=op == "delete",
            idempotent=op != "create",
            aliases=(f"resource-set-{op}",),
            listed=False,
        )
        for op in _DOCUMENTED
    ),
)
