"""A server with two users: each has a folder of their own, and one of them has everything in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.web.conftest import Server

SONDE = (sys.executable, "-m", "sonde.cli.main")
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
MARK = "quillmarrow"
"""Stands in everything that is anna's: texts, names of files, notes."""
COLLECTION = "manuals"
"""Knowledge that the operator keeps, and shares with anna."""


class Site:
    """Folders of an operator and two users, their keys, and the server once it is started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.home = self.folder / "person" / ".mcp" / "search"
        self.start = self.folder / "person" / "own"
        self.environ = {
            "PATH": os.environ["PATH"], "HOME": str(self.folder / "person"),
            "SONDE_EMBEDDING": "static", "SONDE_RATE_LIMIT": "0",
        }  # fmt: skip
        self.keys: dict[str, str] = {}
        self.vault = self.folder / "anna" / f"{MARK}-vault"
        for place in (self.start, self.vault, self.folder / "bert" / "shop"):
            place.mkdir(parents=True)
            (place / "pyproject.toml").write_text("[project]\n")
        (self.start / "main.py").write_text("def begin():\n    return 'first light'\n")
        (self.folder / "bert" / "shop" / "till.py").write_text("def pay():\n    return 1\n")
        for number in range(70):
            (self.vault / f"{MARK}_{number:02}.py").write_text(
                f"def {MARK}_{number}():\n    return '{MARK} number {number}'\n"
            )
        (self.vault / f"ledger_{MARK}.md").write_text(
            f"# {MARK}\n\nThe {MARK} of anna, in words.\n"
        )

    def run(self, *words: str, code: int = 0) -> str:
        """The command line, as the operator types it."""
        done = subprocess.run(
            [*SONDE, *words], cwd=self.start, env=self.environ, capture_output=True, text=True,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return done.stdout.strip()

    def add(self, *users: str) -> None:
        """Give users a key and the folder of their name."""
        for user in users:
            self.keys[user] = self.run("users", "add", user)
            self.run("users", "allow", user, str(self.folder / user))

    def serve(self, *options: str, **environ: str) -> Server:
        """Start the server in the operator's project."""
        return Server(
            [*SONDE, "--json", "serve", "--port", "0", *options],
            cwd=self.start, env=self.environ | environ,
        )  # fmt: skip


class User:
    """One user of a server, by REST and by MCP."""

    def __init__(self, server: Server, key: str) -> None:
        self.server = server
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.said = ""
        """Everything the server has answered."""

    def ask(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> Any:
        """One request: the status, and the answer as JSON where it is JSON."""
        sent = json.dumps(body).encode() if body is not None else None
        kind = JSON if sent else {}
        status, _, data = self.server.ask(path, method, sent, {**self.headers, **kind, **headers})
        text = data.decode("utf-8", "replace")
        self.said += text
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def call(self, tool: str, **arguments: Any) -> Any:
        """A tool over MCP: its answer, or its error as `{"code": ...}`."""
        return self._rpc("tools/call", {"name": tool, "arguments": arguments})

    def read(self, uri: str) -> Any:
        """A resource over MCP."""
        return self._rpc("resources/read", {"uri": uri})

    def agree(self, tool: str, **arguments: Any) -> Any:
        """Call a tool, and repeat the call with the token of its question if there is one."""
        answer = self.call(tool, **arguments)
        token = find_token(answer)
        return self.call(tool, confirm=token, **arguments) if token else answer

    def _rpc(self, method: str, params: dict[str, Any]) -> Any:
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": meta}}
        named = params.get("name") or params.get("uri")
        head = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method,
                "Mcp-Name": quote(str(named), safe="/:?=&#%")}  # fmt: skip
        status, answer = self.ask("/mcp", "POST", body, **head)
        if isinstance(answer, str):
            lines = [line[6:] for line in answer.splitlines() if line.startswith("data: ")]
            assert lines, (status, answer)
            answer = json.loads(lines[-1])
        if "error" in answer:
            return answer["error"].get("data") or answer["error"]
        result = answer["result"]
        return result.get("structuredContent", result)


def find_token(answer: Any) -> str:
    """The confirmation that a refusal hands over, wherever it stands; empty if none."""
    text = json.dumps(answer)
    return text.partition("confirm='")[2].partition("'")[0]
