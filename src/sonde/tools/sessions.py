"""Verbs on sessions: where one is, and how it wants its listings."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

from sonde.app import App
from sonde.disk.scope import change_preferences, find_shell_session, read_preferences
from sonde.policy.roots import show_path
from sonde.runtime.work import Work
from sonde.stores.disk.base import DiskIndex
from sonde.tools.route import Route
from sonde.tools.schema import Param
from sonde.tools.shapes.shell import MAX_ENTRIES, Answer, PreferencesAnswer, SessionParam
from sonde.tools.tool import Tool


def session_preferences(
    app: App,
    units: Annotated[Literal["bytes", "iec", "si"] | None, Param("How sizes are written")] = None,
    limit: Annotated[int | None, Param("Entries of cd", minimum=1, maximum=MAX_ENTRIES)] = None,
    sort: Annotated[Literal["name", "size", "modified"] | None, Param("Order of cd")] = None,
    session_id: SessionParam = None,
    *,
    work: Work,
) -> PreferencesAnswer:
    """Show or change the preferences of a session."""
    session = find_shell_session(app.disk, work.caller, session_id)
    found = change_preferences(app.disk, session, units=units, limit=limit, sort=sort)
    return {
        "sessionId": session.id,
        "units": found.units,
        "limit": found.limit,
        "sort": found.sort,
    }


def read_session(
    app: App,
    session_id: Annotated[str, Param("sessionId", min_length=1, max_length=64)],
    *,
    work: Work,
) -> Answer:
    """Where a session is."""
    caller = work.caller
    session = find_shell_session(app.disk, caller, session_id)
    known = app.disk.saved.get(DiskIndex, session.index, caller.user) if session.index else None
    answer: dict[str, object] = {
        "sessionId": session.id,
        "cwd": show_path(session.cwd),
        "indexId": known.id if known else None,
        "preferences": asdict(read_preferences(session)),
    }
    return answer | ({"indexUrl": caller.link(f"indexes/{known.id}")} if known else {})


TOOLS: tuple[Tool, ...] = (
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
ROUTES: tuple[Route, ...] = (Route("sessions/{sessionId}", read_session, "Where a session is"),)
