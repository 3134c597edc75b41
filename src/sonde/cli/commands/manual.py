"""Help, the manual page and shell completion, derived from the table of commands.

The shell scripts only pass the words on, so every shell completes every argument the same way.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sonde.cli.arguments import Arguments, Command, Option
from sonde.cli.parse import COMMANDS, FOUND, GLOBALS, unknown_command

_ABOUT = "Find anything in code and documents: by meaning, by words, by pattern."
_COLUMNS = 80  # of a help text: what every terminal has
_INDENT = 26  # where the explanation of an option begins
_GROUPS = {
    "search a project": "index search grep files related history",
    "search notes and disks": "knowledge tree",
    "agents and the browser": "setup serve mcp users embed",
    "indexes": "status projects jobs check flush strategy reindex delete store push export",
    "the installation": "doctor config model daemon uninstall completion help version",
}
"""Headings of the overview, with their commands in the order of first use."""
FILES, FOLDERS = ":file", ":folder"
"""Lines that ask the shell to complete paths."""

_SCRIPTS = Path(__file__).parent.parent / "completions"


def run_version(_args: Arguments) -> int:
    """Print the version."""
    from sonde.version import __version__

    print(f"sonde {__version__}")
    return FOUND


def run_help(args: Arguments) -> int:
    """Print the help of one command, the overview, or the manual page."""
    known = {command.name: command for command in COMMANDS}
    if args.man:
        print("\n".join(render_man()))
    elif not args.topic:
        print("\n".join(render_overview()))
    elif args.topic in known:
        print("\n".join(render_help(known[args.topic])))
    else:
        raise unknown_command(args.topic, "sonde help COMMAND")
    return FOUND


def render_overview() -> Iterator[str]:
    """The help of `sonde` itself."""
    yield from ("usage: sonde COMMAND [options]", "", _ABOUT, "")
    known = {command.name: command for command in COMMANDS}
    for title, names in _GROUPS.items():
        yield f"{title}:"
        for name in names.split():
            yield from _render_row(name, known[name].about, 14)
        yield ""
    yield "global options:"
    yield from _render_options(GLOBALS)
    yield from _render_row("  -V, --version", "print the version")
    yield ""
    text = (
        "Start with `sonde index` in a project, then `sonde search 'where is ...'`. Connect agents "
        "with `sonde setup`. On a terminal, `sonde` without a command opens a picker. `sonde help "
        "COMMAND` explains a command. Exit codes: 0 found, 1 nothing found, 2 error."
    )
    yield from textwrap.wrap(text, _COLUMNS)


def render_help(command: Command) -> Iterator[str]:
    """The help of one command."""
    yield from (f"usage: {command.usage}", "")
    yield f"{command.about[0].upper()}{command.about[1:]}."
    if words := [option for option in command.options if not option.flags]:
        yield from ("", "arguments:")
        for option in words:
            yield from _render_row(f"  {option.label}", option.about)
    if options := [option for option in command.options if option.flags]:
        yield from ("", "options:")
        yield from _render_options(options)
    yield from ("", "global options:")
    yield from _render_options(GLOBALS)
    if command.example:
        yield from ("", f"example: {command.example}")


def _render_options(options: Sequence[Option]) -> Iterator[str]:
    for option in options:
        yield from _render_row(f"  {_spell(option)}", option.about)


def _spell(option: Option) -> str:
    """`-n, --limit N`; a lone long option stands under the others."""
    names = ", ".join(option.flags)
    names = names if len(option.flags[0]) == 2 else f"    {names}"
    return names if option.is_flag else f"{names} {option.metavar or 'NAME'}"


def _render_row(name: str, about: str, indent: int = _INDENT) -> Iterator[str]:
    name = name if name.startswith(" ") else f"  {name}"
    if len(name) > indent - 2:
        yield name
        name = ""
    for line in textwrap.wrap(about, _COLUMNS - indent):
        yield f"{name:<{indent}}{line}"
        name = ""


def render_man() -> Iterator[str]:
    """The manual page, in the language of man pages."""
    from sonde.version import __version__

    yield f'.TH SONDE 1 "" "sonde {__version__}" "User Commands"'
    yield from (".SH NAME", r"sonde \- " + _ABOUT[0].lower() + _man(_ABOUT[1:].rstrip(".")))
    yield from (".SH SYNOPSIS", r"\fBsonde\fR \fICOMMAND\fR [options]")
    yield from (".SH OPTIONS", "These are accepted before and after every command.")
    yield from _man_options(GLOBALS)
    yield ".SH COMMANDS"
    for command in COMMANDS:
        yield from (
            f".SS {_man(command.usage)}",
            _man(f"{command.about[0].upper()}{command.about[1:]}."),
        )
        yield from _man_options(command.options)
        if command.example:
            yield from (".PP", "Example:", ".PP", ".nf", _man(command.example), ".fi")
    yield from (".SH EXIT STATUS", "0 found or done, 1 nothing found, 2 an error, 130 interrupted.")
    yield from (
        ".SH ENVIRONMENT",
        r".TP",
        r"\fBSONDE_HOME\fR",
        "Where indexes and settings are kept.",
    )
    yield from (".TP", r"\fBEDITOR\fR, \fBPAGER\fR, \fBNO_COLOR\fR", "As usual.")
    yield from (".SH SEE ALSO", r"\fBrg\fR(1)")


def _man_options(options: Sequence[Option]) -> Iterator[str]:
    for option in options:
        names = ", ".join(rf"\fB{_man(name)}\fR" for name in option.flags)
        label = "" if option.is_flag else rf" \fI{_man(option.metavar or 'NAME')}\fR"
        yield from (".TP", (names + label) if names else rf"\fI{_man(option.label)}\fR")
        yield _man(option.about)


def _man(text: str) -> str:
    """Text as man pages write it: dashes that can be copied, no line that looks like a command."""
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", r"\e").replace("-", r"\-"))


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
    """Completions of the last word, each with a description; the first word is the program."""
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
    """The command, the number of its words, and the option that still needs a value."""
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
        from sonde.settings import find_home
        from sonde.stores.records import list_recorded

        yield from sorted((str(root), "") for _, root in list_recorded(find_home(environ)[0]))
        yield FOLDERS, ""
    elif option.words:
        yield FILES if option.words == "file" else FOLDERS, ""
