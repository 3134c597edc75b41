"""What differs between operating systems behaves alike as far as it can: run on each by CI."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
import yaml

from sonde.policy.changes import FolderWatch
from sonde.policy.roots import split_inside
from sonde.runtime import system
from sonde.text.globs import compose

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 30.0
LINUX = sys.platform == "linux"


def run_python(text: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-u", "-c", textwrap.dedent(text), *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.skipif(not LINUX or os.cpu_count() == 1, reason="counts threads that one core has not")
@pytest.mark.parametrize(("wanted", "found"), [(None, 1), ("2", 2)])
def test_a_server_starts_no_thread_for_products_of_vectors(
    wanted: str | None, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if wanted:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", wanted)
    process = run_python(
        """
        import os
        from sonde.runtime.processes import spare_threads
        spare_threads()
        import numpy
        print(len(os.listdir("/proc/self/task")))
        """
    )
    assert process.communicate(timeout=PATIENCE_S)[0] == f"{found}\n"


def test_a_lock_excludes_another_process_and_dies_with_its_own(tmp_path: Path) -> None:
    place = tmp_path / "writer.lock"
    holder = run_python(
        """
        import os, sys
        from sonde.runtime.system import try_lock
        print(try_lock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)))
        sys.stdin.read()
        """,
        str(place),
    )
    assert holder.stdout
    assert holder.stdout.readline() == "True\n"
    descriptor = os.open(place, os.O_RDWR)
    try:
        assert not system.try_lock(descriptor)
        holder.kill()
        holder.communicate()
        assert system.try_lock(descriptor)
    finally:
        os.close(descriptor)


def test_a_process_is_recognised_by_its_start_where_the_system_tells_it() -> None:
    mine = system.read_birth(os.getpid())
    assert mine == system.read_birth(os.getpid())
    assert bool(mine) == LINUX
    assert system.read_birth(2**22 + 1) == ""


def test_memory_and_limits_are_numbers_or_unknown() -> None:
    mapped, resident = system.read_memory()
    assert (mapped >= resident > 1_000_000) == LINUX
    assert system.read_memory(2**22 + 1) == (0, 0)
    limit = system.read_address_limit()
    assert limit is None or limit > resident
    assert system.raise_file_limit(64) >= 64
    assert system.count_cores() >= 1
    assert (system.read_watch_limit() is not None) == LINUX


@pytest.mark.skipif(not LINUX, reason="the limit of memory holds on Linux")
def test_a_limited_process_runs_out_of_memory_and_cannot_write(tmp_path: Path) -> None:
    child = run_python(
        """
        import sys
        from sonde.runtime.system import limit_process, lower_priority
        lower_priority()
        limit_process(300 << 20)
        try:
            bytearray(400 << 20)
        except MemoryError:
            print("full")
        try:
            open(sys.argv[1], "w").write("x")
        except OSError:
            print("closed")
        """,
        str(tmp_path / "file"),
    )
    out, _ = child.communicate(timeout=PATIENCE_S)
    assert "full" in out
    assert not (tmp_path / "file").exists() or (tmp_path / "file").stat().st_size == 0


def test_a_saved_file_is_noticed(tmp_path: Path) -> None:
    seen, arrived = set[str](), threading.Event()

    def take(places: set[str] | Exception) -> None:
        assert not isinstance(places, Exception)
        seen.update(Path(place).name for place in places)
        arrived.set()

    watch = FolderWatch([str(tmp_path.resolve())], take, recursive=True, step_ms=20, gather_ms=200)
    try:
        (tmp_path / "saved.py").write_text("x = 1\n")
        assert arrived.wait(PATIENCE_S)
    finally:
        watch.close()
    assert "saved.py" in seen


def test_an_interrupt_ends_a_server(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module x\n")
    flags = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
    server = subprocess.Popen(
        [sys.executable, "-m", "sonde.cli.main", "--json", "serve", "--port", "0"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, creationflags=flags,
        env={**os.environ, "SONDE_HOME": str(tmp_path / "home"), "SONDE_EMBEDDING": "none"},
    )  # fmt: skip
    assert server.stdout
    assert b'"url"' in server.stdout.readline()
    server.send_signal(signal.SIGTERM if os.name == "posix" else signal.CTRL_BREAK_EVENT)  # type: ignore[attr-defined]
    server.communicate(timeout=PATIENCE_S)
    assert server.returncode is not None


def test_paths_are_composed_and_stay_inside(tmp_path: Path) -> None:
    assert compose("cafe\u0301.md") == "caf\u00e9.md"
    assert split_inside(tmp_path, "a/b.py") == ("a", "b.py")


def test_the_workflow_runs_these_tests_on_every_system() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "platforms.yml").read_text())["jobs"]
    systems = jobs["system"]["strategy"]["matrix"]["os"]
    assert {name.split("-")[0] for name in systems} == {"ubuntu", "macos", "windows"}
    commands = " ".join(step.get("run", "") for step in jobs["system"]["steps"])
    assert "tests/runtime" in commands
    page = (ROOT / "docs" / "platforms.md").read_text()
    assert page.count("not tested") >= 2
