"""`sonde setup` at a real terminal."""

import json

from .conftest import Shell


def test_a_person_sees_each_change_and_decides(shell: Shell) -> None:
    for name in (".cursor", ".gemini"):
        (shell.home / name).mkdir(parents=True)
    shell.extra["PATH"] = str(shell.home)  # no programs
    answers = (
        ("Write this? [y/N]", "y"),
        ("settings.json", "n"),
        ("SKILL.md", "n"),
        ("without asking?", "n"),
    )
    code, screen = shell.type("setup", answers=answers)
    assert code == 0
    assert "\x1b[32m+{\x1b[0m" in screen
    assert "added to" in screen
    assert "--guide" in screen
    config = json.loads((shell.home / ".cursor/mcp.json").read_text())
    assert config["mcpServers"]["sonde"]["args"] == ["mcp", "--project", "${workspaceFolder}"]
    assert not (shell.home / ".gemini/settings.json").exists()
    assert not (shell.home / ".agents").exists()
    code, screen = shell.type("setup", "--remove", "cursor", answers=(("Write this?", "y"),))
    assert code == 0
    assert not (shell.home / ".cursor/mcp.json").exists()
