"""The commands and their options, declared once; the parser and completion derive from them.

Nothing heavy is imported here: `sonde --help` and every usage error end in this file.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

FOUND, NOTHING, FAILED, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: found or done; nothing found; an error; Ctrl-C."""

MODES = ("auto", "hybrid", "semantic", "lexical", "related", "history", "regex")
REPORTS = (
    "largest", "oldest", "newest", "by-extension", "by-age", "duplicates", "growth",
    "empty-folders",
)  # fmt: skip
SHELLS = ("bash", "zsh", "fish")
ACTIONS = ("import", "search", "get", "add", "edit", "delete", "export", "restore", "status")
KNOWLEDGE = ("notes", "media", "chats", "characters", "prompts")


class Option:
    """One argument: the names and settings of argparse's `add_argument`."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names = names
        self.settings = settings

    @property
    def flags(self) -> tuple[str, ...]:
        """Its names, if it is no positional argument."""
        return self.names if self.names[0].startswith("-") else ()

    @property
    def choices(self) -> tuple[str, ...]:
        """The values it takes; empty if it takes any."""
        return tuple(self.settings.get("choices", ()))

    @property
    def is_flag(self) -> bool:
        """Whether it takes no value."""
        return self.settings.get("action") == "store_true"


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its purpose, its arguments, and the `module:function` that runs it."""

    name: str
    about: str
    run: str
    options: tuple[Option, ...] = ()
    example: str = ""
    models: bool = True
    """Whether it needs embedding models; without, it starts sooner."""


def _flag(*names: str, about: str) -> Option:
    return Option(*names, action="store_true", help=about)


def _number(*names: str, about: str, least: int = 1) -> Option:
    def number(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}")
        return value

    number.__name__ = "whole number"
    return Option(*names, type=number, metavar="N", help=about)


GLOBALS = (
    Option("-p", "--project", metavar="PATH", help="the project's folder (default: detected)"),
    _flag("--json", about="print the answer as JSON"),
    _flag("-y", "--yes", about="answer yes to every question"),
    _flag("-q", "--quiet", about="print results only: no progress, no notes"),
    _flag("--verbose", about="with errors, show the technical message too"),
    Option("--color", choices=("auto", "always", "never"),
           help="colour: auto (default), always or never"),
)  # fmt: skip
USER_ACTIONS = ("add", "list", "revoke", "allow", "share", "withdraw", "key", "link")
_FULL = _flag("--full", about="show whole snippets and whole lines")

_TOOLSETS = Option(
    "--toolsets", metavar="NAMES", help="tools to list: code,index,research (default) or all"
)

