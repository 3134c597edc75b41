"""One user's machine as agents see it: where their files are, and which of them are there."""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sonde.agents.table import AGENTS, SERVER, Agent

Scope = Literal["user", "project"]
_VARIABLE = re.compile(r"\$(\w+)")


@dataclass(frozen=True, slots=True)
class Launch:
    """How an agent starts us."""

    command: str
    args: tuple[str, ...] = ("mcp",)
    env: Mapping[str, str] = field(default_factory=dict)

    def describe(self, agent: Agent) -> dict[str, Any]:
        """The entry in an agent's configuration."""
        named = "--project" in self.args
        tail = ("--project", agent.workspace) if agent.workspace and not named else ()
        args = [*self.args, *tail]
        entry: dict[str, Any] = {key: agent.extra[key] for key in ("type",) if key in agent.extra}
        if agent.one_list:
            entry["command"] = [self.command, *args]
        else:
            entry |= {"command": self.command, "args": args}
        if self.env:
            entry[agent.env_key] = dict(self.env)
        return entry | dict(agent.extra)


def find_launch(environ: Mapping[str, str], project: str | None = None) -> Launch:
    """The installed program by its absolute path: agents start servers with a `PATH` of their own.

    So it is with other variables, and hence the one that decides where indexes are is written down.
    """
    name = "sonde.exe" if sys.platform == "win32" else "sonde"
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if beside.is_file() else shutil.which("sonde", path=environ.get("PATH"))
    command, first = (found, ()) if found else (sys.executable, ("-P", "-m", "sonde.cli.main"))
    where = ("--project", str(Path(project).expanduser().absolute())) if project else ()
    home = environ.get("SONDE_HOME")
    env = {"SONDE_HOME": str(Path(home).expanduser().absolute())} if home else {}
    return Launch(str(Path(command).absolute()), (*first, "mcp", *where), env)


@dataclass(frozen=True, slots=True)
class Machine:
    """Whose files, which variables, which system."""

    home: Path
    environ: Mapping[str, str]
    platform: str = sys.platform

    def find_agents(self) -> list[Agent]:
        """Those that left a sign of themselves or can be started."""
        return [agent for agent in AGENTS if self._is_here(agent)]

    def _is_here(self, agent: Agent) -> bool:
        if any(place.exists() for place in self._expand(agent.signs)):
            return True
        path = self.environ.get("PATH")
        return any(shutil.which(program, path=path) for program in agent.programs)

    def find_config(self, agent: Agent, scope: Scope, project: Path | None) -> Path | None:
        """The file to edit, whether it exists or not; None where the agent has none."""
        if scope == "user":
            places = list(self._expand(agent.user))
        else:
            places = [project / name for name in agent.project] if project else []
        # Of several names the last is the plain one, which a new file gets.
        ready = [place for place in places if place.exists() or place.is_symlink()]
        return next(iter(ready), None) or _choose_new(places)

    def find_guide(self, agent: Agent, scope: Scope, project: Path | None) -> Path | None:
        """The file of instructions that the agent reads."""
        if scope == "user":
            return next(self._expand((agent.user_guide,)), None) if agent.user_guide else None
        return project / agent.guide if project and agent.guide else None

    def _expand(self, templates: tuple[str, ...]) -> Iterator[Path]:
        values = {**self.environ}
        if self.platform == "darwin":
            values["LIBRARY"] = str(self.home / "Library" / "Application Support")
        if self.platform != "win32":
            values.pop("APPDATA", None)
        for template in templates:
            if all(values.get(name) for name in _VARIABLE.findall(template)):
                text = _VARIABLE.sub(lambda found: values[found[1]], template)
                yield self.home / text.removeprefix("~/") if text.startswith("~/") else Path(text)


def _choose_new(places: list[Path]) -> Path | None:
    """Where to make a file: in the first folder that counts, under its last, plainest name."""
    same = [place for place in places if place.parent == places[0].parent]
    return same[-1] if same else None


def read_entry(values: Any, agent: Agent) -> dict[str, Any] | None:
    """Our entry in what a configuration holds."""
    servers = values.get(agent.key) if isinstance(values, dict) else None
    entry = servers.get(SERVER) if isinstance(servers, dict) else None
    return entry if isinstance(entry, dict) else None
