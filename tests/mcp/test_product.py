"""The real server, started as an agent starts it, from nothing to a deleted index."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.types import ElicitResult
from tests.mcp.conftest import read, start_product
from tests.waiting import wait_for_answer

pytestmark = pytest.mark.anyio


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


@pytest.fixture
def connect(
    surface: tuple[str, str], project: Path, tmp_path: Path
) -> Iterator[Callable[..., Client]]:
    """Open a client of the real server, over each transport and in both eras."""
    yield from start_product(surface, project, tmp_path / "home")


async def accept(_context: Any, _params: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"confirm": True})


@pytest.mark.row("000-P51", "000-P72", "001-25", "001-29", "001-93")
async def test_an_agent_indexes_searches_pages_and_deletes(connect: Callable[..., Client]) -> None:
    async with connect(elicitation_callback=accept) as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert listed[0] == "search_code"

        missing = await client.call_tool("get_index_status", {})
        assert missing.is_error
        assert read(missing)["code"] == "INDEX_NOT_FOUND"

        steps: list[tuple[float, float | None]] = []

        async def note(done: float, total: float | None, _message: str | None) -> None:
            steps.append((done, total))

        made = read(await client.call_tool("create_index", {}, progress_callback=note))
        assert (made["status"], made["filesIndexed"]) == ("success", 31)
        assert steps == sorted(steps)
        assert steps

        for query, found in (
            ("worker_7.py:3", ("worker_7.py", 3)),
            (r"class Worker29\b.*", ("worker_29.py", 1)),
            ('"Retries job 11 with"', ("worker_11.py", 2)),
        ):
            row = read(await client.call_tool("search_code", {"query": query}))["results"][0]
            assert row["path"] == found[0]
            assert row["startLine"] <= found[1] <= row["endLine"]
        nowhere = read(await client.call_tool("search_code", {"query": "Wrker12"}))
        assert not nowhere["results"]
        assert "Worker12" in nowhere["metadata"]["note"]

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

        whole = await client.call_tool("hybrid_search", {"query": "retries with backoff"})
        assert read(whole)["results"]["has_more"]
        assert len(whole.content[0].text) < 10_000

        docs = read(await client.call_tool("search_docs", {"query": "how are jobs retried"}))
        assert docs["results"][0]["path"] == "README.md"
        files = read(await client.call_tool("search_by_path", {"pattern": "worker_1?.py"}))
        assert files["totalMatches"] == 10

        status = read(await client.call_tool("get_index_status", {}))
        assert (status["status"], status["totalFiles"]) == ("ready", 31)

        gone = read(await client.call_tool("delete_index", {}))
        assert gone["status"] == "success"
        assert (await client.call_tool("get_index_status", {})).is_error


async def test_an_agent_pages_by_cursor_and_a_bad_cursor_is_invalid_params(
    connect: Callable[..., Client],
) -> None:
    async with connect() as client:

        async def search(**arguments: Any) -> dict[str, Any]:
            return read(await client.call_tool("regex_search", arguments))

        page = await search(pattern=r"class Worker\d+", pageSize=20)
        assert (page["results"]["count"], page["results"]["total_count"]) == (20, 30)
        cursor = page["pagination"]["next_cursor"]
        rest = await search(cursor=cursor)
        assert rest["results"]["count"] == 10
        assert rest["pagination"] == {"next_cursor": None, "page_size": 20, "current_page": 2}
        for wrong in ({"cursor": cursor[::-1]}, {"cursor": cursor, "pattern": "other"}):
            with pytest.raises(MCPError) as refused:
                await search(**wrong)
            assert refused.value.error.code == -32602
            assert "cursor" in refused.value.error.data["nextAction"]


async def test_an_agent_that_cannot_be_asked_confirms_by_token(
    connect: Callable[..., Client], project: Path
) -> None:
    async with connect() as client:
        asked = await client.call_tool("create_index")
        assert asked.is_error
        assert read(asked)["code"] == "CONFIRMATION_REQUIRED"
        token = read(asked)["nextAction"].split("'")[1]
        refused = await client.call_tool("create_index", {"confirm": token[::-1]})
        assert read(refused)["code"] == "CONFIRMATION_REQUIRED"
        assert (
            read(await client.call_tool("create_index", {"confirm": token}))["filesIndexed"] == 31
        )
        for name, hint in (("serch_code", "search_code"), ("create-indx", "create_index")):
            with pytest.raises(MCPError, match=hint):
                await client.call_tool(name, {})
        with pytest.raises(MCPError, match="page_size"):
            await client.call_tool("regex_search", {"pattern": "x", "page_siz": 3})


@pytest.fixture
def connect_unwatched(
    surface: tuple[str, str], project: Path, tmp_path: Path
) -> Iterator[Callable[..., Client]]:
    """The same for a server that indexes only when it is told to."""
    yield from start_product(surface, project, tmp_path / "home", SONDE_WATCHING="off")


async def test_giving_up_on_an_index_stops_it(
    connect_unwatched: Callable[..., Client], project: Path
) -> None:
    for number in range(1500):
        (project / f"more_{number}.py").write_text(
            f"def more_{number}():\n    return {number}\n" * 9
        )
    async with connect_unwatched(elicitation_callback=accept) as client:
        async with anyio.create_task_group() as group:

            async def note(done: float, _total: float | None, _message: str | None) -> None:
                if done > 0:
                    group.cancel_scope.cancel()

            async def index() -> None:
                await client.call_tool("create_index", {}, progress_callback=note)

            group.start_soon(index)

        async def look() -> dict[str, Any]:
            return read(await client.call_tool("get_index_status"))

        status = await wait_for_answer(look, lambda told: told.get("status") != "indexing")
        assert status["status"] == "incomplete"
        assert status["details"]["lastError"]["code"] == "CANCELLED"
        assert 0 < status["totalFiles"] < 1531, "what was done is kept, and nothing goes on"
