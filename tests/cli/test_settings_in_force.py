"""Settings are what was set: one run's are not kept, and a project's file holds for its server."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import Shell
from tests.mcp.conftest import RawClient, run_client

from sonde.app import App
from sonde.runtime.work import Work
from sonde.tools.code import search_code
from sonde.tools.index import create_index, get_index_status

RUN = {
    "SONDE_EXCLUDE": "*.md",
    "SONDE_MAX_FILE_SIZE": "2KB",
    "SONDE_INDEXING_STRATEGY": "lazy",
    "SONDE_MAX_TOKENS": "777",
    "SONDE_TOOLSETS": "code",
    "SONDE_CHUNKING": "recursive",
    "SONDE_EMBEDDING": "static",
}


def read_config(shell: Shell) -> Path:
    """The path of the project's config.json."""
    return Path(json.loads(shell.run("--json", "config", "path").stdout)["project"])


@pytest.mark.row("001-30", "001-135")
def test_what_is_set_for_one_run_is_not_written_down(shell: Shell) -> None:
    assert shell.run("index", "--yes", **RUN).returncode == 0
    config = read_config(shell)
    entries = json.loads(config.read_text())
    assert entries["exclude"] == []
    assert (entries["maxFileSize"], entries["indexingStrategy"]) == ("1MB", "realtime")
    assert (entries["maxTokens"], entries["chunking"]) == (2000, "syntax")
    assert entries["toolsets"] == ["code", "index", "research"]
    assert entries["embedding"] == "auto"
    assert shell.run("index", "--yes").returncode == 0
    assert "docs/shipping.md" in shell.run("files", "*.md").stdout
    shown = json.loads(shell.run("--json", "config").stdout)["settings"]
    assert {row["source"] for name, row in shown.items() if name != "home"} == {"default"}


def test_an_index_is_found_in_the_store_it_was_made_in(
    shell: Shell, open_app: Callable[..., App]
) -> None:
    pytest.importorskip("lancedb")
    create_index(open_app(start=shell.folder, store="lance", embedding="none"), work=Work())
    later = open_app(start=shell.folder, embedding="none")
    assert get_index_status(later, work=Work())["details"]["store"] == "lance"
    assert search_code(later, "send_invoice", work=Work())["results"]


@pytest.fixture
def served(shell: Shell) -> Iterator[RawClient]:
    """The server in a project whose file sets what it lists and how large answers are."""
    shell.run("index", "--yes", SONDE_EMBEDDING="static")
    config = read_config(shell)
    chosen = {"enhancedToolDescriptions": True, "toolsets": ["code"], "maxTokens": 400}
    config.write_text(json.dumps({**chosen, "embedding": "none", "maxFiles": "many"}))
    command = ("-m", "sonde.cli.main", "mcp")
    yield from run_client(RawClient(*command, env=shell.environ, cwd=shell.folder))


@pytest.mark.row("001-51", "001-50")
def test_a_projects_file_is_in_force_in_its_server(served: RawClient) -> None:
    served.greet()
    tools = {tool["name"]: tool for tool in served.ask("tools/list")["result"]["tools"]}
    assert "search_code" in tools
    assert "create_index" not in tools
    assert "TIP:" in tools["search_code"]["description"]
    answer = served.call("regex_search", pattern=".", context_lines=5)["result"]
    assert len(answer["content"][0]["text"]) < 400 * 4
    failed = served.call("cortex_search", query="cart")
    assert "embedding = none" in failed["error"]["data"]["developerMessage"]


@pytest.mark.row("001-13", "001-148")
def test_a_warning_of_the_projects_file_is_on_stderr_and_in_its_log(
    served: RawClient, shell: Shell
) -> None:
    served.greet()
    served.call("get_index_status")
    _, stderr, _ = served.finish()
    assert "maxFiles must be" in stderr
    assert "maxFiles must be" in (read_config(shell).parent / "logs" / "sonde.log").read_text()


@pytest.mark.row("003-C54")
@pytest.mark.parametrize("command", [("mcp",), ("serve", "--port", "0")])
def test_a_service_that_was_asked_for_by_name_must_answer_at_the_start(
    shell: Shell, command: tuple[str, ...]
) -> None:
    dead = {"SONDE_EMBEDDING": "http", "SONDE_EMBEDDING_ENDPOINT": "http://127.0.0.1:9/embed"}
    done = shell.run(*command, **dead)
    assert done.returncode == 2
    assert "sonde: The embedding service" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.row("003-C31", "003-C54", "003-C55")
@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"CORTEX_CHUNKS_DIR": "no/such/folder"}, "chunk files cannot be searched"),
        (
            {"CORTEX_EMBEDDING_ENDPOINT": "http://127.0.0.1:9/embed"},
            "chunk files cannot be searched: The embedding service",
        ),
    ],
    ids=["no folder", "no service"],
)
def test_chunk_files_are_read_at_the_start_and_problems_are_reported(
    shell: Shell, settings: dict[str, str], complaint: str
) -> None:
    chunks = shell.folder / ".cortex" / "chunks"
    chunks.mkdir(parents=True)
    row = {"id": "a", "text": "about", "embedding": [1.0] * 384}
    (chunks / "a.json").write_text(json.dumps([row]))
    (shell.folder / ".git").mkdir()
    server = subprocess.Popen(
        [sys.executable, "-m", "sonde.cli.main", "mcp"],
        cwd=shell.folder,
        env={**shell.environ, **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr
    lines = iter(server.stderr.readline, "")
    assert complaint in next(line for line in lines if "chunk files" in line)
    server.communicate("", timeout=30)
