"""A place to run sonde in: a folder of its own, with nothing of the machine around it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.golden.golden import mask
from tests.trees import write_files

SONDE = (sys.executable, "-m", "sonde.cli.main")
SHOP = Path(__file__).parent.parent / "quality" / "shop"
LENGTH = 160
"""Of the path of every room: columns and budgets must not depend on where tests run."""
WRITTEN = 1_700_000_000
"""When all files were written."""
PATIENCE_S = 60.0
NOTES = {
    "Walrus.md": "---\ntags: [arctic, animals]\n---\n# Walrus\n\nThe walrus sleeps on the ice.\n",
    "Meeting.md": "# Budget\n\n- [[Walrus]] exhibit costs 200\n- call Zoë about #planning\n",
    "日記.md": "# 日記\n\n今日は東京で会議をした。\n",
}


@dataclass
class Room:
    """A folder with a home, and sonde run inside it."""

    base: Path
    extra: dict[str, str] = field(default_factory=dict)

    @classmethod
    def make(cls, folder: Path, **extra: str) -> Room:
        """In a folder whose path is filled up to the same length everywhere."""
        assert len(str(folder)) < LENGTH - 1, f"{folder} is too long"
        base = folder / "r".ljust(LENGTH - len(str(folder)) - 1, "o")
        base.mkdir()
        return cls(base, extra)

    @property
    def home(self) -> Path:
        return self.base / "kept"

    @property
    def environ(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"], "HOME": str(self.base), "SONDE_HOME": str(self.home),
            "SONDE_EMBEDDING": "static", "NO_COLOR": "1", "COLUMNS": "100", "TZ": "UTC",
            "LC_ALL": "C.UTF-8", **self.extra,
        }  # fmt: skip

    def copy_shop(self) -> Path:
        """The small project that questions are asked about."""
        root = self.base / "shop"
        shutil.copytree(SHOP, root, ignore=shutil.ignore_patterns("__pycache__"))
        (root / ".git").mkdir()
        age_files(root)
        return root

    def import_notes(self) -> None:
        """Some notes, in knowledge."""
        age_files(write_files(self.base / "vault", NOTES))
        done = self.run("knowledge", "import", "vault")
        assert done.returncode == 0, done.stderr

    def run(self, *args: str, at: Path | None = None) -> subprocess.CompletedProcess[str]:
        """One command, nobody at the keyboard."""
        return subprocess.run(
            [*SONDE, *args],
            cwd=at or self.base,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
        )

    def show(self, *args: str, at: Path | None = None) -> str:
        """One command as a reader would see it: what was typed, both streams, the exit code."""
        done = self.run(*args, at=at)
        typed = " ".join(f"'{arg}'" if set(arg) & set(" *\\|()!") else arg for arg in args)
        parts = [f"$ sonde {typed}\n{done.stdout}"]
        if done.stderr:
            parts.append(f"--- stderr\n{done.stderr}")
        return "".join([*parts, f"--- exit {done.returncode}\n\n"])

    def mask(self, text: str, **known: str) -> str:
        """What is left when this room, and other `known` texts by name, are taken out."""
        places = {str(self.base): "room", str(Path(sys.executable).parent): "bin"}
        return mask(text, places | {text: name for name, text in known.items()})


def age_files(root: Path) -> None:
    """Give everything below a folder the same age and rights, however it was checked out."""
    for path in [*root.rglob("*"), root]:
        path.chmod(0o755 if path.is_dir() else 0o644)
        os.utime(path, (WRITTEN, WRITTEN), follow_symlinks=False)


@contextmanager
def serve(room: Room, at: Path) -> Iterator[Callable[[str], tuple[int, str, Any]]]:
    """`sonde serve`, and a way to get what is at an address: status, media type and body."""
    process = subprocess.Popen(
        [*SONDE, "--json", "serve", "--port", "0"],
        cwd=at,
        env=room.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert process.stdout
        facts = json.loads(process.stdout.readline())
        url, key = facts["url"], {"Authorization": f"Bearer {facts['key']}"}

        def get(path: str) -> tuple[int, str, Any]:
            try:
                request = urllib.request.Request(url + path, headers=key)
                answer = urllib.request.urlopen(request, timeout=PATIENCE_S)
            except urllib.error.HTTPError as refused:
                answer = refused
            with answer:
                body = answer.read().decode()
                kind = answer.headers.get_content_type()
                return answer.status, kind, json.loads(body) if "json" in kind else body

        yield get
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)


class Wire:
    """`sonde mcp` over pipes: JSON-RPC, one message in a line."""

    def __init__(self, room: Room, at: Path) -> None:
        self.process = subprocess.Popen(
            [*SONDE, "mcp"],
            cwd=at,
            env=room.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.process.communicate(timeout=PATIENCE_S)
        finally:
            self.process.kill()

    def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        """The answer to one request; notifications on the way are passed over."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params or {}})
        assert self.process.stdout
        while (answer := json.loads(self.process.stdout.readline())).get("id") != self._number:
            assert "method" in answer, answer
        return {key: answer[key] for key in ("result", "error") if key in answer}

    def greet(self) -> dict[str, Any]:
        """Introduce ourselves."""
        client = {"name": "golden", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
        answer = self.ask("initialize", params)
        self._send({"method": "notifications/initialized"})
        return answer

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
        self.process.stdin.flush()
