"""`sonde config`: the settings and where each comes from. `sonde users`: keys for the server."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from sonde.cli.parse import FOUND, NOTHING
from sonde.cli.session import Session
from sonde.cli.terminal import Screen, display_width, escape_controls
from sonde.errors import IndexNotFound, InvalidRequest, ProjectNotDetected
from sonde.settings import RULES, Settings, apply_project_config
from sonde.stores.users import Users
from sonde.text.formats import count_of, show_time

_VALUE_COLUMNS = 32
"""Longer values push their source to the right."""


class SettingRow(TypedDict):
    """A setting as programs read it."""

    value: object
    source: str


def run_config(session: Session) -> int:
    """Show settings or the paths of their files, or open the project's file in an editor."""
    user = session.settings.home / "config.json"
    project = find_project_config(session)
    if session.args.action == "edit":
        return _edit(session, project)
    files = {"project": str(project) if project else None, "user": str(user)}
    settings = apply_project_config(session.settings, project) if project else session.settings
    if session.args.action == "path":
        session.print_answer(files, (path for path in files.values() if path))
        return FOUND
    answer = {"settings": list_settings(settings), "files": files}
    session.print_answer(answer, render_settings(settings, session.out))
    for warning in settings.warnings:
        session.note(escape_controls(warning), "warn")
    return FOUND


def find_project_config(session: Session) -> Path | None:
    """The config.json of the project around here, if there is a project."""
    return session.opened.folder / "config.json" if session.is_inside_project() else None


def list_settings(settings: Settings) -> dict[str, SettingRow]:
    """Every setting with its value and its source."""
    return {
        name: {"value": _plain(_mask(settings, name)), "source": settings.sources[name]}
        for name in ("home", *RULES)
    }


def render_settings(
    settings: Settings, screen: Screen, *, chosen_only: bool = False
) -> Iterator[str]:
    """One line per setting: its name in config.json, value, source; chosen ones stand out."""
    rows = [
        (_spell(name), _show(name, row["value"]), row["source"])
        for name, row in list_settings(settings).items()
        if not chosen_only or row["source"] != "default"
    ]
    widths = [max((display_width(row[column]) for row in rows), default=0) for column in (0, 1)]
    for name, value, source in rows:
        chosen = source != "default"
        label = screen.paint("bold" if chosen else "dim", f"{name:<{widths[0]}}")
        padding = " " * (min(widths[1], _VALUE_COLUMNS) - display_width(value))
        shown = screen.paint("good" if chosen else "dim", escape_controls(source))
        yield f"{label}  {value}{padding}  {shown}"


def _spell(name: str) -> str:
    """A setting's name in config.json, or in the environment if it is only read there."""
    return (RULES[name].key if name in RULES else "") or f"SONDE_{name.upper()}"


def _show(name: str, value: object) -> str:
    """A value as config.json spells it."""
    if name == "max_file_size" and isinstance(value, int):
        whole, unit = (value >> 20, "MB") if value % (1 << 20) == 0 else (value / 1024, "KB")
        return f"{whole:g}{unit}"
    if isinstance(value, bool):
        return "true" if value else "false"
    shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return escape_controls(shown) or "-"


def _mask(settings: Settings, name: str) -> object:
    value = getattr(settings, name)
    if name == "knowledge_store" and value != "sqlite":
        return "postgresql (set)"  # the address may hold a password
    return "(set)" if name == "token" and value else value


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def _edit(session: Session, project: Path | None) -> int:
    if project is None:
        raise ProjectNotDetected("`config edit` needs a project")
    if not project.exists():
        raise IndexNotFound(f"{project} is written with the first index")
    editor = session.environ.get("VISUAL") or session.environ.get("EDITOR")
    if not editor or not session.prompt.is_interactive():
        session.print_lines([str(project)])
        session.note("edit this file; the next command reads it")
        return FOUND
    return subprocess.run([*shlex.split(editor), str(project)], check=False).returncode


def run_users(session: Session) -> int:
    """Create a key, list all, or revoke those of a user."""
    users = Users(session.settings.home / "users.json")
    action, name = session.args.action, session.args.name
    if action == "list":
        return _list(session, users)
    if not name:
        raise InvalidRequest(
            f"users {action} without a name",
            user_message="Whom? Name a user.",
            next_action=f"Run `sonde users {action} NAME`.",
        )
    if action == "add":
        key, secret = users.add_key(name)
        session.print_answer({"user": key.user, "id": key.id, "key": secret}, [secret])
        if not session.args.json:
            session.note(f"The key of {name}; it is shown this once. Send it as a bearer token.")
        return FOUND
    ended = users.revoke(name)
    line = f"{count_of(ended, 'key')} revoked; signed tokens of theirs end as well"
    session.print_answer({"revoked": ended}, [f"{session.out.paint('good', '✓')} {line}"])
    return FOUND


def _list(session: Session, users: Users) -> int:
    rows = [
        {
            "user": key.user,
            "id": key.id,
            "created": show_time(key.created_at),
            "revoked": show_time(key.revoked_at),
        }
        for key in users.list_keys()
    ]
    lines = []
    for row in rows:
        state = f"revoked {row['revoked']}" if row["revoked"] else f"since {row['created']}"
        lines.append(escape_controls(f"{row['user']}  {row['id']}  {state}"))
    session.print_answer({"keys": rows}, lines)
    if not rows:
        session.note("there are no keys yet; `sonde users add NAME` creates one")
    return FOUND if rows else NOTHING
