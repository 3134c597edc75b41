"""Consent is a person's: asked by the client, given on the command line, or set."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Shell
from tests.mcp.conftest import RawClient
from tests.trees import write_files

from .site import find_token

FILES = {"pyproject.toml": "[project]\n", "cart.py": "def total_price():\n    return 1\n"}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A person whose home has two projects; they are in the first."""
    write_files(tmp_path / "home" / "other", FILES)
    return Shell(write_files(tmp_path / "home" / "shop", FILES), tmp_path / "home")


@pytest.fixture
def agent(shell: Shell) -> Iterator[Callable[..., RawClient]]:
    """Starts agents that cannot ask anybody, in the first project."""
    clients: list[RawClient] = []

    def start(*, greet: bool = True, at: Path = shell.folder, **environ: str) -> RawClient:
        env = shell.environ | {"SONDE_EMBEDDING": "none"} | environ
        client = RawClient("-m", "sonde.cli.main", "mcp", env=env, cwd=at)
        clients.append(client)
        if greet:
            client.greet()
        return client

    yield start
    for client in clients:
        client.process.kill()
        client.process.communicate()


def call(client: RawClient, tool: str, **arguments: Any) -> dict[str, Any]:
    """What a tool answers, or its error."""
    answer = client.call(tool, **arguments)
    while "method" in answer:
        answer = client.receive()
    return answer["error"]["data"] if "error" in answer else answer["result"]["structuredContent"]


def test_an_agent_confirms_by_itself_only_in_the_project_it_was_started_in(shell, agent):
    client, other = agent(), str(shell.home / "other")
    refused = call(client, "create_index")
    token = find_token(refused)
    assert refused["code"] == "CONFIRMATION_REQUIRED"
    assert token
    elsewhere = call(client, "create_index", project=other)
    assert elsewhere["code"] == "CONFIRMATION_REQUIRED"
    assert not find_token(elsewhere)
    assert f"`sonde index {other}`" in elsewhere["nextAction"]
    assert call(client, "create_index", project=other, confirm=token)["code"] == elsewhere["code"]
    assert call(client, "create_index", confirm=token)["status"] == "success"

    assert shell.run("index", other).returncode == 0
    assert call(client, "search_code", query="price", project=other, mode="lexical")["results"]
    for tool, command in (("delete_index", "delete"), ("reindex_project", "reindex")):
        refused = call(client, tool, project=other)
        assert not find_token(refused)
        assert f"`sonde {command} -p {other}`" in refused["nextAction"]
        assert find_token(call(client, tool)), "in its own project it may"


@pytest.mark.row("000-P62")
@pytest.mark.parametrize("path", ["/etc/passwd", "/etc/shadow", "/etc", "/"])
def test_a_local_agent_reads_nothing_outside_the_home_and_the_start(agent, path):
    client = agent()
    assert call(client, "regex_search", pattern="root", path=path)["code"] == "OUTSIDE_ROOTS"
    assert call(client, "create_index", project=path)["code"] == "OUTSIDE_ROOTS"
    assert call(client, "index", root=path)["code"] == "OUTSIDE_ROOTS"


def test_what_the_client_has_opened_counts_as_well(shell, agent, tmp_path):
    client, other = agent(greet=False), shell.home / "other"
    params = {"protocolVersion": "2025-11-25", "capabilities": {"roots": {}},
              "clientInfo": {"name": "t", "version": "1"}}  # fmt: skip
    client.ask("initialize", params)
    client.send("notifications/initialized")

    def create(roots: list[Path], project: Path = other) -> dict[str, Any]:
        call = {"name": "create_index", "arguments": {"project": str(project)}}
        client.send("tools/call", call, id="create")
        asked = client.receive()
        assert asked["method"] == "roots/list"
        rows = [{"uri": root.as_uri()} for root in roots]
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": rows}}
        client.write(json.dumps(answer).encode())
        return client.receive()["result"]["structuredContent"]

    assert find_token(create([shell.folder, other]))
    far = write_files(tmp_path / "far", FILES)
    assert find_token(create([far], far)), "wherever it lies"
    assert not find_token(create([shell.folder]))
    assert not find_token(create([shell.home, Path("/")])), "a whole home is not a project"


