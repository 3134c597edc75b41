"""Index files that were truncated, overwritten, torn or lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

JSON_FILES = ("metadata.json", "fingerprints.json", "docs-fingerprints.json", "config.json")
TORN = {"empty": b"", "half": b'{"projectPath": "/so', "garbage": b"\xff\x00\xfe" * 50,
        "another shape": b"[1, 2]", "deep": b"[" * 100_000}  # fmt: skip


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwrite(path: Path) -> None:
    path.write_bytes(b"garbage!" * 2000)


def overwrite_inside(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:-4096] = b"\xa5" * (len(data) - 8192)
    path.write_bytes(bytes(data))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def delete(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [truncate, overwrite, overwrite_inside])
@pytest.mark.parametrize("name", ["index.db", "docs.db"])
@pytest.mark.row("001-116", "001-155")
def test_a_damaged_database_is_said_to_be_and_built_anew(
    sonde: Any, fresh: Callable[[], Any], contents: Callable[[], Any], damage: Any, name: str
) -> None:
    sonde.ask("index", "--yes")
    damage(sonde.folder / name)
    error = sonde.fail("search", "function_7")
    assert error["code"] == "INDEX_CORRUPT"
    assert "sonde index" in error["nextAction"]
    assert sonde.ask("index")["filesIndexed"] == 31
    assert contents() == fresh()
    assert sonde.ask("search", "function_7")["results"][0]["path"].endswith("mod7.py")
    metadata = json.loads((sonde.folder / "metadata.json").read_text())
    assert metadata["stats"]["totalFiles"] == 30
    assert metadata["lastFullIndex"]


@pytest.mark.parametrize("damage", [truncate, overwrite, overwrite_inside])
@pytest.mark.parametrize(
    ("name", "words"),
    [("knowledge/local/chacha.db", "knowledge search of"), ("files/files.db", "tree . -d 1")],
)
def test_data_that_no_file_brings_back_is_said_to_be_damaged_and_kept(
    sonde: Any, damage: Any, name: str, words: str
) -> None:
    sonde.environ["SONDE_EMBEDDING"] = "none"
    sonde.run("knowledge", "add", "a note of a walrus", "--title", "Walrus")
    assert sonde.run(*words.split()).returncode == 0
    path = sonde.home / name
    damage(path)
    error = sonde.fail(*words.split())
    assert error["code"] == "DATA_DAMAGED"
    assert str(path) in error["nextAction"]
    assert "ebuil" not in json.dumps(error), "nobody rebuilds it"
    path.unlink()  # until its user does, it is there to be recovered
    assert sonde.run(*words.split()).returncode in (0, 1)


def test_damaged_locks_and_records_of_jobs_hold_nobody_up(sonde: Any) -> None:
    sonde.ask("index", "--yes")
    jobs = sonde.home / "files" / "jobs.db"
    jobs.parent.mkdir(exist_ok=True)
    for path in (jobs, sonde.folder / "dirty-files.json", sonde.folder / "watcher.json",
                 *sonde.folder.glob("*.lock")):  # fmt: skip
        overwrite(path)
    (sonde.project / "new.py").write_text("def seal_only(): pass\n")
    found = sonde.ask("search", "seal_only")
    assert found["results"][0]["path"] == "new.py"
    assert found["metadata"]["freshness"] == "complete"


@pytest.mark.parametrize("damage", [empty, delete])
@pytest.mark.parametrize("name", ["index.db", "docs.db"])
def test_a_database_that_holds_nothing_fills_up_with_the_next_search(
    sonde: Any, fresh: Callable[[], Any], contents: Callable[[], Any], damage: Any, name: str
) -> None:
    sonde.ask("index", "--yes")
    damage(sonde.folder / name)
    assert sonde.ask("search", "function_7")["results"][0]["path"].endswith("mod7.py")
    assert contents() == fresh()


@pytest.mark.row("001-155")
def test_what_was_damaged_is_kept_beside_the_new_index(sonde: Any) -> None:
    sonde.ask("index", "--yes")
    overwrite(sonde.folder / "index.db")
    assert sonde.ask("index")["filesIndexed"] == 31
    assert (sonde.folder / "index.db.bak").read_bytes().startswith(b"garbage!")
    overwrite(sonde.folder / "index.db")
    assert sonde.ask("index")["filesIndexed"] == 31
    assert sonde.ask("reindex", "--yes")["filesIndexed"] == 31
    assert sonde.ask("delete", "--yes")["status"] == "success"
    assert list((sonde.home / "indexes").iterdir()) == []


@pytest.mark.parametrize("damage", [truncate, empty, delete])
def test_damaged_vectors_are_noticed_and_built_anew(
    sonde: Any, contents: Callable[[], Any], damage: Any
) -> None:
    sonde.ask("index", "--yes")
    for path in (sonde.folder / "index.vectors").iterdir():
        damage(path)
    assert sonde.ask("search", "function_7")["results"][0]["path"].endswith("mod7.py")
    assert sonde.ask("status")["status"] == "ready"
    sonde.ask("index")
    assert sonde.ask("search", "function_7")["results"][0]["path"].endswith("mod7.py")
    contents()


@pytest.mark.parametrize("damage", TORN.values(), ids=TORN.keys())
def test_torn_json_files_lose_nothing(
    sonde: Any, fresh: Callable[[], Any], contents: Callable[[], Any], damage: bytes
) -> None:
    (sonde.project / "blob.txt").write_bytes(b"a\0b")
    sonde.ask("index", "--yes")
    for name in (*JSON_FILES, "refused-files.json", "dirty-files.json"):
        (sonde.folder / name).write_bytes(damage)
    assert sonde.ask("search", "function_7")["results"][0]["path"].endswith("mod7.py")
    assert sonde.ask("index")["filesIndexed"] == 31
    assert contents() == fresh()
    assert sonde.ask("status")["status"] == "ready"
    assert sonde.ask("projects")["totalProjects"] == 1
    metadata = json.loads((sonde.folder / "metadata.json").read_text())
    assert metadata["projectPath"] == str(sonde.project)
    assert metadata["stats"]["totalFiles"] == 30
    assert len(json.loads((sonde.folder / "fingerprints.json").read_text())) == 30
    # the person's own file is left for the person to mend
    assert (sonde.folder / "config.json").read_bytes() == damage


def test_lost_json_files_are_written_again(sonde: Any) -> None:
    sonde.ask("index", "--yes")
    for name in JSON_FILES:
        (sonde.folder / name).unlink()
    assert sonde.fail("status")["code"] == "INDEX_NOT_FOUND"
    assert sonde.ask("index", "--yes")["filesIndexed"] == 31
    for name in JSON_FILES:
        assert json.loads((sonde.folder / name).read_text())


@pytest.mark.parametrize("torn", [b"", b"short", b"x" * 33])
def test_a_torn_key_is_replaced_and_never_signs_anything(sonde: Any, torn: bytes) -> None:
    sonde.ask("index", "--yes")
    key = sonde.home / "key"
    assert key.stat().st_mode & 0o077 == 0
    key.write_bytes(torn)
    sonde.ask("search", "function_7")
    made = key.read_bytes()
    assert len(made) == 32
    sonde.ask("search", "function_7")
    assert key.read_bytes() == made
    assert [path.name for path in sonde.home.iterdir() if path.name.startswith(".key")] == []
