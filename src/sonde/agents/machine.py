"""One user's machine as agents see it: where their files are, and which of them are there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
import sysconfig
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from sonde.agents import json_edit, toml_edit
from sonde.agents.json_edit import Malformed
from sonde.agents.table import AGENTS, SERVER, Agent
from sonde.errors import ConfigChanged, ConfigUnreadable, PermissionDenied, SondeError

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


def read_agent_entry(values: Any, agent: Agent) -> dict[str, Any] | None:
    """Our entry in what a configuration holds."""
    servers = values.get(agent.key) if isinstance(values, dict) else None
    entry = servers.get(SERVER) if isinstance(servers, dict) else None
    return entry if isinstance(entry, dict) else None


LARGEST = 20 * 1024 * 1024


def read_config(path: Path) -> bytes | None:
    """What a file holds; None when there is no such file."""
    try:
        if not path.exists():
            if path.is_symlink():
                raise ConfigUnreadable("a link to nothing", path=str(path))
            return None
        if not path.is_file():
            raise ConfigUnreadable("not a file", path=str(path))
        if path.stat().st_size > LARGEST:
            raise ConfigUnreadable(f"larger than {LARGEST} bytes", path=str(path))
        return path.read_bytes()
    except OSError as error:
        raise _explain(error, path) from error


def decode_config(data: bytes | None, path: Path) -> tuple[str, bytes]:
    """The text of a file and the byte order mark before it."""
    data = data or b""
    mark = BOM_UTF8 if data.startswith(BOM_UTF8) else b""
    try:
        return data[len(mark) :].decode("utf-8"), mark
    except UnicodeDecodeError as error:
        raise ConfigUnreadable(f"not UTF-8: {error}", path=str(path)) from error


def replace_config(path: Path, before: bytes | None, after: bytes | None) -> None:
    """Put `after` in place of `before` in one step; None is no file. Links stay links."""
    try:
        target = path.resolve()
        if read_config(path) != before:
            raise ConfigChanged(f"{path} differs from what was shown", path=str(path))
        if before is not None and not target.stat().st_mode & stat.S_IWUSR:
            raise _refuse(path, "it is read-only")
        if after is None:
            target.unlink()
        else:
            _swap(path, target, before, after)
    except OSError as error:
        raise _explain(error, path) from error


def _swap(path: Path, target: Path, before: bytes | None, after: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        mode = 0o666 if before is None else 0o600
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        if before is not None:
            facts = target.stat()
            temporary.chmod(stat.S_IMODE(facts.st_mode))
            if hasattr(os, "chown"):
                with contextlib.suppress(OSError):
                    os.chown(temporary, facts.st_uid, facts.st_gid)
        # Once more, as late as can be: agents rewrite their own files.
        if read_config(path) != before:
            raise ConfigChanged(f"{path} changed while it was written", path=str(path))
        temporary.replace(target)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def find_backup(backups: Path, path: Path) -> Path:
    """Where the copy of a file is kept: the last state before we changed it."""
    digest = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]
    return backups / f"{digest}-{path.name.lstrip('.')}"


def keep_backup(backups: Path, path: Path, data: bytes) -> Path:
    """Copy a file to where only its owner reads it."""
    kept = find_backup(backups, path)
    temporary = kept.with_name(f".{kept.name}.{secrets.token_hex(4)}.tmp")
    try:
        backups.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(kept)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _explain(error, kept) from error
    return kept


def _explain(error: OSError, path: Path) -> PermissionDenied:
    return _refuse(path, error.strerror or str(error))


def _refuse(path: Path, reason: str) -> PermissionDenied:
    return PermissionDenied(
        f"{path}: {reason}",
        user_message="{path} cannot be changed: {reason}.",
        next_action="Allow writing to it, or add the server there yourself; see docs/agents.md.",
        path=str(path),
        reason=reason,
    )


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
        entry = read_agent_entry(edit.load(text), agent) or {}
    except (SondeError, Malformed) as error:
        return Setup(agent, scope, path, problem=str(error))
    command = entry.get("command", "")
    if isinstance(command, list):
        command = command[0] if command else ""
    return Setup(agent, scope, path, command=str(command))
