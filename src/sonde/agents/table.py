"""The supported agents: how to detect each, where it is configured, and the form of our entry.

A place is a template: `~` is the home folder and `$NAME` a variable; a place whose variable is not
set does not count. The first place that exists is used, else the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SERVER = "sonde"
"""Our name in the configuration of every agent."""


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent, according to its documentation or to the agent itself."""

    name: str
    title: str
    user: tuple[str, ...]
    """Places of a user's configuration."""
    project: tuple[str, ...] = ()
    """Places of a project's configuration, relative to it; empty if the agent has none."""
    key: str = "mcpServers"
    """The table that holds the servers."""
    extra: Mapping[str, object] = field(default_factory=dict)
    """Fields of an entry besides command, arguments and environment."""
    one_list: bool = False
    """Whether the command and its arguments are one list."""
    env_key: str = "env"
    workspace: str = ""
    """The variable that stands for the open folder, if the agent starts servers elsewhere."""
    programs: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    """Folders and files that only this agent creates."""
    guide: str = "AGENTS.md"
    """The project's file of instructions that it reads."""
    user_guide: str = ""
    """The user's file of instructions; empty if there is none that a program may write."""


AGENTS = (
    Agent(
        "claude-code",
        "Claude Code",
        user=("$CLAUDE_CONFIG_DIR/.claude.json", "~/.claude.json"),
        project=(".mcp.json",),
        extra={"type": "stdio"},
        programs=("claude",),
        signs=("~/.claude.json", "~/.claude"),
        guide="CLAUDE.md",
        user_guide="~/.claude/CLAUDE.md",
    ),
    Agent(
        "claude-desktop",
        "Claude Desktop",
        user=(
            "$APPDATA/Claude/claude_desktop_config.json",
            "$LIBRARY/Claude/claude_desktop_config.json",
            "$XDG_CONFIG_HOME/Claude/claude_desktop_config.json",
            "~/.config/Claude/claude_desktop_config.json",
        ),
        signs=("$APPDATA/Claude", "$LIBRARY/Claude", "~/.config/Claude"),
        guide="",
    ),
    Agent(
        "cursor",
        "Cursor",
        user=("~/.cursor/mcp.json",),
        project=(".cursor/mcp.json",),
        workspace="${workspaceFolder}",
        programs=("cursor", "cursor-agent"),
        signs=("~/.cursor",),
    ),
    Agent(
        "vscode",
        "VS Code",
        user=(
            "$APPDATA/Code/User/mcp.json",
            "$LIBRARY/Code/User/mcp.json",
            "$XDG_CONFIG_HOME/Code/User/mcp.json",
            "~/.config/Code/User/mcp.json",
        ),
        project=(".vscode/mcp.json",),
        key="servers",
        extra={"type": "stdio"},
        workspace="${workspaceFolder}",
        programs=("code",),
        signs=("$APPDATA/Code", "$LIBRARY/Code", "~/.config/Code", "~/.vscode"),
    ),
    Agent(
        "copilot-cli",
        "Copilot CLI",
        user=("$COPILOT_HOME/mcp-config.json", "~/.copilot/mcp-config.json"),
        project=(".github/mcp.json",),
        extra={"type": "local", "tools": ["*"]},
        programs=("copilot",),
        signs=("~/.copilot",),
        user_guide="~/.copilot/copilot-instructions.md",
    ),
    Agent(
        "windsurf",
        "Windsurf",
        user=("~/.codeium/windsurf/mcp_config.json",),
        programs=("windsurf",),
        signs=("~/.codeium/windsurf",),
    ),
    Agent(
        "codex",
        "Codex",
        user=("$CODEX_HOME/config.toml", "~/.codex/config.toml"),
        project=(".codex/config.toml",),
        key="mcp_servers",
        # Without it, Codex starts without a server that takes longer than a second to answer.
        extra={"required": True},
        programs=("codex",),
        signs=("~/.codex",),
        user_guide="~/.codex/AGENTS.md",
    ),
    Agent(
        "gemini-cli",
        "Gemini CLI",
        user=("$GEMINI_CLI_HOME/.gemini/settings.json", "~/.gemini/settings.json"),
        project=(".gemini/settings.json",),
        programs=("gemini",),
        signs=("~/.gemini",),
        guide="GEMINI.md",
        user_guide="~/.gemini/GEMINI.md",
    ),
    Agent(
        "zed",
        "Zed",
        user=(
            "$APPDATA/Zed/settings.json",
            "$XDG_CONFIG_HOME/zed/settings.json",
            "~/.config/zed/settings.json",
        ),
        project=(".zed/settings.json",),
        key="context_servers",
        extra={"source": "custom"},
        programs=("zed", "zeditor"),
        signs=("$APPDATA/Zed", "~/.config/zed"),
    ),
    Agent(
        "opencode",
        "OpenCode",
        user=(
            "$XDG_CONFIG_HOME/opencode/opencode.jsonc",
            "$XDG_CONFIG_HOME/opencode/opencode.json",
            "~/.config/opencode/opencode.jsonc",
            "~/.config/opencode/opencode.json",
        ),
        project=("opencode.jsonc", "opencode.json"),
        key="mcp",
        extra={"type": "local", "enabled": True},
        one_list=True,
        env_key="environment",
        programs=("opencode",),
        signs=("~/.config/opencode", "~/.local/share/opencode"),
        user_guide="~/.config/opencode/AGENTS.md",
    ),
)
