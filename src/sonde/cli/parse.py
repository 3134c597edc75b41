"""The commands and their options, declared once; parser and completion follow.

Nothing heavy is imported here: `sonde --help` and every typing error end in this file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sonde.cli.usage import Parser

MODES = ("auto", "hybrid", "semantic", "lexical", "regex")
REPORTS = (
    "largest", "oldest", "newest", "by-extension", "by-age", "duplicates", "growth",
    "empty-folders",
)  # fmt: skip
SHELLS = ("bash", "zsh", "fish")
ACTIONS = ("import", "search", "get", "add", "edit", "delete", "export", "restore", "status")
KNOWLEDGE = ("notes", "media", "chats", "characters", "prompts")


@dataclass(frozen=True, slots=True)
class Option:
    """One argument as argparse takes it."""

    names: tuple[str, ...]
    settings: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Command:
    """One command: what it is for, its arguments, and `module:function` that runs it."""

    name: str
    about: str
    run: str
    options: tuple[Option, ...] = ()
    example: str = ""


def _option(*names: str, **settings: Any) -> Option:
    return Option(names, settings)


def _flag(*names: str, about: str) -> Option:
    return Option(names, {"action": "store_true", "help": about})


def _whole(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return value

    number.__name__ = "whole number"
    return number


GLOBALS = (
    _option("-p", "--project", metavar="PATH", help="the project's folder (default: detected)"),
    _flag("--json", about="print the answer as JSON"),
    _flag("-y", "--yes", about="answer yes to every question"),
    _flag("-q", "--quiet", about="print results only: no progress, no notes"),
    _flag("--verbose", about="with errors, show the technical message too"),
    _option(
        "--color",
        choices=("auto", "always", "never"),
        help="colour: auto (default), always or never",
    ),
)
_FULL = _flag("--full", about="show whole snippets and whole lines")

_TOOLSETS = _option(
    "--toolsets", metavar="NAMES", help="tools to list: code,index,research (default) or all"
)

COMMANDS = (
    Command(
        "index",
        "index a project, or bring its index up to date",
        "index:run_index",
        (
            _option("path", nargs="?", metavar="PATH", help="the project (default: detected)"),
            _flag("--deep", about="compute the deeper vectors now; servers do it when idle"),
        ),
        "sonde index ~/code/app",
    ),
    Command(
        "search",
        "search by meaning and by words",
        "search:run_search",
        (
            _option("query", nargs="+", metavar="QUERY", help="a question, words, or a name"),
            _option("--path", metavar="P", help="only files under this folder"),
            _option("--mode", choices=MODES, help="how to search (default: auto)"),
            _option("-n", "--limit", type=_whole(1), metavar="N", help="results (default: 10)"),
            _flag("--docs", about="search documentation instead of code"),
            _flag("--all-projects", about="search every indexed project"),
            _flag("--explain", about="say why each result ranks where it does"),
            _flag("--scores", about="show scores"),
            _option("--max-tokens", type=_whole(1), metavar="N", help="size of the answer"),
            _FULL,
        ),
        "sonde search 'where are retries limited?' --path src/",
    ),
    Command(
        "grep",
        "find lines that match a regular expression",
        "search:run_grep",
        (
            _option("pattern", metavar="PATTERN", help="a regular expression, as `rg` reads it"),
            _option("paths", nargs="*", metavar="PATH", help="only under these files or folders"),
            _flag("-i", "--ignore-case", about="upper and lower case are the same"),
            _flag("-w", "--word-regexp", about="match whole words only"),
            _flag("-F", "--fixed-strings", about="the pattern is plain text"),
            _flag("-n", "--line-number", about="show line numbers (the default)"),
            _flag("-N", "--no-line-number", about="do not show line numbers"),
            _flag("-l", "--files-with-matches", about="print only the names of files"),
            _flag("-c", "--count", about="print only how many lines match in each file"),
            _option("-A", "--after-context", type=_whole(0), metavar="N", help="lines after"),
            _option("-B", "--before-context", type=_whole(0), metavar="N", help="lines before"),
            _option("-C", "--context", type=_whole(0), metavar="N", help="lines around"),
            _option(
                "-g",
                "--glob",
                action="append",
                metavar="GLOB",
                help="only files that match; !GLOB leaves out; may be repeated",
            ),
            _option("-t", "--type", metavar="LANGUAGE", help="only files of this language"),
            _option("-m", "--max-count", type=_whole(1), metavar="N", help="matches in each file"),
            _option("--limit", type=_whole(1), metavar="N", help="matches in all"),
            _FULL,
        ),
        r"sonde grep -i 'def \w+_retry' src -t python",
    ),
    Command(
        "files",
        "find files by name",
        "search:run_files",
        (
            _option("glob", metavar="GLOB", help="such as '**/auth*.ts' or 'src/**/*.{md,txt}'"),
            _option("-n", "--limit", type=_whole(1), metavar="N", help="matches (default: 20)"),
        ),
        "sonde files '**/test_*.py'",
    ),
    Command(
        "knowledge",
        "bring in, find, read and change notes, media, chats, characters and prompts",
        "knowledge:run_knowledge",
        (
            _option("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS)),
            _option(
                "arguments",
                nargs="*",
                default=[],
                metavar="ARGUMENT",
                help="of import: a folder or file; of search: words; of get, edit and delete: an "
                "address (notes://ID); of add: the text; of export and restore: a file",
            ),
            _option(
                "--as",
                dest="source",
                choices=KNOWLEDGE,
                help="take it for, search in, or add to this source",
            ),
            _option("--title", metavar="TITLE", help="the title of what is added or changed"),
            _option("--tags", metavar="A,B", help="its tags"),
            _option("-n", "--limit", type=_whole(1), metavar="N", help="results (default: 10)"),
            _flag("--watch", about="after an import, go on following the folder"),
            _flag("--restore", about="with an import, bring back what was deleted here"),
        ),
        "sonde knowledge import ~/Notes",
    ),
    Command(
        "tree",
        "scan a folder and show what takes the space",
        "disk:run_tree",
        (
            _option("path", nargs="?", metavar="PATH", help="the folder (default: here)"),
            _option("-d", "--depth", type=_whole(1), metavar="N", help="levels shown (default: 1)"),
            _option("-n", "--limit", type=_whole(1), metavar="N", help="rows of each folder (10)"),
            _option("--sort", choices=("size", "name", "modified"), help="order (default: size)"),
            _option("--max-depth", type=_whole(1), metavar="N", help="do not scan deeper"),
            _flag("--follow-symlinks", about="also count what links lead to"),
            _flag("--no-scan", about="show the last scan as it is"),
            _option("--where", metavar="FILTER", help="find instead: 'size>10MB age>30d'"),
            _option("--report", choices=REPORTS, metavar="NAME", help=", ".join(REPORTS)),
            _option("--since", metavar="WHEN", help="growth since a date, or 7d (the default)"),
        ),
        "sonde tree ~/Downloads -d 2",
    ),
    Command(
        "setup",
        "add sonde to the configuration of your agents",
        "setup:run_setup",
        (
            _option("agents", nargs="*", metavar="AGENT", help="which (default: those found)"),
            _option("--scope", choices=("user", "project"), help="for all projects, or this one"),
            _flag("--guide", about="also add a short section on sonde to the agents' instructions"),
            _flag("--remove", about="take out what setup put in"),
            _flag("--dry-run", about="show what would change, and change nothing"),
        ),
        "sonde setup claude-code codex --scope project --guide",
    ),
    Command(
        "mcp",
        "serve agents: MCP over stdin and stdout",
        "serve:run_mcp",
        (_TOOLSETS,),
        "sonde mcp --toolsets all",
    ),
    Command(
        "serve",
        "serve agents and people over HTTP: MCP, REST and pages",
        "serve:run_serve",
        (
            _option("--host", metavar="H", help="where to listen (default: 127.0.0.1)"),
            _option("--port", type=_whole(0), metavar="N", help="port (default: 8420; 0: any)"),
            _option("--token", metavar="T", help="what callers must present; seen by `ps`"),
            _option("--token-file", metavar="FILE", help="a file of lines `TOKEN` or `USER TOKEN`"),
            _option("--public-url", metavar="URL", help="our address as others see it"),
            _TOOLSETS,
        ),
        "sonde serve --port 8420",
    ),
    Command("status", "show how the project's index is", "index:run_status"),
    Command("projects", "list every indexed project", "index:run_projects"),
    Command(
        "jobs",
        "list long work, or stop some",
        "disk:run_jobs",
        (
            _option("-n", "--limit", type=_whole(1), metavar="N", help="jobs (default: 20)"),
            _option("--stop", metavar="JOB", help="ask this job to stop"),
        ),
    ),
    Command("reindex", "build the project's index anew", "index:run_reindex"),
    Command("delete", "delete the project's index", "index:run_delete"),
    Command("flush", "index everything that waits", "index:run_flush"),
    Command(
        "strategy",
        "show or choose when changes are indexed",
        "index:run_strategy",
        (
            _option(
                "strategy",
                nargs="?",
                choices=("realtime", "lazy", "git"),
                help="at once, when it is quiet or searched, or with each commit",
            ),
            _flag("--hook", about="install the post-commit hook without asking"),
            _flag("--no-hook", about="install none, and remove the one there is"),
        ),
        "sonde strategy git",
    ),
    Command(
        "check",
        "compare the index with the files and with itself, and repair it",
        "index:run_check",
        (_flag("--thorough", about="look at every single word, too"),),
    ),
    Command("doctor", "check that everything works, and say what does not", "doctor:run_doctor"),
    Command(
        "config",
        "show settings and where each came from",
        "config:run_config",
        (
            _option(
                "action",
                nargs="?",
                choices=("show", "path", "edit"),
                default="show",
                help="show values (default), show file paths, or edit the project's file",
            ),
        ),
    ),
    Command(
        "store",
        "move the project's index to the other store",
        "index:run_store",
        (
            _option("action", choices=("convert",), help="what to do"),
            _option("store", choices=("sqlite", "lance"), help="the store to move to"),
        ),
        "sonde store convert lance",
    ),
    Command(
        "export",
        "write the project's views with their embeddings to chunk files",
        "index:run_export",
        (
            _option("--format", choices=("cortex",), default="cortex", help="the layout: cortex"),
            _option("-o", "--output", metavar="DIR", help="where (default: .cortex/chunks)"),
        ),
        "sonde export --format cortex",
    ),
    Command(
        "embed",
        "serve the bundled embedding model: POST /embed on this machine",
        "serve:run_embed",
        (
            _option("action", choices=("serve",), help="what to do"),
            _option("--port", type=_whole(0), metavar="N", help="port (default: 8121; 0: any)"),
        ),
        "sonde embed serve",
    ),
    Command(
        "users",
        "say who may use `sonde serve`: give out keys, list them, take them back",
        "config:run_users",
        (
            _option("action", choices=("add", "list", "revoke"), help="what to do"),
            _option("name", nargs="?", metavar="NAME", help="a user; to revoke, also a key's id"),
        ),
        "sonde users add anna",
    ),
    Command(
        "completion",
        "print the completion script of a shell",
        "completion:run_completion",
        (_option("shell", choices=SHELLS, help="which shell"),),
        'eval "$(sonde completion bash)"',
    ),
)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = Parser(
        prog="sonde",
        description="Find anything in code and documents: by meaning, by words, by pattern.",
        epilog="To begin: `sonde index` in a project, then `sonde search 'where is ...'`; for "
        "agents `sonde setup`. `sonde COMMAND --help` explains a command. "
        "Exit: 0 found, 1 nothing, 2 error.",
        allow_abbrev=False,
    )
    every = (*GLOBALS, *(option for command in COMMANDS for option in command.options))
    parser.known = [name for option in every for name in option.names]
    parser.add_argument("--version", action="store_true", help="print the version")
    _add_globals(parser, suppress=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command in COMMANDS:
        child = commands.add_parser(
            command.name,
            help=command.about,
            description=f"{command.about[0].upper()}{command.about[1:]}.",
            epilog=f"example: {command.example}" if command.example else None,
            allow_abbrev=False,
        )
        for option in command.options:
            child.add_argument(*option.names, **option.settings)
        _add_globals(child, suppress=True)
    return parser


def find_command(name: str) -> Command:
    """The command of that name."""
    return next(command for command in COMMANDS if command.name == name)


def _add_globals(parser: argparse.ArgumentParser, *, suppress: bool) -> None:
    """Global options stand before or after the command; given after, they win."""
    group = parser.add_argument_group("everywhere")
    for option in GLOBALS:
        extra: dict[str, Any] = {"default": argparse.SUPPRESS} if suppress else {}
        group.add_argument(*option.names, **option.settings, **extra)
