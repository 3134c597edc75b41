import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.cli.behind import kill_processes
from tests.trees import write_files

SONDE = (sys.executable, "-m", "sonde.cli.main")
PATIENCE_S = 60.0

FILES = {
    "pyproject.toml": "[project]\nname = 'shop'\n",
    "src/cart.py": (
        "class Cart:\n"
        '    """What a customer is about to buy."""\n\n'
        "    def add_item(self, item, quantity):\n"
        "        self.items.append((item, quantity))\n\n"
        "    def compute_total_price(self):\n"
        "        return sum(item.price * quantity for item, quantity in self.items)\n"
    ),
    "src/mail/send.py": (
        "def send_invoice(customer, invoice):\n"
        '    """E-mail the invoice to the customer."""\n'
        "    connection = open_smtp_connection()\n"
        "    connection.send(customer.address, render(invoice))\n"
    ),
    "docs/shipping.md": "# Shipping\n\nParcels leave the warehouse every weekday at noon.\n",
    "docs/café.md": "# Café\n\nThe kitchen opens at eight.\n",
    "package-lock.json": "{}\n",
}


@dataclass
class Shell:
    """Runs sonde as a person or a script would, with a home of its own."""

    folder: Path
    home: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "HOME": str(self.home), "TERM": "xterm", **self.extra}

    def run(
        self, *args: str, cwd: Path | None = None, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        """In a pipe, nobody at the keyboard."""
        return subprocess.run(
            [*SONDE, *args],
            cwd=cwd or self.folder,
            env={**self.environ, **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )

    def start(self, *args: str) -> subprocess.Popen[str]:
        """In pipes, for a test to talk to."""
        return subprocess.Popen(
            [*SONDE, *args],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def type(
        self, *args: str, answers: tuple[tuple[str, str], ...] = (), cwd: Path | None = None
    ) -> tuple[int, str]:
        """At a terminal 80 columns wide; each answer is typed once its question is on screen."""
        master, slave = pty.openpty()
        process = subprocess.Popen(
            [*SONDE, *args],
            cwd=cwd or self.folder,
            env={**self.environ, "COLUMNS": "80"},
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        pending = list(answers)
        screen = b""
        deadline = time.monotonic() + PATIENCE_S
        try:
            while time.monotonic() < deadline:
                ready, _, _ = select.select([master], [], [], 0.1)
                if not ready:
                    continue
                try:
                    read = os.read(master, 65536)
                except OSError:  # Linux says so when the other end is closed
                    break
                if not read:
                    break
                screen += read
                if pending and pending[0][0].encode() in screen:
                    os.write(master, pending.pop(0)[1].encode() + b"\n")
            return process.wait(PATIENCE_S), screen.decode("utf-8", "replace")
        finally:
            process.kill()
            process.wait()
            os.close(master)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A project that is not indexed."""
    return Shell(write_files(tmp_path / "shop", FILES), tmp_path / "home")


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """An indexed project that tests look at but do not change."""
    base = tmp_path_factory.mktemp("indexed")
    shell = Shell(write_files(base / "shop", FILES), base / "home")
    done = shell.run("index")
    assert done.returncode == 0, done.stderr
    return shell


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """An indexed project whose commands use the background process."""
    base = tmp_path_factory.mktemp("b")
    shell = Shell(write_files(base / "shop", FILES), base / "home", {"SONDE_EMBEDDING": "static"})
    assert shell.run("index").returncode == 0
    shell.extra["SONDE_DAEMON"] = "on"
    yield shell
    kill_processes(shell)


@pytest.fixture
def served(serving: Shell) -> Iterator[Shell]:
    """The same, without a process to begin with."""
    kill_processes(serving)
    shutil.rmtree(serving.home / ".mcp/search/daemon", ignore_errors=True)
    yield serving
    kill_processes(serving)
