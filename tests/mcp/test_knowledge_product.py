"""Personal knowledge through the real server, over every transport and in both eras."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mcp import Client
from tests.mcp.conftest import read, start_product

from sonde.knowledge.retrieval import cut_pieces
from sonde.stores.knowledge.base import Entry, Piece
from sonde.stores.knowledge.sqlite import SqliteKnowledge

pytestmark = pytest.mark.anyio


@pytest.fixture
def connect(surface: tuple[str, str], tmp_path: Path) -> Iterator[Callable[..., Client]]:
    home, start = tmp_path / "home", tmp_path / "start"
    start.mkdir()
    store = SqliteKnowledge(home / "knowledge" / "local")
    store.put(
        "notes",
        [Entry("notes", f"n{n}", tuple(cut_pieces(f"walrus {n}")), id=f"n{n}") for n in range(4)],
    )
    talk = (Piece("Hello walrus", 0, uuid="a", begins=0, ends=1000),)
    store.put("media", [Entry("media", "Talk", talk, media_type="video")])
    store.close()
    yield from start_product(surface, start, home, SONDE_EMBEDDING="none")


@pytest.mark.row("004-1", "004-2", "004-10", "004-11", "004-87", "004-88", "004-121")
async def test_an_agent_finds_and_reads_what_a_person_keeps(
    connect: Callable[..., Client], surface: tuple[str, str]
) -> None:
    async with connect() as client:
        listed = [tool.name for tool in (await client.list_tools()).tools]
        assert {"search", "fetch"} <= set(listed)
        first = read(await client.call_tool("knowledge.search", {"query": "walrus", "limit": 2}))
        second = read(await client.call_tool("knowledge_search", {"query": "walrus", "limit": 2}))
        uris = [row["uri"] for page in (first, second) for row in page["results"]]
        # a connection that lasts is a session, which is not shown the same twice
        assert len(set(uris)) == (2 if surface == ("http", "auto") else 4)
        whole = read(await client.call_tool("notes.get", {"note_id": "n1", "retrieval": {
            "mode": "full"}}))  # fmt: skip
        assert whole["content"] == "walrus 1"
        spoken = read(await client.call_tool("media_transcript", {"media_id": 1, "format": "srt"}))
        assert spoken["content"].startswith("1\n00:00:00,000 --> 00:00:01,000\nHello walrus")
        missing = await client.call_tool("prompts_get", {"prompt_id_or_name": "nothing"})
        assert missing.is_error
        assert read(missing)["code"] == "ENTRY_NOT_FOUND"
        kinds = await client.read_resource("media://types")
        assert json.loads(kinds.contents[0].text)["types"] == ["video"]
        note = await client.read_resource("notes://n2")
        assert json.loads(note.contents[0].text)["content"] == "walrus 2"
