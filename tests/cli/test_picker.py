"""`sonde` alone on a terminal: typed at, looked at and left as a person would."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sonde.cli.commands.picker import split_keys
from sonde.cli.terminal import edit_command

from .conftest import PATIENCE_S, SONDE, Shell


class Terminal:
    """A terminal of 90 columns with a program in it."""

    def __init__(self, shell: Shell, *args: str, rows: int = 24, **environ: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 90, 0, 0))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.screen = ""
        self.process = subprocess.Popen(
            [*SONDE, *args],
            cwd=shell.folder,
            env={**shell.environ, **environ},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )

    def see(self, text: str) -> str:
        """What is on the screen once it shows this text, without colours."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.screen.rpartition("\x1b[H")[2])
            if text in plain:
                return plain
            ready, _, _ = select.select([self.master], [], [], 0.1)
            if ready:
                self.screen += os.read(self.master, 65536).decode("utf-8", "replace")
        raise AssertionError(f"never saw {text!r} in {plain!r}")

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def end(self) -> int:
        """Read until the program ends; its exit code."""
        while self.process.poll() is None:
            ready, _, _ = select.select([self.master], [], [], 0.1)
            if ready:
                self.screen += os.read(self.master, 65536).decode("utf-8", "replace")
        return self.process.returncode


@contextmanager
def open_terminal(shell: Shell, *args: str, rows: int = 24, **environ: str) -> Iterator[Terminal]:
    terminal = Terminal(shell, *args, rows=rows, **environ)
    try:
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.master)
        os.close(terminal.slave)


@pytest.fixture
def editor(tmp_path: Path) -> Path:
    """An editor that writes down how it was called."""
    path = tmp_path / "vim"
    path.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/edited\n')
    path.chmod(0o755)
    return path


def test_typing_shows_hits_with_a_preview_and_enter_opens_the_editor(
    indexed: Shell, editor: Path
) -> None:
    with open_terminal(indexed, EDITOR=str(editor)) as terminal:
        assert "Ctrl-T project" in terminal.see("type a question")
        terminal.press("send invoice")
        seen = terminal.see("▌ src/mail/send.py:1")
        assert "> send invoice" in seen
        assert "def send_invoice(customer, invoice):" in terminal.see("1 │ def send_invoice")
        terminal.press("\r")
        assert terminal.end() == 0
        assert terminal.screen.endswith("\x1b[?1049l")
        assert termios.tcgetattr(terminal.slave) == terminal.before
    assert (editor.parent / "edited").read_text() == "+1 src/mail/send.py\n"


def test_keys_switch_the_kind_and_the_project(indexed: Shell) -> None:
    with open_terminal(indexed) as terminal:
        terminal.see("code docs")
        terminal.press("parcels\t")
        assert "leave the warehouse" in terminal.see("▌ docs/shipping.md")
        terminal.press("\t\t\x15cart")
        terminal.see("▌ src/cart.py:1")
        terminal.press("\x1b[Z\x15\\bquantity\\b")
        terminal.see("▌ src/cart.py:4")
        terminal.press("\x1b[B")
        terminal.see("▌ src/cart.py:5")
        terminal.press("\x14")
        terminal.see(f"▌ {indexed.folder}")
        terminal.press("\rinvoice")
        terminal.see("▌ src/mail/send.py:1")
        terminal.press("\x1b")
        assert terminal.end() == 1


def test_an_error_is_shown_and_the_next_question_still_works(indexed: Shell) -> None:
    with open_terminal(indexed) as terminal:
        terminal.see("code docs")
        terminal.press("\t\t(open")
        terminal.see("is invalid")
        terminal.press("\x15append")
        terminal.see("▌ src/cart.py:5")
        terminal.press("\x03")
        assert terminal.end() == 1


def test_enter_takes_no_result_of_another_kind_or_project(indexed: Shell) -> None:
    with open_terminal(indexed) as terminal:
        terminal.see("code docs")
        terminal.press("append")
        terminal.see("▌ src/cart.py:")
        terminal.press("\x14\r")  # before the list of projects is there
        terminal.see(f"▌ {indexed.folder}")
        terminal.press("\rinvoice")
        terminal.see("▌ src/mail/send.py:1")
        terminal.press("\x03")
        assert terminal.end() == 1


def test_without_a_terminal_the_commands_are_listed(indexed: Shell) -> None:
    done = indexed.run()
    assert done.returncode == 2
    assert "usage: sonde COMMAND" in done.stderr


def test_keys_are_told_apart_however_they_arrive() -> None:
    assert list(split_keys(b"ab\x1b[A\x7fc\r")) == ["text ab", "up", "erase", "text c", "open"]
    assert list(split_keys("é海\t".encode())) == ["text é海", "kind"]
    assert list(split_keys(b"\x1b")) == ["quit"]
    assert list(split_keys(b"\x1b[99~")) == []


@pytest.mark.parametrize(
    ("editor", "command"),
    [
        (["vim"], ["vim", "+7", "a.py"]),
        (["/usr/bin/emacsclient", "-t"], ["/usr/bin/emacsclient", "-t", "+7", "a.py"]),
        (["code", "--wait"], ["code", "--wait", "-g", "a.py:7"]),
        (["hx"], ["hx", "a.py:7"]),
        (["idea"], ["idea", "--line", "7", "a.py"]),
        (["ours"], ["ours", "a.py"]),
    ],
)
def test_each_editor_is_given_the_line_in_its_own_words(
    editor: list[str], command: list[str]
) -> None:
    assert edit_command(editor, "a.py", 7) == command
