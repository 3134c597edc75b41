"""The commands and their options, declared once; parsing, help, completion and the man page derive
from them.

Nothing heavy is imported here: `sonde help` and every usage error end in this file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sonde.cli.arguments import (
    Arguments,
    Command,
    Option,
    UsageError,
    Words,
    number_reader,
    read_command_line,
    suggest,
)

FOUND, NOTHING, FAILED, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: found or done; nothing found; an error; Ctrl-C."""

MODES = ("auto", "hybrid", "semantic", "lexical", "related", "history")
REPORTS = (
    "largest", "oldest", "newest", "by-extension", "by-age", "duplicates", "growth",
    "empty-folders",
)  # fmt: skip
SHELLS = ("bash", "zsh", "fish", "powershell")
ACTIONS = ("import", "search", "get", "add", "edit", "delete", "export", "restore", "status")
KNOWLEDGE = ("notes", "media", "chats", "characters", "prompts")
_ORDERS = ("none", "path", "modified", "accessed", "created")


def _flag(*names: str, about: str, dest: str = "", value: Any = True) -> Option:
    return Option(names, about, takes="flag", dest=dest, value=value)


def _number(*names: str, about: str, least: int = 1) -> Option:
    return Option(names, about, "N", read=number_reader(least))


def _value(*names: str, about: str, metavar: str = "", words: Words = "", **more: Any) -> Option:
    return Option(names, about, metavar, words=words, **more)


GLOBALS = (
    _value("-p", "--project", metavar="PATH", words="project",
           about="the project's folder or name (default: detected)"),
    _flag("--json", about="print the answer as JSON"),
    _flag("-y", "--yes", about="answer yes to every question"),
    _flag("-q", "--quiet", about="print results only: no progress, no notes"),
    _flag("--verbose", about="show the technical message of errors too"),
    _value("--color", choices=("auto", "always", "never"),
           about="colour: auto (default), always or never"),
)  # fmt: skip
USER_ACTIONS = ("add", "list", "revoke", "allow", "share", "withdraw", "key", "link")
_FULL = _flag("--full", about="show whole snippets and whole lines")
_LIMIT = _number("-n", "--limit", about="results (default: 10)")
_UNDER = _value("--path", metavar="P", words="file", about="only files under this folder")

_TOOLSETS = _value(
    "--toolsets", metavar="NAMES", about="tools to list: code,index,research (default) or all"
)

