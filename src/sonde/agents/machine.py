"""The agents on a user's machine: which are installed, and their configuration files."""

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
from typing import Literal

from sonde.agents import json_edit, toml_edit
from sonde.agents.json_edit import Malformed
from sonde.agents.table import AGENTS, SERVER, Agent
from sonde.errors import ConfigChanged, ConfigUnreadable, PermissionDenied, SondeError

Scope = Literal["user", "project"]
_VARIABLE = re.compile(r"\$(\w+)")


@dataclass(frozen=True, slots=True)
class Launch:
    """The command by which an agent starts sonde."""

    command: str
    args: tuple[str, ...] = ("mcp",)
    env: Mapping[str, str] = field(default_factory=dict)

    def describe(self, agent: Agent) -> dict[str, object]:
        """Our entry for an agent's configuration."""
        args = [*self.args]
        if agent.workspace and "--project" not in args:
            args += ["--project", agent.workspace]
        entry: dict[str, object] = {}
        if "type" in agent.extra:
            entry["type"] = agent.extra["type"]  # first, as agents write it
        if agent.one_list:
            entry["command"] = [self.command, *args]
        else:
            entry |= {"command": self.command, "args": args}
        if self.env:
            entry[agent.env_key] = dict(self.env)
        return entry | dict(agent.extra)


def find_launch(environ: Mapping[str, str], project: str | None = None) -> Launch:
    """The installed program by its absolute path: agents start servers with a `PATH` of their own.

    They drop other variables, too, so the entry sets `SONDE_HOME` if it is set here.
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
    """A user's home folder, environment and platform."""

    home: Path
    environ: Mapping[str, str]
    platform: str = sys.platform

    def find_agents(self) -> list[Agent]:
        """The installed agents: those with files here or a program on the `PATH`."""
        return [agent for agent in AGENTS if self._is_installed(agent)]

    def _is_installed(self, agent: Agent) -> bool:
        if any(place.exists() for place in self._expand(agent.signs)):
            return True
        path = self.environ.get("PATH")
        return any(shutil.which(program, path=path) for program in agent.programs)

    def find_config(self, agent: Agent, scope: Scope, project: Path | None) -> Path | None:
        """The configuration file of an agent, which may not exist; None if the agent has none."""
        if scope == "user":
            places = list(self._expand(agent.user))
        else:
            places = [project / name for name in agent.project] if project else []
        existing = (place for place in places if place.exists() or place.is_symlink())
        return next(existing, None) or _choose_new(places)

    def find_guide(self, agent: Agent, scope: Scope, project: Path | None) -> Path | None:
        """The file of instructions that an agent reads; None if it has none."""
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
    """Where to create a file: in the first folder, under the last, which is the plain, name."""
    same = [place for place in places if place.parent == places[0].parent]
    return same[-1] if same else None


def read_agent_entry(values: object, agent: Agent) -> dict[str, object] | None:
    """Our entry in the values of a configuration."""
    servers = values.get(agent.key) if isinstance(values, dict) else None
    entry = servers.get(SERVER) if isinstance(servers, dict) else None
    return entry if isinstance(entry, dict) else None


MAX_CONFIG_FILE_BYTES = 20 * 1024 * 1024
"""Claude Code keeps megabytes of history in its configuration; more than this is a mistake."""


def read_config(path: Path) -> bytes | None:
    """The bytes of a file; None if it does not exist."""
    try:
        if not path.exists():
            if path.is_symlink():
                raise ConfigUnreadable("a link to nothing", path=str(path))
            return None
        if not path.is_file():
            raise ConfigUnreadable("not a file", path=str(path))
        if path.stat().st_size > MAX_CONFIG_FILE_BYTES:
            raise ConfigUnreadable(f"larger than {MAX_CONFIG_FILE_BYTES} bytes", path=str(path))
        return path.read_bytes()
    except OSError as error:
        raise _explain(error, path) from error


def decode_config(data: bytes | None, path: Path) -> tuple[str, bytes]:
    """The text of a file and its byte order mark."""
    data = data or b""
    mark = BOM_UTF8 if data.startswith(BOM_UTF8) else b""
    try:
        return data[len(mark) :].decode("utf-8"), mark
    except UnicodeDecodeError as error:
        raise ConfigUnreadable(f"not UTF-8: {error}", path=str(path)) from error


def replace_config(path: Path, before: bytes | None, after: bytes | None) -> None:
    """Replace a file atomically if it still has the content `before`; None is no file.

    A link stays a link.
    """
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
    with _write_beside(target, after, 0o666 if before is None else 0o600) as temporary:
        if before is not None:
            facts = target.stat()
            temporary.chmod(stat.S_IMODE(facts.st_mode))
            if hasattr(os, "chown"):
                with contextlib.suppress(OSError):
                    os.chown(temporary, facts.st_uid, facts.st_gid)
        # Again, as late as possible: agents rewrite their own files.
        if read_config(path) != before:
            raise ConfigChanged(f"{path} changed while it was written", path=str(path))
        temporary.replace(target)


@contextlib.contextmanager
def _write_beside(target: Path, data: bytes, mode: int) -> Iterator[Path]:
    """A temporary file with this content beside the target; removed unless it was renamed."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def find_backup(backups: Path, path: Path) -> Path:
    """The path of the backup of a file: its state before our last change."""
    digest = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]
    return backups / f"{digest}-{path.name.lstrip('.')}"


def keep_backup(backups: Path, path: Path, data: bytes) -> Path:
    """Store a backup of a file that only its owner can read; returns its path."""
    kept = find_backup(backups, path)
    try:
        backups.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _write_beside(kept, data, 0o600) as temporary:
            temporary.replace(kept)
    except OSError as error:
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
    """An existing configuration file of an agent, and our entry in it."""

    agent: Agent
    scope: Scope
    path: Path
    command: str = ""
    """The command of our entry; empty if there is none."""
    problem: str = ""
    """Why the file cannot be read; empty if it can."""

    @property
    def works(self) -> bool:
        """Whether the command exists."""
        return shutil.which(self.command) is not None


def find_setups(machine: Machine, project: Path | None) -> Iterator[Setup]:
    """Every existing configuration file of the agents on a machine."""
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