# fmt: off
COMMANDS = (
    Command("index", "index a project, or bring its index up to date", "index:run_index", (
        Option("path", nargs="?", metavar="PATH", help="the project (default: detected)"),
        _flag("--deep", about="compute the deeper vectors now; servers do it when idle"),
    ), "sonde index ~/code/app"),
    Command("search", "search by meaning and by words", "search:run_search", (
        Option("query", nargs="+", metavar="QUERY", help="a question, words, or a name"),
        Option("--path", metavar="P", help="only files under this folder"),
        Option("--mode", choices=MODES, help="how to search (default: auto)"),
        _number("-n", "--limit", about="results (default: 10)"),
        _flag("--docs", about="search documentation instead of code"),
        _flag("--all-projects", about="search every indexed project"),
        _flag("--explain", about="say why each result ranks where it does"),
        _flag("--scores", about="show scores"),
        _number("--max-tokens", about="size of the answer"),
        _FULL,
    ), "sonde search 'where are retries limited?' --path src/"),
    Command("grep", "find lines that match a regular expression", "search:run_grep", (
        Option("pattern", metavar="PATTERN", help="a regular expression, as `rg` reads it"),
        Option("paths", nargs="*", metavar="PATH", help="only in these files or folders"),
        _flag("-i", "--ignore-case", about="ignore letter case"),
        _flag("-w", "--word-regexp", about="match whole words only"),
        _flag("-F", "--fixed-strings", about="the pattern is plain text"),
        _flag("-n", "--line-number", about="show line numbers (the default)"),
        _flag("-N", "--no-line-number", about="do not show line numbers"),
        _flag("-l", "--files-with-matches", about="print only the names of files"),
        _flag("-c", "--count", about="print only the number of matching lines of each file"),
        _number("-A", "--after-context", about="lines after", least=0),
        _number("-B", "--before-context", about="lines before", least=0),
        _number("-C", "--context", about="lines around", least=0),
        Option("-g", "--glob", action="append", metavar="GLOB",
               help="only files that match; !GLOB leaves out; may be repeated"),
        Option("-t", "--type", metavar="LANGUAGE", help="only files of this language"),
        _number("-m", "--max-count", about="matches in each file"),
        _number("--limit", about="matches in all"),
        _FULL,
    ), r"sonde grep -i 'def \w+_retry' src -t python", models=False),
    Command("related", "find what is similar to a place or a passage", "search:run_related", (
        Option("place", nargs="+", metavar="PLACE", help="path:line, or a passage"),
        Option("--path", metavar="P", help="only files under this folder"),
        _number("-n", "--limit", about="results (default: 10)"),
        _FULL,
    ), "sonde related src/cart.py:120"),
    Command("history", "search commits by words and by meaning", "search:run_history", (
        Option("query", nargs="+", metavar="QUERY", help="what a commit did, or why"),
        Option("--path", metavar="P", help="only commits that touch this folder or file"),
        _number("-n", "--limit", about="results (default: 10)"),
        _FULL,
    ), "sonde history 'why are requests retried'"),
    Command("files", "find files by name", "search:run_files", (
        Option("glob", metavar="GLOB", help="such as '**/auth*.ts' or 'src/**/*.{md,txt}'"),
        _number("-n", "--limit", about="matches (default: 20)"),
    ), "sonde files '**/test_*.py'"),
    Command("knowledge",
            "import, search, read and edit notes, media, chats, characters and prompts",
            "knowledge:run_knowledge", (
        Option("action", choices=ACTIONS, metavar="ACTION", help=", ".join(ACTIONS)),
        Option("arguments", nargs="*", default=[], metavar="ARGUMENT",
               help="of import: a folder or file; of search: words; of get, edit and delete: an "
                "address (notes://ID); of add: the text; of export and restore: a file"),
        Option("--as", dest="source", choices=KNOWLEDGE,
               help="import as, search in, or add to this source"),
        Option("--title", metavar="TITLE", help="the title of what is added or changed"),
        Option("--tags", metavar="A,B", help="its tags"),
        _number("-n", "--limit", about="results (default: 10)"),
        _flag("--watch", about="after an import, keep following the folder"),
        _flag("--restore", about="with an import, restore entries deleted here"),
        Option("--user", metavar="NAME", help="of this user of `sonde serve` (default: your own)"),
    ), "sonde knowledge import ~/Notes"),
    Command("tree", "scan a folder and show what takes the space", "disk:run_tree", (
        Option("path", nargs="?", metavar="PATH", help="the folder (default: here)"),
        _number("-d", "--depth", about="levels shown (default: 1)"),
        _number("-n", "--limit", about="rows of each folder (10)"),
        Option("--sort", choices=("size", "name", "modified"), help="order (default: size)"),
        _number("--max-depth", about="do not scan deeper"),
        _flag("--follow-symlinks", about="also count the targets of links"),
        _flag("--no-scan", about="show the last scan without scanning again"),
        Option("--where", metavar="FILTER", help="find instead: 'size>10MB age>30d'"),
        Option("--report", choices=REPORTS, metavar="NAME", help=", ".join(REPORTS)),
        Option("--since", metavar="WHEN", help="growth since a date, or 7d (the default)"),
    ), "sonde tree ~/Downloads -d 2"),
    Command("setup", "add sonde to the configuration of your agents", "setup:run_setup", (
        Option("agents", nargs="*", metavar="AGENT", help="which (default: those found)"),
        Option("--scope", choices=("user", "project"), help="for all projects, or this one"),
        _flag("--guide", about="also add a short section on sonde to the agents' instructions"),
        _flag("--auto-index", about="let agents' servers index the project they are started in"),
        _flag("--remove", about="remove what setup added"),
        _flag("--dry-run", about="show what would change, and change nothing"),
    ), "sonde setup claude-code codex --scope project --guide"),
    Command("mcp", "serve agents: MCP over stdin and stdout", "serve:run_mcp", (_TOOLSETS,),
            "sonde mcp --toolsets all"),
    Command("serve", "serve agents and people over HTTP: MCP, REST and pages", "serve:run_serve", (
        Option("--host", metavar="H", help="where to listen (default: 127.0.0.1)"),
        _number("--port", about="port (default: 8420; 0: any)", least=0),
        Option("--token", metavar="T", help="the token that clients must send; visible in `ps`"),
        Option("--token-file", metavar="FILE", help="a file of lines `TOKEN` or `USER TOKEN`"),
        Option("--public-url", metavar="URL", help="the server's address as clients see it"),
        _flag("--no-browser", about="do not open the page in a browser"),
        _TOOLSETS,
    ), "sonde serve --port 8420"),
    Command("status", "show the state of the project's index", "index:run_status"),
    Command("projects", "list every indexed project", "index:run_projects"),
    Command("jobs", "list jobs, or stop one", "disk:run_jobs", (
        _number("-n", "--limit", about="jobs (default: 20)"),
        Option("--stop", metavar="JOB", help="stop this job"),
    )),
    Command("reindex", "rebuild the project's index", "index:run_verb"),
    Command("delete", "delete the project's index", "index:run_verb"),
    Command("flush", "index pending changes now", "index:run_verb"),
    Command("strategy", "show or choose when changes are indexed", "index:run_strategy", (
        Option("strategy", nargs="?", choices=("realtime", "lazy", "git"),
               help="at once, when idle or searched, or with each commit"),
        _flag("--hook", about="install the post-commit hook without asking"),
        _flag("--no-hook", about="do not install it, and remove an existing one"),
    ), "sonde strategy git"),
    Command("check", "compare the index with the files and with itself, and repair it",
            "index:run_check", (
        _flag("--thorough", about="compare every word as well"),
    )),
    Command("doctor", "check the installation and report problems", "installation:run_doctor"),
    Command("config", "show settings and where each came from", "installation:run_config", (
        Option("action", nargs="?", choices=("show", "path", "edit"), default="show",
               help="show values (default), show file paths, or edit the project's file"),
    )),
    Command("store", "move the project's index to the other store", "index:run_store", (
        Option("action", choices=("convert",), help="what to do"),
        Option("store", choices=("sqlite", "lance"), help="the store to move to"),
    ), "sonde store convert lance"),
    Command("export", "write the project's views with their embeddings to chunk files",
            "index:run_export", (
        Option("--format", choices=("cortex",), default="cortex", help="the layout: cortex"),
        Option("-o", "--output", metavar="DIR", help="where (default: .cortex/chunks)"),
    ), "sonde export --format cortex"),
    Command("embed", "serve the bundled embedding model: POST /embed on this machine",
            "serve:run_embed", (
        Option("action", choices=("serve",), help="what to do"),
        _number("--port", about="port (default: 8121; 0: any)", least=0),
    ), "sonde embed serve"),
    Command("users", "manage the users of `sonde serve`: their keys, and what they may reach",
            "users:run_users", (
        Option("action", choices=USER_ACTIONS,
               help="make, list or revoke keys; allow a folder to be indexed, scanned and read, "
                "share a project or knowledge to be searched and read, or withdraw either; print "
                "the key of this installation, or a link that signs a browser in with it"),
        Option("name", nargs="?", metavar="NAME",
               help="a user, or `all`; to revoke, also a key's id"),
        Option("folder", nargs="?", metavar="FOLDER", help="what to allow, share or withdraw"),
        Option("--knowledge", metavar="OWNER",
               help="share or withdraw the knowledge of this user instead of a folder"),
    ), "sonde users allow anna /srv/anna"),
    Command("completion", "print the completion script of a shell", "completion:run_completion", (
        Option("shell", choices=SHELLS, help="which shell"),
    ), 'eval "$(sonde completion bash)"'),
)
# fmt: on


