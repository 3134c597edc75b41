"""`cortex_search` as a client sees it: the document's result text and error codes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from tests.mcp.conftest import start_product
from tests.waiting import wait_for_answer

pytestmark = pytest.mark.anyio
CHUNKS = Path(".cortex", "chunks")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / CHUNKS).mkdir(parents=True)
    (root / ".git").mkdir()
    write(root, "first")
    return root


def write(root: Path, *names: str, **more: Any) -> None:
    rows = [{"id": name, "title": name, "text": f"about {name}", **more} for name in names]
    temporary = root / "new.tmp"
    temporary.write_text(json.dumps(rows))
    temporary.replace(root / CHUNKS / "doc-chunks.json")


@pytest.fixture
def connect(project: Path, tmp_path: Path) -> Iterator[Callable[..., Client]]:
    yield from start_product(("stdio", "legacy"), project, tmp_path / "home")


async def ask(client: Client, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool("cortex_search", arguments)
    assert not result.is_error
    (block,) = result.content
    return dict(json.loads(block.text))


@pytest.mark.row("003-C1", "003-C33", "003-C58", "003-C66")
async def test_a_server_follows_chunk_files_and_answers_with_the_documented_codes(
    connect: Callable[..., Client], project: Path
) -> None:
    async with connect() as client:
        answer = await ask(client, query="what is first about", limit=0)
        assert [row["chunk"]["id"] for row in answer["results"]] == ["first"]
        assert answer["total"] == 1
        for wrong in ({"query": "  "}, {}, {"query": "x", "tags": 5}):
            with pytest.raises(MCPError) as refused:
                await client.call_tool("cortex_search", wrong)
            assert refused.value.error.code == -32602

        write(project, "second", "third")
        await wait_for_answer(
            lambda: ask(client, query="about"), lambda answer: answer["total"] == 2
        )


@pytest.mark.row("003-C57", "003-C60")
async def test_embeddings_that_do_not_fit_are_an_internal_error(
    connect: Callable[..., Client], project: Path
) -> None:
    write(project, "wrong", embedding=[1.0, 2.0])
    async with connect() as client:
        with pytest.raises(MCPError) as failed:
            await client.call_tool("cortex_search", {"query": "x"})
        assert failed.value.error.code == -32603
