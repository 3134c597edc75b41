import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from sonde.cli.commands.completion import write_bash, write_fish, write_zsh
from sonde.cli.parse import COMMANDS, GLOBALS, build_parser


def test_every_command_has_a_function_that_runs_it() -> None:
    for command in COMMANDS:
        module, function = command.run.split(":")
        assert callable(getattr(import_module(f"sonde.cli.commands.{module}"), function))


def test_global_options_stand_before_or_after_the_command() -> None:
    parse = build_parser().parse_args
    before = parse(["--json", "-p", "x", "search", "a", "b"])
    after = parse(["search", "a", "b", "--json", "-p", "x"])
    assert before == after
    assert (before.json, before.project, before.query, before.yes) == (True, "x", ["a", "b"], False)


@pytest.mark.parametrize(
    "argv",
    [
        ["search"],
        ["serch", "x"],
        ["search", "x", "--limit", "0"],
        ["search", "x", "--limit", "many"],
        ["search", "x", "--mode", "magic"],
        ["grep", "x", "-A", "-1"],
        ["search", "x", "--js"],
    ],
)
def test_a_wrong_command_line_is_an_error(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        build_parser().parse_args(argv)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


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
    )
    program = (
        "import sys, sonde.cli.main\n"
        "try: sonde.cli.main.main(['--help'])\n"
        "except SystemExit: pass\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"
    assert "COMMAND" in done.stdout


def bash_completes(tmp_path: Path, *words: str) -> list[str]:
    script = tmp_path / "sonde.bash"
    script.write_text(write_bash(), "utf-8")
    program = (
        f"set -eu; source {script}; COMP_WORDS=({' '.join(map(repr, words))}); "
        f"COMP_CWORD={len(words) - 1}; _sonde || true; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_choices_and_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    assert bash_completes(tmp_path, "sonde", "sea") == ["search"]
    assert "--all-projects" in bash_completes(tmp_path, "sonde", "search", "--a")
    assert bash_completes(tmp_path, "sonde", "search", "--mode", "le") == ["lexical"]
    assert bash_completes(tmp_path, "sonde", "--color", "al") == ["always"]
    assert bash_completes(tmp_path, "sonde", "grep", "x", "no") == ["notes.txt"]
    assert bash_completes(tmp_path, "sonde", "completion", "fi") == ["fish"]


@pytest.mark.parametrize("write", [write_bash, write_zsh, write_fish])
def test_every_script_knows_every_command_and_long_option(write: object) -> None:
    assert callable(write)
    script = write()
    for command in COMMANDS:
        assert command.name in script
        for option in (*command.options, *GLOBALS):
            for name in option.names:
                if name.startswith("--"):
                    assert name in script or f"-l {name[2:]}" in script


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["serch", "x"], "did you mean 'search'?"),
        (["knowledge", "serch"], "did you mean 'search'?"),
        (["search", "x", "--limitt", "3"], "did you mean --limit?"),
        (["store"], "usage: sonde store convert sqlite|lance [options]"),
    ],
)
def test_a_slip_is_answered_with_what_is_near(
    argv: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        build_parser().parse_args(argv)
    assert told in capsys.readouterr().err
