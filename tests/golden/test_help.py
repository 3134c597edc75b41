"""`--help` of every command."""

from __future__ import annotations

import re
from pathlib import Path

from tests.golden.golden import HERE, check, check_all, check_names
from tests.golden.room import Room


def list_commands(text: str) -> list[str]:
    """The names of the commands in a help text."""
    listed, _, _ = text.partition("global options:\n")
    return re.findall(r"^  (\w+)", listed, re.MULTILINE)


def test_help_is_as_recorded(tmp_path: Path) -> None:
    room = Room.make(tmp_path)
    top = room.show("--help")
    commands = list_commands(top)
    assert len(commands) > 20
    texts = {f"help/{name}.txt": room.show(name, "--help") for name in commands}
    check_all({"help/sonde.txt": top, **texts})
    check_names("help", ["sonde.txt", *(f"{name}.txt" for name in commands)])


def test_completion_is_as_recorded(tmp_path: Path) -> None:
    room = Room.make(tmp_path)
    for shell in ("bash", "zsh", "fish", "powershell"):
        check(f"completion/{shell}.txt", room.show("completion", shell))


def test_the_recorded_help_is_of_every_command() -> None:
    commands = list_commands((HERE / "help" / "sonde.txt").read_text())
    assert {path.stem for path in (HERE / "help").iterdir()} == {"sonde", *commands}
