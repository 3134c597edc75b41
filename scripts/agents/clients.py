"""The agents that are driven: how each is told about the model, and how it is started headless."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PROMPT = "Find the handlers of this project with the sonde tools, then say FINISHED."


@dataclass(frozen=True)
class Run:
    """Where one run happens."""

    modules: Path
    home: Path
    project: Path
    url: str

    def program(self, name: str) -> str:
        return str(self.modules / ".bin" / name)


@dataclass(frozen=True)
class Client:
    """One agent: its name in `sonde setup`, its package, and how to start it."""

    name: str
    title: str
    package: str
    command: Callable[[Run], list[str]]
    environ: Callable[[Run], dict[str, str]] = lambda _run: {}
    files: Callable[[Run], dict[Path, str]] = field(default=lambda _run: {})
    """Configuration that tells it about the model, there before `sonde setup` comes."""


def _claude(run: Run) -> list[str]:
    return [run.program("claude"), "-p", PROMPT, "--allowedTools", "mcp__sonde"]


def _claude_environ(run: Run) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": run.url,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def _codex(run: Run) -> list[str]:
    return [run.program("codex"), "exec", "--sandbox", "read-only", PROMPT]


def _codex_files(run: Run) -> dict[Path, str]:
    text = f"""# written by hand
model = "scripted"
model_provider = "loopback" # no login

[model_providers.loopback]
name = "loopback"
base_url = "{run.url}/v1"
wire_api = "responses"

[projects."{run.project}"]
trust_level = "trusted"
"""
    return {run.home / ".codex/config.toml": text}


def _opencode(run: Run) -> list[str]:
    return [run.program("opencode"), "run", "--model", "loopback/scripted", PROMPT]


def _opencode_files(run: Run) -> dict[Path, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "loopback",
        "options": {"baseURL": f"{run.url}/v1", "apiKey": "none"},
        "models": {"scripted": {"name": "scripted"}},
    }
    text = f"""{{
  // written by hand
  "autoupdate": false,
  "share": "disabled",
  "provider": {{ "loopback": {json.dumps(provider)} }},
}}
"""
    return {run.home / ".config/opencode/opencode.jsonc": text}


def _gemini(run: Run) -> list[str]:
    model = "gemini-2.5-flash"
    return [run.program("gemini"), "-p", PROMPT, "-m", model, "--yolo"]


def _gemini_files(run: Run) -> dict[Path, str]:
    text = """{
  // written by hand
  "security": { "auth": { "selectedType": "gemini-api-key" } },
  "general": { "enableAutoUpdate": false },
  "privacy": { "usageStatisticsEnabled": false }
}
"""
    trusted = json.dumps({str(run.project): "TRUST_FOLDER"})
    return {
        run.home / ".gemini/settings.json": text,
        run.home / ".gemini/trustedFolders.json": trusted,
    }


def _copilot(run: Run) -> list[str]:
    return [run.program("copilot"), "-p", PROMPT, "--allow-all-tools", "--trust-folder"]


def _copilot_environ(run: Run) -> dict[str, str]:
    return {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_BASE_URL": f"{run.url}/v1",
        "COPILOT_MODEL": "scripted",
    }


CLIENTS = (
    Client(
        "claude-code",
        "Claude Code",
        "@anthropic-ai/claude-code",
        _claude,
        _claude_environ,
        # A person is asked whether the servers of a project may run; here nobody is.
        lambda run: {run.home / ".claude/settings.json": '{"enableAllProjectMcpServers": true}'},
    ),
    Client("codex", "Codex", "@openai/codex", _codex, files=_codex_files),
    Client("opencode", "OpenCode", "opencode-ai", _opencode, files=_opencode_files),
    Client(
        "gemini-cli",
        "Gemini CLI",
        "@google/gemini-cli",
        _gemini,
        lambda run: {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": run.url},
        _gemini_files,
    ),
    Client("copilot-cli", "Copilot CLI", "@github/copilot", _copilot, _copilot_environ),
)
