"""Completion for shells: what completes the words typed so far, and a script that asks for it.

The scripts only hand the words over, so every shell completes every argument by the same table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sonde.cli.arguments import Arguments, Command, Option
from sonde.cli.parse import COMMANDS, FOUND, GLOBALS

FILES, FOLDERS = ":file", ":folder"
"""Lines that ask the shell to complete paths."""

_SCRIPTS = Path(__file__).parent.parent / "completions"


def run_completion(args: Arguments) -> int:
    """Print the script of a shell, or what completes the words."""
    if not args.words:
        print((_SCRIPTS / f"sonde.{args.shell}").read_text("utf-8"), end="")
        return FOUND
    words = ["" if word == '""' else word for word in args.words]
    for value, about in complete(words, os.environ):
        print(f"{value}\t{about}" if about else value)
    return FOUND


def complete(words: Sequence[str], environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What the last word may become, each with a remark; the first word is the program."""
    *typed, current = [word for word in words[1:] if word != "="] or [""]
    command, places, waiting = _read_typed(typed)
    options = (*(command.options if command else ()), *GLOBALS)
    if waiting:
        found = _list_values(waiting, environ)
    elif current.startswith("-"):
        name, equals, _ = current.partition("=")
        named = next((option for option in options if name in option.flags), None)
        if equals and named:
            values = _list_values(named, environ)
            found = ((f"{name}={value}", about) for value, about in values if value[:1] != ":")
        else:
            found = ((flag, option.about) for option in options for flag in option.flags)
    elif command is None:
        found = ((known.name, known.about) for known in COMMANDS)
    else:
        slots = [option for option in command.options if not option.flags]
        many = [option for option in slots if option.takes == "many"]
        slot = slots[places] if places < len(slots) else many[-1] if many else None
        found = _list_values(slot, environ) if slot else iter(())
    yield from (row for row in found if row[0] in (FILES, FOLDERS) or row[0].startswith(current))


def _read_typed(typed: Sequence[str]) -> tuple[Command | None, int, Option | None]:
    """The command, how many words it has, and the option that waits for its value."""
    command: Command | None = None
    places, waiting = 0, None
    for word in typed:
        if waiting:
            waiting = None
            continue
        options = (*(command.options if command else ()), *GLOBALS)
        if word.startswith("-") and word != "-":
            # in a cluster of letters, the last one may wait for a value
            name = word if word.startswith("--") else f"-{word[-1]}"
            option = next((each for each in options if name in each.flags), None)
            waiting = option if option and not option.is_flag else None
        elif command is None:
            command = next((known for known in COMMANDS if known.name == word), None)
        else:
            places += 1
    return command, places, waiting


def _list_values(option: Option, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    if option.choices:
        yield from ((choice, "") for choice in option.choices)
    elif option.words == "language":
        from sonde.text.languages import NAMES

        yield from ((name, "") for name in sorted(NAMES))
    elif option.words == "agent":
        from sonde.agents.machine import AGENTS

        yield from ((agent.name, agent.title) for agent in AGENTS)
    elif option.words == "command":
        yield from ((command.name, command.about) for command in COMMANDS)
    elif option.words == "project":
        yield from ((project, "") for project in _list_projects(environ))
        yield FOLDERS, ""
    elif option.words:
        yield FILES if option.words == "file" else FOLDERS, ""


def _list_projects(environ: Mapping[str, str]) -> list[str]:
    """The indexed projects, read without opening any index."""
    from sonde.settings import find_home

    found = []
    for path in find_home(environ)[0].glob("indexes/*/metadata.json"):
        try:
            found.append(str(json.loads(path.read_bytes())["projectPath"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return sorted(found)