@pytest.mark.parametrize("settings", [{}, {"SONDE_FILE_ROOTS": "/srv/none"}])
def test_the_project_it_was_started_in_is_always_its_own(shell, agent, tmp_path, settings):
    """Wherever that lies, and from a folder of it."""
    place = write_files(tmp_path / "srv" / "app", FILES | {"src/deep/x.py": "y = 1\n"})
    client = agent(at=place / "src" / "deep", **settings)
    token = find_token(call(client, "create_index"))
    assert call(client, "create_index", confirm=token)["projectPath"] == str(place)
    assert call(client, "regex_search", pattern="total_price")["results"]["matches"]
    assert call(client, "regex_search", pattern="x", path=str(place.parent))["code"]


def test_folders_that_the_operator_sets_are_confirmed_by_repeating(shell, agent, tmp_path):
    place = write_files(tmp_path / "srv" / "app", FILES)
    client = agent(SONDE_FILE_ROOTS=str(tmp_path / "srv"))
    token = find_token(call(client, "create_index", project=str(place)))
    assert call(client, "create_index", project=str(place), confirm=token)["status"] == "success"
    other = str(shell.home / "other")
    assert call(client, "create_index", project=other)["code"] == "OUTSIDE_ROOTS"


@pytest.mark.row("001-28")
def test_typing_index_in_a_project_is_consent(shell):
    code, screen = shell.type("index")
    assert code == 0
    assert "?" not in screen


def test_a_folder_that_is_no_project_is_asked_about(shell, tmp_path):
    plain = write_files(tmp_path / "home" / "plain", {"a.py": "x = 1\n"})
    refused = shell.run("index", str(plain))
    assert refused.returncode == 2
    assert "no marker" in refused.stderr
    assert "--yes" in refused.stderr
    code, screen = shell.type("index", str(plain), answers=(("[y/N]", "n"),))
    assert code == 2
    code, screen = shell.type("index", str(plain), answers=(("[y/N]", "y"),))
    assert code == 0, screen
    assert shell.run("index", str(plain)).returncode == 0, "it is known now"
    bare = write_files(tmp_path / "home" / "bare", {"a.py": "x = 1\n"})
    code, screen = shell.type("index", answers=(("Choice:", "1"),), cwd=bare)
    assert code == 0, "who is asked for the folder is not asked again"


def test_with_auto_index_the_first_search_works(shell, agent):
    client = agent(SONDE_AUTO_INDEX="true")
    assert call(client, "search_code", query="total price")["results"][0]["path"] == "cart.py"
    assert call(client, "get_index_status")["status"] == "ready"
    assert not call(client, "create_index", project=str(shell.home / "other")).get("status")


def test_auto_index_is_for_detected_projects_of_ordinary_size(shell, agent):
    client = agent(SONDE_AUTO_INDEX="true", SONDE_MAX_FILES="1")
    assert call(client, "get_index_status")["code"] == "INDEX_NOT_FOUND"
    (shell.folder / "pyproject.toml").unlink()
    client = agent(SONDE_AUTO_INDEX="true")
    assert call(client, "get_index_status")["code"] == "PROJECT_NOT_DETECTED"


def test_setup_offers_auto_index_once(shell):
    (shell.home / ".cursor").mkdir()
    shell.extra["PATH"] = str(shell.home)
    config = shell.home / ".mcp" / "search" / "config.json"
    config.parent.mkdir(parents=True)
    config.write_text('{"maxTokens": 1000}\n')
    answers = (("Write this? [y/N]", "y"), ("without asking?", "y"))
    code, screen = shell.type("setup", "cursor", answers=answers)
    assert code == 0, screen
    assert json.loads(config.read_text()) == {"maxTokens": 1000, "autoIndex": True}
    assert "without asking?" not in shell.type("setup", "cursor")[1]
    config.unlink()
    done = subprocess.run(
        [sys.executable, "-m", "sonde.cli.main", "setup", "cursor", "--yes", "--auto-index"],
        env=shell.environ, capture_output=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(config.read_text()) == {"autoIndex": True}
