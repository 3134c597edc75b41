"""Agents as they are: a process each, `sonde mcp` at the other end of two pipes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

PATIENCE_S = 60.0


def make_environment(home: Path, **settings: str) -> dict[str, str]:
    """The environment of a server with storage of its own."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR") if key in os.environ}
    return {**kept, "SONDE_HOME": str(home), "SONDE_EMBEDDING": "static", **settings}


def run_sonde(project: Path, home: Path, *args: str) -> str:
    """What a command printed."""
    done = subprocess.run(
        [sys.executable, "-m", "sonde.cli.main", *args],
        cwd=project,
        env=make_environment(home),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


class Agent:
    """One client and its server; an answer that is an error fails the test."""

    def __init__(
        self, project: Path, home: Path, prefix: Sequence[str] = (), **settings: str
    ) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "sonde.cli.main", "mcp"],
            cwd=project,
            env=make_environment(home, **settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._number = 0
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def greet(self) -> None:
        """The handshake; apart, so that several servers can start at once."""
        client = {"name": "test", "version": "1"}
        self._number = 1
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        self._send({"id": 1, "method": "initialize", "params": params})
        assert self._receive()["id"] == 1
        self._send({"method": "notifications/initialized"})

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request."""
        if not self._number:
            self.greet()
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            message = self._receive()
            if message.get("id") == self._number:
                assert "error" not in message, message
                return dict(message["result"])

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a tool."""
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        assert not result.get("isError"), result["content"]
        return dict(result["structuredContent"])

    def find(self, word: str) -> list[str]:
        """Files in which a word is found."""
        answer = self.call("search_code", query=word, top_k=20, mode="lexical")
        return [row["path"] for row in answer["results"]]

    def following(self) -> dict[str, Any]:
        """How this server says that it follows the project."""
        return dict(self.call("get_index_status")["details"]["following"])

    def close(self) -> None:
        """Close its input, as clients do."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def _receive(self) -> dict[str, Any]:
        assert self.process.stdout
        end = time.monotonic() + PATIENCE_S
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            assert left > 0, "no answer"
            if select.select([self.process.stdout], [], [], left)[0]:
                piece = self.process.stdout.read(1 << 20)
                assert piece, "the server ended"
                self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        return dict(json.loads(line))
