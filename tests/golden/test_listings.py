"""What programs are told of us: the OpenAPI document, and what MCP lists."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.golden import check, check_all, show_json
from tests.golden.room import Room, Wire, serve

import sonde

LISTS = ("resources/list", "resources/templates/list", "prompts/list")


def show(value: object) -> str:
    """As lines, whatever version we have."""
    return show_json(value).replace(f'"version": "{sonde.__version__}"', '"version": "<version>"')


def test_the_openapi_document_is_as_recorded(tmp_path: Path) -> None:
    room = Room.make(tmp_path)
    with serve(room, room.base) as get:
        status, kind, document = get("/api/openapi.json")
    assert (status, kind) == (200, "application/json")
    check("openapi.json", show(document))


@pytest.mark.parametrize("spelling", ["portable", "documented", "both"])
def test_all_tools_are_listed_as_recorded(tmp_path: Path, spelling: str) -> None:
    room = Room.make(tmp_path, SONDE_TOOLSETS="all", SONDE_TOOL_NAMES=spelling)
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


def test_enhanced_descriptions_are_as_recorded(tmp_path: Path) -> None:
    room = Room.make(tmp_path, SONDE_TOOLSETS="all", SONDE_ENHANCED_TOOL_DESCRIPTIONS="true")
    with Wire(room, room.base) as wire:
        wire.greet()
        tools = wire.ask("tools/list")["result"]["tools"]
    told = {tool["name"]: tool["description"] for tool in tools}
    check("listings/enhanced.json", show(told))
