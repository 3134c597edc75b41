"""Without HTTP, every link that the tools of a disk hand out is a resource that can be read."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from tests.waiting import wait_for_answer

TOOLSET = "files"


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    root = tmp_path / "disk"
    (root / "src").mkdir(parents=True)
    for number in range(30):
        (root / "src" / f"file {number}.py").write_text("print('x')\n" * number)
    (root / ".env").write_text("TOKEN=x\n")
    (root / "caf\udce9").write_text("x")
    (root / "empty").mkdir()
    return root


@pytest.mark.row("002-4", "002-30", "002-75")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_every_link_is_a_resource_that_opens(disk: Path, tmp_path: Path, mode: str) -> None:
    environ = {
        **os.environ, "SONDE_HOME": str(tmp_path / "home"), "SONDE_FILE_ROOTS": str(disk),
        "SONDE_TOOLSETS": TOOLSET, "SONDE_EMBEDDING": "none",
    }  # fmt: skip
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "sonde.cli.main", "mcp"], env=environ, cwd=disk
    )

    async def crawl() -> set[str]:
        async with Client(command, mode=mode) as client:

            async def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
                result = await client.call_tool(tool, arguments)
                answer: dict[str, Any] = result.structured_content or {}
                assert not result.is_error, answer
                return answer

            started = await call("index", root=str(disk))
            await wait_for_answer(
                lambda: call("job_progress", jobId=started["jobId"]),
                lambda job: job["status"] != "running",
            )
            answers = [
                started,
                await call("cd", path=str(disk)),
                await call("cd", path="src"),
                await call("inspect", path="file 1.py"),
                await call("query_run", filter="ext:py"),
                await call("resource-set-create", name="mine"),
                await call("resource_set_ops", op="list"),
                await call("query-list"),
                await call("job-progress", jobId=started["jobId"]),
            ]
            waiting = [link for answer in answers for link in find_links(json.dumps(answer))]
            seen: set[str] = set()
            while waiting:
                link = waiting.pop()
                if link not in seen:
                    seen.add(link)
                    contents = (await client.read_resource(link)).contents
                    waiting += find_links(getattr(contents[0], "text", ""))
            return seen

    seen = anyio.run(crawl)
    assert len(seen) > 80
    assert not [link for link in seen if not link.startswith("sonde://")]
    kinds = {link.split("/")[2] for link in seen}
    assert kinds >= {"indexes", "jobs", "resource-sets", "queries"}


def find_links(text: str) -> list[str]:
    return re.findall(r'"((?:sonde|https?)://[^"]*)"', text)
