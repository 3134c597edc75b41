"""Storage that is read-only, forbidden or full."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.backends import STORES

from sonde.app import App
from sonde.embedding.base import load_provider
from sonde.errors import DiskFull, SondeError
from sonde.knowledge.ranking import KnowledgeSearch, read_knowledge_query
from sonde.knowledge.vectors import KnowledgeModels, embed_missing
from sonde.runtime.work import Work
from sonde.settings import load_settings
from sonde.stores.knowledge.base import Entry, Piece
from sonde.stores.knowledge.sqlite import SqliteKnowledge
from sonde.tools.code import search_code
from sonde.tools.index import create_index, get_index_status
from sonde.wiring import build_app


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of three megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root on Linux")
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], capture_output=True
    )
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.decode()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.row("001-119")
def test_a_full_disk_is_told_with_numbers_and_indexing_goes_on_once_there_is_room(
    sonde: Any, small_disk: Path, fresh: Callable[[], Any], contents: Callable[[], Any]
) -> None:
    sonde.home = small_disk / "store"
    assert sonde.ask("index", "--yes")["filesIndexed"] == 31
    before = contents()
    for number in range(400):
        text = "".join(f"def f{number}_{n}(a, b):\n    return {n} * a + b\n\n\n" for n in range(60))
        (sonde.project / f"more{number}.py").write_text(text)
    error = sonde.fail("index")
    assert error["code"] == "DISK_FULL"
    assert "need ~" in error["developerMessage"]
    assert "MB, have 0MB" in error["developerMessage"]
    (small_disk / "filler").write_bytes(b"x" * shutil.disk_usage(small_disk).free)
    assert shutil.disk_usage(small_disk).free == 0
    answer = sonde.ask("search", "function_7")
    assert answer["results"][0]["path"].endswith("mod7.py")
    assert sonde.ask("grep", "function_7\\b")["totalMatches"] == 1
    assert sonde.ask("files", "**/mod7.py")["totalMatches"] == 1
    assert sonde.ask("status")["totalFiles"] >= 31
    (small_disk / "filler").unlink()
    remount = ["mount", "-o", "remount,size=64m", str(small_disk)]
    subprocess.run(remount, check=True)
    held = contents()
    assert {name: held[name] for name in before} == before
    assert len(held) < 431
    assert sonde.ask("index")["filesIndexed"] == 431
    assert contents() == fresh()


def test_notes_are_found_where_the_deep_model_cannot_keep_what_it_reads(small_disk: Path) -> None:
    store, deep = SqliteKnowledge(small_disk / "knowledge"), load_provider("deep")
    notes = ("Night train to Vienna, platform 9.", "Tax return is due in July.")
    store.put("notes", [Entry("notes", "", (Piece(text),), id=text[:5]) for text in notes])
    models = KnowledgeModels(load_provider("everyday"), deep, in_background=True)
    embed_missing(store, "notes", models.static)
    store.close()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    store = SqliteKnowledge(small_disk / "knowledge")
    query = read_knowledge_query("rail journey to the Austrian capital")
    assert KnowledgeSearch(store, query, models).rank("notes")[0].entry.id == "Night"
    assert store.coverage("notes", deep.name) == (0, 2)
    store.close()


def test_a_disk_that_is_full_from_the_start_is_told(sonde: Any, small_disk: Path) -> None:
    sonde.home = small_disk / "store"
    size = shutil.disk_usage(small_disk).free
    (small_disk / "filler").write_bytes(b"x" * size)
    assert sonde.fail("index", "--yes")["code"] == "DISK_FULL"
    (small_disk / "filler").unlink()
    assert sonde.ask("index", "--yes")["filesIndexed"] == 31
    assert not list(sonde.folder.glob("*.tmp"))
    assert not list(sonde.folder.glob(".*.tmp"))


def set_modes(folder: Path, *, writable: bool) -> None:
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200 if writable else path.stat().st_mode & ~0o222)


def test_read_only_storage_says_what_to_do_and_grep_still_works(sonde: Any) -> None:
    sonde = sonde.powerless()
    sonde.home.mkdir(parents=True)
    sonde.home.chmod(0o555)
    try:
        error = sonde.fail("index", "--yes")
        assert error["code"] in ("PERMISSION_DENIED", "STORAGE_UNUSABLE")
        assert str(sonde.home) in error["developerMessage"]
        assert sonde.ask("search", "function_3")["results"]
        assert sonde.ask("grep", "function_3\\b")["totalMatches"] == 1
    finally:
        sonde.home.chmod(0o755)


@pytest.mark.row("001-179")
def test_an_index_that_became_read_only_is_still_searched(sonde: Any) -> None:
    sonde = sonde.powerless()
    sonde.ask("index", "--yes")
    (sonde.project / "new.py").write_text("def newcomer(): pass\n")
    set_modes(sonde.home, writable=False)
    try:
        answer = sonde.ask("search", "function_7")
        assert answer["results"][0]["path"].endswith("mod7.py")
        assert sonde.ask("files", "**/mod7.py")["totalMatches"] == 1
        assert sonde.ask("status")["totalFiles"] == 31
        assert sonde.fail("index")["code"] in ("STORAGE_UNUSABLE", "PERMISSION_DENIED")
        assert sonde.ask("grep", "newcomer")["totalMatches"] == 1
        assert sonde.fail("delete", "--yes")["code"] in ("STORAGE_UNUSABLE", "PERMISSION_DENIED")
    finally:
        set_modes(sonde.home, writable=True)
    assert sonde.ask("search", "newcomer")["results"][0]["path"] == "new.py"


def test_storage_of_someone_else_is_said_to_be_unusable(sonde: Any) -> None:
    sonde = sonde.powerless()
    sonde.ask("index", "--yes")
    sonde.home.chmod(0)
    try:
        for command in (("search", "x"), ("index",), ("status",)):
            error = sonde.fail(*command)
            assert error["code"] in ("STORAGE_UNUSABLE", "PERMISSION_DENIED"), error
    finally:
        sonde.home.chmod(0o755)


def start_server(home: Path, project: Path, store: str) -> App:
    settings = load_settings({}, home=home, assume_yes=True, embedding="static", store=store)
    return build_app(settings, start=project)


def find(app: App, words: str) -> str:
    return str(search_code(app, words, work=Work())["results"][0]["path"])


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("trouble", ["read-only", "full"])
def test_searching_goes_on_where_nothing_can_be_written_and_writing_once_it_can(
    sonde: Any, small_disk: Path, store: str, trouble: str
) -> None:
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    home = small_disk / "store"
    before = start_server(home, sonde.project, store)
    create_index(before, work=Work())
    closed = start_server(home, sonde.project, store)
    create_index(closed, work=Work())
    closed.close()
    if trouble == "full":
        (small_disk / "filler").write_bytes(b"x" * shutil.disk_usage(small_disk).free)
    else:
        before.close()  # the system does not make a disk read-only under an open file
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    (sonde.project / "new.py").write_text("def newcomer_here(): pass\n")
    after = start_server(home, sonde.project, store)
    servers = (before, after) if trouble == "full" else (after,)
    try:
        for app in servers:
            assert find(app, "function_7").endswith("mod7.py")
            assert get_index_status(app, work=Work())["totalFiles"] == 31
            with pytest.raises(DiskFull if trouble == "full" else SondeError) as told:
                create_index(app, work=Work())
            assert told.value.code in ("DISK_FULL", "STORAGE_UNUSABLE", "PERMISSION_DENIED")
            assert find(app, "function_8").endswith("mod8.py")
        if trouble == "full":
            (small_disk / "filler").unlink()
        else:
            subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
        for app in reversed(servers):
            assert create_index(app, work=Work())["filesIndexed"] == 32
            assert find(app, "newcomer_here") == "new.py"
    finally:
        for app in servers:
            app.close()


def test_what_a_killed_writer_left_is_read_on_read_only_storage(
    sonde: Any, small_disk: Path
) -> None:
    sonde.home = small_disk / "store"
    sonde.ask("index", "--yes")
    (sonde.project / "new.py").write_text("def newcomer_here(): pass\n")
    # a process that ends without closing leaves its log behind
    code = (
        "import os, sys; from pathlib import Path; from sonde.settings import load_settings;"
        "from sonde.wiring import build_app; from sonde.tools.index import create_index;"
        "from sonde.runtime.work import Work;"
        "app = build_app(load_settings({}, home=Path(sys.argv[1]), assume_yes=True,"
        " embedding='static'), start=Path(sys.argv[2]));"
        "create_index(app, work=Work()); os._exit(9)"
    )
    command = [sys.executable, "-c", code, str(sonde.home), str(sonde.project)]
    assert subprocess.run(command).returncode == 9
    assert (sonde.folder / "index.db-wal").stat().st_size > 0
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert sonde.ask("search", "newcomer_here")["results"][0]["path"] == "new.py"
