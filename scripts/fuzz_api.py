"""Schemathesis against a real server: with random handles, then with handles that exist.

`positive_data_acceptance` is left out: a cursor, a filter or a confirmation can be well-formed by
its schema and still be refused, which no schema can say.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

TOKEN = secrets.token_hex(24)
BEARER = f"Bearer {TOKEN}"
EXAMPLES = int(os.environ.get("EXAMPLES", "30"))


def ask(url: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """One request to the server."""
    data = json.dumps(body).encode() if body is not None else None
    headers = {"Content-Type": "application/json", "Authorization": BEARER}
    request = urllib.request.Request(url, data, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def make_disk(root: Path) -> None:
    """A small disk of many kinds."""
    (root / "src" / "deep").mkdir(parents=True)
    (root / "empty").mkdir()
    for number in range(40):
        (root / "src" / f"file {number}.py").write_text("print()\n" * (number % 7))
    (root / "odd\udcff").write_text("x")
    (root / ".env").write_text("TOKEN=x\n")
    (root / "link").symlink_to("src")
    (root / "src" / "deep" / "bytes.bin").write_bytes(bytes(range(256)))


def find_handles(url: str, disk: Path) -> dict[str, str]:
    """Scan the disk and make one of everything."""
    started = ask(f"{url}/api/indexes", {"root": str(disk)})
    while ask(started["statusUrl"])["status"] == "running":
        time.sleep(0.05)
    index = started["indexId"]
    node = ask(f"{url}/api/indexes/{index}/detail?path=src")["nodeId"]
    made = ask(f"{url}/api/resource-sets", {"node_ids": [node], "name": "fuzzed"})
    query = ask(f"{url}/api/queries", {"index_id": index, "filter": "ext:py"})
    return {
        "path.indexId": index,
        "path.nodeId": node,
        "path.jobId": started["jobId"],
        "path.selectionId": made["selectionId"],
        "path.queryId": query["queryId"],
        "query.parent": node,
    }


def fuzz(url: str, folder: Path, handles: dict[str, str]) -> int:
    """One run of schemathesis; its exit code."""
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in handles.items()]
    config = folder / "schemathesis.toml"
    config.write_text("[parameters]\n" + "\n".join(lines) + "\n" if handles else "")
    command = [
        str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config), "run",
        f"{url}/api/openapi.json", "--exclude-checks", "positive_data_acceptance",
        "--max-examples", str(EXAMPLES), "--no-color", "--header", f"Authorization: {BEARER}",
    ]  # fmt: skip
    if handles:
        command += ["--exclude-method", "DELETE"]  # what is forgotten cannot be asked for again
    return subprocess.run(command, cwd=folder, check=False).returncode


def main() -> int:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        disk = folder / "disk"
        make_disk(disk)
        environ = {
            **os.environ, "SONDE_HOME": str(folder / "home"), "SONDE_FILE_ROOTS": str(disk),
            "SONDE_RATE_LIMIT": "0", "SONDE_EMBEDDING": "none",
        }  # fmt: skip
        environ["SONDE_TOKEN"] = TOKEN
        command = [sys.executable, "-m", "sonde.cli.main", "serve", "--port", "0", "--json"]
        with subprocess.Popen(command, env=environ, cwd=disk, stdout=subprocess.PIPE) as server:
            assert server.stdout
            try:
                url = json.loads(server.stdout.readline())["url"]
                codes = [fuzz(url, folder, {}), fuzz(url, folder, find_handles(url, disk))]
            finally:
                server.terminate()
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
