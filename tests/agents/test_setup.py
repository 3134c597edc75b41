"""`sonde setup` as a user sees it, on real files."""

import json
import os
import stat
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sonde.agents.configs import replace_config
from sonde.agents.machine import AGENTS, Machine
from sonde.errors import ConfigChanged

from .conftest import Desk

SONDE = str(Path(sysconfig.get_path("scripts")) / "sonde")
PLAIN = {"command": SONDE, "args": ["mcp"]}
OPEN_FOLDER = {"command": SONDE, "args": ["mcp", "--project", "${workspaceFolder}"]}
SHAPES: dict[str, tuple[str, str | None, str, dict[str, Any]]] = {
    "claude-code": (".claude.json", ".mcp.json", "mcpServers", {"type": "stdio", **PLAIN}),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", None, "mcpServers", PLAIN),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json", "mcpServers", OPEN_FOLDER),
    "vscode": (
        ".config/Code/User/mcp.json",
        ".vscode/mcp.json",
        "servers",
        {"type": "stdio", **OPEN_FOLDER},
    ),
    "copilot-cli": (
        ".copilot/mcp-config.json",
        ".github/mcp.json",
        "mcpServers",
        {"type": "local", **PLAIN, "tools": ["*"]},
    ),
    "windsurf": (".codeium/windsurf/mcp_config.json", None, "mcpServers", PLAIN),
    "codex": (
        ".codex/config.toml",
        ".codex/config.toml",
        "mcp_servers",
        {**PLAIN, "required": True},
    ),
    "gemini-cli": (".gemini/settings.json", ".gemini/settings.json", "mcpServers", PLAIN),
    "zed": (
        ".config/zed/settings.json",
        ".zed/settings.json",
        "context_servers",
        {**PLAIN, "source": "custom"},
    ),
    "opencode": (
        ".config/opencode/opencode.json",
        "opencode.json",
        "mcp",
        {"type": "local", "command": [SONDE, "mcp"], "enabled": True},
    ),
}


