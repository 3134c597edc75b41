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


def test_a_full_disk_is_told_with_numbers_and_indexing_goes_on_once_there_is_room(
    sonde: Any,
    small_disk: Path,
    fresh: Callable[[], Any],
    contents: Callable[[], Any],
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
    done = sonde.run("search", "function_7", "--json")
    assert "mod7.py" in done.stdout or '"DISK_FULL"' in done.stdout
    remount = ["mount", "-o", "remount,size=64m", str(small_disk)]
    subprocess.run(remount, check=True)
    held = contents()
    assert {name: held[name] for name in before} == before
    assert len(held) < 431
    assert sonde.ask("index")["filesIndexed"] == 431
    assert contents() == fresh()


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
        assert sonde.fail("search", "x")["code"] == "INDEX_NOT_FOUND"
        assert sonde.ask("grep", "function_3\\b")["totalMatches"] == 1
    finally:
        sonde.home.chmod(0o755)


def test_an_index_that_became_read_only_is_searched_or_refused_clearly(sonde: Any) -> None:
    sonde = sonde.powerless()
    sonde.ask("index", "--yes")
    (sonde.project / "new.py").write_text("def newcomer(): pass\n")
    set_modes(sonde.home, writable=False)
    try:
        done = sonde.run("search", "function_7", "--json")
        assert "Traceback" not in done.stderr
        if done.returncode == 2:
            assert sonde.fail("search", "function_7")["code"] == "STORAGE_UNUSABLE"
        else:
            assert "mod7.py" in done.stdout
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
