"""A vault that is followed by one process is found through others, as it is now."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until
from tests.web.test_knowledge_sessions import call


class Client:
    """`sonde mcp`, asked over its pipes."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, **options,
        )  # fmt: skip
        self._number = 0
        hello = {"protocolVersion": "2025-11-25", "capabilities": {},
                 "clientInfo": {"name": "t", "version": "1"}}  # fmt: skip
        self.ask("initialize", hello)

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self._number += 1
        row = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.process.stdin.write(json.dumps(row) + "\n")
        self.process.stdin.flush()
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self._number:
                return answer["result"]


@pytest.fixture
def live(start: Any, tmp_path: Path) -> Any:
    """A vault under watch, and two ways to ask what is in it."""
    vault = tmp_path / "vault"
    for folder in ("pages", "assets", ".obsidian"):
        (vault / folder).mkdir(parents=True)
    (vault / "pages" / "Walrus.md").write_text("The walrus sleeps. ![[tusk.png]] #sea\n")
    environ = {"SONDE_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"],
               "SONDE_EMBEDDING": "none"}  # fmt: skip
    options: dict[str, Any] = {"cwd": tmp_path, "env": environ}
    command = [sys.executable, "-m", "sonde.cli.main"]
    watcher = subprocess.Popen([*command, "knowledge", "import", str(vault), "--watch"],
                               stdout=subprocess.PIPE, text=True, **options)  # fmt: skip
    assert watcher.stdout
    assert "1 added" in watcher.stdout.readline()
    server = start("-m", "sonde.cli.main", "--json", "serve", "--port", "0", **options)
    client = Client([*command, "mcp"], **options)
    yield vault, server, client
    for process in (watcher, client.process):
        process.kill()
        process.communicate()


@pytest.mark.row("004-130")
def test_renames_edits_deletions_and_attachments_are_seen_by_running_servers(live):
    vault, server, client = live

    def over_http(query: str) -> dict[str, str]:
        answer = call(server, query=query, dedupe=False)["result"]["structuredContent"]
        return {row["title"]: row["uri"] for row in answer["results"]}

    def over_stdio(query: str) -> dict[str, str]:
        asked = {"name": "knowledge_search", "arguments": {"query": query, "dedupe": False}}
        answer = client.ask("tools/call", asked)["structuredContent"]
        return {row["title"]: row["uri"] for row in answer["results"]}

    def both(query: str, holds: Callable[[dict[str, str]], Any]) -> Any:
        wait_until(lambda: holds(over_stdio(query)))
        return wait_until(lambda: holds(over_http(query)))

    first = both("sleeps", lambda found: found.get("Walrus"))
    # a new note, and a new folder
    (vault / "pages" / "new").mkdir()
    (vault / "pages" / "new" / "Otter.md").write_text("Otters hold hands.\n")
    both("otters", lambda found: "Otter" in found)
    # an edit
    (vault / "pages" / "Walrus.md").write_text("The walrus swims. ![[tusk.png]] #sea\n")
    both("swims", lambda found: found.get("Walrus") == first)
    # a rename keeps the entry
    (vault / "pages" / "Walrus.md").rename(vault / "pages" / "Odobenus.md")
    both("swims", lambda found: found == {"Odobenus": first})
    # an attachment comes, moves and goes
    from PIL import Image

    Image.new("RGB", (40, 30)).save(vault / "assets" / "tusk.png")
    picture = both("40x30", lambda found: found.get("tusk"))
    (vault / "assets" / "tusk.png").rename(vault / "assets" / "ivory.png")
    both("40x30", lambda found: found == {"ivory": picture})
    # a folder goes with all that is in it
    shutil.rmtree(vault / "pages" / "new")
    both("otters", lambda found: not found)
    # a program that saves by writing beside and renaming
    (vault / "pages" / "Odobenus.md.tmp").write_text("The walrus dives.\n")
    (vault / "pages" / "Odobenus.md.tmp").replace(vault / "pages" / "Odobenus.md")
    both("dives", lambda found: found == {"Odobenus": first})
    (vault / "assets" / "ivory.png").unlink()
    both("40x30", lambda found: not found)
