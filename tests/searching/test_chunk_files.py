"""Chunk files: read when present, read again when they change, never half."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.loopback import Exchange, LoopbackServer, running
from tests.waiting import wait_until

from sonde.embedding.base import Mode, Vectors
from sonde.embedding.services import EndpointEmbedder
from sonde.embedding.static import StaticEmbedder
from sonde.errors import EmbeddingFailed, FileMissing, MissingExtra
from sonde.projects.views import ChunkFolder
from sonde.runtime.work import Work
from sonde.searching.chunk_files import QUIET_S, ChunkFiles
from sonde.searching.contexts import SearchOptions
from sonde.settings import load_settings
from sonde.tools.code import cortex_search
from sonde.wiring import build_app, open_project

ALL = SearchOptions(limit=100, min_score=-1)


def make_chunk(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "title": name, "text": f"about {name}", "chunk_type": "data"} | more


def write(folder: Path, name: str, chunks: list[dict[str, Any]], **facts: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / f".{name}.tmp"
    temporary.write_text(json.dumps({"_metadata": facts, "chunks": chunks}))
    temporary.replace(folder / name)


def ids(searcher: ChunkFiles) -> set[str]:
    return {one.chunk.id for one in searcher.query("otter", ALL)}


@pytest.fixture
def open_files() -> Iterator[Callable[[Path], ChunkFiles]]:
    opened: list[ChunkFiles] = []

    def open_one(folder: Path) -> ChunkFiles:
        opened.append(ChunkFiles(folder, StaticEmbedder()))
        opened[-1].follow()
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


def test_any_json_file_is_read_as_an_object_or_a_list(tmp_path: Path) -> None:
    write(tmp_path, "doc-chunks.json", [make_chunk("a")])
    (tmp_path / "more.json").write_text(json.dumps([make_chunk("b")]))
    (tmp_path / "notes.txt").write_text("not ours")
    assert ids(ChunkFiles(tmp_path, StaticEmbedder())) == {"a", "b"}


@pytest.mark.row("003-C33", "003-C34")
def test_changes_are_read_once_it_is_quiet(
    tmp_path: Path, open_files: Callable[[Path], ChunkFiles]
) -> None:
    write(tmp_path, "doc-chunks.json", [make_chunk("a")])
    files = open_files(tmp_path)
    pauses = 0
    for name in ("b", "c", "d", "e"):
        began = time.monotonic()
        write(tmp_path, f"{name}.json", [make_chunk(name)])
        pauses += time.monotonic() - began > QUIET_S / 2  # a machine that stalls is quiet too
    wait_until(lambda: ids(files) == {"a", "b", "c", "d", "e"})
    assert 1 <= files.reloads <= 1 + pauses
    (tmp_path / "b.json").unlink()
    wait_until(lambda: ids(files) == {"a", "c", "d", "e"})


@pytest.mark.row("003-C37", "003-C40")
def test_a_broken_file_keeps_the_old_state_and_is_told_once(
    tmp_path: Path, open_files: Callable[[Path], ChunkFiles], caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "a.json", [make_chunk("a")])
    files = open_files(tmp_path)
    odd = [json.dumps([make_chunk("b", embedding=[1e39] * 256)]), '{"chunks": 5}']
    for broken in ('{"chunks": [{"id": "b"', "", '{"chunks": [{"id": 5}]}', "null", "[1]", *odd):
        (tmp_path / "a.json").write_text(broken)
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            assert not files.reload()
            assert not files.reload()
        assert len([r for r in caplog.records if "as they were" in r.message]) == 1
        assert ids(files) == {"a"}
    write(tmp_path, "a.json", [make_chunk("c")])
    wait_until(lambda: ids(files) == {"c"})


@pytest.mark.row("003-C39")
def test_following_outlives_an_embedder_that_fails(tmp_path: Path) -> None:
    failing = threading.Event()
    failed = threading.Event()

    class Moody(StaticEmbedder):
        def embed(self, texts: Sequence[str], mode: Mode) -> Vectors:
            if failing.is_set():
                failed.set()
                raise MissingExtra("gone for a while", extra="model")
            return super().embed(texts, mode)

    write(tmp_path, "a.json", [make_chunk("a")])
    files = ChunkFiles(tmp_path, Moody())
    files.follow()
    try:
        failing.set()
        write(tmp_path, "a.json", [make_chunk("b")])
        assert failed.wait(30)
        failing.clear()
        write(tmp_path, "a.json", [make_chunk("c")])
        wait_until(lambda: ids(files) == {"c"})
    finally:
        files.close()


def test_what_looks_like_an_embedding_elsewhere_is_shown_as_it_is(tmp_path: Path) -> None:
    write(tmp_path, "a.json", [make_chunk("a", metadata={"embedding": [1, 2]})])
    (found,) = ChunkFiles(tmp_path, StaticEmbedder()).query("a", ALL)
    assert found.chunk.metadata == {"embedding": [1, 2]}


@pytest.mark.row("003-C56")
def test_at_the_start_broken_files_are_left_out_and_empty_ones_are_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "a.json", [make_chunk("a")])
    write(tmp_path, "empty.json", [])
    (tmp_path / "broken.json").write_text("{")
    with caplog.at_level(logging.WARNING):
        assert ids(ChunkFiles(tmp_path, StaticEmbedder())) == {"a"}
    assert "broken.json" in caplog.text


@pytest.mark.row("003-C55", "003-C57")
def test_a_missing_folder_and_wrong_dimensions_fail(tmp_path: Path) -> None:
    with pytest.raises(FileMissing):
        ChunkFiles(tmp_path / "none", StaticEmbedder())
    write(tmp_path, "a.json", [make_chunk("a", embedding=[0.1] * 7)])
    with pytest.raises(EmbeddingFailed, match="7"):
        ChunkFiles(tmp_path, StaticEmbedder())
    write(tmp_path, "a.json", [make_chunk("a")], model="another")
    with pytest.raises(EmbeddingFailed, match="another"):
        ChunkFiles(tmp_path, StaticEmbedder())


@pytest.mark.row("003-C36")
def test_queries_go_on_while_files_are_read_again(tmp_path: Path) -> None:
    """Every answer is of one state: all chunks of one generation, none of another."""

    def write_all(generation: int) -> None:
        chunks = [make_chunk(f"{generation}-{at}") for at in range(40)]
        write(tmp_path, "a.json", chunks)

    write_all(0)
    files = ChunkFiles(tmp_path, StaticEmbedder())
    ending = threading.Event()

    def change() -> None:
        generation = 1
        while not ending.is_set():
            write_all(generation)
            assert files.reload()
            generation += 1

    def ask(_: int) -> int:
        found = ids(files)
        assert len(found) == 40
        (generation,) = {name.split("-")[0] for name in found}
        return int(generation)

    writer = threading.Thread(target=change)
    writer.start()
    try:
        with ThreadPoolExecutor(32) as pool:
            seen = set(pool.map(ask, range(1_000)))
    finally:
        ending.set()
        writer.join()
    assert len(seen) > 1


@pytest.fixture
def endpoint() -> Iterator[str]:
    class Answer(Exchange):
        def answer(self) -> None:
            rows = [[float("otter" in text), 1.0, 0.0] for text in self.read_json()["texts"]]
            self.reply(200, json.dumps({"embeddings": rows}).encode())

    with running(LoopbackServer(Answer)) as server:
        yield f"{server.address}/embed"


@pytest.mark.row("003-C30", "003-C42", "003-C43")
def test_a_project_is_answered_from_its_chunk_files(tmp_path: Path, endpoint: str) -> None:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    rows = [make_chunk("x", embedding=[0, 1, 0]), make_chunk("y", embedding=[1, 1, 0])]
    write(root / ".cortex/elsewhere", "a.json", rows, model="another")
    (root / ".cortex/config.yml").write_text(
        "embedding:\n"
        '  endpoint: "http://127.0.0.1:1/embed"  # nobody there\n'
        "  dimensions: 3\n"
        "server:\n"
        "  chunks_dir: .cortex/elsewhere\n"
    )
    environ = {"CORTEX_EMBEDDING_ENDPOINT": endpoint}
    app = build_app(load_settings(environ, home=tmp_path / "home"), start=root)
    answer = cortex_search(app, "otter", work=Work())
    assert [row["chunk"]["id"] for row in answer["results"]] == ["y", "x"]
    app.close()
    app = build_app(load_settings({}, home=tmp_path / "home"), start=root)
    with pytest.raises(EmbeddingFailed):
        cortex_search(app, "otter", work=Work())
    app.close()
    environ = {"CORTEX_CHUNKS_DIR": "no/such/folder"}
    app = build_app(load_settings(environ, home=tmp_path / "home"), start=root)
    with pytest.raises(FileMissing):
        cortex_search(app, "otter", work=Work())
    app.close()


@pytest.mark.parametrize("value", ["\u00b2", "9" * 5_000, "~nobody-here/chunks"])
def test_odd_values_in_a_projects_own_file_stop_nothing(tmp_path: Path, value: str) -> None:
    root = tmp_path / "project"
    (root / ".cortex").mkdir(parents=True)
    (root / ".cortex/config.yml").write_text(
        f"embedding:\n  dimensions: {value}\nserver:\n  chunks_dir: {value}\n"
    )
    settings = load_settings({}, home=tmp_path / "home")
    assert open_project(settings, root).settings.warnings


@pytest.mark.parametrize("how", ["absolute", "above", "a linked folder", "a linked file"])
def test_a_project_cannot_name_chunk_files_outside_it(tmp_path: Path, how: str) -> None:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    outside = tmp_path / "outside"
    write(outside, "a.json", [make_chunk("theirs")])
    (root / ".cortex").mkdir()
    named = {"absolute": str(outside), "above": "../outside", "a linked folder": ".cortex/chunks"}
    text = f"server:\n  chunks_dir: {named.get(how, outside)}\n"
    if how == "a linked folder":
        (root / ".cortex/chunks").symlink_to(outside)
    if how == "a linked file":
        (outside / "config.yml").write_text(text)
        (root / ".cortex/config.yml").symlink_to(outside / "config.yml")
    else:
        (root / ".cortex/config.yml").write_text(text)
    settings = load_settings({}, home=tmp_path / "home")
    assert open_project(settings, root).part(ChunkFolder).open(None, follow=False) is None
    chosen = load_settings({}, home=tmp_path / "home", chunks_dir=str(outside))
    files = open_project(chosen, root).part(ChunkFolder).open(None, follow=False)
    assert files is not None


def test_a_pipe_in_the_place_of_a_projects_own_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / ".cortex").mkdir()
    os.mkfifo(tmp_path / ".cortex/config.yml")
    settings = load_settings({}, home=tmp_path / "home")
    opened = open_project(settings, tmp_path).settings
    assert (opened.chunk_folder, opened.needs_chunks) == (tmp_path / ".cortex/chunks", False)


def test_a_service_that_is_set_anew_is_asked_from_then_on(tmp_path: Path, endpoint: str) -> None:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    rows = [make_chunk("x", embedding=[0, 1, 0]), make_chunk("y", embedding=[1, 1, 0])]
    write(root / ".cortex/chunks", "a.json", rows, model="another")
    app = build_app(load_settings({}, home=tmp_path / "home"), start=root)
    config = app.workspace.projects.get(root).folder / "config.json"
    config.parent.mkdir(parents=True)
    for address in ("http://127.0.0.1:1/embed", endpoint):
        config.write_text(json.dumps({"embeddingEndpoint": address, "embeddingDimensions": 3}))
        app.workspace.projects.reload(root)
        if address != endpoint:
            with pytest.raises(EmbeddingFailed):
                cortex_search(app, "otter", work=Work())
    answer = cortex_search(app, "otter", work=Work())
    assert [row["chunk"]["id"] for row in answer["results"]] == ["y", "x"]
    app.close()


def test_a_folder_that_was_replaced_is_read_anew(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    write(root / ".cortex/chunks", "a.json", [make_chunk("a")])
    app = build_app(load_settings({}, home=tmp_path / "home"), start=root, stays=True)
    assert cortex_search(app, "about", work=Work())["results"][0]["chunk"]["id"] == "a"
    write(root / "other", "a.json", [make_chunk("b")])
    (root / ".cortex/chunks").rename(root / "old")
    (root / "other").rename(root / ".cortex/chunks")
    assert cortex_search(app, "about", work=Work())["results"][0]["chunk"]["id"] == "b"
    app.close()


@pytest.mark.row("003-C57")
def test_a_service_with_other_dimensions_fails(endpoint: str) -> None:
    with pytest.raises(EmbeddingFailed):
        EndpointEmbedder(endpoint, 5).embed(["otter"], "query")
