"""A small MCP client over stdio, by hand, so that no client library is part of the figures."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

PROTOCOL = "2025-06-18"


class ServerBroke(RuntimeError):
    """The server closed its output, was silent for too long, or said what is no protocol."""


class Client:
    """One server process; requests are answered one at a time."""

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path | None = None
    ) -> None:
        self.began = time.perf_counter()
        with (log or Path(os.devnull)).open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                env=env,
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                bufsize=0,
            )
        self.pid = self._process.pid
        self._serial = 0
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def initialize(self) -> None:
        """The handshake; this client grants what it is asked for."""
        params = {
            "protocolVersion": PROTOCOL,
            "capabilities": {"elicitation": {}, "roots": {}},
            "clientInfo": {"name": "benchmark", "version": "1"},
        }
        self.request("initialize", params, 120)
        self._send({"method": "notifications/initialized"})

    def request(self, method: str, params: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        """Send one request and wait for its answer, serving the server's own meanwhile."""
        self._serial += 1
        self._send({"id": self._serial, "method": method, "params": params})
        deadline = time.monotonic() + limit_s
        while True:
            message = self._receive(deadline, method)
            if "method" in message:
                self._serve(message)
            elif message.get("id") == self._serial:
                if "error" in message:
                    raise ServerBroke(f"{method}: {message['error']}")
                return dict(message["result"])

    def call(self, tool: str, arguments: Mapping[str, Any], limit_s: float = 900) -> dict[str, Any]:
        """One tool's answer: structured where it is, else the JSON in its text."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments}, limit_s)
        text = result["content"][0]["text"] if result.get("content") else ""
        if result.get("isError"):
            raise ServerBroke(f"{tool}: {text[:500]}")
        content = result.get("structuredContent")
        if content is None or set(content) == {"result"}:
            content = json.loads(text)
        return dict(content)

    def close(self) -> None:
        """Close its input, as clients do, and see that it ends."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()

    def kill(self) -> None:
        """End it without a warning."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        while line:
            line = line[self._process.stdin.write(line) or 0 :]

    def _receive(self, deadline: float, waiting_for: str) -> dict[str, Any]:
        assert self._process.stdout
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise ServerBroke(f"no answer to {waiting_for}")
            piece = self._process.stdout.read(1 << 20)
            if not piece:
                raise ServerBroke(f"the server ended before it answered {waiting_for}")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            return dict(json.loads(line))
        except ValueError as error:
            raise ServerBroke(f"not JSON on the wire: {line[:200]!r}") from error

    def _serve(self, message: Mapping[str, Any]) -> None:
        if "id" not in message:
            return
        result: dict[str, Any] = {}
        if message["method"] == "roots/list":
            result = {"roots": []}
        elif message["method"] == "elicitation/create":
            asked = message["params"].get("requestedSchema", {}).get("properties", {})
            content = {n: True if s.get("type") == "boolean" else "yes" for n, s in asked.items()}
            result = {"action": "accept", "content": content}
        self._send({"id": message["id"], "result": result})


def is_complete(told: dict[str, Any]) -> bool:
    """Whether every chunk has its vectors, by what `get_index_status` told."""
    shares = [share.split("/") for share in told["details"]["vectors"].values()]
    return all(have == total for have, total in shares)
