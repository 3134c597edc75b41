"""What is stored is its user's alone: every file and folder of a whole run, under any umask."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tests.backends import needs_lance
from tests.waiting import wait_until

from sonde.runtime.private import hide_files, make_folder, mend_storage
from sonde.runtime.processes import end_process, start_module

OPEN = 0o000  # the umask that hides nothing
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes are POSIX's")


def list_open(folder: Path) -> dict[str, str]:
    """What others could use below a folder, and the folder itself: path -> mode."""
    found: dict[str, str] = {}
    for path in (folder, *folder.rglob("*")):
        try:
            facts = path.lstat()
        except FileNotFoundError:  # a process that ends takes its logs of databases with it
            continue
        wanted = 0o700 if stat.S_ISDIR(facts.st_mode) else 0o600
        if not stat.S_ISLNK(facts.st_mode) and stat.S_IMODE(facts.st_mode) != wanted:
            found[path.relative_to(folder).as_posix()] = oct(stat.S_IMODE(facts.st_mode))
    return found


def serve_a_while(sonde: Any) -> None:
    """A server that answers over HTTP and indexes in the background."""
    process = subprocess.Popen(
        sonde.command("serve", "--port", "0", "--json"),
        cwd=sonde.project, env=sonde.variables, umask=OPEN, stdout=subprocess.PIPE, text=True,
        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout
        json.loads(process.stdout.readline())
        wait_until(lambda: any(sonde.home.rglob("watcher.json")), "led")
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_whole_run_leaves_nothing_that_others_can_read(sonde: Any, tmp_path: Path) -> None:
    (tmp_path / "diary.md").write_text("# Monday\n\nwalrus\n")
    sonde.environ |= {"SONDE_DAEMON": "on", "SONDE_FILE_ROOTS": str(sonde.project)}
    for args in (
        ("index", "--yes", "--deep"),
        ("search", "function"),
        ("search", "walrus", "--docs"),
        ("check",),
        ("knowledge", "import", str(tmp_path / "diary.md"), "--yes"),
        ("knowledge", "search", "walrus"),
        ("tree", str(sonde.project)),
        ("users", "add", "anna"),
        ("reindex", "--yes"),
    ):
        done = sonde.run(*args, umask=OPEN)
        assert done.returncode in (0, 1), (args, done.stderr)
    serve_a_while(sonde)
    assert sonde.run("daemon", "stop", umask=OPEN).returncode == 0
    names = {path.name for path in sonde.home.rglob("*")}
    assert {"index.db", "media.db", "jobs.db", "users.json", "key"} <= names
    assert any(name.endswith(".i8") for name in names)
    assert any(name.endswith(".log") for name in names)
    assert list_open(sonde.home) == {}


def test_folders_above_the_storage_are_private_if_a_first_search_makes_them(sonde: Any) -> None:
    with tempfile.TemporaryDirectory() as short:  # a socket's path has to be
        above = Path(short) / "above"
        sonde.environ |= {"SONDE_DAEMON": "on", "SONDE_HOME": str(above / "home")}
        sonde.run("search", "function", umask=OPEN)
        assert sonde.run("daemon", "stop", umask=OPEN).returncode == 0
        assert list_open(above) == {}


@needs_lance
def test_the_other_store_is_private_too(sonde: Any) -> None:
    sonde.environ |= {"SONDE_STORE": "lance", "SONDE_EMBEDDING": "static"}
    assert sonde.run("index", "--yes", umask=OPEN).returncode == 0
    assert any(sonde.home.rglob("*.lance"))
    assert list_open(sonde.home) == {}


def test_a_program_that_imports_sonde_keeps_its_umask_and_stores_privately(sonde: Any) -> None:
    sonde.environ["SONDE_EMBEDDING"] = "static"
    text = "import os, sonde\nsonde.index()\nsonde.search('function')\nassert os.umask(0) == 0\n"
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=sonde.project, env=sonde.variables, umask=OPEN,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert list_open(sonde.home) == {}


def test_what_an_older_version_left_open_is_closed(sonde: Any) -> None:
    sonde.ask("index", "--yes")
    for path in (sonde.home, *sonde.home.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    sonde.ask("status")
    assert list_open(sonde.home) == {}


def test_a_folder_that_holds_other_things_is_not_touched(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "indexes" / "a").mkdir(parents=True)
    (home / "photos").mkdir()
    (home / "photos" / "run.sh").touch(0o755)
    home.chmod(0o755)
    mend_storage(home)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (home, *home.rglob("*"))}
    assert modes["indexes"] == modes["a"] == 0o700
    assert modes["home"] == 0o755
    assert modes["run.sh"] == 0o755


def test_links_out_of_the_storage_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.touch()
    outside.chmod(0o644)
    make_folder(tmp_path / "home" / "indexes")
    (tmp_path / "home" / "indexes" / "link").symlink_to(outside)
    (tmp_path / "home").chmod(0o755)
    mend_storage(tmp_path / "home")
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "home").stat().st_mode) == 0o700


def test_every_folder_and_file_is_made_private_at_once(tmp_path: Path) -> None:
    before = os.umask(OPEN)
    try:
        make_folder(tmp_path / "a" / "b")
        make_folder(tmp_path / "a" / "b")
        hide_files()
        (tmp_path / "a" / "b" / "c").write_text("x")
    finally:
        os.umask(before)
    assert list_open(tmp_path / "a") == {}
    with pytest.raises(OSError, match="c"):
        make_folder(tmp_path / "a" / "b" / "c")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_children_that_read_documents_have_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "walrus")
    monkeypatch.setenv("SONDE_TOKEN", "walrus")
    child = start_module("sonde.knowledge.parsing", str(1 << 30), "60")
    try:
        environ = Path(f"/proc/{child.pid}/environ")
        wait_until(lambda: b"PATH=" in environ.read_bytes(), "started")
        assert b"walrus" not in environ.read_bytes()
    finally:
        end_process(child)