def load(path: Path) -> Any:
    text = path.read_text("utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def test_every_agent_of_the_table_has_its_shape_here() -> None:
    assert SHAPES.keys() == {agent.name for agent in AGENTS}


@pytest.mark.skipif(sys.platform != "linux", reason="the places are those of Linux")
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.row("001-169")
def test_each_agent_gets_its_own_shape_in_its_own_file(desk: Desk, name: str) -> None:
    user, project, key, entry = SHAPES[name]
    assert desk.setup(name, "--yes") == 0
    assert load(desk.home / user) == {key: {"sonde": entry}}
    code, told = desk.ask(name, "--scope", "project", "--yes")
    assert code == 0
    if project is None:
        assert told["agents"][0]["action"] == "skip"
    else:
        assert load(desk.project / project) == {key: {"sonde": entry}}


def test_agents_are_found_by_their_traces(desk: Desk, tmp_path: Path) -> None:
    code, told = desk.ask("--dry-run")
    assert (code, told["agents"]) == (1, [])
    desk.write(".cursor/x", "")
    program = tmp_path / "no-programs" / "opencode"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    code, told = desk.ask("--dry-run")
    assert [row["agent"] for row in told["agents"]] == ["cursor", "opencode"]
    assert not (desk.home / ".cursor/mcp.json").exists()


def test_places_follow_the_system_and_its_variables(tmp_path: Path) -> None:
    def place(name: str, platform: str, **environ: str) -> str:
        agent = next(agent for agent in AGENTS if agent.name == name)
        found = Machine(tmp_path, environ, platform).find_config(agent, "user", None)
        return str(found).replace(f"{tmp_path}/", "~/")

    assert place("vscode", "darwin") == "~/Library/Application Support/Code/User/mcp.json"
    assert place("claude-desktop", "win32", APPDATA="/A") == "/A/Claude/claude_desktop_config.json"
    assert place("zed", "linux", XDG_CONFIG_HOME="/x", APPDATA="/A") == "/x/zed/settings.json"
    assert place("codex", "linux", CODEX_HOME="/c") == "/c/config.toml"
    assert place("claude-code", "linux", CLAUDE_CONFIG_DIR="/d") == "/d/.claude.json"
    (tmp_path / ".config/opencode").mkdir(parents=True)
    (tmp_path / ".config/opencode/opencode.jsonc").write_text("{}")
    assert place("opencode", "linux") == "~/.config/opencode/opencode.jsonc"


def test_the_change_is_shown_and_without_consent_nothing_is_written(desk: Desk) -> None:
    path = desk.write(".cursor/mcp.json", '{\n  "mcpServers": {} // none yet\n}\n')
    before = path.read_bytes()
    assert desk.setup() == 2
    assert '+    "sonde": {' in desk.out
    assert "--yes" in desk.err
    assert desk.setup("--dry-run") == 0
    assert path.read_bytes() == before
    assert desk.backups == []


def test_comments_stay_a_backup_is_kept_and_twice_is_once(desk: Desk) -> None:
    text = '// mine\n{\n\t"theme": "One", // nice\n\t"context_servers": {"o": {}},\n}\n'
    path = desk.write(".config/zed/settings.json", text)
    path.chmod(0o640)
    assert desk.setup("--yes") == 0
    edited = path.read_text()
    assert "// mine" in edited
    assert "// nice" in edited
    assert edited.endswith("},\n}\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    [backup] = desk.backups
    assert backup.read_text() == text
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    code, told = desk.ask("--yes")
    assert (code, told["agents"][0]["action"]) == (0, "none")
    assert path.read_text() == edited
    assert backup.read_text() == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{\n  "a": 1 /* x */\n}',
        '\ufeff{"mcpServers": {"o": {}}}',
        '{\r\n\t"a": 1,\r\n}\r\n',
    ],
)
def test_removal_brings_the_very_bytes_back(desk: Desk, text: str) -> None:
    path = desk.write(".cursor/mcp.json", text)
    assert desk.setup("--yes") == 0
    assert path.read_text() != text
    assert desk.setup("--remove", "--yes") == 0
    assert path.read_bytes() == text.encode()
    assert desk.setup("--remove", "--yes") == 0


def test_removal_after_other_edits_takes_only_the_entry(desk: Desk) -> None:
    path = desk.write(".cursor/mcp.json", "{}")
    desk.setup("--yes")
    path.write_text(path.read_text().replace("{", '{\n  "kept": [1, 2], // new', 1))
    desk.setup("--remove", "--yes")
    assert path.read_text() == '{\n  "kept": [1, 2], // new\n  "mcpServers": {}\n}'


def test_a_file_that_setup_made_goes_with_the_entry(desk: Desk) -> None:
    desk.setup("codex", "cursor", "--yes")
    desk.setup("codex", "cursor", "--remove", "--yes")
    assert not (desk.home / ".codex/config.toml").exists()
    assert not (desk.home / ".cursor/mcp.json").exists()


@pytest.mark.parametrize(
    "data",
    [b'{"mcpServers": {', b"{mcpServers: {}}", b'{"mcpServers": []}', b"\xff\xfe{\x00}\x00", b"[]",
     b'{"mcpServers": {}, "mcpServers": {}}'],
)  # fmt: skip
def test_a_file_that_cannot_be_parsed_is_refused_and_untouched(desk: Desk, data: bytes) -> None:
    path = desk.write(".cursor/mcp.json", data)
    code, told = desk.ask("cursor", "codex", "--yes")
    assert code == 2
    row = told["agents"][0]
    assert row["action"] == "refuse"
    assert row["error"]["code"] == "AGENT_CONFIG_UNREADABLE"
    assert path.read_bytes() == data
    assert list(path.parent.iterdir()) == [path]
    assert (desk.home / ".codex/config.toml").exists()  # the others are not held up


