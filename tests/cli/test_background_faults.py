"""The background process: killed, stuck, without room, with other settings, with odd callers."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.behind import PATIENCE_S, Agent, Waiting, kill_processes, processes, wait_for
from tests.cli.conftest import Shell
from tests.processes import suspend

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def test_a_killed_process_is_replaced_and_the_session_goes_on(served: Shell) -> None:
    with Agent(served) as agent:
        assert "result" in agent.search()
        (first,) = processes(served)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: "result" in agent.search())  # a call may still have reached the dead one
        assert processes(served) != [first]


def test_a_call_that_was_running_is_answered_with_an_error(served: Shell) -> None:
    with Agent(served) as agent:
        (process,) = processes(served)
        suspend(process)
        call = agent.begin("tools/call", {"name": "search_code", "arguments": {"query": "x"}})
        wait_for(lambda: not agent.count_unread())
        listing = agent.begin("tools/list")
        wait_for(lambda: not agent.count_unread())  # the call was passed on before
        os.kill(process, signal.SIGKILL)
        answers = {answer["id"]: answer for answer in (agent.receive(), agent.receive())}
        assert "Repeat the call" in answers[call]["error"]["message"]
        assert answers[listing]["result"]["tools"]


def test_kills_at_any_moment_lose_no_answer(served: Shell) -> None:
    """Each request is answered once: by its result, or by an error that says to repeat it."""
    chance = random.Random(21)
    with Agent(served) as agent:
        for _ in range(4):
            numbers = [
                agent.begin("tools/call", {"name": "search_code", "arguments": {"query": "price"}})
                for _ in range(3)
            ]
            time.sleep(chance.random() * 0.05)
            for process in processes(served):
                os.kill(process, signal.SIGKILL)
            answered = sorted(agent.receive()["id"] for _ in numbers)
            assert answered == numbers
        assert "cart.py" in str(agent.search("price"))


def test_a_setting_that_is_wrong_is_told_by_the_callers_own_process(served: Shell) -> None:
    done = served.run("mcp", SONDE_TOOL_LIMITS="serch=1/s", SONDE_DAEMON="on")
    assert done.returncode == 2
    assert "there is no such tool" in done.stderr


def test_a_command_whose_process_is_killed_says_so(served: Shell) -> None:
    served.run("grep", "x")
    (process,) = processes(served)
    with Waiting(served) as waiting:
        os.kill(process, signal.SIGKILL)
        assert waiting.stderr
        assert "Repeat the command" in waiting.stderr.read()
        assert waiting.wait(PATIENCE_S) == 2


def test_a_stuck_process_is_not_waited_for(served: Shell) -> None:
    served.run("grep", "x")
    (process,) = processes(served)
    suspend(process)
    done = served.run("grep", "-c", "-I", "Parcels")
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert "does not answer" in served.run("daemon").stdout
    assert served.run("daemon", "stop").returncode == 0
    wait_for(lambda: not processes(served))


def test_other_settings_get_a_process_of_their_own_and_it_ends_when_idle(served: Shell) -> None:
    served.run("grep", "x")
    (first,) = processes(served)
    served.run("grep", "x", SONDE_DAEMON_IDLE="1")
    assert len(processes(served)) == 2
    wait_for(lambda: processes(served) == [first])
    assert served.run("grep", "x", SONDE_ASSUME_YES="1", NO_COLOR="1").returncode == 1
    assert processes(served) == [first]


def test_another_version_gets_a_process_of_its_own(served: Shell, tmp_path: Path) -> None:
    """Also the same one after its sources were changed; the old process ends."""
    import sonde

    package = tmp_path / "sonde"
    package.mkdir()
    for path in Path(sonde.__file__).parent.iterdir():
        (package / path.name).symlink_to(path)
    version = package / "version.py"
    version.unlink()
    version.write_text('__version__ = "9.9"\n')
    served.run("grep", "x")
    before = processes(served)
    for mtime in (1_700_000_000, 1_800_000_000):
        os.utime(version, (mtime, mtime))

        def find_new(known: tuple[int, ...] = tuple(before)) -> set[int]:
            # while the old process leaves, a call may be answered without any
            done = served.run("grep", "-c", "-I", "Parcels", PYTHONPATH=str(tmp_path))
            assert done.stdout == "1\n"
            return {*processes(served)} - {*known}

        wait_for(find_new)
        wait_for(lambda old=before[1:]: not {*old} & {*processes(served)})
        (new,) = {*processes(served)} - {*before}
        before = [before[0], new]
    assert "of sonde 9.9" in served.run("daemon").stdout


def test_settings_in_the_users_file_hold_from_the_next_call_on(served: Shell) -> None:
    served.run("grep", "x")
    (first,) = processes(served)
    config = served.home / ".mcp" / "search" / "config.json"
    config.write_text('{"maxFileSize": "1KB"}')
    try:
        served.run("grep", "x")
        assert len(processes(served)) == 2
        config.write_text('{"daemon": "off"}')
        kill_processes(served)
        off = {key: value for key, value in served.environ.items() if key != "SONDE_DAEMON"}
        script = "import sys; from sonde.cli.main import main; sys.exit(main())"
        words = [sys.executable, "-c", script, "grep", "x"]
        subprocess.run(words, cwd=served.folder, env=off, capture_output=True, timeout=PATIENCE_S)
        assert not processes(served)
    finally:
        config.unlink()
    assert first not in processes(served)


def test_a_socket_that_was_left_behind_is_replaced(served: Shell) -> None:
    served.run("grep", "x")
    (process,) = processes(served)
    os.kill(process, signal.SIGKILL)
    wait_for(lambda: not processes(served))
    sockets = [*(served.home / ".mcp/search/daemon").glob("*.sock")]
    assert sockets
    assert served.run("grep", "-c", "-I", "Parcels").stdout == "1\n"
    assert len(processes(served)) == 1
    assert [*(served.home / ".mcp/search/daemon").glob("*.sock")] == sockets


def test_it_ends_when_its_folder_is_removed(served: Shell) -> None:
    served.run("grep", "x")
    shutil.rmtree(served.home / ".mcp/search/daemon")
    wait_for(lambda: not processes(served))


def test_without_room_for_a_socket_commands_and_agents_work(served: Shell) -> None:
    folder = served.home / ".mcp/search/daemon"
    shutil.rmtree(folder, ignore_errors=True)
    folder.write_text("a file where the folder should be")
    try:
        assert served.run("grep", "-c", "-I", "Parcels").stdout == "1\n"
        with Agent(served) as agent:
            assert "send.py" in str(agent.search())
        assert not processes(served)
    finally:
        folder.unlink()


def test_a_folder_that_others_may_enter_is_not_used(served: Shell) -> None:
    folder = served.home / ".mcp/search/daemon"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    try:
        assert served.run("grep", "-c", "-I", "Parcels").stdout == "1\n"
        assert not processes(served)
    finally:
        folder.chmod(0o700)


def test_its_socket_is_its_users_alone(served: Shell) -> None:
    served.run("grep", "x")
    folder = served.home / ".mcp/search/daemon"
    (path,) = folder.glob("*.sock")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600


ASK_AS = """
import os, socket, sys
os.chdir(sys.argv[1])
os.setuid(int(sys.argv[3]))
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[2])
    try:
        connection.sendall(b'{"kind": "describe"}\\n')
        print(connection.makefile().readline())
    except OSError:
        pass
