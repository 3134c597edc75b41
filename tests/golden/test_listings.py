"""What agents are told of us: all that MCP lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.golden import check, check_all, show_json
from tests.golden.room import Room, Wire

import sonde

LISTS = ("resources/list", "resources/templates/list", "prompts/list")


def show(value: object) -> str:
    """As lines, whatever version we have."""
    return show_json(value).replace(f'"version": "{sonde.__version__}"', '"version": "<version>"')


@pytest.mark.parametrize(
    ("spelling", "enhanced"), [("portable", "false"), ("documented", "false"), ("both", "true")]
)
@pytest.mark.row("001-50")
def test_all_tools_are_listed_as_recorded(tmp_path: Path, spelling: str, enhanced: str) -> None:
    more = {"SONDE_TOOL_NAMES": spelling, "SONDE_ENHANCED_TOOL_DESCRIPTIONS": enhanced}
    room = Room.make(tmp_path, SONDE_TOOLSETS="all", **more)
    with Wire(room, room.base) as wire:
        wire.greet()
        check(f"listings/all-{spelling}.json", show(wire.ask("tools/list")))


def test_what_is_listed_unless_asked_is_as_recorded(tmp_path: Path) -> None:
    room = Room.make(tmp_path)
    with Wire(room, room.base) as wire:
        listed = {"initialize": wire.greet(), "tools/list": wire.ask("tools/list")}
        listed |= {method: wire.ask(method) for method in LISTS}
    check_all(
        {f"listings/{name.replace('/', '-')}.json": show(told) for name, told in listed.items()}
    )


@pytest.mark.row("001-6", "001-25", "001-33", "001-49", "001-85")
def test_the_tools_of_the_rfc_are_listed_and_keep_its_bounds(tmp_path: Path) -> None:
    room = Room.make(tmp_path)
    with Wire(room, room.base) as wire:
        told = wire.greet()["result"]["instructions"]
        tools = {tool["name"]: tool for tool in wire.ask("tools/list")["result"]["tools"]}
        wrong = [
            ("search_code", {"query": "x", "top_k": 0}),
            ("search_code", {"query": "x", "top_k": 51}),
            ("search_code", {"query": "x", "top_k": 2.5}),
            ("search_by_path", {"pattern": "*", "limit": 1001}),
        ]
        calls = [{"name": name, "arguments": arguments} for name, arguments in wrong]
        refused = [wire.ask("tools/call", params)["error"]["code"] for params in calls]
    assert {
        "create_index", "search_code", "search_by_path", "get_index_status",
        "reindex_project", "reindex_file", "delete_index", "search_docs",
    } <= set(tools)  # fmt: skip
    assert not tools["create_index"]["inputSchema"].get("required")
    top_k = tools["search_code"]["inputSchema"]["properties"]["top_k"]
    assert (top_k["minimum"], top_k["maximum"], top_k["default"]) == (1, 50, 10)
    assert refused == [-32602] * len(wrong)
    assert "search_docs" in told
    assert "follow-up questions about a document that is already in the conversation" in told
