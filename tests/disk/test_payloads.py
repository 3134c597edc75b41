"""No answer of any tool is larger than 4 kB, whatever names and sizes a disk has."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonde.app import App
from sonde.disk.scope import shorten_text
from sonde.disk.trees import join_node
from sonde.errors import SondeError
from sonde.mcp.requests import dump_answer
from sonde.runtime.work import Work
from sonde.stores.disk.base import ROOT_ID
from sonde.tools import TOOLS
from sonde.tools.shapes.shell import show_epoch
from sonde.tools.tool import bind_arguments, find_tool
from sonde.types import Caller

from .conftest import list_tree, scan

MOST = 4_096
CALLERS = (
    Caller(session="c"),
    Caller(session="h", base_url="https://a-rather-long-name.example:8420"),
)
NAMES = [
    b"\xff" * 255, b'"' * 255, b"\\" * 255, b"\x01" * 255, "漢".encode() * 85, "😀".encode() * 63,
    b"a" * 255, b"\n" * 255, b" ", "\u202e".encode() * 80, "é".encode() * 127,
]  # fmt: skip


@pytest.fixture
def horror(disk: Path) -> Path:
    """Everything that makes an answer long."""
    for number, name in enumerate(NAMES):
        for extra in range(3):
            place = disk / os.fsdecode(name[: 255 - extra])
            try:
                place.mkdir()
                (place / "long link").symlink_to("t" * 4000)
                (place / os.fsdecode(name)).touch()
                with (place / "big").open("wb") as file:
                    file.truncate((1 << 40) + number)
                    os.utime(file.fileno(), (-(1 << 33), 1 << 34))
            except OSError:
                continue
    folder = os.open(disk, os.O_RDONLY)
    for _ in range(60):
        os.mkdir(b"\xfe" * 200, dir_fd=folder)
        inner = os.open(b"\xfe" * 200, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(os.open(b"bottom", os.O_CREAT, dir_fd=folder))
    os.close(folder)
    return disk


def calls(app: App, index: str, root: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Every tool, with every node and every long argument."""
    nodes = list_tree(app.disk.tree(index))
    handles = [f"{index}.{number}" for number in ("1", "2", "zzzzzzzz")]
    handles += [join_node(index, node.id) for node in nodes.values()]
    yield "index", {"root": str(root)}
    yield "index", {"root": str(root / ("n" * 4000))}
    for path in ["", "-", "~", "x" * 4096, "/" + "y" * 4000, "\udcff" * 1000, "..", *nodes]:
        yield "cd", {"path": path if path[:1] in ("", "-", "~", "/") else str(root / path)}
        yield "inspect", {"path": path if path[:1] in ("", "-", "~", "/") else str(root / path)}
    for handle in handles:
        yield "inspect", {"nodeId": handle}
    yield "resource_set_ops", {"op": "create", "nodeIds": handles[3:103], "name": "\x01" * 200}
    yield "resource_set_ops", {"op": "create", "nodeIds": handles[3:], "name": "漢" * 200}
    yield "resource_set_ops", {"op": "create", "nodeIds": ["\x01" * 64]}
    yield "resource_set_ops", {"op": "list"}
    for text in [
        "",
        "kind:directory",
        'name:"' + "漢" * 300 + '"',
        "size>" + "9" * 3000,
        "(" * 4000,
    ]:
        yield "query_run", {"filter": text, "name": "\\" * 200}
        yield "query_run", {"filter": text}
    yield "query_list", {}
    yield "query_get", {"queryId": "\x01" * 64}
    yield "job_progress", {"jobId": "\x01" * 64}
    yield "session_preferences", {"units": "iec", "sort": "size"}
    yield "cd", {"path": str(root)}


@pytest.mark.row("002-1", "002-2", "002-29", "002-49", "002-70")
def test_every_answer_of_every_tool_is_small(app: App, horror: Path) -> None:
    index = scan(app, horror)
    made: dict[str, set[str]] = {"selection": set(), "query": set(), "job": set()}
    largest: dict[str, int] = {}

    def call(name: str, arguments: dict[str, object], caller: Caller) -> None:
        tool = find_tool(TOOLS, name)
        try:
            answer = tool.call(app, **bind_arguments(tool, arguments), work=Work(caller=caller))
        except SondeError as error:
            answer = error.as_dict()
        size = len(dump_answer(answer).encode())
        assert size <= MOST, (name, arguments, size)
        largest[name] = max(largest.get(name, 0), size)
        for kind, found in made.items():
            found |= {answer[f"{kind}Id"]} if answer.get(f"{kind}Id") else set()
        for entries, most in (("entries", 20), ("sample", 10)):
            assert len(answer.get(entries, ())) <= most

    for caller in CALLERS:
        for name, arguments in calls(app, index, horror):
            call(name, arguments, caller)
        for selection in sorted(made["selection"]):
            for op in ("get", "delete", "union"):
                call(
                    "resource_set_ops",
                    {"op": op, "selectionId": selection, "other": selection},
                    caller,
                )
        for query in sorted(made["query"]):
            call("query_get", {"queryId": query}, caller)
            call("query_run", {"queryId": query}, caller)
        for job in sorted(made["job"]):
            call("job_progress", {"jobId": job}, caller)
    listed = {tool.name for tool in TOOLS if tool.toolset == "files" and tool.listed}
    assert set(largest) == listed
    print(json.dumps(largest))


def test_what_is_shortened_keeps_both_ends_and_is_unicode() -> None:
    assert shorten_text("short", 10) == "short"
    cut = shorten_text("a" * 500 + "end", 100)
    assert cut.startswith("aaa")
    assert cut.endswith("end")
    assert "…" in cut
    assert len(json.dumps(shorten_text("\x01" * 500, 100))) <= 120
    shorten_text("\udcff" * 300, 100).encode()


def test_times_that_no_calendar_has_are_shown_as_its_ends() -> None:
    assert show_epoch(-(1 << 60)) == "0001-01-01T00:00:00Z"
    assert show_epoch(1 << 60) == "9999-12-31T23:59:59Z"
    assert show_epoch(0) == "1970-01-01T00:00:00Z"


def test_a_listing_gives_the_whole_of_a_name_that_is_merely_long(app: App, disk: Path) -> None:
    (disk / ("n" * 200)).write_text("x")
    index = scan(app, disk)
    names = [node.name for node in app.disk.tree(index).children(ROOT_ID, 99)]
    assert "n" * 200 in names
