"""A machine of a user with nothing on it, and the command line as that user runs it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sonde.cli.main import main


@dataclass
class Desk:
    """A home, a project, and the last thing that was said."""

    home: Path
    project: Path
    read: Callable[[], tuple[str, str]]
    out: str = ""
    err: str = ""

    def setup(self, *args: str) -> int:
        code = main(["setup", *args])
        self.out, self.err = self.read()
        return code

    def ask(self, *args: str) -> tuple[int, dict[str, Any]]:
        code = self.setup("--json", *args)
        return code, json.loads(self.out)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    @property
    def backups(self) -> list[Path]:
        return sorted((self.home / ".mcp/search/backups").glob("[!.]*"))


@pytest.fixture
def desk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Desk:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    (project / ".git").mkdir(parents=True)
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME",
                 "GEMINI_CLI_HOME", "SONDE_HOME", "SONDE_ASSUME_YES"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    monkeypatch.chdir(project)
    return Desk(home, project, lambda: tuple(capsys.readouterr()))  # type: ignore[arg-type]
