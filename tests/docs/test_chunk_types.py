"""The page on chunk types: its example puts our tools on another server, beside a foreign one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

PAGE = Path(__file__).parents[2] / "docs" / "chunk-types.md"
PLACE = "~/src/your-project"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / "session.py").write_text('def refresh():\n    """Sessions are refreshed here."""\n')
    monkeypatch.setenv("SONDE_HOME", str(tmp_path / "home"))
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert PLACE in example
    space: dict[str, Any] = {"__name__": "example"}
    exec(example.replace(PLACE, str(root)), space)
    yield space["server"]
    space["project"].close()


@pytest.mark.row("003-C53")
def test_the_example_serves_both(server: Any) -> None:
    async def talk() -> None:
        async with Client(server) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert sorted(tools) == ["cortex_search", "greet", "search_code", "search_docs"]
            assert tools["cortex_search"].annotations.read_only_hint
            assert set(tools["cortex_search"].input_schema["properties"]) == {
                "query", "limit", "tags", "chunk_types",
            }  # fmt: skip
            greeting = await client.call_tool("greet", {"name": "Ada"})
            assert greeting.content[0].text == "Hello, Ada!"

            missing = await client.call_tool("cortex_search", {"query": "x"})
            assert missing.is_error
            assert "INDEX_NOT_FOUND" in missing.content[0].text

    anyio.run(talk)


def test_searches_find_and_fail_as_they_do_on_ours(server: Any, tmp_path: Path) -> None:
    import sonde

    sonde.index(tmp_path / "project")

    async def talk() -> None:
        async with Client(server) as client:
            found = await client.call_tool(
                "cortex_search", {"query": "refresh sessions", "limit": 500}
            )
            answer = json.loads(found.content[0].text)
            assert answer["results"][0]["chunk"]["metadata"]["file_path"] == "session.py"
            assert answer["total"] == len(answer["results"])
            code = await client.call_tool("search_code", {"query": "refresh", "top_k": 1})
            assert json.loads(code.content[0].text)["results"][0]["path"] == "session.py"
            with pytest.raises(MCPError) as refused:
                await client.call_tool("cortex_search", {"query": " "})
            assert refused.value.error.code == -32602

    anyio.run(talk)
