"""The supported agents, which of them are on a machine, and the form of our entry in each.

A place is a template: `~` stands for the home folder and `$NAME` for a variable; places with a
variable that is not set are skipped. The first existing place is used, else the first of all.
"""

from __future__ import annotations

import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Scope = Literal["user", "project"]
SERVER = "sonde"
"""Our name in the configuration of every agent."""
_VARIABLE = re.compile(r"\$(\w+)")


@dataclass(frozen=True, slots=True)
class Agent:
    """How one agent is configured, by its documentation or as it was found to behave."""

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
    skills: str = ""
    """Its folder of skills, in a project and in the user's home; empty if it has none."""


AGENTS = (
    Agent("claude-code", "Claude Code", ("$CLAUDE_CONFIG_DIR/.claude.json", "~/.claude.json"),
        project=(".mcp.json",), extra={"type": "stdio"}, programs=("claude",),
        signs=("~/.claude.json", "~/.claude"),
        guide="CLAUDE.md", user_guide="~/.claude/CLAUDE.md", skills=".claude/skills"),
    Agent("claude-desktop", "Claude Desktop",
        ("$APPDATA/Claude/claude_desktop_config.json", "$LIBRARY/Claude/claude_desktop_config.json",
            "$XDG_CONFIG_HOME/Claude/claude_desktop_config.json",
            "~/.config/Claude/claude_desktop_config.json"),
        signs=("$APPDATA/Claude", "$LIBRARY/Claude", "~/.config/Claude"), guide=""),
    Agent("cursor", "Cursor", ("~/.cursor/mcp.json",),
        project=(".cursor/mcp.json",), workspace="${workspaceFolder}",
        programs=("cursor", "cursor-agent"), signs=("~/.cursor",)),
    Agent("vscode", "VS Code",
        ("$APPDATA/Code/User/mcp.json", "$LIBRARY/Code/User/mcp.json",
            "$XDG_CONFIG_HOME/Code/User/mcp.json", "~/.config/Code/User/mcp.json"),
        project=(".vscode/mcp.json",), key="servers", extra={"type": "stdio"},
        workspace="${workspaceFolder}", programs=("code",),
        signs=("$APPDATA/Code", "$LIBRARY/Code", "~/.config/Code", "~/.vscode")),
    Agent("copilot-cli", "Copilot CLI",
        ("$COPILOT_HOME/mcp-config.json", "~/.copilot/mcp-config.json"),
        project=(".github/mcp.json",), extra={"type": "local", "tools": ["*"]},
        programs=("copilot",), signs=("~/.copilot",),
        user_guide="~/.copilot/copilot-instructions.md"),
    Agent("windsurf", "Windsurf", ("~/.codeium/windsurf/mcp_config.json",),
        programs=("windsurf",), signs=("~/.codeium/windsurf",)),
    Agent("codex", "Codex", ("$CODEX_HOME/config.toml", "~/.codex/config.toml"),
        project=(".codex/config.toml",), key="mcp_servers",
        # Without it, Codex starts without a server that takes longer than a second to answer.
        extra={"required": True},
        programs=("codex",), signs=("~/.codex",), user_guide="~/.codex/AGENTS.md",
        skills=".agents/skills"),
    Agent("gemini-cli", "Gemini CLI",
        ("$GEMINI_CLI_HOME/.gemini/settings.json", "~/.gemini/settings.json"),
        project=(".gemini/settings.json",), programs=("gemini",), signs=("~/.gemini",),
        guide="GEMINI.md", user_guide="~/.gemini/GEMINI.md", skills=".agents/skills"),
    Agent("zed", "Zed",
        ("$APPDATA/Zed/settings.json", "$XDG_CONFIG_HOME/zed/settings.json",
            "~/.config/zed/settings.json"),
        project=(".zed/settings.json",), key="context_servers", extra={"source": "custom"},
        programs=("zed", "zeditor"), signs=("$APPDATA/Zed", "~/.config/zed")),
    Agent("opencode", "OpenCode",
        ("$XDG_CONFIG_HOME/opencode/opencode.jsonc", "$XDG_CONFIG_HOME/opencode/opencode.json",
            "~/.config/opencode/opencode.jsonc", "~/.config/opencode/opencode.json"),
        project=("opencode.jsonc", "opencode.json"), key="mcp",
        extra={"type": "local", "enabled": True}, one_list=True, env_key="environment",
        programs=("opencode",), signs=("~/.config/opencode", "~/.local/share/opencode"),
        user_guide="~/.config/opencode/AGENTS.md"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Launch:
    """The command by which an agent starts sonde."""

    command: str
    args: tuple[str, ...] = ("mcp",)
    env: Mapping[str, str] = field(default_factory=dict)

    def describe(self, agent: Agent) -> dict[str, object]:
        """Our entry for an agent's configuration."""
        args = [*self.args]
        if agent.workspace and "--project" not in args:
            args += ["--project", agent.workspace]
        entry: dict[str, object] = {}
        if "type" in agent.extra:
            entry["type"] = agent.extra["type"]  # first, as agents write it
        if agent.one_list:
            entry["command"] = [self.command, *args]
        else:
            entry |= {"command": self.command, "args": args}
        if self.env:
            entry[agent.env_key] = dict(self.env)
        return entry | dict(agent.extra)


def find_launch(environ: Mapping[str, str], project: str | None = None) -> Launch:
    """The installed program by its absolute path: agents start servers with a `PATH` of their own.
    They drop other variables, too, so the entry sets `SONDE_HOME` if it is set here."""
    name = "sonde.exe" if sys.platform == "win32" else "sonde"
    beside = Path(sysconfig.get_path("scripts")) / name
    found = str(beside) if beside.is_file() else shutil.which("sonde", path=environ.get("PATH"))
    command, first = (found, ()) if found else (sys.executable, ("-P", "-m", "sonde.cli.main"))
    where = ("--project", str(Path(project).expanduser().absolute())) if project else ()
    home = environ.get("SONDE_HOME")
    env = {"SONDE_HOME": str(Path(home).expanduser().absolute())} if home else {}
    return Launch(str(Path(command).absolute()), (*first, "mcp", *where), env)


@dataclass(frozen=True, slots=True)
class Machine:
    """A user's home folder, environment and platform."""

    home: Path
    environ: Mapping[str, str]
    platform: str = sys.platform

    def find_agents(self) -> list[Agent]:
        """The installed agents: those with files here or a program on the `PATH`."""
        return [agent for agent in AGENTS if self._is_installed(agent)]

    def _is_installed(self, agent: Agent) -> bool:
        if any(place.exists() for place in self._expand(agent.signs)):
            return True
        path = self.environ.get("PATH")
        return any(shutil.which(program, path=path) for program in agent.programs)

    def find_config(self, agent: Agent, scope: Scope, project: Path | None) -> Path | None:
        """The configuration file of an agent, which may not exist; None if the agent has none."""
        if scope == "user":
            places = list(self._expand(agent.user))
        else:
            places = [project / name for name in agent.project] if project else []
        existing = (place for place in places if place.exists() or place.is_symlink())
        # A new file goes in the first folder, under the last name, which is the plain one.
        same = [place for place in places if place.parent == places[0].parent]
        return next(existing, None) or (same[-1] if same else None)

    def find_guide(self, agent: Agent, scope: Scope, project: Path | None) -> Path | None:
        """The file of instructions that an agent reads; None if it has none."""
        if scope == "user":
            return next(self._expand((agent.user_guide,)), None) if agent.user_guide else None
        return project / agent.guide if project and agent.guide else None

    def find_skill(self, agent: Agent, scope: Scope, project: Path | None) -> Path | None:
        """The file of our skill for an agent, which may not exist; None if it knows no skills."""
        base = self.home if scope == "user" else project
        return base / agent.skills / SERVER / "SKILL.md" if base and agent.skills else None

    def _expand(self, templates: tuple[str, ...]) -> Iterator[Path]:
        values = {**self.environ}
        if self.platform == "darwin":
            values["LIBRARY"] = str(self.home / "Library" / "Application Support")
        if self.platform != "win32":
            values.pop("APPDATA", None)
        for template in templates:
            if all(values.get(name) for name in _VARIABLE.findall(template)):
                text = _VARIABLE.sub(lambda found: values[found[1]], template)
                yield self.home / text.removeprefix("~/") if text.startswith("~/") else Path(text)