# fmt: off
COMMANDS = (
    Command("index", "index a project, or bring its index up to date", "index:run_index", (
        _value("path", metavar="PATH", words="folder", about="the project (default: detected)"),
        _flag("--deep", about="compute deep vectors now; servers do it when idle"),
        _value("--from", metavar="URL", dest="shared",
               about="start from a shared index, which `sonde push` fills"),
    ), "sonde index ~/code/app"),
    Command("search", "search code, or documents if no code has the words", "search:run_search", (
        _value("query", metavar="QUERY", takes="many", needed=True,
               about="a question, words, or a name"),
        _UNDER,
        _value("--mode", choices=MODES, about=f"how to search (default: auto): {', '.join(MODES)}"),
        _LIMIT,
        _flag("--docs", about="search documents only"),
        _flag("--all-projects", about="search every indexed project"),
        _flag("--explain", about="explain why each result ranks where it does"),
        _flag("--scores", about="show scores"),
        _flag("--open", about="open the first result in your editor ($VISUAL, $EDITOR)"),
        _flag("--all", about="every result, not only the first page"),
        _number("--cursor", about="continue after this many results"),
        _flag("--json-lines", about="print each result as one line of JSON"),
        _number("--max-tokens", about="size of the answer (default: 20000; with --json 2000)"),
        _FULL,
    ), "sonde search 'where are retries limited?' --path src/"),
    Command("grep", "find lines that match a regular expression, as `rg` does", "grep:run_grep", (
        _value("pattern", metavar="PATTERN", about="a regular expression, as `rg` reads it"),
        _value("paths", takes="many", metavar="PATH", words="file",
               about="only in these files or folders (default: below here, or standard input)"),
        _value("-e", "--regexp", takes="many", metavar="PATTERN",
               about="a pattern, even one that begins with a dash; may be repeated"),
        _value("-f", "--file", takes="many", metavar="FILE", words="file",
               about="patterns from a file, one per line; - is standard input"),
        _flag("-i", "--ignore-case", dest="case", value="ignore", about="ignore letter case"),
        _flag("-s", "--case-sensitive", dest="case", value="exact",
              about="match letter case (the default)"),
        _flag("-S", "--smart-case", dest="case", value="smart",
              about="ignore letter case unless the pattern has a capital"),
        _flag("-F", "--fixed-strings", about="the pattern is plain text"),
        _flag("-w", "--word-regexp", dest="whole", value="word", about="match whole words only"),
        _flag("-x", "--line-regexp", dest="whole", value="line", about="match whole lines only"),
        _flag("-v", "--invert-match", about="print the lines that do not match"),
        _flag("-U", "--multiline", about="let a match span several lines"),
        _flag("--multiline-dotall", about="with -U, let `.` match line breaks"),
        _flag("-o", "--only-matching", about="print only what matches"),
        _value("-r", "--replace", metavar="TEXT",
               about="print matches as this text; $1 is a group"),
        _flag("-n", "--line-number", dest="line_number",
              about="show line numbers (the default on a terminal)"),
        _flag("-N", "--no-line-number", dest="line_number", value=False,
              about="show no line numbers"),
        _flag("-H", "--with-filename", dest="with_filename", about="show the path with each line"),
        _flag("-I", "--no-filename", dest="with_filename", value=False, about="show no paths"),
        _flag("--column", about="show the column of the first match"),
        _flag("--vimgrep", about="print each match with its line and column, for editors"),
        _flag("--heading", dest="heading", about="paths above their lines (on a terminal)"),
        _flag("--no-heading", dest="heading", value=False, about="paths before each line"),
        _flag("-l", "--files-with-matches", dest="mode", value="with",
              about="print only the names of files"),
        _flag("--files-without-match", dest="mode", value="without",
              about="print only the names of files without a match"),
        _flag("-c", "--count", dest="mode", value="count",
              about="print only the number of matching lines of each file"),
        _flag("--count-matches", dest="mode", value="matches",
              about="print only the number of matches of each file"),
        _flag("--json", dest="mode", value="json", about="print JSON Lines, as `rg --json` does"),
        _flag("--files", about="print the files that would be searched"),
        _number("-A", "--after-context", about="lines after", least=0),
        _number("-B", "--before-context", about="lines before", least=0),
        _number("-C", "--context", about="lines around", least=0),
        _value("-g", "--glob", takes="many", metavar="GLOB",
               about="only files that match; !GLOB leaves out; may be repeated"),
        _value("--iglob", takes="many", metavar="GLOB", about="the same, whatever the letter case"),
        _value("-t", "--type", takes="many", metavar="LANGUAGE", words="language",
               about="only files of this language; may be repeated"),
        _value("-T", "--type-not", takes="many", metavar="LANGUAGE", words="language",
               about="no files of this language"),
        _flag("-.", "--hidden", about="also hidden files and folders"),
        _flag("--no-ignore", about="also what ignore files and the index leave out"),
        Option(("-u", "--unrestricted"), "as --no-ignore; -uu also hidden files", takes="count"),
        _flag("-L", "--follow", about="follow links that lead to files of the project"),
        _value("--sort", choices=_ORDERS,
               about="order of files: path (default), modified, accessed, created or none"),
        _value("--sortr", choices=_ORDERS, about="the same, reversed"),
        _flag("--stats", about="print statistics at the end"),
        _number("-m", "--max-count", about="matching lines in each file"),
        _number("--limit", about="matching lines in all"),
        _FULL,
    ), r"sonde grep -i 'def \w+_retry' src -t python", models=False),
    Command("related", "find what is similar to a place or a passage", "search:run_related", (
        _value("place", metavar="PLACE", takes="many", needed=True, words="file",
               about="path:line, or a passage"),
        _UNDER, _LIMIT, _FULL,
    ), "sonde related src/cart.py:120"),
    Command("history", "search commits by words and by meaning", "search:run_history", (
        _value("query", metavar="QUERY", takes="many", needed=True,
               about="what a commit did, or why"),
        _value("--path", metavar="P", words="file",
               about="only commits that touch this folder or file"),
        _LIMIT, _FULL,
    ), "sonde history 'why are requests retried'"),
    Command("files", "find files by name", "search:run_files", (
        _value("glob", metavar="NAME", needed=True,
               about="part of a path, or a glob such as 'src/**/*.{md,txt}'"),
        _number("-n", "--limit", about="matches (default: 20)"),
    ), "sonde files auth.ts"),
    Command("knowledge",
            "import, search, read and edit notes, media, chats, characters and prompts",
            "knowledge:run_knowledge", (
        _value("action", choices=ACTIONS, metavar="ACTION", needed=True,
               about=", ".join(ACTIONS)),
        _value("arguments", takes="many", metavar="ARGUMENT", words="file",
               about="of import: a folder or file; of search: words; of get, edit and delete: an "
                "address (notes://ID); of add: the text; of export and restore: a file"),
        _value("--as", dest="source", choices=KNOWLEDGE, metavar="SOURCE",
               about=f"import as, search in, or add to: {', '.join(KNOWLEDGE)}"),
        _value("--title", metavar="TITLE", about="title of the entry that is added or edited"),
        _value("--tags", metavar="A,B", about="its tags"),
        _LIMIT,
        _flag("--watch", about="after an import, keep following the folder"),
        _flag("--restore", about="with an import, restore entries deleted here"),
        _value("--user", metavar="NAME", about="use the knowledge of this user of `sonde serve`"),
    ), "sonde knowledge import ~/Notes"),
    Command("tree", "scan a folder and show what takes up space", "disk:run_tree", (
        _value("path", metavar="PATH", words="folder", about="the folder (default: here)"),
        _number("-d", "--depth", about="levels shown (default: 1)"),
        _number("-n", "--limit", about="rows of each folder (default: 10)"),
        _value("--sort", choices=("size", "name", "modified"),
               about="order: size (default), name or modified"),
        _number("--max-depth", about="do not scan deeper"),
        _flag("--follow-symlinks", about="also count the targets of links"),
        _flag("--no-scan", about="show the last scan without scanning again"),
        _value("--where", metavar="FILTER", about="find instead: 'size>10MB age>30d'"),
        _value("--report", choices=REPORTS, metavar="NAME", about=", ".join(REPORTS)),
        _value("--since", metavar="WHEN", about="growth since a date, or 7d (the default)"),
    ), "sonde tree ~/Downloads -d 2"),
    Command("setup", "add sonde to the configuration of your agents", "setup:run_setup", (
        _value("agents", takes="many", metavar="AGENT", words="agent",
               about="which (default: those found)"),
        _value("--scope", choices=("user", "project"),
               about="user: for all projects (default); project: for this one"),
        _flag("--guide", about="also add a short section about sonde to the agents' instructions"),
        _flag("--no-skill", about="do not add a skill for agents that support them"),
        _flag("--print-guide", about="print twenty lines to paste into any agent's instructions"),
        _flag("--auto-index", about="let servers index their project without asking"),
        _flag("--remove", about="remove what setup added"),
        _flag("--dry-run", about="show what would change, and change nothing"),
    ), "sonde setup claude-code codex --scope project --guide"),
    Command("model", "choose the embedding model of notes, documents and code", "setup:run_model", (
        _value("name", metavar="MODEL", words="folder", needed=True,
               about="a sentence-transformers folder with an ONNX file, owner/name on the hub "
                "(downloaded once), or auto: the bundled models"),
    ), "sonde model sentence-transformers/all-mpnet-base-v2"),
    Command("uninstall", "remove sonde's entries, indexes and caches from this machine",
            "uninstall:run_uninstall", (
        _flag("--all", about="also delete personal knowledge (`sonde knowledge export` saves it)"),
        _flag("--dry-run", about="show what would be removed, and remove nothing"),
    ), "sonde uninstall --dry-run", models=False),
    Command("mcp", "serve agents: MCP over stdin and stdout", "serve:run_mcp", (_TOOLSETS,),
            "sonde mcp --toolsets all"),
    Command("serve", "serve agents and people over HTTP: MCP, REST and pages", "serve:run_serve", (
        _value("--host", metavar="H", about="where to listen (default: 127.0.0.1)"),
        _number("--port", about="port (default: 8420; 0: any)", least=0),
        _value("--token-file", metavar="FILE", words="file",
               about="a file of lines `TOKEN` or `USER TOKEN`"),
        _value("--public-url", metavar="URL", about="the server's address as clients see it"),
        _value("--from", metavar="URL", dest="serve_from", words="folder",
               about="answer for the repositories of this shared index, without checkouts"),
        _value("--cache", metavar="FOLDER", dest="cache_folder", words="folder",
               about="where to cache them (default: ~/.cache/sonde)"),
        _number("--cache-size", about="size of that cache, in GB (default: 20)", least=0),
        _value("--access", metavar="FILE", dest="access_file", words="file",
               about="which repositories users and groups see (TOML)"),
        _value("--audit-log", metavar="FILE", words="file",
               about="write who called what to this file"),
        _flag("--no-browser", about="do not open the page in a browser"),
        _TOOLSETS,
    ), "sonde serve --port 8420"),
    Command("status", "show the state of the project's index", "index:run_status"),
    Command("projects", "list every indexed project", "index:run_projects"),
    Command("jobs", "list jobs, or stop one", "disk:run_jobs", (
        _number("-n", "--limit", about="jobs (default: 20)"),
        _value("--stop", metavar="JOB", about="stop this job"),
    )),
    Command("reindex", "rebuild the project's index", "index:run_verb"),
    Command("delete", "delete the project's index", "index:run_verb"),
    Command("flush", "index pending changes now", "index:run_verb"),
    Command("strategy", "show or choose when changes are indexed", "index:run_strategy", (
        _value("strategy", choices=("realtime", "lazy", "git"),
               about="at once, when idle or searched, or with each commit"),
        _flag("--hook", dest="hook", about="install the post-commit hook without asking"),
        _flag("--no-hook", dest="hook", value=False,
              about="do not install it, and remove an existing one"),
    ), "sonde strategy git"),
    Command("check", "compare the index with the files and with itself, and repair it",
            "index:run_check", (
        _flag("--thorough", about="compare every word as well"),
    )),
    Command("doctor", "check the installation and report problems", "installation:run_doctor"),
    Command("config", "show settings and where each came from", "installation:run_config", (
        _value("action", choices=("show", "path", "edit"), default="show",
               about="show values (default), show file paths, or edit the project's file"),
    )),
    Command("store", "move the project's index to the other store", "index:run_verb", (
        _value("action", choices=("convert",), needed=True, about="what to do"),
        _value("store", choices=("sqlite", "lance"), needed=True, about="the store to move to"),
    ), "sonde store convert lance"),
    Command("push", "index the checked-out commit and add it to a shared index",
            "push:run_push", (
        _value("url", metavar="URL", words="folder",
               about="a folder, s3://BUCKET/PATH, gs://… or az://… (default: sharedIndex)"),
        _value("--branch", metavar="NAME", about="the branch to move (default: as checked out)"),
        _value("--repository", metavar="NAME",
               about="its name in the index (default: from its remote)"),
        _flag("--first-stage", about="without deep vectors, which take most of the time"),
        _flag("--list", about="show what is in the shared index instead"),
        _flag("--clean", about="remove what neither a branch nor a commit of 30 days needs"),
    ), "sonde push s3://team/index"),
    Command("export", "write the project's views with their embeddings to chunk files",
            "index:run_verb", (
        _value("--format", choices=("cortex",), default="cortex", about="the layout: cortex"),
        _value("-o", "--output", metavar="DIR", words="folder",
               about="where (default: .cortex/chunks)"),
    ), "sonde export --format cortex"),
    Command("embed", "serve the bundled embedding model: POST /embed on this machine",
            "serve:run_embed", (
        _value("action", choices=("serve",), needed=True, about="what to do"),
        _number("--port", about="port (default: 8121; 0: any)", least=0),
    ), "sonde embed serve"),
    Command("daemon", "show or stop the background process that serves agents and quick commands",
            "daemon:run_daemon", (
        _value("action", choices=("status", "stop"), default="status",
               about="show it (default), or stop it; the next call starts it again"),
    ), "sonde daemon stop", models=False),
    Command("users", "manage the users of `sonde serve`: their keys, and what they may reach",
            "users:run_users", (
        _value("action", choices=USER_ACTIONS, metavar="ACTION", needed=True,
               about="add, list, revoke: a user's keys; allow: a folder to index, scan and read; "
                "share: a project or knowledge to search and read; withdraw: either; key: print "
                "this installation's key; link: print a link that signs a browser in"),
        _value("name", metavar="NAME",
               about="a user, or `all`; to revoke, also a key's id"),
        _value("folder", metavar="FOLDER", words="folder",
               about="what to allow, share or withdraw"),
        _value("--knowledge", metavar="OWNER",
               about="share the knowledge of this user instead of a folder, or allow adding to it"),
    ), "sonde users allow anna /srv/anna"),
    Command("completion", "print a shell's completion script", "manual:run_completion", (
        _value("shell", choices=SHELLS, metavar="SHELL", needed=True, about=", ".join(SHELLS)),
        _value("words", takes="many", metavar="WORD",
               about="print completions of these words instead; used by the script"),
    ), 'eval "$(sonde completion bash)"'),
    Command("help", "explain a command, or list all", "manual:run_help", (
        _value("topic", metavar="COMMAND", words="command", about="which command"),
        _flag("--man", about="print the manual page (for `man -l -`)"),
    ), "sonde help grep"),
    Command("version", "print the version", "manual:run_version"),
)
# fmt: on