"""


@pytest.mark.skipif(os.getuid() != 0, reason="becomes another user")
def test_another_user_gets_no_answer_even_where_modes_let_it_in(served: Shell) -> None:
    served.run("grep", "x")
    (path,) = (served.home / ".mcp/search/daemon").glob("*.sock")
    path.parent.chmod(0o755)
    path.chmod(0o666)
    try:
        for user in (0, 65534):
            command = [sys.executable, "-c", ASK_AS, str(path.parent), path.name, str(user)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
            assert done.returncode == 0, done.stderr
            assert ("version" in done.stdout) == (user == 0)
    finally:
        path.parent.chmod(0o700)


def test_a_caller_with_other_settings_is_sent_away(served: Shell) -> None:
    served.run("grep", "x")
    (path,) = (served.home / ".mcp/search/daemon").glob("*.sock")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(str(path))
        hello = {"kind": "mcp", "argv": ["mcp"], "here": "/", "facts": [], "environ": {}}
        connection.sendall(json.dumps(hello).encode() + b"\n")
        assert json.loads(connection.makefile().readline()) == {"alone": True}


def test_what_a_caller_sends_cannot_break_it(served: Shell) -> None:
    served.run("grep", "x")
    (path,) = (served.home / ".mcp/search/daemon").glob("*.sock")
    before = processes(served)
    for data in (b"\n", b"nonsense\n", b"[]\n", b'{"kind": 3}\n', b"", b"\xff\xfe\n"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(path))
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(PATIENCE_S)
            assert connection.makefile("rb").read() in (b"", b'{"alone": true}\n')
    assert served.run("grep", "-c", "-I", "Parcels").stdout == "1\n"
    assert processes(served) == before
