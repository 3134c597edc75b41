"""A tracer watches the whole product: no denied file is opened, nothing is written elsewhere,
and nobody is called."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DENIED = (
    ".env", ".ENV", "conf/.env.production", "certs/server.pem", "certs/a.key", "keys/id_rsa",
    ".e\u200bnv", "node_modules/x/index.js", ".git/config", "vendor/lib.go", "dist/app.js",
    "debug.log", "yarn.lock", ".aws/credentials", ".ssh/config", "photo.png", "ignored/draft.py",
    "secret_link.txt", "linked/outside.txt", "store.kdbx", "prod.env", ".env~", ".env\ufe0f",
)  # fmt: skip
SECRET = "hunter2_walrus"
_OPENED = re.compile(r"(?:open|openat|openat2)\((.*)\) = \d+<(.*)>$", re.MULTILINE)


@pytest.fixture
def traced(sonde: Any, tmp_path: Path) -> Any:
    """A project full of denied files, where there is a tracer."""
    if not sys.platform.startswith("linux"):
        pytest.skip("strace is Linux only")
    if shutil.which("strace") is None:
        assert not os.environ.get("CI"), "this test needs strace: apt-get install strace"
        pytest.skip("strace is not installed")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "outside.txt").write_text(f"{SECRET} outside\n")
    for name in DENIED:
        if "link" in name:
            continue
        place = sonde.project / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{SECRET} = 1\n")
    (sonde.project / "secret_link.txt").symlink_to(outside / "outside.txt")
    (sonde.project / "linked").symlink_to(outside)
    (sonde.project / ".gitignore").write_text("ignored/\n")
    sonde.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    return sonde


def trace(
    sonde: Any, log: Path, *args: str, messages: list[dict[str, Any]] | None = None
) -> tuple[list[str], list[tuple[str, str]]]:
    """The lines a command printed, and (flags, full path) of everything it opened.

    Each message is sent once the one before is answered.
    """
    calls = "trace=open,openat,openat2,connect"
    tracer = ["strace", "--seccomp-bpf", "-fqqy", "-s", "4096", "-e", calls, "-o", str(log)]
    process = subprocess.Popen(
        [*tracer, *sonde.command(*args)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=sonde.project,
        env=sonde.variables,
    )
    assert process.stdin
    assert process.stdout
    lines: list[str] = []
    for message in messages or []:
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        while "id" in message and (not lines or json.loads(lines[-1]).get("id") != message["id"]):
            lines.append(process.stdout.readline())
            assert lines[-1], "the server went away"
    out, err = process.communicate(timeout=120)
    assert process.returncode in (0, 1, 2), err
    assert not re.search(r"connect\(.*AF_INET", log.read_text()), "it spoke to the network"
    opened = [(flags, decode(path)) for flags, path in _OPENED.findall(log.read_text())]
    assert opened
    return [*lines, *out.splitlines()], opened


def decode(path: str) -> str:
    raw = path.encode("latin-1", "ignore").decode("unicode_escape").encode("latin-1", "ignore")
    return raw.decode("utf-8", "replace").removesuffix(" (deleted)").removesuffix("(deleted)")


def assert_harmless(sonde: Any, opened: list[tuple[str, str]]) -> None:
    denied = {str(sonde.project / name) for name in DENIED}
    outside = str(sonde.project.parent / "outside")
    for flags, path in opened:
        assert path not in denied, (flags, path)
        assert not path.startswith(outside), (flags, path)
        if path.startswith(f"{sonde.project}{os.sep}"):
            assert "O_NOFOLLOW" in flags, (flags, path)
        if re.search("O_WRONLY|O_RDWR|O_CREAT", flags):
            assert path.startswith((str(sonde.home), "/dev/", "/proc/self", "/proc/")), (
                flags,
                path,
            )


@pytest.mark.row("001-4", "001-2")
def test_no_command_opens_a_denied_file_or_writes_outside_its_storage(
    traced: Any, tmp_path: Path
) -> None:
    before = {path: path.lstat().st_mtime_ns for path in traced.project.rglob("*")}
    log = tmp_path / "trace.log"
    for args in (
        ("index", "--yes", "--json"),
        ("search", SECRET, "--json"),
        ("search", "function_7", "--docs", "--json"),
        ("grep", SECRET, "--json"),
        ("files", "**/*", "--json"),
        ("status", "--json"),
        ("reindex", "--yes", "--json"),
    ):
        printed, opened = trace(traced, log, *args)
        assert_harmless(traced, opened)
        assert f"{SECRET} " not in "".join(printed)
    assert {path: path.lstat().st_mtime_ns for path in traced.project.rglob("*")} == before


def test_of_git_only_what_its_rules_about_files_need_is_opened(traced: Any, tmp_path: Path) -> None:
    shutil.rmtree(traced.project / ".git")
    own = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for words in (("init", "-q"), ("add", "."), (*own, "commit", "-qm", "First")):
        subprocess.run(["git", *words], cwd=traced.project, check=True)
    found: set[str] = set()
    for args in (("index", "--yes"), ("search", "function_7"), ("grep", "x"), ("status",)):
        _, opened = trace(traced, tmp_path / "trace.log", *args, "--json")
        places = (Path(path) for _, path in opened if f"{traced.project}/.git/" in path)
        found |= {str(each.relative_to(traced.project / ".git")) for each in places}
    assert {"HEAD", "index"} & found
    assert found <= {"HEAD", "index", "info", "info/exclude", "config"}


@pytest.mark.row("001-4", "001-2")
def test_an_agent_cannot_make_the_server_open_a_denied_file(traced: Any, tmp_path: Path) -> None:
    def call(number: int, name: str, **arguments: Any) -> dict[str, Any]:
        params = {"name": name, "arguments": arguments}
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}

    traced.environ["SONDE_ASSUME_YES"] = "1"
    traced.ask("index", "--yes")
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "tracer", "version": "1"},
    }
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        call(2, "create_index"),
        call(3, "search_code", query=SECRET),
        call(4, "search_docs", query=SECRET),
        call(5, "search_by_path", pattern="**/*"),
        call(6, "get_index_status"),
        call(7, "search_code", query=SECRET, path="../outside"),
        call(8, "search_code", query=SECRET, project="../outside"),
    ]
    messages += [call(20 + n, "reindex_file", path=name) for n, name in enumerate(DENIED)]
    messages += [call(60, "reindex_file", path="../outside/outside.txt")]
    printed, opened = trace(traced, tmp_path / "trace.log", "mcp", messages=messages)
    answers = {row["id"]: row for row in map(json.loads, printed) if "id" in row}
    for number in (*range(20, 20 + len(DENIED)), 60):
        assert answers[number].get("result", {}).get("isError"), answers[number]
    for number in range(2, 7):
        assert not answers[number]["result"].get("isError"), answers[number]
    assert f"{SECRET} = 1" not in "".join(printed)
    assert_harmless(traced, opened)


def test_a_scan_of_a_disk_opens_no_file(traced: Any, tmp_path: Path) -> None:
    printed, opened = trace(traced, tmp_path / "trace.log", "tree", ".")
    assert "certs" in "".join(printed)
    below = [Path(path) for _, path in opened if path.startswith(f"{traced.project}/")]
    assert below
    assert [path for path in below if not path.is_dir()] == []


def test_the_tracer_would_see_a_denied_file(traced: Any, tmp_path: Path) -> None:
    peek = "import os; os.chdir('certs'); open('server.pem').close(); open('../new', 'w').close()"
    traced.prefix = ()
    traced.command = lambda *_args: [sys.executable, "-c", peek]
    _, opened = trace(traced, tmp_path / "trace.log")
    with pytest.raises(AssertionError, match=r"server\.pem"):
        assert_harmless(traced, opened)
    with pytest.raises(AssertionError, match="new"):
        assert_harmless(traced, [pair for pair in opened if "server.pem" not in pair[1]])
