"""Completion in real shells, and the manual page: every word comes from the table of commands."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sonde.agents.machine import AGENTS
from sonde.cli.commands.manual import complete
from sonde.cli.parse import ACTIONS, COMMANDS, GLOBALS
from sonde.text.languages import NAMES

from .conftest import SONDE, Shell

needs = {
    name: pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed")
    for name in ("bash", "zsh", "fish", "pwsh", "man")
}


@pytest.fixture
def program(tmp_path: Path) -> dict[str, str]:
    """An environment in which `sonde` is this one."""
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    script = bin_folder / "sonde"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sonde.cli.main "$@"\n')
    script.chmod(0o755)
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}


def words(*typed: str) -> list[str]:
    return [value for value, _ in complete(["sonde", *typed], os.environ)]


def test_every_argument_has_its_own_words() -> None:
    assert words("knowledge", "") == list(ACTIONS)
    assert words("knowledge", "import", "") == [":file"]
    assert words("grep", "-t", "") == sorted(NAMES)
    assert words("grep", "-t", "pyth") == ["python"]
    assert words("grep", "-int", "pyth") == ["python"]
    assert words("grep", "x", "") == [":file"]
    assert words("setup", "") == [agent.name for agent in AGENTS]
    assert words("setup", "codex", "z") == ["zed"]
    assert words("search", "--mode", "le") == ["lexical"]
    assert words("search", "--mode=le") == ["--mode=lexical"]
    assert words("search", "--mode", "=", "le") == ["lexical"]
    assert words("--color", "al") == ["always"]
    assert words("--color", "never", "sea") == ["search"]
    assert words("store", "convert", "") == ["sqlite", "lance"]
    assert words("index", "") == [":folder"]
    assert words("help", "unin") == [c.name for c in COMMANDS if c.name.startswith("unin")]
    assert words("status", "") == []
    for command in COMMANDS:
        flags = {flag for option in (*command.options, *GLOBALS) for flag in option.flags}
        assert flags <= {*words(command.name, "-")}


def test_projects_are_completed_by_what_is_indexed(indexed: Shell) -> None:
    done = indexed.run("completion", "bash", "--", "sonde", "status", "-p", "")
    assert done.stdout.splitlines() == [str(indexed.folder), ":folder"]


@needs["bash"]
def test_bash_completes(tmp_path: Path, program: dict[str, str]) -> None:
    (tmp_path / "notes.txt").touch()

    def typed(*words: str) -> list[str]:
        line = " ".join(map(repr, words))
        script = (
            f'eval "$(sonde completion bash)"; COMP_WORDS=({line}); '
            f"COMP_CWORD={len(words) - 1}; _sonde; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
        done = subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path, env=program
        )
        assert done.stderr == ""
        return done.stdout.split()

    assert typed("sonde", "sea") == ["search"]
    assert typed("sonde", "knowledge", "imp") == ["import"]
    assert typed("sonde", "grep", "-t", "pyth") == ["python"]
    assert typed("sonde", "grep", "x", "no") == ["notes.txt"]


@needs["zsh"]
def test_zsh_completes(tmp_path: Path, program: dict[str, str]) -> None:
    stub = (
        "compdef() { }; _files() { print files }; "
        "_describe() { print -l -- ${(P)2%%:*} }; "
        "source <(sonde completion zsh); words=(sonde knowledge imp); CURRENT=3; _sonde; "
        "words=(sonde grep x ''); CURRENT=4; _sonde"
    )
    done = subprocess.run(
        ["zsh", "-f", "-c", stub], capture_output=True, text=True, cwd=tmp_path, env=program
    )
    assert (done.stdout.split(), done.stderr) == (["import", "files"], "")


@needs["fish"]
def test_fish_completes(tmp_path: Path, program: dict[str, str]) -> None:
    (tmp_path / "notes.txt").touch()
    script = (
        "sonde completion fish | source; complete -C 'sonde knowledge imp'; "
        "complete -C 'sonde grep -t pyth'; complete -C 'sonde grep x not'"
    )
    done = subprocess.run(
        ["fish", "--no-config", "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=program,
    )
    found = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert (found, done.stderr) == (["import", "python", "notes.txt"], "")


@needs["pwsh"]
def test_powershell_completes(tmp_path: Path, program: dict[str, str]) -> None:
    script = (
        "sonde completion powershell | Out-String | Invoke-Expression; "
        "(TabExpansion2 'sonde knowledge imp' 19).CompletionMatches.CompletionText"
    )
    done = subprocess.run(
        ["pwsh", "-NoProfile", "-c", script], capture_output=True, text=True, env=program
    )
    assert done.stdout.split() == ["import"]


def show_man() -> str:
    command = [*SONDE, "help", "--man"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_manual_page_names_every_command_and_option() -> None:
    page = show_man().replace("\\-", "-")
    for command in COMMANDS:
        assert f".SS sonde {command.name}" in page
        for option in command.options:
            assert all(f"\\fB{flag}\\fR" in page for flag in option.flags)


@needs["man"]
def test_man_reads_the_page_without_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "sonde.1"
    path.write_text(show_man(), "utf-8")
    done = subprocess.run(
        ["man", "--warnings", "-l", str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "sonde grep [PATTERN]" in done.stdout