def test_what_the_user_added_to_the_entry_stays(desk: Desk) -> None:
    desk.write(
        ".cursor/mcp.json",
        '{"mcpServers": {"sonde": {"command": "/old", "disabled": true, '
        '"args": ["mcp", "--project", "${workspaceFolder}", "--verbose"]}}}',
    )
    code, told = desk.ask("--yes")
    assert (code, told["agents"][0]["action"]) == (0, "update")
    entry = load(desk.home / ".cursor/mcp.json")["mcpServers"]["sonde"]
    assert entry["command"] == SONDE
    assert entry["disabled"] is True
    assert entry["args"][-1] == "--verbose"


def test_a_link_stays_a_link(desk: Desk) -> None:
    real = desk.write("dotfiles/cursor.json", "{}")
    link = desk.home / ".cursor/mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    assert desk.setup("--yes") == 0
    assert link.is_symlink()
    assert "sonde" in load(real)["mcpServers"]
    real.unlink()
    code, told = desk.ask("--yes")
    assert (code, told["agents"][0]["action"]) == (2, "refuse")
    assert not real.exists()


def test_a_read_only_file_is_respected(desk: Desk) -> None:
    path = desk.write(".cursor/mcp.json", "{}")
    path.chmod(0o444)
    code, told = desk.ask("--yes")
    assert code == 2
    assert told["agents"][0]["error"]["code"] == "PERMISSION_DENIED"
    assert path.read_text() == "{}"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_respected(desk: Desk) -> None:
    path = desk.write(".cursor/mcp.json", "{}")
    path.parent.chmod(0o500)
    assert desk.setup("--yes") == 2
    path.parent.chmod(0o700)
    assert path.read_text() == "{}"


def set_up_at_terminal(desk: Desk, answer: str, before: Callable[[], object]) -> int:
    """The exit code of `sonde setup` for a person who acts, then answers the question."""
    import pty

    terminal, theirs = pty.openpty()
    command = [sys.executable, "-m", "sonde.cli.main", "setup"]
    process = subprocess.Popen(
        command, cwd=desk.project, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, text=True
    )
    os.close(theirs)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(terminal, 1024)
    before()
    os.write(terminal, f"{answer}\n".encode())
    desk.out, _ = process.communicate(timeout=60)
    os.close(terminal)
    return process.returncode


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of POSIX")
def test_a_file_that_changed_after_it_was_shown_is_left_alone(desk: Desk) -> None:
    path = desk.write(".cursor/mcp.json", "{}")
    assert set_up_at_terminal(desk, "y", lambda: path.write_text('{"theirs": 1}')) == 2
    assert "changed" in desk.out
    assert path.read_text() == '{"theirs": 1}'
    with pytest.raises(ConfigChanged):
        replace_config(path, None, b"{}")
    with pytest.raises(ConfigChanged):
        replace_config(path, b"{}", None)


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are of POSIX")
def test_no_is_no(desk: Desk) -> None:
    path = desk.write(".cursor/mcp.json", "{}")
    assert set_up_at_terminal(desk, "n", lambda: None) == 0
    assert path.read_text() == "{}"


def test_the_guide_comes_once_stays_current_and_goes(desk: Desk) -> None:
    own = "# Rules\n\nBe kind.\n"
    for name in ("AGENTS.md", "CLAUDE.md"):
        (desk.project / name).write_text(own)
    agents = ("claude-code", "codex", "opencode", "--scope", "project", "--guide", "--yes")
    assert desk.setup(*agents) == 0
    for name in ("AGENTS.md", "CLAUDE.md"):
        text = (desk.project / name).read_text()
        assert text.startswith(own)
        assert text.count("## Searching with sonde") == 1
    assert desk.setup(*agents) == 0
    path = desk.project / "AGENTS.md"
    path.write_text(path.read_text().replace("search_code", "old_name") + "\nMore.\n")
    assert desk.setup(*agents) == 0
    assert "search_code" in path.read_text()
    assert desk.setup(*agents, "--remove") == 0
    assert path.read_text() == own + "\n\nMore.\n"
    assert (desk.project / "CLAUDE.md").read_text() == own


