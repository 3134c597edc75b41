"""`sonde config`: what is set, by whom, and in which files."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sonde.cli.session import Session
from sonde.cli.terminal import Screen, escape_controls, is_interactive
from sonde.errors import IndexNotFound, ProjectNotDetected
from sonde.settings import RULES, Settings, apply_project_config


def run_config(session: Session) -> int:
    """Show settings, or the files they stand in, or open the project's file in an editor."""
    user = session.settings.home / "config.json"
    project = find_project_config(session)
    if session.args.action == "edit":
        return _edit(session, project)
    files = {"project": str(project) if project else None, "user": str(user)}
    settings = apply_project_config(session.settings, project) if project else session.settings
    if session.args.action == "path":
        if session.args.json:
            session.print_json(files)
        else:
            session.print_lines(path for path in files.values() if path)
        return 0
    if session.args.json:
        session.print_json({"settings": list_settings(settings), "files": files})
    else:
        session.print_lines(render_settings(settings, session.out))
    for warning in settings.warnings:
        session.note(escape_controls(warning), "warn")
    return 0


def find_project_config(session: Session) -> Path | None:
    """The config.json of the project around here, if there is a project."""
    return session.opened.folder / "config.json" if session.is_inside_project() else None


def list_settings(settings: Settings) -> dict[str, dict[str, Any]]:
    """Every setting with its value and its source."""
    return {
        name: {"value": _plain(_mask(settings, name)), "source": settings.sources[name]}
        for name in ("home", *RULES)
    }


def render_settings(settings: Settings, screen: Screen) -> Iterator[str]:
    """One line per setting: name, value, source; what was chosen stands out."""
    rows = list_settings(settings)
    width = max(map(len, rows))
    for name, row in rows.items():
        value = row["value"]
        shown = ", ".join(value) if isinstance(value, list) else str(value)
        chosen = row["source"] != "default"
        label = screen.paint("bold" if chosen else "dim", f"{name:<{width}}")
        source = screen.paint("good" if chosen else "dim", escape_controls(row["source"]))
        yield f"{label}  {escape_controls(shown) or '-'}  {source}"


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
    if not editor or not is_interactive():
        session.print_lines([str(project)])
        session.note("edit this file; the next command reads it")
        return 0
    return subprocess.run([*shlex.split(editor), str(project)], check=False).returncode
