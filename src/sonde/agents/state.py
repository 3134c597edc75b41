"""Which agents of a machine are set up, and whether what they start is there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sonde.agents import json_edit, toml_edit
from sonde.agents.files import decode_config, read_config
from sonde.agents.json_text import Malformed
from sonde.agents.machine import Machine, Scope, read_entry
from sonde.agents.table import Agent
from sonde.errors import SondeError


@dataclass(frozen=True, slots=True)
class Setup:
    """One configuration file of an agent, as far as it is about us."""

    agent: Agent
    scope: Scope
    path: Path
    command: str = ""
    """What it starts; empty: it does not know us."""
    problem: str = ""
    """Why the file cannot be read."""

    @property
    def works(self) -> bool:
        """Whether what it starts is there."""
        return shutil.which(self.command) is not None


def find_setups(machine: Machine, project: Path | None) -> Iterator[Setup]:
    """Every configuration file of the agents on a machine that exists."""
    scopes: tuple[Scope, ...] = ("user", "project")
    for agent in machine.find_agents():
        for scope in scopes:
            path = machine.find_config(agent, scope, project)
            if path is not None and path.exists():
                yield _read_setup(agent, scope, path)


def _read_setup(agent: Agent, scope: Scope, path: Path) -> Setup:
    edit = toml_edit if path.suffix == ".toml" else json_edit
    try:
        text, _ = decode_config(read_config(path), path)
        entry = read_entry(edit.load(text), agent) or {}
    except (SondeError, Malformed) as error:
        return Setup(agent, scope, path, problem=str(error))
    command = entry.get("command", "")
    if isinstance(command, list):
        command = command[0] if command else ""
    return Setup(agent, scope, path, command=str(command))