def test_one_file_under_two_names_gets_one_section(desk: Desk) -> None:
    (desk.project / "AGENTS.md").write_text("# Rules\n")
    (desk.project / "CLAUDE.md").symlink_to("AGENTS.md")
    assert desk.setup("claude-code", "codex", "--scope", "project", "--guide", "--yes") == 0
    assert (desk.project / "CLAUDE.md").is_symlink()
    assert (desk.project / "AGENTS.md").read_text().count("## Searching with sonde") == 1


def test_the_guide_names_only_tools_that_exist() -> None:
    import re

    from sonde.agents.steps import GUIDE
    from sonde.tools import TOOLS

    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", GUIDE)) - {"next_cursor"}
    assert named <= {tool.name for tool in TOOLS}


def test_a_skill_comes_with_setup_and_goes_without_a_trace(desk: Desk) -> None:
    desk.write(".codex/config.toml", "")
    (desk.home / ".gemini").mkdir()
    skill = desk.home / ".agents/skills/sonde/SKILL.md"
    before = set(desk.home.rglob("*"))
    code, told = desk.ask("--dry-run")
    (row,) = [row for row in told["agents"] if row["agent"] == "skill"]
    assert (code, row["title"], row["file"]) == (0, "Skill for Codex, Gemini CLI", str(skill))
    assert "+name: sonde" in row["diff"]
    assert desk.setup("--yes") == 0
    text = skill.read_text()
    assert text.startswith("---\nname: sonde\ndescription: ")
    assert "`search_code`" in text
    skill.write_text(text.replace("search_code", "old_name"))
    assert desk.setup("--yes") == 0
    assert skill.read_text() == text
    assert desk.setup("codex", "--remove", "--yes") == 0
    assert skill.exists(), "Gemini CLI still uses it"
    assert desk.setup("--remove", "--yes") == 0
    left = {path for path in desk.home.rglob("*") if ".mcp" not in path.parts}
    assert left == before
    assert desk.setup("codex", "--no-skill", "--yes") == 0
    assert not skill.exists()


def test_a_skill_of_the_same_name_that_is_not_ours_stays(desk: Desk) -> None:
    path = desk.write(".claude/skills/sonde/SKILL.md", "# My own\n")
    assert desk.setup("claude-code", "--yes") == 0
    assert desk.setup("claude-code", "--remove", "--yes") == 0
    assert path.read_text() == "# My own\n"


def test_the_guide_has_at_most_twenty_lines_and_can_be_printed(desk: Desk) -> None:
    assert desk.setup("--print-guide") == 0
    assert desk.out.startswith("## Searching with sonde")
    assert len(desk.out.splitlines()) <= 20


def test_where_indexes_lie_and_which_project_are_written_down(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SONDE_HOME", str(desk.home / "elsewhere"))
    assert desk.setup("claude-desktop", "opencode", "--project", ".", "--yes") == 0
    places = {"SONDE_HOME": str(desk.home / "elsewhere")}
    args = ["mcp", "--project", str(desk.project)]
    desktop = load(desk.home / SHAPES["claude-desktop"][0])["mcpServers"]["sonde"]
    assert desktop == {"command": SONDE, "args": args, "env": places}
    other = load(desk.home / SHAPES["opencode"][0])["mcp"]["sonde"]
    assert other["command"] == [SONDE, *args]
    assert other["environment"] == places


def test_an_unknown_agent_is_answered_with_the_known_ones(desk: Desk) -> None:
    assert desk.setup("emacs") == 2
    assert "claude-code" in desk.err
