"""The real server, started as an agent starts it, from nothing to a deleted index."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.types import ElicitResult

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / ".git").mkdir()
    for number in range(30):
        (root / f"worker_{number}.py").write_text(
            f'class Worker{number}:\n    """Retries job {number} with backoff."""\n'
            f"    def run(self):\n        return {number}\n"
        )
    (root / "README.md").write_text("# Workers\n\nHow jobs are retried with backoff.\n")
    return root


def server(project: Path, tmp_path: Path) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "sonde.cli.main", "mcp"],
        cwd=project,
        env={"SONDE_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"]},
    )


async def accept(_context: Any, _params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"confirm": True})


def read(result: Any) -> dict[str, Any]:
    (block,) = result.content
    assert json.loads(block.text) == result.structured_content
    return dict(result.structured_content)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_an_agent_indexes_searches_pages_and_deletes(
    project: Path, tmp_path: Path, mode: str
) -> None:
    parameters = server(project, tmp_path)
    async with Client(parameters, mode=mode, elicitation_callback=accept) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert listed[0] == "search_code"

        missing = await client.call_tool("search_code", {"query": "retry"})
        assert missing.is_error
        assert read(missing)["code"] == "INDEX_NOT_FOUND"

        made = read(await client.call_tool("create_index", {}))
        assert (made["status"], made["filesIndexed"]) == ("success", 31)

        first = read(
            await client.call_tool(
                "search_code", {"query": "retries with backoff", "topK": 30, "max_tokens": 800}
            )
        )
        seen = [hit["path"] for hit in first["results"]]
        assert first["truncated"]
        page = first
        while page.get("nextCursor"):
            page = read(await client.call_tool("search_code", {"cursor": page["nextCursor"]}))
            seen += [hit["path"] for hit in page["results"]]
        assert len(seen) == first["totalResults"] == 30
        assert len(set(seen)) == 30

        docs = read(await client.call_tool("search_docs", {"query": "how are jobs retried"}))
        assert docs["results"][0]["path"] == "README.md"
        files = read(await client.call_tool("search_by_path", {"pattern": "worker_1?.py"}))
        assert files["totalMatches"] == 10

        status = read(await client.call_tool("get_index_status", {}))
        assert (status["status"], status["totalFiles"]) == ("ready", 31)

        gone = read(await client.call_tool("delete_index", {}))
        assert gone["status"] == "success"
        assert (await client.call_tool("get_index_status", {})).is_error


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_an_agent_pages_by_cursor_and_a_bad_cursor_is_invalid_params(
    project: Path, tmp_path: Path, mode: str
) -> None:
    async with Client(server(project, tmp_path), mode=mode) as client:

        async def search(**arguments: Any) -> dict[str, Any]:
            return read(await client.call_tool("regex_search", arguments))

        page = await search(pattern=r"class Worker\d+", pageSize=20)
        assert (page["results"]["count"], page["results"]["total_count"]) == (20, 30)
        cursor = page["pagination"]["next_cursor"]
        rest = await search(cursor=cursor)
        assert rest["results"]["count"] == 10
        assert rest["pagination"] == {"next_cursor": None, "page_size": 20, "current_page": 2}
        for wrong in ({"cursor": cursor[:-2] + "xx"}, {"cursor": cursor, "pattern": "other"}):
            with pytest.raises(MCPError) as refused:
                await search(**wrong)
            assert refused.value.error.code == -32602
            assert "cursor" in refused.value.error.data["nextAction"]
