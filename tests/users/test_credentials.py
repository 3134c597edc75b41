"""Keys, tokens, passwords and one-time codes stand in no output, no file of the storage and no
command line of a process, whatever is run."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import FILES, SONDE, Shell
from tests.trees import write_files

from sonde.cli.parse import COMMANDS

GIVEN = {
    "SONDE_TOKEN": "canarytoken73519" + "x" * 20,
    "SONDE_SIGNING_KEY": "canarysigning73519" + "x" * 20,
    "OPENAI_API_KEY": "canaryservice73519",
    "SONDE_KNOWLEDGE_STORE": "postgresql://sonde:canarypassword73519@127.0.0.1:9/none",
}
REFUSED = {
    "SONDE_TOKEN": "canaryspaced 73519",
    "SONDE_SIGNING_KEY": "canaryshort73519",
    "SONDE_KNOWLEDGE_STORE": "postgres:/sonde:canarywrong73519@host",
    "SONDE_EMBEDDING_ENDPOINT": "https://sonde:canaryaddress73519@host/embed",
}
"""Values that their settings do not allow."""
REMOTE = "https://bot:canaryremote73519@git.example/shop.git"
SERVERS = {"mcp", "serve", "embed"}  # see tests/web/test_logs.py
WORDS = {
    "index": "--yes", "search": "price", "grep": "price", "related": "src/cart.py:4",
    "history": "price", "files": "cart", "knowledge": "search parcels", "tree": ".",
    "setup": "claude-code --dry-run", "uninstall": "--dry-run", "status": "", "projects": "",
    "jobs": "", "reindex": "--yes", "flush": "", "strategy": "lazy", "check": "", "doctor": "",
    "config": "show", "store": "convert sqlite", "push": "../team --first-stage", "export": "",
    "daemon": "status", "users": "list", "completion": "bash", "help": "serve", "version": "",
    "model": "auto", "delete": "--yes",
}  # fmt: skip
"""Every command that ends by itself, with words that make it do something."""


def say_everything(shell: Shell, lines: list[str], log: Path) -> str:
    """Run commands, and return what they printed, stored and passed to other processes."""
    script = "\n".join(f"{shlex.join(SONDE)} {line}" for line in lines)
    assert shutil.which("strace") or not os.environ.get("CI"), "needs strace"
    tracer = ("strace", "--seccomp-bpf", "-fqq", "-s", "9999", "-e", "trace=execve", "-o", str(log))
    done = subprocess.run(
        [*(tracer if shutil.which("strace") else ()), "sh", "-c", script], cwd=shell.folder,
        env=shell.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    files = [log, *shell.home.rglob("*"), *(shell.folder / ".cortex").rglob("*")]
    kept = [path.read_text("latin-1") for path in files if path.is_file()]
    return "\n".join([done.stdout, done.stderr, *kept])


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A repository whose remote is named with a password."""
    folder = write_files(tmp_path / "shop", FILES)
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "all"),
                  ("remote", "add", "origin", REMOTE)):  # fmt: skip
        subprocess.run(["git", *who, *words], cwd=folder, check=True)
    more = {"SONDE_LOG_LEVEL": "debug", "SONDE_DAEMON": "off", "SONDE_EMBEDDING": "static"}
    return Shell(folder, tmp_path / "home", more)


def test_every_command_is_tried() -> None:
    assert {command.name for command in COMMANDS} - SERVERS == set(WORDS)


@pytest.mark.skipif(sys.platform == "win32", reason="a script for sh")
def test_no_command_shows_or_stores_a_credential(shell: Shell, tmp_path: Path) -> None:
    shell.extra |= GIVEN
    said = say_everything(shell, [f"{name} {words}" for name, words in WORDS.items()],
                          tmp_path / "log")  # fmt: skip
    assert "environment SONDE_SIGNING_KEY" in said
    assert "PostgreSQL" in said
    assert "canary" not in said, said[max(0, said.index("canary") - 300) :][:600]


@pytest.mark.skipif(sys.platform == "win32", reason="a script for sh")
def test_a_credential_that_is_refused_is_not_quoted(shell: Shell, tmp_path: Path) -> None:
    shell.extra |= REFUSED
    lines = ["config", "--json config", "doctor", "index --yes", "mcp", "serve --host no.invalid"]
    said = say_everything(shell, lines, tmp_path / "log")
    assert all(f"{name} must be" in said for name in REFUSED)
    assert "canary" not in said, said[max(0, said.index("canary") - 300) :][:600]


@pytest.mark.skipif(sys.platform == "win32", reason="a script for sh")
def test_what_a_command_prints_once_is_not_kept(shell: Shell, tmp_path: Path) -> None:
    key = shell.run("users", "add", "anna").stdout.strip()
    own = shell.run("users", "key").stdout.strip()
    code = shell.run("users", "link").stdout.strip().partition("code=")[2]
    assert all(len(each) > 20 for each in (key, own, code))
    said = say_everything(shell, ["users list", "--json users list", "config", "doctor"],
                          tmp_path / "log")  # fmt: skip
    assert "anna" in said
    assert not [each for each in (key, code) if each in said]
