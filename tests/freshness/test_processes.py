"""Many servers on one project: one of them writes, all of them answer, none of them lingers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.processes import is_running, suspend
from tests.waiting import wait_until

from .agents import Agent, make_environment, run_sonde

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "pkg").mkdir(parents=True)
    (root / "pyproject.toml").write_text("")
    for number in range(30):
        write(root, number, f"function_{number}")
    return root


@pytest.fixture
def home(tmp_path: Path, project: Path) -> Path:
    """Storage with the project's index."""
    run_sonde(project, tmp_path / "home", "index", "--yes")
    return tmp_path / "home"


@pytest.fixture
def agents(project: Path, home: Path) -> Iterator[list[Agent]]:
    with ExitStack() as stack:
        opened = [stack.enter_context(Agent(project, home)) for _ in range(3)]
        for agent in opened:
            wait_until(lambda agent=agent: agent.following().get("current"), "followed")
        yield opened


def write(root: Path, number: int, word: str) -> None:
    (root / "pkg" / f"m{number}.py").write_text(f"def {word}():\n    return {number}\n")


def find_leader(agents: list[Agent]) -> Agent:
    (leader,) = [agent for agent in agents if agent.following()["role"] == "writer"]
    return leader


@pytest.mark.row("001-110")
def test_servers_agree_under_constant_edits(project: Path, home: Path, agents: list[Agent]) -> None:
    find_leader(agents)
    for turn in range(40):
        write(project, turn % 30, f"edited_{turn}")
        agents[turn % 3].find(f"edited_{turn - 3}")
    for turn in range(30, 40):
        name = f"pkg/m{turn % 30}.py"
        for agent in agents:
            word = f"edited_{turn}"
            wait_until(lambda a=agent, w=word, n=name: n in a.find(w), f"{word} is seen by all")
    # one may already know that nothing is pending any more, so what they say of it can differ
    answers = [agent.call("search_code", query="edited value", top_k=20) for agent in agents]
    assert all(answer["results"] == answers[0]["results"] for answer in answers)
    find_leader(agents)


@pytest.mark.row("001-111")
def test_another_takes_over_when_the_writer_is_killed(project: Path, agents: list[Agent]) -> None:
    leader = find_leader(agents)
    leader.process.send_signal(signal.SIGKILL)
    leader.process.wait()
    began = time.monotonic()
    agents.remove(leader)
    write(project, 1, "after_the_kill")
    for agent in agents:
        wait_until(lambda a=agent: "pkg/m1.py" in a.find("after_the_kill"), "seen")
    wait_until(lambda: [a.following()["role"] for a in agents].count("writer") == 1, "a new writer")
    assert time.monotonic() - began < 15


def test_a_writer_that_is_suspended_holds_nobody_up(project: Path, agents: list[Agent]) -> None:
    leader = find_leader(agents)
    others = [agent for agent in agents if agent is not leader]
    suspend(leader.process.pid)
    try:
        write(project, 2, "while_it_slept")
        for agent in others:
            wait_until(lambda a=agent: "pkg/m2.py" in a.find("while_it_slept"), "seen")
    finally:
        leader.process.send_signal(signal.SIGCONT)
    wait_until(lambda: "pkg/m2.py" in leader.find("while_it_slept"), "awake again")


def test_events_beyond_the_queue_are_made_up_for(project: Path, home: Path) -> None:
    with Agent(project, home) as agent:
        wait_until(lambda: agent.following().get("current"), "followed")
        suspend(agent.process.pid)
        try:
            limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
            if limit > 50_000:
                pytest.skip("a very long queue")
            # two names in turn: equal neighbours would be counted once
            for turn in range(limit // 2 + 100):
                os.utime(project / "pkg" / f"m{turn % 2}.py")
            write(project, 20, "beyond_the_queue")
        finally:
            agent.process.send_signal(signal.SIGCONT)
        wait_until(lambda: "pkg/m20.py" in agent.find("beyond_the_queue"), "made up for")


def test_without_watches_left_the_project_is_polled_and_the_status_says_so(
    project: Path, home: Path
) -> None:
    unshare = shutil.which("unshare")
    limit = 'echo 2 > /proc/sys/user/max_inotify_watches && exec "$@"'
    prefix = [unshare or "", "--user", "--map-root-user", "sh", "-c", limit, "sh"]
    if not unshare or subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip("namespaces are not to be had")
    with Agent(project, home, prefix) as agent:
        for number in range(5):
            (project / f"folder{number}").mkdir()
        told = wait_until(
            lambda: t if (t := agent.following())["watching"] == "polling" else None, "polling"
        )
        assert "limit" in told["note"]
        assert agent.call("get_index_status")["watcherActive"]
        write(project, 3, "without_watches")
        wait_until(lambda: "pkg/m3.py" in agent.find("without_watches"), "found by looking")


PARENT = """
import subprocess, sys, time
server = subprocess.Popen(sys.argv[1:], stdin=0, stdout=1)
print(server.pid, file=sys.stderr, flush=True)
time.sleep(600)
"""


def test_a_server_ends_with_its_parent_though_stdin_stays_open(project: Path, home: Path) -> None:
    reading, writing = os.pipe()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, sys.executable, "-m", "sonde.cli.main", "mcp"],
        cwd=project,
        env=make_environment(home),
        stdin=reading,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert parent.stderr
    assert parent.stdout
    server = int(parent.stderr.readline())
    os.write(
        writing,
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":'
        b'"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n',
    )
    assert '"id":1' in parent.stdout.readline().replace(" ", "")
    folder = next((home / "indexes").iterdir())
    wait_until((folder / "watcher.json").exists, "it leads")
    parent.kill()
    wait_until(lambda: not is_running(server), "ended", limit_s=5)
    os.close(writing)
    os.close(reading)
    parent.communicate()
    with Agent(project, home) as agent:
        wait_until(lambda: agent.following()["role"] == "writer", "no stale lock", limit_s=10)


def holds_lock(pid: int) -> bool:
    """Whether a process leads: it has the lock open, even one that was deleted."""
    for path in Path(f"/proc/{pid}/fd").glob("*"):
        with suppress(OSError):
            if "watcher.lock" in os.readlink(path):  # noqa: PTH115 - the target is no path
                return True
    return False


def test_servers_that_start_at_once_and_a_deleted_index(project: Path, home: Path) -> None:
    with ExitStack() as stack:
        opened = [stack.enter_context(Agent(project, home)) for _ in range(3)]
        for agent in opened:
            wait_until(lambda a=agent: a.following().get("current"), "followed")
        if sys.platform == "linux":
            assert [holds_lock(agent.process.pid) for agent in opened].count(True) == 1
        run_sonde(project, home, "delete", "--yes")
        write(project, 4, "after_deletion")
        # whoever let go of the lock has done with the events up to then
        wait_until(lambda: not any(holds_lock(a.process.pid) for a in opened), "nobody leads")
        assert not list((home / "indexes").glob("*/metadata.json"))
        run_sonde(project, home, "index", "--yes")
        for agent in opened:
            wait_until(lambda a=agent: "pkg/m4.py" in a.find("after_deletion"), "indexed anew")
        write(project, 5, "followed_again")
        for agent in opened:
            wait_until(lambda a=agent: "pkg/m5.py" in a.find("followed_again"), "followed")
