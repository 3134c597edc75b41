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
