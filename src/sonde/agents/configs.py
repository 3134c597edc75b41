"""The configuration files of agents: our entry in each, and changes to it.

A change is computed completely before anything is written, and written only if the file is still
as it was.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import secrets
import stat
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from sonde.agents.json_edit import Malformed, drop_jsonc, load_jsonc, put_jsonc
from sonde.agents.machine import SERVER, Agent, Launch, Machine, Scope
from sonde.agents.toml_edit import drop_toml, load_toml, put_toml
from sonde.errors import ConfigChanged, ConfigUnreadable, PermissionDenied, SondeError

MAX_CONFIG_FILE_BYTES = 20 * 1024 * 1024
"""Claude Code keeps megabytes of history in its configuration; more than this is a mistake."""

Action = Literal["add", "update", "remove", "none"]


class Editor(NamedTuple):
    """Edits the text of a configuration in one format."""

    load: Callable[[str], object]
    put: Callable[[str, tuple[str, ...], Mapping[str, object]], str]
    drop: Callable[[str, tuple[str, ...]], str]


def _choose_editor(path: Path) -> Editor:
    if path.suffix == ".toml":
        return Editor(load_toml, put_toml, drop_toml)
    return Editor(load_jsonc, put_jsonc, drop_jsonc)


def read_agent_entry(values: object, agent: Agent) -> dict[str, object] | None:
    """Our entry in the values of a configuration."""
    servers = values.get(agent.key) if isinstance(values, dict) else None
    entry = servers.get(SERVER) if isinstance(servers, dict) else None
    return entry if isinstance(entry, dict) else None


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
        raise _refuse(path, error) from error


def decode_config(data: bytes | None, path: Path) -> tuple[str, bytes]:
    """The text of a file and its byte order mark."""
    data = data or b""
    mark = BOM_UTF8 if data.startswith(BOM_UTF8) else b""
    try:
        return data[len(mark) :].decode("utf-8"), mark
    except UnicodeDecodeError as error:
        raise ConfigUnreadable(f"not UTF-8: {error}", path=str(path)) from error


def replace_config(path: Path, before: bytes | None, after: bytes | None) -> None:
    """Replace a file, or what it links to, atomically if it still is `before`; None: no file."""
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
        raise _refuse(path, error) from error


def _swap(path: Path, target: Path, before: bytes | None, after: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with _write_beside(target, after, 0o666 if before is None else 0o600) as temporary:
        if before is not None:
            facts = target.stat()
            temporary.chmod(stat.S_IMODE(facts.st_mode))
            if hasattr(os, "chown"):
                with suppress(OSError):
                    os.chown(temporary, facts.st_uid, facts.st_gid)
        # Again, as late as possible: agents rewrite their own files.
        if read_config(path) != before:
            raise ConfigChanged(f"{path} changed while it was written", path=str(path))
        temporary.replace(target)


@contextmanager
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
        with suppress(OSError):
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
        raise _refuse(kept, error) from error
    return kept


def _refuse(path: Path, why: OSError | str) -> PermissionDenied:
    reason = why.strerror or str(why) if isinstance(why, OSError) else why
    return PermissionDenied(
        f"{path}: {reason}",
        user_message=f"{path} cannot be changed: {reason}.",
        next_action="Allow writing to it, or add the server there yourself; see docs/agents.md.",
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


def find_setups(machine: Machine, project: Path | None) -> Iterator[Setup]:
    """Every existing configuration file of the agents on a machine."""
    scopes: tuple[Scope, ...] = ("user", "project")
    for agent in machine.find_agents():
        for scope in scopes:
            path = machine.find_config(agent, scope, project)
            if path is not None and path.exists():
                yield _read_setup(agent, scope, path)


def _read_setup(agent: Agent, scope: Scope, path: Path) -> Setup:
    try:
        text, _ = decode_config(read_config(path), path)
        entry = read_agent_entry(_choose_editor(path).load(text), agent) or {}
    except (SondeError, Malformed) as error:
        return Setup(agent, scope, path, problem=str(error))
    command = entry.get("command", "")
    if isinstance(command, list):
        command = command[0] if command else ""
    return Setup(agent, scope, path, command=str(command))


@dataclass(frozen=True, slots=True)
class Change:
    """The content of one file before and after; None is no file."""

    path: Path
    action: Action
    before: bytes | None
    after: bytes | None

    def show(self) -> Iterator[str]:
        """The lines of the difference, as in `diff -u`."""
        before, after = (
            (data or b"").decode("utf-8", "replace").splitlines()
            for data in (self.before, self.after)
        )
        old = str(self.path) if self.before is not None else "/dev/null"
        new = str(self.path) if self.after is not None else "/dev/null"
        yield from difflib.unified_diff(before, after, old, new, lineterm="")

    def write(self, backups: Path) -> Path | None:
        """Write the change; returns the path of the backup, if there was a file."""
        kept = None if self.before is None else keep_backup(backups, self.path, self.before)
        replace_config(self.path, self.before, self.after)
        return kept


def plan_entry(agent: Agent, path: Path, launch: Launch, *, remove: bool, backups: Path) -> Change:
    """The change that adds our entry to a configuration file, or removes it."""
    edit = _choose_editor(path)
    place = (agent.key, SERVER)

    def make_entry(values: object) -> dict[str, object]:
        """Our entry with the arguments that the user added after ours."""
        entry, old = launch.describe(agent), read_agent_entry(values, agent) or {}
        for key in ("args", "command"):
            ours, theirs = entry.get(key), old.get(key)
            if isinstance(ours, list) and isinstance(theirs, list) and theirs[: len(ours)] == ours:
                entry[key] = theirs
        return entry

    def check(before: str, after: str) -> None:
        values, found = _as_object(edit.load(before)), _as_object(edit.load(after))
        servers = _as_object(values.get(agent.key, {}))
        if remove:
            del servers[SERVER]
            if not servers:
                found = {agent.key: {}, **found}  # in TOML, an empty table may be left out
        else:
            servers[SERVER] = _merge(servers.get(SERVER), make_entry(values))
        if found != {**values, agent.key: servers}:
            raise Malformed("the entry cannot be changed without changing the rest of the file")

    return plan_change(
        path,
        lambda text: edit.put(text, place, make_entry(edit.load(text))),
        lambda text: edit.drop(text, place),
        lambda text: read_agent_entry(edit.load(text), agent) is not None,
        check,
        remove=remove,
        backups=backups,
    )


def plan_change(
    path: Path,
    put: Callable[[str], str],
    drop: Callable[[str], str],
    holds: Callable[[str], bool],
    check: Callable[[str, str], None] = lambda _before, _after: None,
    *,
    remove: bool,
    backups: Path,
) -> Change:
    """Plan to add our part to a file, or to remove it; a file that held nothing else is deleted."""
    before = read_config(path)
    text, mark = decode_config(before, path)

    def restore() -> bytes | None:
        """The backup if only our part has changed, None if we created the file, else the edit."""
        kept = read_config(find_backup(backups, path))
        if kept is not None:
            with suppress(Malformed, ConfigUnreadable):
                old, old_mark = decode_config(kept, path)
                if not holds(old) and old_mark + put(old).encode() == before:
                    return kept
        return None if put("").encode() == before else mark + edited.encode()

    try:
        there = holds(text)
        if remove and not there:
            return Change(path, "none", before, before)
        edited = drop(text) if remove else put(text)
        check(text, edited)
        if edited == text:
            return Change(path, "none", before, before)
        if not remove:
            after = mark + edited.encode()
            return Change(path, "update" if there else "add", before, after)
        return Change(path, "remove", before, restore())
    except (Malformed, RecursionError) as error:
        raise ConfigUnreadable(str(error), path=str(path)) from error


def _as_object(value: object) -> dict[str, object]:
    """A copy of an object; empty for anything else."""
    return dict(value) if isinstance(value, dict) else {}


def _merge(old: object, new: object) -> object:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{key: _merge(old.get(key), value) for key, value in new.items()}}