class Parser(argparse.ArgumentParser):
    """An argparse parser with short errors that suggest what was meant."""

    known: Sequence[str] = ()
    """Every option of every command."""

    def error(self, message: str) -> NoReturn:
        """Exit with the error, the nearest valid spelling, and the usage."""
        import difflib

        choice = re.search(r"argument (.*): invalid choice: '(.*)' \(choose from (.*)\)", message)
        option = re.search(r"unrecognized arguments: (--[\w-]+)", message)
        if choice:
            near = difflib.get_close_matches(choice[2], re.findall(r"[\w-]+", choice[3]), 1)
            hint = f"did you mean '{near[0]}'?" if near else f"choose from {choice[3]}"
            message = f"there is no {choice[1].lower()} '{choice[2]}'; {hint}"
        elif option:
            near = difflib.get_close_matches(option[1], self.known, 1)
            message += f"; did you mean {near[0]}?" if near else ""
        self.exit(2, f"{self.prog}: {message}\n  → usage: {self._show_usage()}\n")

    def _show_usage(self) -> str:
        """The command with its arguments; the options are in the help."""
        places = []
        for each in self._get_positional_actions():
            name = str(each.metavar or "|".join(each.choices or (each.dest,)))
            more = " ..." if each.nargs in ("*", "+") else ""
            places.append(f"{name}{more}" if each.required else f"[{name}{more}]")
        return " ".join([self.prog, *places, f"[options]; see `{self.prog} --help`"])


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


def _add_globals(parser: argparse.ArgumentParser, *, suppress: bool) -> None:
    """Global options may precede or follow the command; those that follow win."""
    group = parser.add_argument_group("everywhere")
    for option in GLOBALS:
        extra: dict[str, Any] = {"default": argparse.SUPPRESS} if suppress else {}
        group.add_argument(*option.names, **option.settings, **extra)