def unknown_command(name: str, usage: str) -> UsageError:
    """The error for an unknown command, with the closest known one."""
    hint = suggest(name, [command.name for command in COMMANDS]) if len(name) > 1 else ""
    hint = hint if hint.startswith("did") else "see `sonde help`"
    hint = f"did you mean 'knowledge {name}'?" if name in ACTIONS else hint
    return UsageError(f"there is no command '{name}'; {hint}", f"usage: {usage}")


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """The values of a command line; the first word is the command. Raises `UsageError`. Without a
    command, `command` is empty; `-h` and `-V` are `help` and `version`."""
    taking = {name for option in GLOBALS if not option.is_flag for name in option.flags}
    rest = list(argv)
    names = {command.name: command for command in COMMANDS}
    at = 0
    while at < len(rest) and rest[at].startswith("-") and rest[at] != "-":
        if rest[at] in ("-h", "--help"):
            return read_command_line(names["help"], rest[:at] + rest[at + 1 :], GLOBALS)
        if rest[at] in ("-V", "--version"):
            return read_command_line(names["version"], [], GLOBALS)
        at += 1 + (rest[at] in taking)
    if at >= len(rest):
        return read_command_line(Command("", "", ""), rest, GLOBALS)
    name = rest.pop(at)
    if name not in names:
        raise unknown_command(name, "sonde COMMAND [options]")
    before_words = rest[: rest.index("--")] if "--" in rest else rest
    if "-h" in before_words or "--help" in before_words:
        return read_command_line(names["help"], [name], GLOBALS)
    return read_command_line(names[name], rest, GLOBALS)
