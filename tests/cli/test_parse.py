import subprocess
import sys
from importlib import import_module

import pytest

from sonde.cli.parse import COMMANDS, parse_arguments
from sonde.version import __version__


def test_every_command_has_a_function_that_runs_it() -> None:
    for command in COMMANDS:
        module, function = command.run.split(":")
        assert callable(getattr(import_module(f"sonde.cli.commands.{module}"), function))


def parse(*argv: str) -> dict[str, object]:
    return vars(parse_arguments(argv))


def test_global_options_stand_before_or_after_the_command() -> None:
    before = parse("--json", "-p", "x", "search", "a", "b")
    assert before == parse("search", "a", "b", "--json", "-p", "x")
    assert before == parse("search", "a", "--json", "b", "-px")
    assert (before["json"], before["project"], before["query"]) == (True, "x", ["a", "b"])


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (("knowledge", "search", "-n", "2", "walrus"), {"limit": 2, "arguments": ["walrus"]}),
        (("knowledge", "add", "--title", "T", "text"), {"title": "T", "arguments": ["text"]}),
        (("knowledge", "--json", "search", "x"), {"json": True, "action": "search"}),
        (("grep", "-in", "-A2", "x", "-uu", "y"), {"after_context": 2, "unrestricted": 2}),
        (("grep", "-e", "-x", "y"), {"regexp": ["-x"], "pattern": "y"}),
        (("grep", "--regexp=-x=1", "y"), {"regexp": ["-x=1"]}),
        (("grep", "--", "-x", "--json"), {"pattern": "-x", "paths": ["--json"], "mode": None}),
        (("grep", "-iS", "x"), {"case": "smart"}),
        (("grep", "x", "-"), {"paths": ["-"]}),
        (("setup", "--dry-run", "codex", "--scope", "user", "zed"), {"agents": ["codex", "zed"]}),
        (("-V",), {"command": "version"}),
        (("--version",), {"command": "version"}),
        (("-h",), {"command": "help", "topic": None}),
        (("--help", "grep"), {"command": "help", "topic": "grep"}),
        (("grep", "--help"), {"command": "help", "topic": "grep"}),
        ((), {"command": ""}),
    ],
)
def test_options_and_words_come_in_any_order(
    argv: tuple[str, ...], expected: dict[str, object]
) -> None:
    assert {name: parse(*argv)[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["history"], "history: QUERY is missing\n  → usage: sonde history QUERY ... [options]"),
        (["serch", "x"], "there is no command 'serch'; did you mean 'search'?"),
        (["xyzzy"], "there is no command 'xyzzy'; see `sonde help`"),
        (["help", "serch"], "there is no command 'serch'; did you mean 'search'?"),
        (["knowledge", "serch"], "there is no action 'serch'; did you mean 'search'?"),
        (["search", "x", "--limitt", "3"], "there is no option --limitt; did you mean --limit?"),
        (["search", "x", "--sort", "size"], "search: there is no option --sort"),
        (["search", "x", "--limit", "0"], "--limit: must be at least 1"),
        (["search", "x", "--limit", "many"], "--limit: 'many' is not a whole number"),
        (["search", "x", "--limit"], "--limit needs a value: N"),
        (["search", "x", "--mode", "zzz"], "--mode: there is no 'zzz'; choose from auto"),
        (["search", "x", "--json=1"], "--json takes no value"),
        (["grep", "x", "-A", "-1"], "--after-context: must be at least 0"),
        (["grep", "-iq7", "x"], "there is no option -7 (in -iq7)"),
        (["status", "x"], "unexpected argument 'x'"),
        (["store"], "usage: sonde store convert sqlite|lance [options]; see `sonde help store`"),
        (["files"], "NAME is missing"),
        (["users"], "ACTION is missing; choose from add, list, revoke"),
    ],
)
def test_a_slip_is_answered_with_what_this_command_has(argv: list[str], said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sonde.cli.main", *argv], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.startswith("sonde: ")
    assert done.stderr.splitlines()[1].startswith("  → usage: ")


def test_help_and_version_are_commands_and_options() -> None:
    def show(*argv: str) -> str:
        command = [sys.executable, "-m", "sonde.cli.main", *argv]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert show("version") == show("-V") == show("--version") == f"sonde {__version__}\n"
    assert show("help", "grep") == show("grep", "--help") == show("grep", "-h")
    assert show("help") == show("--help")
    for command in COMMANDS:
        assert command.name in show("help")


def test_help_needs_nothing_heavy() -> None:
    heavy = (
        "numpy",
        "apsw",
        "onnxruntime",
        "tree_sitter",
        "mcp",
        "anyio",
        "sonde.tools",
        "asyncio",
        "argparse",
    )
    program = (
        "import sys, sonde.cli.main\n"
        "sonde.cli.main.main(['--help'])\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"
    assert "COMMAND" in done.stdout
