"""Changes to configuration files, computed completely before anything is written."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from sonde.agents import json_edit, toml_edit
from sonde.agents.json_edit import Malformed
from sonde.agents.machine import (
    Launch,
    decode_config,
    find_backup,
    keep_backup,
    read_agent_entry,
    read_config,
    replace_config,
)
from sonde.agents.table import SERVER, Agent
from sonde.errors import ConfigUnreadable

START = "<!-- sonde: start -->"
END = "<!-- sonde: end -->"
_SECTION = re.compile(re.escape(START) + r".*?" + re.escape(END), re.DOTALL)

GUIDE = """\
## Searching with sonde

The MCP server `sonde` has an index of the project. Ask it before opening or grepping files: it
answers with exact paths and line numbers, so that only those lines need to be read.

| to find | call |
|---|---|
| where or how something is done | `search_code` with a short question or an identifier |
| what the documentation says | `search_docs` |
| a file by its name | `search_by_path` with a glob |
| every line that matches a pattern | `regex_search` |
| all matches by meaning, words or both | `semantic_search`, `lexical_search`, `hybrid_search` |

- When an answer has `next_cursor`, call the same tool with nothing but `cursor` to read on.
- `INDEX_NOT_FOUND`: call `create_index` once; later edits are picked up by themselves.
- Every error says in `nextAction` what to do about it."""


def put_section(text: str) -> str:
    """The text with our section, in its old place or at the end."""
    end = "\r\n" if "\r\n" in text else "\n"
    section = f"{START}\n{GUIDE}\n{END}".replace("\n", end)
    if _SECTION.search(text):
        return _SECTION.sub(lambda _: section, text, count=1)
    gap = "" if not text else end if text.endswith("\n") else end * 2
    return text + gap + section + end


def drop_section(text: str) -> str:
    """The text without our section and the empty line before it."""
    found = _SECTION.search(text)
    if not found:
        return text
    head, rest = text[: found.start()], text[found.end() :]
    rest = re.sub(r"\A\r?\n", "", rest)
    if not rest:
        head = re.sub(r"(\A|\n)\r?\n\Z", r"\1", head)
    return head + rest


Action = Literal["add", "update", "remove", "none"]


class Editor(Protocol):
    """Edits the text of a configuration in one format."""

    def load(self, text: str) -> object:
        """The values of a text."""

    def put(self, text: str, path: tuple[str, ...], value: Mapping[str, object]) -> str:
        """The text with a value merged in at the path."""

    def drop(self, text: str, path: tuple[str, ...]) -> str:
        """The text without the value at the path."""


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
    edit: Editor = toml_edit if path.suffix == ".toml" else json_edit
    place = (agent.key, SERVER)

    def put(text: str) -> str:
        entry = _keep_own_arguments(
            launch.describe(agent), read_agent_entry(edit.load(text), agent)
        )
        return edit.put(text, place, entry)

    def has_entry(text: str) -> bool:
        return read_agent_entry(edit.load(text), agent) is not None

    def check(before: str, after: str) -> None:
        values, found = _as_object(edit.load(before)), _as_object(edit.load(after))
        servers = _as_object(values.get(agent.key, {}))
        if remove:
            del servers[SERVER]
            if not servers:
                found = {agent.key: {}, **found}  # in TOML, an empty table may be left out
        else:
            entry = _keep_own_arguments(launch.describe(agent), read_agent_entry(values, agent))
            servers[SERVER] = _merge(servers.get(SERVER), entry)
        if found != {**values, agent.key: servers}:
            raise Malformed("the entry cannot be changed without changing the rest of the file")

    def drop(text: str) -> str:
        return edit.drop(text, place)

    return _plan(path, put, drop, has_entry, check, remove=remove, backups=backups)


def plan_guide(path: Path, *, remove: bool, backups: Path) -> Change:
    """The change that adds our section to a file of instructions, or removes it."""

    def has_section(text: str) -> bool:
        return drop_section(text) != text

    return _plan(path, put_section, drop_section, has_section, None, remove=remove, backups=backups)


def _plan(
    path: Path,
    put: Callable[[str], str],
    drop: Callable[[str], str],
    holds: Callable[[str], bool],
    check: Callable[[str, str], None] | None,
    *,
    remove: bool,
    backups: Path,
) -> Change:
    before = read_config(path)
    text, mark = decode_config(before, path)
    try:
        there = holds(text)
        if remove and not there:
            return Change(path, "none", before, before)
        edited = drop(text) if remove else put(text)
        if check:
            check(text, edited)
        if edited == text:
            return Change(path, "none", before, before)
        if not remove:
            after = mark + edited.encode()
            return Change(path, "update" if there else "add", before, after)
        return Change(path, "remove", before, _restore(path, before, put, holds, backups, edited))
    except (Malformed, RecursionError) as error:
        raise ConfigUnreadable(str(error), path=str(path)) from error


def _restore(
    path: Path,
    before: bytes | None,
    put: Callable[[str], str],
    holds: Callable[[str], bool],
    backups: Path,
    edited: str,
) -> bytes | None:
    """The backup if nothing else changed since; None if we created the file; else the edit."""
    kept = read_config(find_backup(backups, path))
    if kept is not None:
        with suppress(Malformed, ConfigUnreadable):
            text, mark = decode_config(kept, path)
            if not holds(text) and mark + put(text).encode() == before:
                return kept
    if put("").encode() == before:
        return None
    _, mark = decode_config(before, path)
    return mark + edited.encode()


def _keep_own_arguments(
    entry: Mapping[str, object], old: Mapping[str, object] | None
) -> dict[str, object]:
    """The entry with the arguments that the user added after ours."""
    kept = dict(entry)
    for key in ("args", "command"):
        ours, theirs = entry.get(key), (old or {}).get(key)
        if isinstance(ours, list) and isinstance(theirs, list) and theirs[: len(ours)] == ours:
            kept[key] = theirs
    return kept


def _as_object(value: object) -> dict[str, object]:
    """A copy of an object; empty for anything else."""
    return dict(value) if isinstance(value, dict) else {}


def _merge(old: object, new: object) -> object:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    return {**old, **{key: _merge(old.get(key), value) for key, value in new.items()}}
