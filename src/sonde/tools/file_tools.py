"""The tools of the toolset `files`: a disk as a shell."""

from __future__ import annotations

from sonde.tools.files import cd, inspect, job_progress, scan_folder, session_preferences
from sonde.tools.tool import Tool

FILE_TOOLS: tuple[Tool, ...] = (
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
        name="session_preferences",
        call=session_preferences,
        toolset="files",
        title="Session preferences",
        description="Show or set units, order and length of listings.",
        read_only=False,
        aliases=("session-preferences",),
    ),
)
