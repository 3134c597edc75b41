import json
import os
from pathlib import Path

import pytest

from sonde.cli.parse import COMMANDS, GLOBALS
from sonde.runtime.work import WriterLock
from sonde.settings import RULES

from .conftest import Shell

DOCS = Path(__file__).parents[2] / "docs"


def test_a_healthy_installation_is_zero(indexed: Shell) -> None:
    done = indexed.run("doctor")
    assert done.returncode == 0, done.stdout
    for name in (
        "sonde",
        "python",
        "sqlite",
        "home",
        "static model",
        "everyday model",
        "project",
        "index",
    ):
        assert f"✓ {name} " in done.stdout
    assert "found by pyproject.toml" in done.stdout


def test_settings_are_named_and_written_as_in_config_json(shell: Shell) -> None:
    shown = shell.run("config", SONDE_MAX_FILE_SIZE="500KB", SONDE_RESPECT_GITIGNORE="no").stdout
    rows = {line.split()[0]: line.split()[1:] for line in shown.splitlines()}
    assert rows["maxFileSize"] == ["500KB", "environment", "SONDE_MAX_FILE_SIZE"]
    assert rows["respectGitignore"][0] == "false"
    assert rows["maxFiles"] == ["50000", "default"]
    told = shell.run("doctor", SONDE_MAX_FILE_SIZE="500KB").stdout
    assert "maxFileSize" in told
    assert "maxFiles" not in told


def test_every_setting_is_shown_with_its_source(shell: Shell) -> None:
    shell.run("index")
    told = json.loads(shell.run("doctor", "--json", SONDE_MAX_TOKENS="99", SONDE_X="1").stdout)
    assert told["healthy"] is True
    assert told["settings"].keys() == {"home", *RULES}
    assert told["settings"]["max_tokens"] == {"value": 99, "source": "environment SONDE_MAX_TOKENS"}
    assert told["settings"]["store"]["source"] == "default"
    assert told["warnings"] == ["environment: unknown SONDE_X"]
    config = Path(shell.run("config", "path").stdout.splitlines()[0])
    config.write_text(json.dumps({"maxFiles": 7, "exclude": 3}))
    told = json.loads(shell.run("doctor", "--json").stdout)
    assert told["settings"]["max_files"] == {"value": 7, "source": str(config)}
    assert "exclude must be an array of strings" in told["warnings"][0]
    assert "exclude must be an array of strings" in shell.run("search", "invoice").stderr


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written_is_a_fault(shell: Shell, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    done = shell.run("doctor", SONDE_HOME=str(locked / "home"))
    assert done.returncode == 2
    assert "✗ home" in done.stdout
    assert "SONDE_HOME" in done.stdout


def test_a_file_where_the_home_should_be_is_a_fault(shell: Shell, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = shell.run("doctor", SONDE_HOME=str(blocked))
    assert done.returncode == 2
    assert "✗ home" in done.stdout
    assert "Traceback" not in done.stderr


def test_no_home_at_all_is_said_by_every_command(shell: Shell) -> None:
    for command in (["doctor"], ["status"], ["search", "x"], ["config"]):
        done = shell.run(*command, HOME="")
        assert done.returncode == 2
        assert "no home folder" in done.stdout + done.stderr
        assert "Traceback" not in done.stderr


def test_config_shows_values_and_files(indexed: Shell, tmp_path: Path) -> None:
    shown = indexed.run("config", SONDE_STORE="lance").stdout
    assert "environment SONDE_STORE" in shown
    files = json.loads(indexed.run("config", "path", "--json").stdout)
    assert Path(files["project"]).is_file()
    assert files["user"] == str(indexed.home / ".mcp/search/config.json")
    assert (
        json.loads(indexed.run("config", "--json", cwd=tmp_path).stdout)["files"]["project"] is None
    )


def test_config_edit_opens_the_editor_on_the_projects_file(indexed: Shell) -> None:
    hint = indexed.run("config", "edit")
    assert hint.stdout.strip().endswith("config.json")
    indexed.extra["EDITOR"] = "echo edited:"
    code, screen = indexed.type("config", "edit")
    assert code == 0
    assert f"edited: {hint.stdout.strip()}" in screen.replace("\r\n", "")


def test_the_version_is_printed(shell: Shell) -> None:
    assert shell.run("--version").stdout.startswith("sonde 0.")


def test_no_command_is_help_and_an_error(shell: Shell) -> None:
    done = shell.run()
    assert done.returncode == 2
    assert "COMMAND" in done.stderr


def test_the_page_on_the_command_line_names_every_command_and_option() -> None:
    page = (DOCS / "cli.md").read_text("utf-8")
    for command in COMMANDS:
        assert f"sonde {command.name}" in page
        for option in (*command.options, *GLOBALS):
            for name in option.names:
                assert not name.startswith("--") or f"`{name}" in page, name


def test_the_page_on_configuration_names_every_setting() -> None:
    page = (DOCS / "configuration.md").read_text("utf-8")
    for name, rule in RULES.items():
        assert f"| `{rule.key}` | `SONDE_{name.upper()}` |" in page


def test_agents_are_named_and_a_lost_program_is_a_fault(indexed: Shell) -> None:
    indexed.run("setup", "cursor", "codex", "--yes")
    told = json.loads(indexed.run("doctor", "--json").stdout)
    found = {check["name"]: check["found"] for check in told["checks"]}
    assert told["healthy"] is True
    assert found["Cursor"] == f"set up: {indexed.home / '.cursor/mcp.json'}"
    config = indexed.home / ".codex/config.toml"
    assert str(config) in found["Codex"]
    config.write_text('[mcp_servers.sonde]\ncommand = "/gone/sonde"\n')
    (indexed.home / ".gemini").mkdir()
    done = indexed.run("doctor")
    assert done.returncode == 2
    assert f"{config} starts /gone/sonde, which does not exist" in done.stdout
    assert "sonde setup codex" in done.stdout
    assert "not set up; run `sonde setup gemini-cli`" in done.stdout
    config.write_text("broken")
    done = indexed.run("doctor")
    assert done.returncode == 0  # it is theirs, and may be about anything
    assert f"{config}: " in done.stdout


def test_a_writer_is_seen(indexed: Shell) -> None:
    assert "no process is writing the index" in indexed.run("doctor").stdout
    folder = Path(indexed.run("config", "path").stdout.splitlines()[0]).parent
    with WriterLock(folder).held():
        done = indexed.run("doctor")
    assert done.returncode == 0
    assert "another process is writing the index" in done.stdout
