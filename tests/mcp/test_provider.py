"""A server whose embedding service is there, and gone: as a client sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from tests.loopback import running
from tests.mcp.conftest import start_product
from tests.waiting import wait_for_answer

from sonde.embedding.server import EmbeddingServer
from sonde.embedding.static import StaticEmbedder

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / "oven.py").write_text("def bake(bread):\n    '''Bake bread in an oven.'''\n")
    return root


def start(project: Path, address: str) -> Iterator[Any]:
    return start_product(
        ("stdio", "legacy"),
        project,
        project.parent / "home",
        SONDE_ASSUME_YES="1",
        SONDE_EMBEDDING="http",
        SONDE_EMBEDDING_ENDPOINT=address,
        SONDE_EMBEDDING_DIMENSIONS="256",
    )


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return dict(result.structured_content or {})


async def test_vectors_come_in_the_background_and_words_stay_when_the_service_goes(
    project: Path,
) -> None:
    with ExitStack() as stack:
        service = stack.enter_context(running(EmbeddingServer(StaticEmbedder(), 0)))
        for connect in start(project, service.address):
            async with connect() as client:
                await call(client, "create_index")
                await wait_for_answer(
                    lambda client=client: call(client, "get_index_status"),
                    lambda status: list(status["details"]["vectors"].values()) == ["1/1"],
                )
                found = await call(client, "search_code", query="bake")
                assert "note" not in found["metadata"]
                stack.close()
                found = await call(client, "search_code", query="bread in an oven")
                assert [row["path"] for row in found["results"]] == ["oven.py"]
                assert found["metadata"]["note"].startswith("answered by words alone")
                with pytest.raises(MCPError) as failed:
                    await client.call_tool("cortex_search", {"query": "bake bread"})
                assert failed.value.error.code == -32603
