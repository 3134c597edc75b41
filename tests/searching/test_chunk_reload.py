"""Chunk files that change, break and go while they are searched."""

from __future__ import annotations

import json
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from sonde.app import App
from sonde.embedding.static import StaticEmbedder
from sonde.errors import BadCursor
from sonde.runtime.work import Work
from sonde.searching.chunk_files import QUIET_S, ChunkFiles
from sonde.searching.contexts import SearchOptions
from sonde.tools import TOOLS
from sonde.tools.tool import bind_arguments, find_tool

ALL = SearchOptions(limit=100, min_score=-1)
PAUSE_S = QUIET_S / 5


def make_chunk(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "title": name, "text": f"about {name}", "chunk_type": "data"} | more


def write(folder: Path, name: str, chunks: list[Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{name}.tmp"
    temporary.write_text(json.dumps(chunks))
    temporary.replace(folder / name)


def ids(searcher: ChunkFiles) -> set[str]:
    return {one.chunk.id for one in searcher.query("otter", ALL)}


@pytest.fixture
def files(tmp_path: Path) -> Iterator[ChunkFiles]:
    write(tmp_path / "chunks", "a.json", [make_chunk("a")])
    opened = ChunkFiles(tmp_path / "chunks", StaticEmbedder())
    opened.follow()
    yield opened
    opened.close()


ODD: list[Any] = [
    5,
    None,
    {"id": 5, "text": "x"},
    {"id": "x"},
    make_chunk("x", embedding=5),
    make_chunk("x", embedding="abc"),
    make_chunk("x", embedding={"a": 1}),
    make_chunk("x", embedding=[[1.0] * 256]),
    make_chunk("x", embedding=[float("nan")] * 256),
    make_chunk("x", embedding=[10**400] * 256),
    make_chunk("x", embedding=[None] * 256),
]


@pytest.mark.row("003-C39", "003-C56")
@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_an_odd_chunk_leaves_the_others(
    tmp_path: Path, odd: object, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "a.json", [make_chunk("a"), odd, make_chunk("b", embedding=[0.5] * 256)])
    with caplog.at_level(logging.WARNING):
        files = ChunkFiles(tmp_path, StaticEmbedder())
    assert ids(files) == {"a", "b"}
    assert "a.json: 1 chunks are left out: chunk 1" in caplog.text
    assert files.reload()
    assert ids(files) == {"a", "b"}


def test_fields_of_another_kind_are_shown_as_text_or_not_at_all(tmp_path: Path) -> None:
    odd = {"title": ["t"], "tags": [1, "ok"], "metadata": [], "chunk_type": 7}
    (tmp_path / "a.json").write_text(
        json.dumps([make_chunk("a", **odd) | {"text": "half \ud83d of it"}])
    )
    (found,) = ChunkFiles(tmp_path, StaticEmbedder()).query("half", ALL)
    assert found.chunk.text == "half ? of it"
    assert (found.chunk.title, found.chunk.tags) == ("['t']", ("ok",))
    assert not found.chunk.metadata


@pytest.mark.row("003-C57")
def test_a_vector_of_another_size_leaves_the_others(tmp_path: Path) -> None:
    write(tmp_path, "a.json", [make_chunk("a", embedding=[0.5] * 256)])
    write(tmp_path, "b.json", [make_chunk("b", embedding=[0.5] * 7), make_chunk("c")])
    assert ids(ChunkFiles(tmp_path, StaticEmbedder())) == {"a", "c"}


@pytest.mark.row("003-C22")
def test_chunks_without_a_time_have_that_of_their_file(tmp_path: Path) -> None:
    write(tmp_path, "a.json", [make_chunk("a"), make_chunk("b", created_at="2020-01-01T00:00:00Z")])
    found = {c.chunk.id: c.chunk for c in ChunkFiles(tmp_path, StaticEmbedder()).query("a", ALL)}
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((tmp_path / "a.json").stat().st_mtime))
    assert (found["a"].created_at, found["a"].updated_at) == (stamp, stamp)
    assert found["b"].created_at == "2020-01-01T00:00:00Z"


@pytest.mark.row("003-C39")
def test_the_watch_outlives_whatever_the_files_hold(tmp_path: Path, files: ChunkFiles) -> None:
    for odd in (*ODD, {"chunks": 5}, {"chunks": {"a": 1}}, "text"):
        write(tmp_path / "chunks", "a.json", [odd])
        assert not files.reload()
        assert ids(files) == {"a"}
    write(tmp_path / "chunks", "a.json", [make_chunk("b")])
    wait_until(lambda: ids(files) == {"b"})


def rewrite(folder: Path, generations: int, names: str, ending: threading.Event) -> float:
    """Write all files again and again without a pause; the longest time between two writes."""
    longest, last = 0.0, time.monotonic()
    for generation in range(1, generations + 1):
        for name in names:
            write(folder, f"{name}.json", [make_chunk(f"{name}{generation}")])
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
            ending.wait(PAUSE_S)
    return longest


def ask_until(ending: threading.Event, files: ChunkFiles, seen: list[set[str]]) -> None:
    """Ask again and again; which generations each answer was of."""
    while not ending.is_set():
        seen.append({name[1:] for name in ids(files)})


@pytest.mark.row("003-C34", "003-C35")
def test_nothing_is_read_while_files_are_written_and_no_answer_mixes_generations(
    tmp_path: Path,
) -> None:
    """A machine that stalls for as long as a quiet moment lasts is no proof of anything."""
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        for name in "wxyz":
            write(folder, f"{name}.json", [make_chunk(f"{name}0")])
        files = ChunkFiles(folder, StaticEmbedder())
        files.follow()
        ending = threading.Event()
        seen: list[set[str]] = []

        asking = threading.Thread(target=ask_until, args=(ending, files, seen))
        asking.start()
        try:
            longest = rewrite(folder, 4, "wxyz", ending)
            reloads = files.reloads
            wait_until(lambda files=files: ids(files) == {"w4", "x4", "y4", "z4"})
        finally:
            ending.set()
            asking.join()
            files.close()
        if longest < QUIET_S / 2:
            assert reloads == 0
            assert files.reloads == 1
            assert all(len(generations) == 1 for generations in seen)
            return
    pytest.fail("this machine stalls all the time")


@pytest.mark.row("003-C34")
def test_a_file_that_is_written_again_and_again_is_read_once(
    tmp_path: Path, files: ChunkFiles
) -> None:
    ending = threading.Event()
    stalls = 0
    for number in range(10):
        began = time.monotonic()
        (tmp_path / "chunks/a.json").write_text(json.dumps([make_chunk(f"a{number}")]))
        ending.wait(PAUSE_S)
        stalls += time.monotonic() - began > QUIET_S / 2
    wait_until(lambda: ids(files) == {"a9"})
    assert files.reloads <= 1 + stalls


def test_a_server_that_starts_while_files_are_written_waits_for_the_last(tmp_path: Path) -> None:
    ending = threading.Event()
    write(tmp_path, "w.json", [make_chunk("w0")])
    longest: list[float] = []
    writing = threading.Thread(target=lambda: longest.append(rewrite(tmp_path, 3, "wx", ending)))
    writing.start()
    files = ChunkFiles(tmp_path, StaticEmbedder())
    writing.join()
    if longest[0] < QUIET_S / 2:
        assert ids(files) == {"w3", "x3"}
    files.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    write(root / ".cortex/chunks", "a.json", [make_chunk(f"a{n}", tags=["x"]) for n in range(30)])
    return root


def call(app: App, **arguments: Any) -> dict[str, Any]:
    tool = find_tool(TOOLS, "cortex_search")
    return dict(tool.call(app, **bind_arguments(tool, arguments), work=Work()))


def names(answer: dict[str, Any]) -> set[str]:
    return {row["chunk"]["id"] for row in answer["results"]}


@pytest.mark.row("003-C38")
def test_a_folder_that_goes_leaves_the_last_state_until_another_is_whole(
    root: Path, open_app: Callable[..., App]
) -> None:
    app = open_app(start=root, stays=True)
    before = names(call(app, query="about", limit=100, max_tokens=20_000))
    assert len(before) == 30
    shutil.rmtree(root / ".cortex/chunks")
    assert names(call(app, query="about", limit=100, max_tokens=20_000)) == before
    (root / ".cortex/chunks").mkdir()
    (root / ".cortex/chunks/a.json").write_text("[{")
    assert names(call(app, query="about", limit=100, max_tokens=20_000)) == before
    write(root / ".cortex/chunks", "a.json", [make_chunk("b")])
    wait_until(lambda: names(call(app, query="about")) == {"b"})
    write(root / ".cortex/chunks", "a.json", [make_chunk("c")])
    wait_until(lambda: names(call(app, query="about")) == {"c"}, "it is followed again")


@pytest.mark.row("003-C67")
def test_a_cursor_refuses_other_parameters(root: Path, open_app: Callable[..., App]) -> None:
    app = open_app(start=root)
    first = call(app, query="about", limit=30, tags=["x"], max_tokens=400)
    cursor = first["nextCursor"]
    second = call(app, cursor=cursor, query="about", limit=30, tags=["x"], max_tokens=400)
    assert not names(first) & names(second)
    others = ({"tags": ["go"]}, {"tags": []}, {"chunk_types": ["data"]}, {"limit": 5})
    for other in (*others, {"query": "otter"}, {"project": str(root)}):
        with pytest.raises(BadCursor, match=next(iter(other))):
            call(app, cursor=cursor, **other)


@pytest.mark.row("003-C68")
def test_page_two_of_chunk_files_marks_what_they_no_longer_hold(
    root: Path, open_app: Callable[..., App]
) -> None:
    app = open_app(start=root, stays=True)
    first = call(app, query="about", limit=30, max_tokens=400)
    assert not any("stale" in row for row in first["results"])
    left = {f"a{n}" for n in range(30)} - names(first)
    changed, gone, *same = sorted(left)
    rows = [make_chunk(name, tags=["x"]) for name in ({f"a{n}" for n in range(30)} - {gone})]
    rows = [row | {"text": "other"} if row["id"] == changed else row for row in rows]
    write(root / ".cortex/chunks", "a.json", rows)

    def list_stale() -> set[str]:
        page = call(app, cursor=first["nextCursor"], max_tokens=20_000)
        assert names(page) == left
        return {row["chunk"]["id"] for row in page["results"] if row.get("stale")}

    wait_until(lambda: list_stale() == {changed, gone})
    assert same
