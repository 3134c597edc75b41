"""The background process of a shell, seen from outside, and agents that it serves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from tests.processes import is_running

if TYPE_CHECKING:
    from tests.cli.conftest import Shell

SONDE = (sys.executable, "-m", "sonde.cli.main")
PATIENCE_S = 60.0


def kill_processes(shell: Shell) -> None:
    """End them all, also those that are stopped."""
    for process in processes(shell):
        with suppress(OSError):
            os.kill(process, signal.SIGCONT)
            os.kill(process, signal.SIGKILL)
        wait_for(lambda process=process: not is_running(process))


def processes(shell: Shell) -> list[int]:
    """The background processes of a home, seen from outside."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            ours = os.fsencode(shell.home) in b" ".join(words) and is_running(int(folder.name))
            if b"sonde.cli.background.process" in words and ours:
                found.append(int(folder.name))
    return found


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


class Agent:
    """`sonde mcp` and the client at its other end."""

    version = "2025-11-25"
    capabilities: ClassVar[dict[str, Any]] = {}

    def __init__(self, shell: Shell, **environ: str) -> None:
        self.process = subprocess.Popen(
            [*SONDE, "mcp"],
            cwd=shell.folder,
            env={**shell.environ, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.number = 0

    def __enter__(self) -> Self:
        client = {"name": "test", "version": "1"}
        greeting = {"protocolVersion": self.version, "capabilities": self.capabilities}
        assert "result" in self.ask("initialize", {**greeting, "clientInfo": client})
        self.send({"method": "notifications/initialized"})
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        with suppress(OSError):
            self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) == 0
        assert self.process.stdout
        self.process.stdout.close()

    def send(self, *messages: dict[str, Any]) -> None:
        """Send a message, or several as a batch."""
        assert self.process.stdin
        rows = [{"jsonrpc": "2.0", **message} for message in messages]
        self.process.stdin.write(json.dumps(rows if rows[1:] else rows[0]).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method: str, params: Any = None) -> int:
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params or {}})
        return self.number

    def count_unread(self) -> int:
        """Bytes that the front has not read yet."""
        import fcntl  # not on Windows, where this module is imported but not used
        import termios

        assert self.process.stdin
        unread = array("i", [0])
        fcntl.ioctl(self.process.stdin.fileno(), termios.FIONREAD, unread)
        return unread[0]

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        number = self.begin(method, params)
        while (answer := self.receive()).get("id") != number:
            assert "method" in answer, answer
        return answer

    def search(self, query: str = "invoice") -> dict[str, Any]:
        return self.ask("tools/call", {"name": "search_code", "arguments": {"query": query}})


class AskedAgent(Agent):
    """An agent with a call that waits for its person's consent."""

    capabilities: ClassVar[dict[str, Any]] = {"elicitation": {}}

    def __enter__(self) -> Self:
        super().__enter__()
        self.begin("tools/call", {"name": "reindex_project"})
        self.question = self.receive()
        assert self.question["method"] == "elicitation/create"
        return self


class Waiting(subprocess.Popen[str]):
    """A command in the background process that waits for its input."""

    def __init__(self, shell: Shell) -> None:
        pipe = subprocess.PIPE
        options: dict[str, Any] = {"cwd": shell.folder, "env": shell.environ, "text": True}
        command = [*SONDE, "grep", "--multiline", "x"]
        super().__init__(command, stdin=pipe, stdout=pipe, stderr=pipe, **options)
        wait_for(lambda: count_callers(shell))


def count_agents(shell: Shell) -> int:
    status = json.loads(shell.run("daemon", "--json").stdout)
    return sum(each["agents"] for each in status["processes"])


def count_callers(shell: Shell) -> int:
    """Open files of the process that lead to pipes: those of a caller's streams."""
    names = []
    for process in processes(shell):
        for file in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                names.append(str(file.readlink()))
    return sum(name.startswith("pipe:") for name in names)
